"""Servers that have few commands yet: what they have is judged, and what they lack is one cause."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.catalogue import catalogue
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import Timeline
from conformance.run import runner as running
from conformance.run.aggregation import RequirementVerdict
from conformance.run.attribution import blame_of, cause_of
from conformance.run.next_step import next_step
from conformance.target.builtin import BuiltIn
from conformance.target.traits import Unusable
from conformance.usual_answers import MAY_BE_SILENT, usual_answer
from conformance.verdict import Deviation
from reference_server.events import Event, Hangup, Output
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import SECOND, Client, Job
from reference_server.wire import (
    DELETED,
    UNKNOWN_COMMAND,
    Command,
    Malformed,
    Reply,
    Request,
    RequestReader,
)
from reports import results
from reports.grouping import grouped
from reports.verdicts import Verdict
from tests.command_line import suite
from tests.faults import cases
from tests.made import case, evidence, requirement
from tests.servers import changed_server

THREE = ("put", "reserve", "delete")


def _with_only(*verbs: str, model: type[Model] = Model) -> Fault:
    class Few(RequestReader):
        def parse(self, line: bytes) -> Request:
            if line.split(b" ")[0].decode("latin-1") not in verbs:
                return Malformed(UNKNOWN_COMMAND)
            return super().parse(line)

    return Fault("", "other", model, reader=Few)


@contextlib.contextmanager
def _surveyed(fault: Fault) -> Iterator[BuiltIn]:
    with contextlib.closing(BuiltIn(fault=fault)) as server:
        server.probe()
        yield server


def _blamed(server: BuiltIn, *slugs: str) -> dict[str, set[str]]:
    """Return for each of these requirements whom its tests blame; "" stands for one that passed."""
    found: dict[str, set[str]] = {slug: set() for slug in slugs}
    for one in cases():
        for slug in one.slugs & {*slugs}:
            error = running.run(one.test, one.arguments, server).error
            if isinstance(error, Deviation):
                found[slug].add(blame_of(error, server.traits).owner or slug)
            elif error is None:
                found[slug].add("")
    return found


def test_a_server_of_three_commands_is_judged_by_these() -> None:
    fine = ("put.inserted", "reserve.reserved", "put.smaller-priority-first", "delete.not-found")
    with _surveyed(_with_only(*THREE)) as server:
        assert server.traits.unknown == NEWEST.commands - {*THREE, "quit"}
        unknown = {usual_answer(verb, NEWEST) for verb in server.traits.unknown}
        for slug, blamed in _blamed(server, *fine).items():
            # Some tests of the same requirements need more.
            assert "" in blamed, slug
            assert blamed <= {"", *unknown}, slug


class _OldestFirst(Model):
    """Priorities make no difference."""

    def _next_ready(self, conn: Client) -> Job | None:
        ready = [number for tube in conn.watch for _, number in tube.ready]
        return self.jobs[min(ready)] if ready else None


def test_its_own_bugs_are_found() -> None:
    with _surveyed(_with_only(*THREE, model=_OldestFirst)) as server:
        found = _blamed(server, "put.smaller-priority-first", "reserve.reserved")
    assert "put.smaller-priority-first" in found["put.smaller-priority-first"]
    assert "reserve.reserved" not in found["reserve.reserved"]


class _DeletesAnything(Model):
    """Says DELETED, whether the job is there or not."""

    def _delete(self, conn: Client, number: int) -> Reply:
        super()._delete(conn, number)
        return DELETED


def test_a_line_with_a_wrong_answer_is_not_sent_to_synchronise() -> None:
    slugs = ("protocol.any-segmentation", "reserve.waits-for-job")
    with _surveyed(_with_only(*THREE, model=_DeletesAnything)) as server:
        assert server.sync_line == b"delete 0"
        found = _blamed(server, *slugs, "delete.not-found")
    assert "delete.not-found" in found["delete.not-found"]
    for slug in slugs:
        assert slug not in found[slug]


class _HangsUp(Model):
    """Ends the connection of a client that has said nothing for two seconds."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._heard: dict[int, int] = {}

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        self._heard[conn] = now
        silent = [
            client.id
            for client in self.connections.values()
            if not client.waiting and now - self._heard[client.id] >= 2 * SECOND
        ]
        return [*outputs, *((number, Hangup()) for number in silent)]


def test_the_end_of_a_silent_client_is_no_matter_of_its_next_command() -> None:
    tested = ("put.ready-after-delay", "put.ttr-from-reservation", "stats-job.age")
    with _surveyed(Fault("", "other", _HangsUp)) as server:
        found = _blamed(server, MAY_BE_SILENT, *tested)
    assert found.pop(MAY_BE_SILENT) == {MAY_BE_SILENT}
    for slug, blamed in found.items():
        assert MAY_BE_SILENT in blamed, slug
        assert blamed <= {"", MAY_BE_SILENT}, slug


class _EndsOthers(Model):
    """Ends all connections but that of a client that says list-tubes."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        others = {*self.connections} - {conn} if event == Command("list-tubes") else ()
        return [*outputs, *((number, Hangup()) for number in others)]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_an_end_is_that_of_a_silent_client_until_it_says_something(is_waiting: bool) -> None:
    def is_silent(client: Connection, clock: Timeline) -> None:
        waiting = client.send("reserve") if is_waiting else None
        clock.advance(1)
        with server.connect() as stranger:
            stranger.send(b"list-tubes\r\n")
            assert stranger.receive_within(5).startswith(b"OK")
        if waiting:
            waiting.reply("RESERVED")
        client.send("stats").reply("OK")

    with _surveyed(Fault("", "other", _EndsOthers)) as server:
        error = running.run(is_silent, {"client": None, "clock": None}, server).error
    assert isinstance(error, Deviation)
    if is_waiting:
        assert (error.owner, error.suspects) == ("", (MAY_BE_SILENT,))
    else:
        assert error.owner == MAY_BE_SILENT


class _HangsUpLate(_HangsUp):
    """Notices at the next command of a client that it was silent for two seconds."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        was_silent = now - self._heard.get(conn, now) >= 2 * SECOND
        if was_silent and isinstance(event, Command):
            return [(conn, Hangup())]
        return [output for output in super().step(event, now, conn) if output[0] == conn]


def test_a_command_after_a_long_silence_may_not_be_what_ends_the_connection() -> None:
    def is_silent(client: Connection, clock: Timeline) -> None:
        clock.leave_alone(3)
        client.send("stats").reply("OK")

    with _surveyed(Fault("", "other", _HangsUpLate)) as server:
        error = running.run(is_silent, {"client": None, "clock": None}, server).error
    assert isinstance(error, Deviation)
    assert (error.step.command, error.suspects) == ("stats", (MAY_BE_SILENT,))


def test_an_unknown_command_is_to_blame_whatever_the_test_is_about() -> None:
    slugs = ("protocol.any-segmentation", "bury.fifo", "error.bad-format-argument-count")
    with _surveyed(_with_only(*THREE)) as server:
        unknown = {usual_answer(verb, server.profile) for verb in server.traits.unknown}
        for slug, blamed in _blamed(server, *slugs).items():
            assert blamed <= {"", *unknown}, slug
            assert blamed - {""}, slug


def test_all_unknown_commands_are_one_cause() -> None:
    causes = set[str]()
    with _surveyed(_with_only(*THREE)) as server:
        for command in server.traits.unknown:
            with pytest.raises(Unusable) as unusable:
                server.traits.needs(command)
            deviation = unusable.value.failure.deviation(unusable.value.owner)
            blame = blame_of(deviation, server.traits)
            causes.add(str(cause_of(blame, server.traits)))
    assert len(causes) == 1


def _judgement(slug: str, *blocked_by: str) -> RequirementVerdict:
    verdict = Verdict.BLOCKED if blocked_by else Verdict.PASS
    return RequirementVerdict(catalogue()[slug], verdict, blocked_by=[*blocked_by])


def test_the_next_step_is_the_command_that_unblocks_most() -> None:
    unusable = ("use", "watch", "bury", "touch")
    judgements = [
        _judgement("put.inserted"),
        _judgement("bury.fifo", "bury.buried"),
        _judgement("touch.postpones-expiry", "bury.buried", "touch.touched"),
        _judgement("use.creates-tube", "use.using"),
        _judgement("watch.many-tubes", "watch.watching", "use.using"),
    ]
    assert next_step(unusable, NEWEST, judgements) == (
        "next step: make `use` and `watch` work; 2 requirements can then be tested"
    )
    assert next_step((), NEWEST, judgements) == ""
    assert next_step(("touch",), NEWEST, judgements) == ""


def test_a_crash_is_the_first_cause() -> None:
    def fails(slug: str, observed: str) -> results.Test:
        cause = results.CauseRecord(command="put", expected="INSERTED", observed=observed)
        return case(slug, Verdict.FAIL, cause=cause, evidence=evidence())

    slugs = ("put.inserted", "delete.not-found", "use.using")
    rules = [requirement(slug, Verdict.FAIL) for slug in slugs]
    blocked = requirement("bury.fifo", Verdict.BLOCKED, blocked_by=["put.inserted"])
    tests = [fails("put.inserted", "BURIED"), fails("delete.not-found", "crashed")]
    first, second = grouped([*rules[:2], blocked], tests)
    assert (first.broken[0].slug, second.broken[0].slug) == ("delete.not-found", "put.inserted")


ENDS_LINES_WITH_LF = """
from reference_server import wire
from reference_server.wire import Reply
plain = Reply.encode
Reply.encode = lambda self: plain(self).replace(b"\\r\\n", b"\\n")
"""
CRASHES = """
import os, signal, sys
from reference_server import serve
def takes(self, data):
    print("panic: index out of range", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
serve.ServedConnection.takes = takes
"""


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        (ENDS_LINES_WITH_LF, [r"A < USING default\n", r"EXPECTED  a reply that ends with \r\n"]),
        (CRASHES, ["OBSERVED  the target crashed: ended by SIGSEGV", "panic: index out of range"]),
    ],
    ids=["ends lines with LF", "crashes"],
)
def test_a_server_that_answers_no_command_gets_a_report(
    change: str, sentences: list[str], tmp_path: Path
) -> None:
    report = tmp_path / "report"
    launch = f"--launch={changed_server(tmp_path, change)}"
    done = suite(launch, f"--report={report}", "--clock=real", "-k", "put.inserted")
    assert done.returncode == 1, done.stdout
    for sentence in ("A > list-tube-used", *sentences):
        assert sentence in done.stdout
    assert (report / "results.json").exists()
