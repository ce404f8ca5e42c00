"""Which requirement a failure blames: the same in any order, and whatever the messages say."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.random_testing.exploration import Exploration
from conformance.run import runner as running
from conformance.run.aggregation import Result, Tally
from conformance.run.attribution import blame_of
from conformance.run.baseline import KnownDeviation
from conformance.target.builtin import BuiltIn
from conformance.target.limits import Limits
from conformance.target.traits import Traits
from conformance.usual_answers import (
    AFTER_LONG_LINE,
    ID_UNIQUE,
)
from conformance.verdict import (
    Deviation,
    NotApplicable,
    NotTestable,
)
from reference_server import stats
from reference_server.faults import FAULTS, Fault
from reference_server.faults.worker import PutsOffTtrs
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import SECOND, Client, Job, Timer
from reference_server.wire import (
    BAD_FORMAT,
    CRLF,
    DELETED,
    INTERNAL_ERROR,
    NOT_FOUND,
    OK,
    UNKNOWN_COMMAND,
    Body,
    Command,
    Malformed,
    Put,
    Reply,
    Request,
    RequestReader,
)
from reports.results import read_results
from reports.verdicts import Verdict
from tests.attributed import Found, attributed, fails
from tests.command_line import suite
from tests.faults import Case, applies, cases, failures, found_by_tests
from tests.made import case
from tests.parts import sample
from tests.servers import changed_server, let_nobody_starve, silent_at

_YEAR = 365 * 86400 * SECOND


class _NoUse(RequestReader):
    """Does not know how to use a tube."""

    def parse(self, line: bytes) -> Request:
        return Malformed(UNKNOWN_COMMAND) if line.startswith(b"use ") else super().parse(line)


class _NoPut(RequestReader):
    """Takes each put for malformed, and what follows for a line of its own."""

    def next_request(self) -> Request | None:
        request = super().next_request()
        if isinstance(request, Put):
            self._body = None
            return Malformed(BAD_FORMAT)
        return request


class _KickKicksBuried(Model):
    """Never kicks a delayed job."""

    def _kick(self, conn: Client, bound: int) -> Reply:
        return super()._kick(conn, bound if conn.use.buried else 0)


class _RepeatsInserted(Model):
    """Sends the reply to a put once more, as soon as the client sends its next command."""

    def _end_put(self, conn: Client, body: Body) -> None:
        super()._end_put(conn, body)
        self._repeated = getattr(self, "_repeated", {}) | {conn.id: self._outputs[-1]}

    def _command(self, conn: Client, command: Command) -> None:
        if repeated := getattr(self, "_repeated", {}).pop(conn.id, None):
            self._outputs.append(repeated)
        super()._command(conn, command)


class _OneError(RequestReader):
    """Answers an unknown command as it answers a malformed one."""

    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        return Malformed(BAD_FORMAT) if request == Malformed(UNKNOWN_COMMAND) else request


class _ShowsDeletedJobs(Model):
    """Shows a job when it was deleted."""

    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        reply = super()._delete(conn, id)
        if job and reply == DELETED:
            self._deleted = {**getattr(self, "_deleted", {}), id: job}
        return reply

    def _stats_job(self, conn: Client, id: int) -> Reply:
        if job := getattr(self, "_deleted", {}).get(id):
            return OK(stats.job(self, job))
        return super()._stats_job(conn, id)


class _PausesNothing(Model):
    """Answers that a tube is paused, and does nothing."""

    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        return super()._pause_tube(conn, name, 0)


class _ReleasesAtOnce(Model):
    """Releases each job without its delay."""

    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        return super()._release(conn, id, pri, 0)


class _ClosesAtUnknown(RequestReader):
    """Closes the connection where a command is unknown."""

    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        return Command("quit") if request == Malformed(UNKNOWN_COMMAND) else request


class _ExpiresAtCommands(PutsOffTtrs):
    """Lets a TTR end only when the job's holder sends a command."""

    def _fire_timers(self, now: int) -> None:
        for due, kind, subject in [*self._timers]:
            if due <= now and kind is Timer.TTR:
                self._put_off(self.jobs[int(subject)], 10 * _YEAR)
        super()._fire_timers(now)

    def _command(self, conn: Client, command: Command) -> None:
        for deadline, id in [*conn.deadlines]:
            if deadline > self.now + 9 * _YEAR:
                self._fire((deadline, Timer.TTR, id))
        super()._command(conn, command)


class _SilentAfterError(RequestReader):
    """Reads no more of a client that has sent a malformed line."""

    _is_over = False

    def next_request(self) -> Request | None:
        if self._is_over:
            return None
        request = super().next_request()
        self._is_over = isinstance(request, Malformed)
        return request


SERVERS: Mapping[str, Fault] = {
    "no use": Fault("", "other", reader=_NoUse),
    "no put": Fault("", "other", reader=_NoPut),
    "silent at touch": silent_at("touch"),
    "silent at peek-buried": silent_at("peek-buried"),
    "kicks no delayed jobs": Fault("", "other", _KickKicksBuried),
    "shows deleted jobs": Fault("", "other", _ShowsDeletedJobs),
    "pauses nothing": Fault("", "other", _PausesNothing),
    "releases at once": Fault("", "other", _ReleasesAtOnce),
    "closes at unknown commands": Fault("", "other", reader=_ClosesAtUnknown),
    "expires at commands": Fault("", "other", _ExpiresAtCommands),
    "silent after an error": Fault("", "other", reader=_SilentAfterError),
    "repeats a reply": Fault("", "other", _RepeatsInserted),
    "wrong order": FAULTS["priorities-are-compared-as-if-they-had-31-bits"],
}
SECTIONS = ("use", "put", "delete", "release", "kick", "bury", "touch", "peek", "pause-tube")
LIMITS = Limits(reply=2.0, alive=2.0, arrival=(0.0,))


def _chosen(section: Sequence[str] = SECTIONS) -> list[Case]:
    """Return tests that need no time, clients of their own, or luck."""
    left_out = {"real_clock", "exploration", "resources", "own_server", "clock"}
    return [
        one
        for one in cases()
        if any(slug.partition(".")[0] in section for slug in one.slugs)
        and not one.arguments.keys() & left_out
        and applies(one, NEWEST)
    ]


@cache
def _traits(name: str) -> Traits:
    """Return the traits of a server, which is surveyed once."""
    with contextlib.closing(BuiltIn(fault=_fault(name), limits=LIMITS)) as server:
        server.probe(NEWEST)
        return server.traits


def _fault(name: str) -> Fault:
    return SERVERS.get(name) or FAULTS[name]


def _verdicts(name: str, chosen: Sequence[Case]) -> dict[str, Verdict]:
    """Return the verdicts of requirements, of tests run in this order."""
    found: list[Found] = []
    with contextlib.closing(BuiltIn(fault=_fault(name), limits=LIMITS)) as server:
        server.traits = _traits(name)
        server.launches = True
        for one in chosen:
            error = running.run(one.test, one.arguments, server).error
            if isinstance(error, NotApplicable | NotTestable):
                continue
            slugs = sorted(one.slugs)
            if isinstance(error, Deviation):
                found.append(
                    (
                        case(slugs[0], Verdict.FAIL, requirements=slugs),
                        blame_of(error, server.traits),
                    )
                )
            else:
                assert error is None, error
                found.append((case(slugs[0], requirements=slugs), None))
    tally = Tally(catalogue(), {}, "a server")
    tally.add(Result(found.test, found.blocked) for found in attributed(*found))
    return {slug: entry.verdict for slug, entry in tally.entries.items() if entry.tests}


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a busy machine for an idle one: here, replies are missing or wrong, never late."""
    let_nobody_starve(monkeypatch)


@pytest.mark.parametrize("name", sample([*SERVERS], 4))
def test_verdicts_are_the_same_in_any_order(name: str) -> None:
    chosen = _chosen()
    first = _verdicts(name, chosen)
    assert _verdicts(name, random.Random(0).sample(chosen, len(chosen))) == first
    broken = {slug for slug, verdict in first.items() if verdict is Verdict.FAIL}
    assert broken
    # Alone, each test of what is broken says the same.
    for one in [one for one in chosen if one.slugs & broken][:4]:
        alone = _verdicts(name, [one])
        assert {
            slug: alone[slug] for slug in alone if slug not in first or alone[slug] is Verdict.FAIL
        }.keys() <= broken


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("no use", {"use.using"}),
        ("no put", {"put.inserted"}),
        ("silent at touch", {"touch.touched"}),
        ("silent at peek-buried", {"peek.buried"}),
    ],
)
def test_a_command_that_does_not_work_breaks_one_requirement(name: str, broken: set[str]) -> None:
    found = _verdicts(name, _chosen())
    assert {slug for slug, verdict in found.items() if verdict is Verdict.FAIL} == broken
    assert Verdict.BLOCKED in found.values()


def test_a_reply_that_is_repeated_is_not_the_answer_to_the_next_command() -> None:
    found = _verdicts("repeats a reply", _chosen(("bury", "touch")))
    broken = {slug for slug, verdict in found.items() if verdict is Verdict.FAIL}
    assert broken == {"protocol.serial-replies"}
    assert found["bury.buried"] is Verdict.BLOCKED


@pytest.mark.parametrize(
    ("name", "broken", "others"),
    [
        ("shows deleted jobs", "delete.entirely", ["protocol.integers-are-decimal"]),
        (
            "pauses nothing",
            "pause-tube.paused",
            [
                "protocol.integers-are-decimal",
                "protocol.name-ends-at-white-space",
                "stats-tube.pause",
            ],
        ),
        (
            "releases at once",
            "release.delay",
            ["protocol.integers-are-decimal", "release.delay-limit"],
        ),
        ("closes at unknown commands", "error.unknown-command", ["protocol.serial-replies"]),
        ("closes at unknown commands", "error.connection-survives", ["error.pipeline-goes-on"]),
        (
            "a-new-job-is-delayed-for-an-instant-that-never-ends",
            "lifecycle.starts-ready",
            ["lifecycle.commands-by-state", "put.smaller-priority-first", "reserve.timeout-zero"],
        ),
        (
            "bury-makes-a-job-delayed-for-a-year",
            "bury.buried",
            ["kick.buried-only-if-any", "peek.buried", "stats-job.state"],
        ),
        (
            "a-reserved-job-that-is-deleted-is-ready-again",
            "delete.reserved-by-client",
            ["delete.not-found", "reserve.several-jobs-earliest-deadline", "stats.total-jobs"],
        ),
        (
            "buried-jobs-are-told-as-ready",
            "stats-job.state",
            ["bury.buried", "kick.used-tube-only", "lifecycle.commands-by-state"],
        ),
        (
            "list-tubes-watched-has-a-line-that-is-no-yaml",
            "list-tubes-watched.list",
            ["ignore.takes-effect", "use.does-not-watch", "watch.bad-format", "watch.twice"],
        ),
        (
            "list-tube-used-names-a-tube-that-is-watched",
            "list-tube-used.using",
            ["list-tube-used.own", "reserve.pipelined-behind-wait", "use.using"],
        ),
        (
            "release-keeps-the-priority",
            "release.new-priority",
            ["release.priority-limit", "stats-job.pri", "stats-tube.current-jobs-urgent"],
        ),
        (
            "only-the-first-watched-tube-is-served",
            "reserve.any-watched-tube",
            ["pause-tube.paused", "reserve.smallest-priority", "watch.many-tubes"],
        ),
        ("stats-lacks-uptime", "stats.ok", ["stats.uptime"]),
        ("stats-job-lacks-age", "stats-job.ok", ["stats-job.age"]),
        ("stats-tube-lacks-total-jobs", "stats-tube.ok", ["stats-tube.total-jobs"]),
        (
            "stats-of-a-tube-that-does-not-exist-are-empty",
            "stats-tube.not-found",
            ["lifecycle.tube-deleted"],
        ),
        (
            "release-moves-a-job-into-the-tube-that-its-client-uses",
            "lifecycle.tube-for-life",
            ["release.released"],
        ),
        (
            "a-put-without-memory-is-not-answered",
            "exhaustion.put-out-of-memory",
            ["exhaustion.in-step", "exhaustion.not-found"],
        ),
        (
            "expires at commands",
            "reserve.expiry-while-holder-is-idle",
            ["pause-tube.timers-go-on", "put.ttr-expiry-releases", "reserve.expired-job-is-ready"],
        ),
        (
            "silent after an error",
            "error.connection-survives",
            ["error.pipeline-goes-on", "use.bad-format", "watch.bad-format"],
        ),
    ],
)
def test_one_bug_breaks_one_requirement(name: str, broken: str, others: Sequence[str]) -> None:
    chosen = [one for one in cases() if one.slugs & {broken, *others} and applies(one, NEWEST)]
    found = _verdicts(name, chosen)
    assert {slug for slug, verdict in found.items() if verdict is Verdict.FAIL} == {broken}


def test_a_pause_that_holds_nothing_back_does_not_break_what_else_is_said_of_pauses() -> None:
    found = _verdicts("a-pause-holds-back-waiting-clients-only", _chosen(("pause-tube",)))
    broken = {slug for slug, verdict in found.items() if verdict is Verdict.FAIL}
    assert broken == {"pause-tube.paused"}
    assert found["pause-tube.not-reserve-job"] is Verdict.BLOCKED


@pytest.mark.parametrize(
    ("name", "broken", "others"),
    [
        ("kicks no delayed jobs", "kick.otherwise-delayed", ("kick.kicked",)),
        ("silent at touch", "touch.touched", ("lifecycle.commands-by-state",)),
    ],
)
def test_what_always_goes_wrong_is_no_matter_of_special_cases(
    name: str, broken: str, others: Sequence[str]
) -> None:
    chosen = [one for one in cases() if one.slugs & {broken, *others} and applies(one, NEWEST)]
    found = _verdicts(name, chosen)
    assert found[broken] is Verdict.FAIL
    assert not [slug for slug in others if found[slug] is Verdict.FAIL]


def test_a_wrong_error_breaks_the_requirement_of_that_error_only() -> None:
    names = (
        "test_a_line_of_224_bytes_is_not_too_long",
        "test_after_each_error_in_a_pipeline_the_next_command_is_read",
    )
    chosen = [one for one in cases() if one.name in names]
    with contextlib.closing(BuiltIn(fault=Fault("", "o", reader=_OneError))) as server:
        errors = [running.run(one.test, one.arguments, server).error for one in chosen]
    owners = [error.owner for error in errors if isinstance(error, Deviation)]
    assert owners == ["error.unknown-command"] * 2


def test_no_verdict_depends_on_the_words_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(2).sample(_chosen(), 25)
    names = [*SERVERS, *random.Random(1).sample(sorted(found_by_tests()), 20 - len(SERVERS))]
    before = {name: _verdicts(name, chosen) for name in names}
    plain, chance = Deviation.__init__, random.Random(3)

    def in_random_words(self: Deviation, *args: object, **more: object) -> None:
        plain(self, *args, **more)  # type: ignore[arg-type]
        self.expected, self.observed = (chance.choice("abcdefgh") * 5 for _ in range(2))

    monkeypatch.setattr(Deviation, "__init__", in_random_words)
    assert {name: _verdicts(name, chosen) for name in names} == before


# ---------------------------------------------------------------- what is blocked


def _tally(baseline: Mapping[str, KnownDeviation]) -> Tally:
    tally = Tally(catalogue(), baseline, "a server")
    blocked = {"put.inserted": "use.using"}
    tally.add(
        [
            Result(case("use.using", Verdict.FAIL)),
            Result(case("put.inserted")),
            Result(case("put.inserted", Verdict.FAIL), blocked),
            Result(case("delete.ready", Verdict.FAIL), {"delete.ready": "use.using"}),
            Result(case("delete.ready", Verdict.FAIL, reason="it deletes nothing")),
        ]
    )
    return tally


def test_what_is_blocked_is_counted_and_named_and_never_a_pass() -> None:
    tally = _tally({})
    verdicts = {slug: tally.entries[slug].verdict for slug in ("put.inserted", "delete.ready")}
    assert verdicts == {"put.inserted": Verdict.BLOCKED, "delete.ready": Verdict.FAIL}
    assert tally.entries["put.inserted"].blocked_by == ["use.using"]
    assert tally.entries["delete.ready"].reason == "it deletes nothing"
    conclusion = tally.conclusion()
    assert (conclusion.word, conclusion.must_broken, conclusion.tested) == (
        "does not conform",
        2,
        2,
    )
    assert "1 blocked by use.using" in conclusion.sentence


def test_what_is_blocked_neither_comes_back_nor_goes_away() -> None:
    baseline = {slug: KnownDeviation("fail", "issue 17") for slug in ("use.using", "put.inserted")}
    tally = _tally(baseline)
    assert tally.gone() == []
    assert [entry.requirement.slug for entry in tally.deviations(known=False)] == ["delete.ready"]
    assert tally.updated_baseline()["put.inserted"] == baseline["put.inserted"]
    assert "put.inserted" not in _tally({}).updated_baseline()


def test_random_conversations_are_blocked_by_a_missing_key_of_stats() -> None:
    fault = Fault("", "other", model=_without("max-job-size"))
    with contextlib.closing(BuiltIn(fault=fault, limits=LIMITS)) as server:
        server.probe(NEWEST)
        (one,) = [one for one in cases() if one.name == "test_any_program"]
        arguments = {**one.arguments, "exploration": Exploration(1)}
        error = running.run(one.test, arguments, server).error
    assert isinstance(error, Deviation)
    assert error.owner == "stats.max-job-size"


def _without(key: str) -> type[Model]:
    """Return a model whose stats lack a key."""

    class Without(Model):
        def _stats(self, conn: Client) -> Reply:
            reply = super()._stats(conn)
            lines = (reply.body or b"").splitlines(keepends=True)
            kept = [line for line in lines if not line.startswith(key.encode() + b":")]
            return reply._replace(body=b"".join(kept))

    return Without


SLOW_ZERO = """
    import time
    plain = Model._reserve
    def reserve(self, conn, timeout):
        if timeout == 0:
            time.sleep(0.7)
        return plain(self, conn, timeout)
    Model._reserve = reserve
"""


def test_a_server_that_always_takes_its_time_for_a_command_answers_it(tmp_path: Path) -> None:
    launch = f"--launch={changed_server(tmp_path, SLOW_ZERO)}"
    chosen = "delete.ready or use.does-not-watch or bury.untouched and not for-a-long-time"
    done = suite(launch, "--clock=real", "-k", chosen, f"--report={tmp_path}")
    found = read_results(tmp_path / "results.json").requirements
    assert done.returncode == 0, done.stdout
    assert {one.verdict for one in found if one.tests} == {Verdict.PASS}


class _ReadsTheBodyAgain(RequestReader):
    """Takes a body that is a line end for a line, too."""

    def next_request(self) -> Request | None:
        request = super().next_request()
        if isinstance(request, Body) and request.data == b"\r\n":
            self._buffer[:0] = b"\r\n"
        return request


def test_replies_out_of_step_are_the_doing_of_the_command_under_test() -> None:
    fault = Fault("", "other", reader=_ReadsTheBodyAgain)
    chosen = [one for one in cases() if one.name == "test_a_body_is_given_back_as_it_was"]
    with contextlib.closing(BuiltIn(fault=fault, limits=LIMITS)) as server:
        errors = [running.run(one.test, one.arguments, server).error for one in chosen]
    (wrong,) = [error for error in errors if error is not None]
    assert isinstance(wrong, Deviation)
    assert wrong.owner == ""
    assert wrong.step.came == "UNKNOWN_COMMAND"


@pytest.mark.parametrize("slug", ["reserve.timeout-limits-wait", "reserve.timed-out"])
def test_a_sync_command_that_fails_is_not_the_doing_of_the_test(slug: str) -> None:
    chosen = [one for one in cases() if slug in one.slugs]
    fault = silent_at("list-tube-used")
    with contextlib.closing(BuiltIn(fault=fault, limits=LIMITS)) as server:
        server.probe()
        errors = [running.run(one.test, one.arguments, server).error for one in chosen]
    blamed = {error.owner for error in errors if isinstance(error, Deviation)}
    assert blamed <= {"list-tube-used.using"}


class _SplitsLongLines(RequestReader):
    """Takes each 224 bytes of a line for a line."""

    def receive(self, data: bytes) -> None:
        head, end, rest = data.partition(CRLF)
        for start in range(224, len(head), 224):
            super().receive(head[start - 224 : start] + CRLF)
        super().receive(head[len(head) // 224 * 224 :] + end + rest)


def test_replies_to_the_rest_of_a_long_line_are_a_matter_of_long_lines() -> None:
    fault = Fault("", "other", reader=_SplitsLongLines)
    too_long = "error.bad-format-line-too-long"
    found = failures(fault, lambda one: too_long in one.slugs, enough=3)
    assert sorted(found) == [too_long, AFTER_LONG_LINE]


class _ShowsNoPriority(Model):
    """Shows each priority as 0."""

    def _stats_job(self, conn: Client, id: int) -> Reply:
        reply = super()._stats_job(conn, id)
        return reply._replace(body=re.sub(rb"\bpri: \d+", b"pri: 0", reply.body or b"") or None)


def test_a_number_that_another_key_shows_is_not_blamed() -> None:
    numbers = {"put.priority-limit", "put.delay-limit", "put.ttr-limit", "release.delay-limit"}
    found = failures(
        Fault("", "other", _ShowsNoPriority), lambda one: bool(numbers & one.slugs), enough=9
    )
    assert sorted(found) == ["put.priority-limit", "stats-job.pri"]


class _FailsToBuryNothing(Model):
    """Answers with another error where there is no job to bury."""

    def _bury(self, conn: Client, id: int, pri: int) -> Reply:
        reply = super()._bury(conn, id, pri)
        return INTERNAL_ERROR if reply == NOT_FOUND else reply


def test_an_error_at_an_id_of_no_job_is_no_matter_of_numbers() -> None:
    requirements = {"protocol.integers-are-decimal", "bury.not-found"}
    found = failures(
        Fault("", "other", _FailsToBuryNothing), lambda one: bool(requirements & one.slugs), 3
    )
    assert sorted(found) == ["bury.not-found"]


class _GivesAnotherBody(Model):
    """Gives each job with a body that was not put."""

    def _give(self, job: Job, conn: Client) -> Reply:
        return super()._give(job, conn)._replace(body=b"another")


def test_the_body_of_another_job_is_a_matter_of_ids_where_they_repeat() -> None:
    name = "test_reserve_gives_a_ready_job"
    chosen = next(one for one in cases() if one.name == name and applies(one, NEWEST))
    with contextlib.closing(BuiltIn(fault=Fault("", "o", _GivesAnotherBody))) as server:
        error = running.run(chosen.test, chosen.arguments, server).error
    assert isinstance(error, Deviation)
    blame = blame_of(error, Traits())
    found = case("reserve.reserved", Verdict.FAIL), blame
    (alone,) = attributed(found)
    _, explained = attributed(fails(ID_UNIQUE), found)
    assert (alone.blocked, explained.blocked) == ({}, {"reserve.reserved": ID_UNIQUE})
