"""Rules of a conversation that Hypothesis combines, each reply judged by the oracle."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from conformance.oracle.underspecification import is_free
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import Counterexample, as_observed, program_of
from conformance.random_testing.session import Session
from conformance.random_testing.shrinking import Reducer
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.verdict import GOES_ON, Inconclusive, TargetLost

TUBES = ("default", "a", "b", "n" * 200)
ODD_ARGUMENTS = ("", "-1", "+1", "01", " 1", "x", "4294967296", "-a", "a b", "n" * 201, "a\0", "é")
STEPS = 50
"""Steps of one conversation."""
ROUND_TRIPS = 4
"""Round trips that a step costs on average."""
clients = st.integers(1, 3)
tubes = st.sampled_from(TUBES)
priorities = st.sampled_from((0, 1, 1023, 1024, 2**32 - 1))
apart = st.booleans()


class AnyConversation(RuleBasedStateMachine):
    """A conversation of three clients; a job is named by the put that made it."""

    jobs = Bundle("jobs")

    def __init__(self, exploration: Exploration, server: Target) -> None:
        super().__init__()
        self.session = exploration.session(server)
        if exploration.shortens_timeouts:
            self.session.timeout = server.short_timeout()
        self._exploration = exploration
        self._puts = 0
        self._over = not exploration.budget.allows()

    def _do(self, action: Callable[..., None], *args: object) -> None:
        """Take a step, unless the conversation is over: by a violation, or undecided."""
        if self._over:
            return
        try:
            action(*args)
        except Inconclusive:
            self._over = True
            self._exploration.undecided += 1
        except Violation as violation:
            self._over = True
            self._exploration.budget.found()
            self._exploration.shortens_timeouts = violation.is_silence
            # Before it is started anew.
            seen = as_observed(violation, self.session.target)
            self._exploration.note(seen, self.session.transcript)
            if seen is not violation:
                self._exploration.outage = seen.outage
            raise seen from violation

    def _ask(
        self,
        client: int,
        text: bytes,
        job: int | None = None,
        apart: bool = True,
        tag: int | None = None,
    ) -> None:
        free = is_free(text, self._exploration.profile)
        if self.session.may_ask(client) and not free:
            self._do(self.session.ask, client, text, job, tag, apart)

    @rule(
        target=jobs,
        client=clients,
        pri=priorities,
        delay=st.sampled_from((0, 0, 0, 1, 5, 1000, 2**32 - 1)),
        ttr=st.sampled_from((0, 1, 2, 60, 2**32 - 1)),
        body=st.sampled_from((b"", b"a", b"a\r\nb", b"x" * 65535, b"x" * 65536)),
        end=st.sampled_from((b"\r\n", b"\r\n", b"\r\n", b"xx")),
        apart=apart,
    )
    def put(
        self, client: int, pri: int, delay: int, ttr: int, body: bytes, end: bytes, apart: bool
    ) -> int:
        self._puts += 1
        text = b"put %d %d %d %d\r\n%b%b" % (pri, delay, ttr, len(body), body, end)
        self._ask(client, text, apart=apart, tag=self._puts)
        return self._puts

    @rule(client=clients, timeout=st.sampled_from((None, 0, 0, 0, 1, 5)), apart=apart)
    def reserve(self, client: int, timeout: int | None, apart: bool) -> None:
        text = b"reserve\r\n" if timeout is None else b"reserve-with-timeout %d\r\n" % timeout
        self._ask(client, text, apart=apart)

    @rule(
        client=clients,
        job=jobs,
        verb=st.sampled_from(("delete", "touch", "peek", "reserve-job", "kick-job", "stats-job")),
        apart=apart,
    )
    def about_a_job(self, client: int, job: int, verb: str, apart: bool) -> None:
        if verb == "stats-job":
            verb = self._exploration.profile.stats_of_job
        self._ask(client, verb.encode() + b" %d\r\n", job, apart)

    @rule(client=clients, job=jobs, pri=priorities, apart=apart)
    def bury(self, client: int, job: int, pri: int, apart: bool) -> None:
        self._ask(client, b"bury %d " + b"%d\r\n" % pri, job, apart)

    @rule(
        client=clients, job=jobs, pri=priorities, delay=st.sampled_from((0, 1, 1000)), apart=apart
    )
    def release(self, client: int, job: int, pri: int, delay: int, apart: bool) -> None:
        self._ask(client, b"release %d " + b"%d %d\r\n" % (pri, delay), job, apart)

    @rule(client=clients, bound=st.sampled_from((0, 1, 2, 2**32 - 1)), apart=apart)
    def kick(self, client: int, bound: int, apart: bool) -> None:
        self._ask(client, b"kick %d\r\n" % bound, apart=apart)

    @rule(
        client=clients,
        verb=st.sampled_from(("use", "watch", "ignore", "stats-tube")),
        tube=tubes,
        apart=apart,
    )
    def about_a_tube(self, client: int, verb: str, tube: str, apart: bool) -> None:
        self._ask(client, f"{verb} {tube}\r\n".encode(), apart=apart)

    @rule(client=clients, tube=tubes, delay=st.sampled_from((0, 1, 1000)), apart=apart)
    def pause(self, client: int, tube: str, delay: int, apart: bool) -> None:
        self._ask(client, f"pause-tube {tube} {delay}\r\n".encode(), apart=apart)

    @rule(
        client=clients,
        verb=st.sampled_from(
            (
                *("peek-ready", "peek-delayed", "peek-buried", "list-tubes", "stats"),
                *("list-tube-used", "list-tubes-watched", "peek"),
            )
        ),
        apart=apart,
    )
    def look(self, client: int, verb: str, apart: bool) -> None:
        self._ask(client, f"{verb}\r\n".encode(), apart=apart)

    @rule(
        client=clients,
        word=st.sampled_from(
            (
                *("reserve", "reserve-with-timeout", "delete", "release", "bury", "kick", "touch"),
                *("use", "watch", "ignore", "peek", "stats-job", "stats-tube", "pause-tube"),
                *("PEEK", ""),
            )
        ),
        arguments=st.lists(st.sampled_from(ODD_ARGUMENTS), max_size=3),
    )
    def odd(self, client: int, word: str, arguments: list[str]) -> None:
        line = " ".join([word, *arguments]).encode("latin-1")
        # What becomes of a line that is too long is another question.
        if len(line) <= 222 and word != "kick":
            self._ask(client, line + b"\r\n")

    @rule(client=clients, half=st.booleans())
    def leave(self, client: int, half: bool) -> None:
        self._do(self.session.leave, client, half)

    @rule(seconds=st.sampled_from((0.3, 1.001, 2.503, 1001.007)))
    def wait(self, seconds: float) -> None:
        if self.session.target.clock.movable:
            self._do(self.session.wait, seconds)

    def teardown(self) -> None:
        try:
            self._do(self.session.finish)
        finally:
            if self._over:
                self._exploration.start_anew(self.session)
            else:
                self._exploration.end(self.session)


def make_up(server: Target, transcript: Transcript, exploration: Exploration) -> str:
    """Judge conversations that Hypothesis generates; return how many there were."""
    sessions: list[Session] = []
    exploration.budget.start()
    exploration.shortens_timeouts = False

    class Machine(AnyConversation):
        def __init__(self) -> None:
            super().__init__(exploration, server)
            sessions[:] = [self.session]

    limits = settings(
        settings.get_profile("default"),
        max_examples=exploration.examples,
        stateful_step_count=exploration.budget.length(STEPS, exploration.examples, ROUND_TRIPS),
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        # Steps are left out faster than Hypothesis leaves out choices.
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(exploration.seed)(Machine), settings=limits)
    except Violation as violation:
        shown = sessions[0].transcript
        found = Counterexample(program_of(shown), violation, shown)
        small = Reducer(exploration, server).smallest(found)
        raise exploration.deviation(small, transcript) from violation
    except Flaky as error:
        if exploration.outage:
            # Once is enough.
            raise TargetLost(GOES_ON, exploration.outage) from error
        exploration.once_more(server, transcript)
    # Hypothesis makes up no more than this, and fewer if it has tried all.
    return exploration.shortfall(exploration.examples, "conversations")
