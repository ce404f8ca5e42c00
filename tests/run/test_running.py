"""When a failure is believed: doubts are looked into, and a busy machine blames nobody."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from conformance.catalogue import configured
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import BELIEVABLE, Timeline
from conformance.random_testing.snapshot import counted
from conformance.run.runner import run
from conformance.target.address import TargetError
from conformance.target.builtin import BuiltIn
from conformance.target.clock import RealClock
from conformance.target.launch import DidNotStart, LaunchError
from conformance.target.limits import Limits
from conformance.target.starvation import CpuTime, Starvation, Starved
from conformance.target.survey import survey
from conformance.target.target import Target
from conformance.tests.test_protocol import (
    test_a_put_that_is_never_complete_makes_no_job as never_complete,
)
from conformance.usual_answers import COMES_BACK
from conformance.verdict import Deviation, Inconclusive, NotTestable, TargetLost
from reference_server import stats, wire
from reference_server.events import Event, HalfClose, Output
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.wire import EXPECTED_CRLF, USING


@pytest.fixture
def server() -> Iterator[BuiltIn]:
    target = BuiltIn(real_time=True)
    yield target
    target.close()


@pytest.fixture
def starve(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let a scenario have been kept from a CPU for so many seconds."""
    return lambda seconds: monkeypatch.setattr(
        Starvation, "since", lambda *_: Starved(seconds, 9.0, 0.0, 9.0)
    )


@pytest.mark.parametrize(("starved", "verdict"), [(0.5, Inconclusive), (0.1, Deviation)])
def test_a_reply_that_is_late_three_times(
    server: BuiltIn, starve: Callable[[float], None], starved: float, verdict: type[Exception]
) -> None:
    starve(starved)
    attempts = []

    def late() -> None:
        attempts.append(1)
        raise Deviation("a reply in time", "one that is late", late=1.0)

    assert type(run(late, {}, server).error) is verdict
    assert len(attempts) == (4 if verdict is Inconclusive else 3)


@pytest.mark.parametrize("fails", [True, False])
def test_a_server_that_has_been_through_nothing_decides_only_what_fails(
    server: BuiltIn, starve: Callable[[float], None], fails: bool
) -> None:
    jobs: list[int] = []

    def late(client: Connection) -> None:
        jobs.append(client.put(b"a"))
        is_fresh = len(jobs) > 1 and jobs[-1] == jobs[0]
        starve(0.0 if is_fresh else 9.0)
        if fails or not is_fresh:
            raise Deviation("a reply in time", "one that is late", late=1.0)

    assert type(run(late, {"client": None}, server).error) is (Deviation if fails else Inconclusive)
    assert len(jobs) == 4


def test_one_attempt_in_which_nobody_was_late_decides(
    server: BuiltIn, starve: Callable[[float], None]
) -> None:
    attempts = []

    def late() -> None:
        attempts.append(1)
        starve(0.0 if len(attempts) == 2 else 9.0)
        raise Deviation("a reply in time", f"attempt {len(attempts)}", late=1.0)

    error = run(late, {}, server).error
    assert isinstance(error, Deviation)
    assert error.observed == "attempt 2"


def test_a_reply_that_is_late_once_is_forgiven(server: BuiltIn) -> None:
    attempts = []

    def late() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise Deviation("a reply in time", "one that is late", late=1.0)

    assert run(late, {}, server).error is None


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timeline, "behind", BELIEVABLE + 0.1)


@pytest.mark.usefixtures("behind")
def test_a_failure_is_not_believed_when_the_scenario_is_behind_its_schedule(
    server: BuiltIn, starve: Callable[[float], None]
) -> None:
    starve(1.0)

    def wrong(client: Connection) -> None:
        client.send("peek 0").reply("FOUND")

    outcome = run(wrong, {"client": None}, server)
    assert isinstance(outcome.error, Inconclusive)
    told = "too busy to decide (this process waited 1.0 s of 9.0 s for a CPU), 3 times"
    assert told in str(outcome.error)
    assert outcome.error.deviation is not None
    assert "peek 0" in outcome.transcript.render(None)


@pytest.mark.usefixtures("behind")
def test_a_target_that_is_behind_by_itself_is_told_to_be_slow(
    server: BuiltIn, starve: Callable[[float], None]
) -> None:
    starve(0.0)

    def wrong(client: Connection, clock: Timeline) -> None:
        client.send("list-tube-used").reply("USING")
        clock.latencies += [0.7, 0.7]
        raise Deviation("one thing", "another")

    error = run(wrong, {"client": None, "clock": None}, server).error
    assert isinstance(error, Inconclusive)
    assert "the target took 1.4 s for " in str(error)


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize(
    "says",
    [
        lambda client: client.stats()["no-such-key"],
        lambda client: client.stats().number("version"),
        lambda client: client.send("list-tubes").dictionary(),
        lambda client: client.raw(b"no-such-command\r\n").reply("OK"),
        lambda client: client.send("list-tube-used").reply("INSERTED"),
        lambda client: client.raw(b"no-such-command\r\n").expect(USING("a")),
    ],
)
def test_what_cannot_depend_on_time_is_believed_at_once(
    server: BuiltIn, starve: Callable[[float], None], says: Callable[[Connection], object]
) -> None:
    starve(9.0)
    attempts = []

    def wrong(client: Connection) -> None:
        attempts.append(1)
        says(client)

    assert isinstance(run(wrong, {"client": None}, server).error, Deviation)
    assert len(attempts) == 1


@pytest.mark.usefixtures("behind")
def test_a_scenario_that_is_behind_for_no_reason_that_is_seen(
    server: BuiltIn, starve: Callable[[float], None]
) -> None:
    starve(0.0)

    def wrong() -> None:
        raise Deviation("one thing", "another")

    error = run(wrong, {}, server).error
    assert str(error).startswith("the scenario took 1.0 s longer than planned, which is too long")


@pytest.mark.parametrize(("passed", "verdict"), [(20.0, Deviation), (40.0, Inconclusive)])
def test_in_a_scenario_that_takes_long_a_distant_timer_may_fire(
    server: BuiltIn,
    starve: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    passed: float,
    verdict: type[Exception],
) -> None:
    starve(0.0)
    times: list[float] = []
    monkeypatch.setattr(RealClock, "time", lambda _: time.monotonic() + sum(times))

    def wrong(client: Connection) -> None:
        client.put_and_reserve(ttr=60)
        times.append(passed)
        raise Deviation("this job", "another one")

    assert type(run(wrong, {"client": None}, server).error) is verdict


def test_the_time_in_which_something_should_have_happened_is_no_delay_of_ours(
    server: BuiltIn,
) -> None:
    attempts = []

    def never(client: Connection, clock: Timeline) -> None:
        attempts.append(1)
        job = client.put(b"a")
        clock.timed = True
        assert client.becomes(lambda: client.state_of(job) == "buried", BELIEVABLE + 0.2)

    assert isinstance(run(never, {"client": None, "clock": None}, server).error, Deviation)
    assert len(attempts) == 1


@pytest.fixture
def never_changes(server: BuiltIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the server statistics that stand still."""
    never = wire.OK(stats.server(server._server.engine.model))
    monkeypatch.setattr(Model, "_stats", lambda *_: never)


@pytest.mark.usefixtures("never_changes")
def test_statistics_that_never_change_are_not_waited_for_after_the_survey(server: BuiltIn) -> None:
    def asks(client: Connection, clock: Timeline) -> None:
        client.stats()
        assert clock.nominal == 0

    server.limits = replace(server.limits, renewal=0.2)
    server.traits = survey(server, server.traits, lambda _: None)
    assert not server.traits.renews_stats
    assert run(asks, {"client": None, "clock": None}, server).error is None


@pytest.mark.usefixtures("never_changes")
def test_statistics_that_never_change_are_no_matter_of_time(server: BuiltIn) -> None:
    attempts = []

    def wrong(client: Connection) -> None:
        attempts.append(1)
        assert client.stats()["cmd-stats"] == "1000"

    assert isinstance(run(wrong, {"client": None}, server).error, Deviation)
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (wire.OK(b"---\ncmd-stats: 1\n"), "the stats of the target have no key 'max-job-size'"),
        (wire.UNKNOWN_COMMAND, "stats is answered UNKNOWN_COMMAND"),
    ],
)
def test_what_is_missing_where_limits_are_looked_up_is_told(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch, reply: wire.Reply, told: str
) -> None:
    monkeypatch.setattr(Model, "_stats", lambda *_: reply)
    with pytest.raises(TargetError, match=told):
        counted(server, server.profile)


@pytest.mark.parametrize(("starved", "verdict"), [(2.0, Inconclusive), (0.5, Deviation)])
def test_a_reply_that_never_comes(
    server: BuiltIn, starve: Callable[[float], None], starved: float, verdict: type[Exception]
) -> None:
    starve(starved)

    def missing() -> None:
        raise Deviation("a reply", "nothing within 5 seconds", waited=5.0)

    assert type(run(missing, {}, server).error) is verdict


@pytest.mark.parametrize("timed", [False, True])
def test_a_command_that_is_never_answered_while_others_are(
    server: BuiltIn,
    starve: Callable[[float], None],
    timed: bool,
) -> None:
    starve(9.0)
    server.limits = Limits(reply=0.1)

    def wrong(client: Connection, clock: Timeline) -> None:
        clock.timed = timed
        client.send("reserve").reply("RESERVED")

    error = run(wrong, {"client": None, "clock": None}, server).error
    assert type(error) is (Inconclusive if timed else Deviation)


def test_a_failure_that_does_not_depend_on_time_is_believed_at_once(server: BuiltIn) -> None:
    attempts = []

    def wrong(client: Connection) -> None:
        attempts.append(1)
        client.send("list-tube-used").expect_now()

    assert isinstance(run(wrong, {"client": None}, server).error, Deviation)
    assert len(attempts) == 1


def test_what_cannot_be_tested_is_no_failure(server: BuiltIn) -> None:
    def impossible() -> None:
        raise NotTestable("needs a moon")

    assert str(run(impossible, {}, server).error) == "needs a moon"


def test_a_second_server_that_does_not_start_is_no_error_of_the_suite(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fresh(**_: object) -> Target:
        raise LaunchError("the launched server exited with status 1")

    monkeypatch.setattr(server, "fresh", fresh)
    error = run(lambda own_server: None, {"own_server": None}, server).error
    assert isinstance(error, NotTestable)
    assert str(error) == "needs a second server: the launched server exited with status 1"


@pytest.mark.parametrize("times", [1, 2])
def test_a_server_that_ends_when_it_starts_with_a_binlog_does_not_persist(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    fresh = server.fresh
    ends = iter([True] * times)

    def start(**configuration: object) -> Target:
        if next(ends, False):
            raise DidNotStart("exited with status 1 before it listened", "server -b", "no room", 1)
        return fresh()

    monkeypatch.setattr(server, "fresh", start)

    @configured(binlog=True)
    def passes(own_server: Target, client: Connection) -> None:
        client.synchronise()

    outcome = run(passes, {"own_server": None, "client": None}, server)
    if times == 1:
        # Its port may have been taken.
        assert outcome.error is None
        return
    assert isinstance(outcome.error, TargetLost)
    assert (outcome.error.owner, outcome.error.de_facto) == (COMES_BACK, True)
    assert outcome.said == "no room"


def test_a_reply_that_nobody_asked_for_is_a_deviation(server: BuiltIn) -> None:
    def two(client: Connection) -> None:
        client.raw(b"list-tube-used\r\nlist-tube-used\r\n", replies=1).reply("USING")

    error = run(two, {"client": None}, server).error
    assert isinstance(error, Deviation)
    assert error.expected == "no reply without a request"


class _SaysGoodbye(Model):
    """Answers the end of a connection, for which nobody has asked."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        goodbye = [(conn, wire.TIMED_OUT)] if isinstance(event, HalfClose) else []
        return [*goodbye, *super().step(event, now, conn)]


def test_a_reply_that_comes_at_the_end_is_in_the_transcript() -> None:
    target = BuiltIn(fault=Fault("", "other", _SaysGoodbye))
    outcome = run(lambda client: client.is_in_step(), {"client": None}, target)
    target.close()
    assert isinstance(outcome.error, Deviation)
    assert outcome.error.marked is not None
    assert outcome.transcript.entries[outcome.error.marked].data == b"TIMED_OUT\r\n"


@pytest.mark.parametrize("late", [False, True])
def test_starvation_before_the_wait_that_a_deviation_is_about_is_no_excuse_for_it(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    server.limits = Limits(reply=5.0 if late else 0.3)
    waited = [0.0]
    monkeypatch.setattr(server, "cpu_time", lambda: CpuTime(0.0, waited[0]))

    def wrong(client: Connection, clock: Timeline) -> None:
        client.is_in_step()
        # By somebody who is gone when the wait begins.
        waited[0] += 60.0
        reserve = client.send("reserve-with-timeout 1" if late else "reserve")
        clock.advance(0.2)
        reserve.reply("TIMED_OUT")

    # On a busy machine, our own process may have had to wait, too.
    errors = (run(wrong, {"client": None, "clock": None}, server).error for _ in range(5))
    error = next(error for error in errors if type(error) is Deviation)
    assert ("later than allowed" in str(error)) is late


def test_what_was_allowed_instead_of_a_reply_is_told_in_words(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "rest", lambda _: [wire.BAD_FORMAT])
    arguments = {"client": None, "new_producer": None, "profile": None, "sent": b"put 0 0"}
    for refused, allowed in (
        ([], "no reply"),
        ([wire.JOB_TOO_BIG], "no reply or JOB_TOO_BIG\\r\\n"),
    ):
        error = run(never_complete, {**arguments, "refused": refused}, server).error
        assert isinstance(error, Deviation)
        assert error.expected == f"{allowed}, and the end of the connection"
        assert error.observed == "BAD_FORMAT\\r\\n"


@pytest.mark.parametrize("minds_time", [False, True])
def test_a_test_that_looks_at_times_minds_them_from_the_beginning(
    server: BuiltIn, minds_time: bool
) -> None:
    def looks_at_times(client: Connection, **_: object) -> None:
        client.put(b"a", ttr=100)
        time.sleep(BELIEVABLE + 0.1)
        raise AssertionError("time-left is 98")

    arguments = {"client": None, **({"clock": None} if minds_time else {})}
    error = run(looks_at_times, arguments, server).error
    assert type(error) is (Inconclusive if minds_time else Deviation)


def test_time_does_not_excuse_a_wrong_reply_that_tells_of_what_was_sent(server: BuiltIn) -> None:
    def asks(client: Connection) -> None:
        client.raw(b"put 0 0 60 1\r\na\r\n").expect(EXPECTED_CRLF)

    error = run(asks, {"client": None}, server).error
    assert isinstance(error, Deviation)
    assert error.conclusive
