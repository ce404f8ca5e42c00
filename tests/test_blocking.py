"""A set-up that fails blocks what is behind it, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.reading import parse
from conformance.run import runner as running
from conformance.run.aggregation import Result, Tally
from conformance.run.baseline import KnownDeviation
from conformance.run.blocking import IN_STEP, blockers, with_set_up
from conformance.run.step import SILENCE, Cause, Step, step_of
from conformance.target.builtin import BuiltIn
from conformance.target.silences import THE_END
from conformance.verdict import UNASKED, Deviation, TargetLost
from reference_server.faults import Fault
from reference_server.profiles import NEWEST
from reference_server.wire import (
    BAD_FORMAT,
    UNKNOWN_COMMAND,
    Malformed,
    Put,
    Request,
    RequestReader,
)
from reports import results
from reports.results import read_results
from reports.verdicts import Verdict
from tests.faults import cases
from tests.made import case
from tests.servers import changed_server
from tests.test_plugin import suite

UNKNOWN = Cause("put", "INSERTED …", "UNKNOWN_COMMAND", "INSERTED")
NO_USE = Cause("use", "USING …", "BAD_FORMAT", "USING")
REFUSED = Cause("put", "INSERTED …", "BAD_FORMAT", "INSERTED")


Came = tuple[results.Test, Step | None]


def _failed(slug: str, cause: Cause, *before: str, **more: bool) -> Came:
    step = Step(cause, before, len(before) + 1, more.pop("timed", False), False, **more)
    return case(slug, Verdict.FAIL), step


def _blocked(*came: Came) -> Mapping[str, str]:
    tests, steps = zip(*came, strict=True)
    return {slug: other for (_, slug), other in blockers(tests, steps).items()}


def test_what_comes_behind_a_broken_command_is_blocked_by_its_requirement() -> None:
    found = _blocked(
        _failed("put.inserted", UNKNOWN, "use"),
        _failed("put.priority-limit", UNKNOWN, "use", "watch"),
        _failed("delete.ready", UNKNOWN, "use"),
        _failed("lifecycle.starts-ready", UNKNOWN),
        _failed("lifecycle.tube-deleted", UNKNOWN, "use", "delete"),
    )
    assert set(found.values()) == {"put.inserted"}
    assert "put.inserted" not in found
    assert len(found) == 4


def test_a_command_that_is_not_known_is_told_once() -> None:
    refused = Cause("put", "BAD_FORMAT …", "UNKNOWN_COMMAND", "BAD_FORMAT")
    outcomes = [_failed("put.inserted", UNKNOWN), _failed("put.bad-format", refused)]
    assert _blocked(*outcomes) == {"put.bad-format": "put.inserted"}


def test_a_command_that_is_not_known_blocks_tests_that_had_less_to_do() -> None:
    known = Cause("pause-tube", "PAUSED …", "UNKNOWN_COMMAND", "PAUSED")
    refused = Cause("pause-tube", "BAD_FORMAT …", "UNKNOWN_COMMAND", "BAD_FORMAT")
    own = _failed("pause-tube.paused", known, "put")
    long, second = (_failed("error.bad-format-name-too-long", refused, *b) for b in ((), ("put",)))
    assert _blocked(own, long, second) == {"error.bad-format-name-too-long": "pause-tube.paused"}
    assert _blocked(own, long, (case("pause-tube.paused"), None)) == {}


def test_it_does_not_matter_what_came_instead_of_the_usual_answer() -> None:
    outcomes = [_failed("put.inserted", REFUSED), _failed("delete.ready", UNKNOWN)]
    assert _blocked(*outcomes) == {"delete.ready": "put.inserted"}


def test_a_command_without_a_requirement_for_its_answer_is_told_of_its_first() -> None:
    cause = Cause("delete", "DELETED …", "NOT_FOUND", "DELETED")
    outcomes = [
        _failed("delete.reserved-by-client", cause, "put", "reserve"),
        _failed("delete.buried", cause, "put", "reserve", "bury"),
        _failed("delete.ready", cause, "put"),
    ]
    # The last one did less.
    assert _blocked(*outcomes) == {"delete.buried": "delete.reserved-by-client"}


SILENT = Cause("reserve-with-timeout", "TIMED_OUT …", SILENCE, "TIMED_OUT")


def test_a_reply_that_never_comes_blocks_those_who_wait_for_it() -> None:
    own = _failed("reserve.timeout-zero", SILENT)
    waits = _failed("use.does-not-watch", SILENT, "use", "put")
    assert _blocked(own, waits) == {"use.does-not-watch": "reserve.timeout-zero"}
    # It comes now and then.
    assert _blocked(own, waits, (case("reserve.timeout-zero"), None)) == {}
    other = replace(SILENT, observed="RESERVED")
    assert _blocked(own, _failed("use.does-not-watch", other, "use", "put")) == {}
    # Another command's requirement does not say that the reply never comes.
    assert _blocked(_failed("put.delay", SILENT, "put"), waits) == {}


def test_an_end_that_never_comes_blocks_those_who_wait_for_it() -> None:
    silent = Cause("quit", THE_END, SILENCE)
    own, waits = _failed("quit.closes", silent), _failed(IN_STEP, silent, "use", "put")
    assert _blocked(own, waits) == {IN_STEP: "quit.closes"}
    assert _blocked(own, waits, (case("quit.closes"), None)) == {}


SHIFTED = Cause("list-tube-used", "USING …", "INSERTED", "USING")


@pytest.mark.parametrize(
    ("cause", "before", "is_blocked"),
    [
        (Cause("peek", "FOUND …", "INSERTED", "FOUND"), ("use", "put"), True),
        (Cause("", UNASKED, r"INSERTED N\r\n"), ("put", "kick"), True),
        (Cause("", "OK …", "INSERTED", "OK"), ("put", "stats"), True),
        # It did not do what has shown it.
        (Cause("", UNASKED, r"USING TUBE\r\n"), ("use",), False),
        # It is the reply to no command before, or one to this command.
        (Cause("peek", "FOUND …", "KICKED", "FOUND"), ("put",), False),
        (Cause("peek", "FOUND …", "NOT_FOUND", "FOUND"), ("put", "delete"), False),
        (Cause("bury", "BURIED …", "BURIED", "BURIED"), ("put",), False),
    ],
)
def test_replies_too_many_block_what_gets_them_for_its_own(
    cause: Cause, before: Sequence[str], is_blocked: bool
) -> None:
    own = _failed(IN_STEP, SHIFTED, "put")
    other = _failed("kick.bound", cause, *before, surplus=not cause.command)
    assert _blocked(own, other) == ({"kick.bound": IN_STEP} if is_blocked else {})
    assert _blocked(other) == {}
    in_order = _failed(IN_STEP, Cause("put", "INSERTED …", "BURIED", "INSERTED"))
    assert _blocked(in_order, other) == {}


def test_a_server_that_does_all_again_with_the_next_command_is_told_once(
    tmp_path: Path,
) -> None:
    again = """
    from reference_server.wire.requests import RequestReader
    plain = RequestReader.receive
    def receive(self, data):
        puts = getattr(self, "puts", b"")
        self.puts = data if data.startswith(b"put ") else b""
        plain(self, puts + data)
    RequestReader.receive = receive
    """
    chosen = "serial or delete.ready or put.inserted or stats-job.ok"
    launch = f"--launch={changed_server(tmp_path, again)}"
    done = suite(launch, "--clock=real", "-k", chosen, f"--report={tmp_path}")
    assert done.returncode == 1, done.stdout
    told = read_results(tmp_path / "results.json").requirements
    assert [one.verdict for one in told if one.slug == IN_STEP] == [Verdict.FAIL]
    # On a busy machine, what comes too much may come so late that it is another failure.
    assert len([one for one in told if one.verdict is Verdict.BLOCKED]) >= 2


@pytest.mark.parametrize(
    ("blocking", "other"),
    [
        # Its own sentence was put to the test.
        (
            _failed("peek.not-found", Cause("peek", "NOT_FOUND …", "FOUND", "NOT_FOUND"), "put"),
            _failed(
                *("delete.entirely", Cause("peek", "NOT_FOUND …", "FOUND", "NOT_FOUND")),
                *("put", "delete"),
            ),
        ),
        # What is wrong may be what the other has done before.
        (_failed("put.inserted", REFUSED, "kick"), _failed("delete.ready", REFUSED, "use")),
        (_failed("put.inserted", REFUSED, timed=True), _failed("delete.ready", REFUSED)),
        # The command was answered well before.
        (_failed("put.inserted", UNKNOWN, "put"), _failed("put.delay", UNKNOWN, "put")),
        # It is not a reply that was wrong.
        (
            _failed("put.inserted", Cause("put", "len(set(jobs)) == len(jobs)", "N == N")),
            _failed("reserve.id-unique", Cause("put", "len(set(jobs)) == len(jobs)", "N == N")),
        ),
        # It was answered in another way, and in the usual one elsewhere.
        (
            _failed("put.inserted", REFUSED),
            _failed("lifecycle.starts-ready", UNKNOWN),
        ),
        # Replies come in order, but for this one.
        (_failed(IN_STEP, REFUSED), _failed("delete.ready", UNKNOWN)),
        # Malformed lines are many.
        (
            _failed("put.bad-format", Cause("put", "BAD_FORMAT …", "INSERTED", "BAD_FORMAT")),
            _failed("put.size-of-32-bits", Cause("put", "BAD_FORMAT …", "INSERTED", "BAD_FORMAT")),
        ),
        # The other one has been found in order by another test.
        (
            _failed("put.inserted", UNKNOWN),
            _failed("put.priority-limit", UNKNOWN),
        ),
    ],
)
def test_what_was_put_to_the_test_is_not_blocked(blocking: Came, other: Came) -> None:
    passed = case("put.inserted"), None
    elsewhere = ["put.priority-limit"], ["lifecycle.starts-ready"]
    more = [passed] if other[0].requirements in elsewhere else []
    assert _blocked(blocking, other, *more) == {}


def test_a_selection_that_fails_in_its_set_up_tests_the_command_of_the_set_up() -> None:
    tests, steps = zip(*(_failed(f"stats.{name}", NO_USE) for name in ("pid", "os")), strict=True)
    told = with_set_up(tests, steps)
    assert {slug for _, slug in blockers(told, steps)} == {"stats.pid", "stats.os"}
    assert all(test.requirements[1:] == ["use.using"] for test in told)
    # Its own tests say more.
    own = case("use.using")
    assert with_set_up([*tests, own], [*steps, None]) == [*tests, own]
    assert with_set_up([tests[0]], [_failed("stats.pid", UNKNOWN)[1]]) == [tests[0]]
    # The command was answered before, or the target was lost.
    for other in (_failed("stats.pid", NO_USE, "use"), _failed("stats.pid", NO_USE, lost=True)):
        assert with_set_up([tests[0]], [other[1]]) == [tests[0]]


@pytest.mark.parametrize("verdict", [Verdict.NON_STRICT, Verdict.SEEN, Verdict.INCONCLUSIVE])
def test_only_a_must_that_is_broken_blocks_others(verdict: Verdict) -> None:
    loose = case("put.inserted", verdict), _failed("put.inserted", UNKNOWN)[1]
    assert _blocked(loose, _failed("delete.ready", UNKNOWN)) == {}


def test_a_crash_is_never_blocked() -> None:
    crash = step_of(TargetLost("OK", "the target is gone"), parse(r"A > put 0 0 1 1\r\n"), NEWEST)
    came = [(case(slug, Verdict.FAIL), crash) for slug in ("put.inserted", "delete.ready")]
    assert _blocked(*came) == {}


# ---------------------------------------------------------------- servers


def _told(fault: Fault, *sections: str) -> tuple[set[str], set[str]]:
    """Return the requirements of these sections that fail on a server, and those blocked."""
    server, tests, steps = BuiltIn(fault=fault), list[results.Test](), list[Step | None]()
    chosen = [c for c in cases() if any(s.partition(".")[0] in sections for s in c.slugs)]
    with contextlib.closing(server):
        for one in chosen:
            if one.arguments.keys() & {"real_clock", "exploration"}:
                continue
            came = running.run(one.test, one.arguments, server)
            step = None
            if isinstance(came.error, Deviation):
                step = step_of(came.error, came.transcript, NEWEST)
            verdict = Verdict.FAIL if step else Verdict.PASS
            slugs = sorted(one.slugs)
            tests.append(case(slugs[0], verdict, requirements=slugs))
            steps.append(step)
    blocked = blockers(tests, steps)
    pairs = {(n, s) for n, step in enumerate(steps) if step for s in tests[n].requirements}
    fails = {slug for _, slug in pairs - set(blocked)}
    return fails, {slug for _, slug in blocked} - fails


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


def test_a_server_without_use_breaks_one_requirement_and_blocks_the_others() -> None:
    fails, blocked = _told(Fault("", "other", reader=_NoUse), "use", "put", "delete", "kick")
    assert fails == {"use.using"}
    assert {"put.inserted", "delete.ready", "kick.bound", "use.bad-format"} <= blocked


def test_a_server_that_takes_no_job_is_told_of_put() -> None:
    fails, blocked = _told(Fault("", "other", reader=_NoPut), "use", "put", "delete", "kick")
    assert "put.inserted" in fails
    assert {"delete.ready", "kick.kicked", "put.smaller-priority-first"} <= blocked
    assert not fails & {"use.using", "use.name-limit", "kick.buried-in-order", "delete.buried"}


# ---------------------------------------------------------------- verdicts


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
    told = tally.conclusion()
    assert (told.word, told.must_broken, told.tested) == ("does not conform", 2, 2)
    assert "1 blocked by use.using" in told.sentence


def test_what_is_blocked_neither_comes_back_nor_goes_away() -> None:
    baseline = {slug: KnownDeviation("fail", "issue 17") for slug in ("use.using", "put.inserted")}
    tally = _tally(baseline)
    assert tally.gone() == []
    assert [entry.requirement.slug for entry in tally.deviations(known=False)] == ["delete.ready"]
    assert tally.updated_baseline()["put.inserted"] == baseline["put.inserted"]
    assert "put.inserted" not in _tally({}).updated_baseline()
