"""The test that has ended the target is blamed, and no other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.dialogue.connection import Connection
from conformance.run.losses import Losses
from conformance.run.runner import Outcome, Overlapped
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.transcript import CLIENT_CLOSES, RESTARTS, Transcript
from conformance.usual_answers import CLOSES, COMES_BACK, OVERLAP, SERIALLY
from conformance.verdict import Deviation, NotTestable, Outage, OutcomeKind, Step, TargetLost
from reports.results import read_results
from tests.command_line import suite
from tests.servers import changed_server

LATER = """
import signal
from reference_server.wire import requests as wire
from reference_server.events import Connected, HalfClose
parse, step, asked, takes = wire.parse_line, Model.step, [], serve.ServedConnection.takes
def crash(*_):
    os.kill(os.getpid(), signal.SIGSEGV)
def ask(line, profile):
    if line == b"kick 4294967295":
        asked.append(line)
        {soon}
    return parse(line, profile)
def happen(self, event, now, conn=0):
    if asked and isinstance(event, {event}):
        crash()
    return step(self, event, now, conn)
wire.parse_line, Model.step = ask, happen
"""
LIMIT = 60.0
SOON = "serve.ServedConnection.takes = lambda *of: (takes(*of), crash())"
BLAMED = "test_kick_takes_a_bound_of_32_bits"


def _failed(folder: Path) -> dict[str, str]:
    tests = read_results(folder / "results.json").tests
    return {test.id.partition("::")[2]: test.reason for test in tests if test.verdict == "fail"}


@pytest.mark.parametrize(
    ("soon", "event", "how"),
    [
        (SOON, "Connected", "--clock=real"),
        ("pass", "HalfClose", "-n2"),
        pytest.param("pass", "Connected", "--clock=real", marks=pytest.mark.campaign),
        pytest.param("pass", "Connected", "-n2", marks=pytest.mark.campaign),
    ],
)
def test_a_crash_after_the_last_reply_is_that_of_its_test(
    tmp_path: Path, soon: str, event: str, how: str
) -> None:
    launch = changed_server(tmp_path, LATER.format(soon=soon, event=event))
    done = suite("--launch", launch, "-k", "test_kick", f"--report={tmp_path}", how)
    assert done.returncode == 1, done.stdout
    failed = _failed(tmp_path)
    assert [*failed] == [BLAMED], done.stdout
    assert "ended by SIGSEGV" in failed[BLAMED]
    results = read_results(tmp_path / "results.json")
    (shown,) = (test.evidence for test in results.tests if test.verdict == "fail")
    assert shown
    assert any("kick 4294967295" in line for line in shown.transcript)


@pytest.mark.parametrize(("soon", "event"), [(SOON, "Connected"), ("pass", "Connected")])
def test_a_target_that_dies_for_good_is_one_finding(tmp_path: Path, soon: str, event: str) -> None:
    with Launched(changed_server(tmp_path, LATER.format(soon=soon, event=event))) as server:
        target = f"--target={server.address[0]}:{server.address[1]}"
        done = suite(target, "-k", "test_kick", f"--report={tmp_path}")
    assert done.returncode == 1, done.stdout
    ((blamed, reason),) = _failed(tmp_path).items()
    # A machine that is busy makes a slow server, of which many tests are done at the same time.
    assert blamed == BLAMED or "other tests went on at the same time" in reason, done.stdout
    tests = read_results(tmp_path / "results.json").tests
    why = [test.reason for test in tests if test.verdict == "not testable"]
    assert why.count(f"the target died during {blamed}") > 5


FALLS_SILENT = """
release = Model._release
def falls_silent(model, conn, number, pri, delay):
    if delay:
        Model._touch = lambda *_: None
        return None
    return release(model, conn, number, pri, delay)
Model._release = falls_silent
"""


def test_a_target_that_has_left_a_command_unanswered_begins_anew(tmp_path: Path) -> None:
    launch = changed_server(tmp_path, FALLS_SILENT)
    chosen = "(test_release and delayed) or test_touch_of"
    suite("--launch", launch, "-k", chosen, f"--report={tmp_path}")
    failed = _failed(tmp_path)
    assert failed
    assert all(name.startswith("test_release") for name in failed), failed


class _Item:
    """A test, as far as its loss is concerned."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fixturenames = ["client"]


def _lost(answered: bool = True) -> Outcome:
    transcript = Transcript()
    transcript.add("A", ">", b"kick 1\r\n", 0)
    if answered:
        transcript.add("A", "<", b"KICKED 1\r\n", 0)
    return Outcome(
        TargetLost("a reply", Outage(OutcomeKind.CRASHED, "ended by SIGSEGV")), transcript
    )


@pytest.fixture
def server() -> Iterator[BuiltIn]:
    target = BuiltIn()
    yield target
    target.close()


def test_what_many_have_lost_and_none_alone_is_told_of_one(server: BuiltIn) -> None:
    losses = Losses()
    first, second = _lost(), _lost()
    for name, outcome, others in (("first", first, 2), ("second", second, 1)):
        item: Any = _Item(name)
        told = losses.after(item, outcome, server, others, lambda: Outcome(None))
        assert told.error is None
        assert not losses.late(is_over=False)
    (late,) = losses.late(is_over=True)
    assert (late.item.name, late.outcome.transcript) == ("first", first.transcript)
    assert isinstance(late.outcome.error, TargetLost)
    assert late.outcome.error.owner == OVERLAP
    assert not losses.late(is_over=True)


def test_what_many_have_lost_is_run_again_together(server: BuiltIn) -> None:
    runs: Counter[str] = Counter()
    at_once = threading.Barrier(3)

    def loses(client: Connection, name: str) -> None:
        runs[name] += 1
        if runs[name] == 1:
            raise TargetLost("a reply", Outage(OutcomeKind.CRASHED, "ended by SIGSEGV"))
        # Alone, it would be broken.
        at_once.wait(LIMIT)

    def passes(client: Connection) -> None:
        runs["passes"] += 1

    tests = [(name, loses, {"client": None, "name": name}) for name in ("a", "b", "c")]
    overlapped = Overlapped([*tests, ("passes", passes, {"client": None})], server)
    assert all(isinstance(overlapped.outcome(name).error, TargetLost) for name in "abc")
    assert [overlapped.outcome_again(name).error for name in "abc"] == [None, None, None]
    assert runs == {"a": 2, "b": 2, "c": 2, "passes": 1}


def test_what_one_has_lost_alone_explains_the_losses_of_others(server: BuiltIn) -> None:
    losses = Losses()
    innocent: Any = _Item("innocent")
    guilty: Any = _Item("guilty")
    alone = _lost()
    assert losses.after(innocent, _lost(), server, 1, lambda: Outcome(None)).error is None
    assert losses.after(guilty, _lost(), server, 1, lambda: alone) is alone
    assert not losses.late(is_over=True)


def test_a_loss_that_the_test_alone_does_not_cause_is_not_its_own(server: BuiltIn) -> None:
    losses, lost = Losses(), _lost()
    assert isinstance(lost.error, TargetLost)
    lost.error.de_facto = True
    item: Any = _Item("any")
    reported = losses.after(item, lost, server, 0, lambda: Outcome(None))
    assert isinstance(reported.error, TargetLost)
    assert (reported.error.owner, reported.error.de_facto) == (SERIALLY, True)
    assert "see what went before" in reported.error.observed
    assert losses.after(item, lost, server, 0, _lost) is lost
    item.fixturenames.append("exploration")
    assert losses.after(item, lost, server, 0, lambda: pytest.fail("it was run again")) is lost


@pytest.mark.parametrize(
    ("seen", "event", "exhausts", "owner"),
    [
        (None, CLIENT_CLOSES, False, CLOSES),
        (None, CLIENT_CLOSES, True, ""),
        (None, RESTARTS, False, COMES_BACK),
        (OutcomeKind.WRONG_VALUE, CLIENT_CLOSES, False, CLOSES),
        (OutcomeKind.NO_REPLY, CLIENT_CLOSES, False, "stats.ok"),
    ],
)
def test_a_target_that_was_gone_after_a_test_was_lost_by_what_was_not_answered_or_by_the_end(
    server: BuiltIn,
    monkeypatch: pytest.MonkeyPatch,
    seen: OutcomeKind | None,
    event: bytes,
    exhausts: bool,
    owner: str,
) -> None:
    transcript = Transcript()
    transcript.add("" if event == RESTARTS else "A", "!", event, 0)
    error = None if seen is None else Deviation("OK", "another thing", step=Step(seen))
    if error is not None:
        error.owner = "stats.ok"
    losses = Losses()
    first: Any = _Item("first")
    losses.after(first, Outcome(error, transcript, exhausts=exhausts), server, 0, _lost)
    monkeypatch.setattr(server, "ended", lambda: Outage(OutcomeKind.CRASHED, "ended by SIGSEGV"))
    losses.before(server, 0)
    (late,) = losses.late(is_over=True)
    assert isinstance(late.outcome.error, TargetLost)
    assert (late.outcome.error.owner, late.outcome.error.de_facto) == (owner, exhausts)


def test_who_has_lost_a_server_of_its_own_is_not_run_again(server: BuiltIn) -> None:
    losses, lost = Losses(), _lost(answered=False)
    item: Any = _Item("any")
    alone = _lost()
    assert losses.after(item, lost, server, 0, lambda: alone) is alone
    assert isinstance(lost.error, TargetLost)
    lost.error.is_own = True
    assert losses.after(item, lost, server, 0, lambda: pytest.fail("it was run again")) is lost


@pytest.mark.parametrize("begins", [b"", b"use conformance-1\r\n", b"kick 1\r\n"])
def test_a_target_that_was_gone_when_a_test_began_died_before(
    server: BuiltIn, monkeypatch: pytest.MonkeyPatch, begins: bytes
) -> None:
    monkeypatch.setattr(server, "exclusive", False)
    losses, transcript = Losses(), Transcript()
    first: Any = _Item("first")
    second: Any = _Item("second")
    if begins:
        transcript.add("A", ">", begins, 0)
    outcome = Outcome(
        TargetLost("a reply", Outage(OutcomeKind.GONE, "it refuses connections")), transcript
    )
    assert losses.after(first, Outcome(None), server, 0, _lost).error is None
    told = losses.after(second, outcome, server, 0, _lost)
    late = [loss.item.name for loss in losses.late(is_over=True)]
    assert late == ([] if begins.startswith(b"kick") else ["first"])
    assert isinstance(told.error, TargetLost if begins.startswith(b"kick") else NotTestable)
    again = losses.after(first, _lost(), server, 0, _lost)
    assert isinstance(again.error, NotTestable)
    assert "the target died during " in str(again.error)


def test_a_run_that_loses_its_target_again_and_again_is_given_up(server: BuiltIn) -> None:
    losses = Losses()
    item: Any = _Item("any")
    for number in range(30):
        assert not losses.are_too_many(server), number
        losses.after(item, _lost(), server, 0, _lost)
    assert losses.are_too_many(server)
    losses.after(item, Outcome(NotTestable("no")), server, 0, _lost)
    assert not losses.are_too_many(server)
