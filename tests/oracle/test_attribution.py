"""A finding has its level, whatever open lines were on the way to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.oracle.attribution import broken
from conformance.oracle.diagnosis import diagnose
from conformance.oracle.reply_comparison import Before
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import kept
from conformance.reading import parse
from conformance.target.builtin import BuiltIn
from conformance.target.limits import Limits
from conformance.target.target import Target
from conformance.tests.test_stateful import test_any_conversation as any_conversation
from conformance.transcript import Transcript
from conformance.verdict import Deviation
from fuzz.test_programs import test_any_program as any_program
from reference_server import wire
from reference_server.commands import COMMANDS
from reference_server.events import Connected
from reference_server.faults import Fault
from reference_server.faults.protocol import KeepsHeld
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.state import SECOND, Client
from reference_server.wire import (
    BAD_FORMAT,
    UNKNOWN_COMMAND,
    Body,
    Command,
    Malformed,
    Reply,
    Request,
    RequestReader,
    escape,
)

HASTY = Limits(reply=1.0)
"""So that a reply that never comes is not waited for so long."""
TAKES = frozenset(verb for verb, grammar in COMMANDS.items() if grammar.kinds)


class StaleTimeout(Model):
    """The timeout of an earlier reserve ends a later one that has none."""

    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        stale: dict[int, int] = self.__dict__.setdefault("stale", {})
        reply = super()._reserve(conn, timeout)
        if timeout is not None:
            stale[conn.id] = self.now + timeout * SECOND
        elif conn.waiting and stale.get(conn.id, 0) > self.now:
            conn.timeout_at = stale[conn.id]
            self._set_wake_up(conn)
        return reply


class TouchReserves(Model):
    def _touch(self, conn: Client, id: int) -> Reply:
        reply = super()._touch(conn, id)
        if reply == wire.TOUCHED:
            self.jobs[id].reserves += 1
        return reply


class Blind(Model):
    def _peek_ready(self, conn: Client) -> Reply:
        return wire.NOT_FOUND


class YoungAgain(Model):
    """The age of a job starts again when it is released."""

    def _release(self, conn: Client, id: int, pri: int, delay: int) -> Reply:
        reply = super()._release(conn, id, pri, delay)
        if reply == wire.RELEASED:
            self.jobs[id].created = self.now
        return reply


class Silent(Model):
    """A put of priority 7 is never answered."""

    def _handle(self, event: object, conn: int) -> None:
        client = self.connections.get(conn)
        pri = client.incoming.pri if client and client.incoming else 0
        super()._handle(event, conn)  # type: ignore[arg-type]
        if isinstance(event, Body) and pri == 7:
            self._outputs.clear()


class Forgetful(RequestReader):
    """What an empty line, or a blank behind a command, does: the client uses default again."""

    def parse(self, line: bytes) -> Request:
        if line in (b"", b"stats "):
            self._again = True
        elif self.__dict__.pop("_again", False) and line == b"list-tube-used":
            return Command("use", ("default",))
        return super().parse(line)


class Unknown(RequestReader):
    """A word without its argument is unknown: some answer is needed, but the text names none."""

    def parse(self, line: bytes) -> Request:
        return (
            Malformed(UNKNOWN_COMMAND) if line.decode("latin-1") in TAKES else super().parse(line)
        )


class Tabs(RequestReader):
    """Tabs are blanks."""

    def parse(self, line: bytes) -> Request:
        return super().parse(line.rstrip(b"\t"))


WAITING = r"""
A > stats \r\n
A > reserve-with-timeout 0ob\r\n
A > reserve-with-timeout 5\r\n
B > \r\n
B > put 0 0 60 1\r\na\r\n
B < INSERTED 1\r\n
A > delete 1\r\n
A > reserve\r\n
+ 6s
"""
TOUCHED = r"""
A > \r\ndelete 3\t\r\n
A > put 0 0 60 1\r\na\r\n
A < INSERTED 1\r\n
A > stats \r\n
A > reserve\r\n
A > touch 1\r\n
A > peek 1\t\r\nstats-job 1\r\n
"""
OLD = r"""
A > put 0 0 60 1\r\na\r\n
A < INSERTED 1\r\n
A > delete 1\t\r\n
+ 20s
A > reserve\r\n
A > stats-job 1\r\n
A > release 1 0 0\r\nkick -1\r\n
B > stats \r\nstats-job 1\r\n
"""
SILENT = r"""
A > stats \r\n\r\nput 7 0 60 1\r\na\r\n
"""
FORGETFUL = r"""
A > use a\r\n
A > \r\n
A > list-tube-used\r\n
"""


def _told(fault: Fault, text: str, folder: Path | None = None) -> tuple[Deviation, Transcript]:
    """What is told of a server with a fault in a conversation, and what shows it."""
    server = BuiltIn(fault=fault, limits=HASTY)
    exploration, transcript = Exploration(1, folder=folder), Transcript()
    try:
        with pytest.raises(Deviation) as raised:
            exploration.look_again(server, transcript, parse(text))
    finally:
        server.close()
    return raised.value, transcript


@pytest.mark.parametrize(
    ("model", "text"),
    [(StaleTimeout, WAITING), (TouchReserves, TOUCHED), (YoungAgain, OLD), (Silent, SILENT)],
)
def test_what_does_not_depend_on_open_lines_breaks_the_text(
    model: type[Model], text: str, tmp_path: Path
) -> None:
    deviation, shown = _told(Fault("", "bug", model=model), text, tmp_path)
    assert not deviation.de_facto, deviation
    sent = b"".join(entry.data for entry in shown.entries if entry.direction == ">")
    for odd in (b"stats \r\n", b"\t", b"0ob", b"-1", b"\r\n\r\n"):
        assert odd not in sent
    ((_, transcript),) = kept(tmp_path)
    assert transcript.entries == parse(shown.until(deviation.marked or 0).render()).entries


@pytest.mark.parametrize("reader", [Forgetful, Tabs])
def test_what_depends_on_an_open_line_is_non_strict(reader: type[RequestReader]) -> None:
    text = FORGETFUL if reader is Forgetful else TOUCHED
    deviation, shown = _told(Fault("", "odd", reader=reader), text)
    assert deviation.de_facto, deviation
    line = "a line that is empty, too long or cut off" if reader is Forgetful else "the line “"
    assert f"the text does not decide {line}" in str(deviation)
    assert any(b"\t\r\n" in entry.data or entry.data == b"\r\n" for entry in shown.entries)


def test_what_is_not_seen_again_breaks_nothing_for_certain() -> None:
    class Once(Model):
        seen = 0

        def _touch(self, conn: Client, id: int) -> Reply:
            reply = super()._touch(conn, id)
            Once.seen += 1
            if Once.seen == 1 and reply == wire.TOUCHED:
                self.jobs[id].reserves += 1
            return reply

    deviation, _ = _told(Fault("", "flaky", model=Once), TOUCHED)
    assert deviation.de_facto


@pytest.mark.parametrize(
    ("test", "model", "de_facto"),
    [(any_program, Model, True), (any_conversation, Model, True), (any_program, Blind, False)],
)
def test_what_is_loose_does_not_hide_what_is_firm(
    test: Callable[[Target, Transcript, Exploration], str], model: type[Model], de_facto: bool
) -> None:
    fault = Fault("", "words are unknown", model, Unknown)
    server = BuiltIn(fault=fault, limits=HASTY)
    exploration = Exploration(25)
    with pytest.raises(Deviation) as caught:
        test(server, Transcript(), exploration)
    server.close()
    assert caught.value.de_facto is de_facto
    assert not exploration.plain


KEPT = r"""
A > use a\r\nput 0 0 60 1\r\na\r\n
A < USING a\r\nINSERTED 97\r\n
A > put 0 0 60 1\r\nb\r\n
A < INSERTED 103\r\n
B > watch a\r\n
B < WATCHING 2\r\n
B > reserve\r\nreserve\r\n
B < RESERVED 97 1\r\na\r\nRESERVED 103 1\r\nb\r\n
B ! closes
"""
"""With gaps between ids, and one that is told behind another reply."""


@pytest.mark.parametrize(
    ("asked", "answer", "expected"),
    [
        (r"delete 103\r\n", r"NOT_FOUND\r\n", "DELETED"),
        (r"peek-ready\r\n", r"NOT_FOUND\r\n", r"FOUND 97 1\r\na"),
    ],
)
@pytest.mark.parametrize("times", [0, 50])
def test_what_a_server_explains_that_breaks_no_must_breaks_none(
    asked: str, answer: str, expected: str, times: int
) -> None:
    # Long ones, too, are not said to break a must.
    more = "C > kick 1\\r\\n\nC < KICKED 0\\r\\n\n" * times
    text = f"{KEPT}{more}A > {asked}\nA < {answer}\n"
    entries, violation = parse(text).entries, Violation([expected], answer)
    assert broken(entries, NEWEST, violation) == ["lifecycle.close-releases-jobs"]


@pytest.mark.parametrize(
    ("asked", "expected", "observed", "named"),
    [
        ("stats", "OK with current-jobs-ready: 12", "OK with current-jobs-ready: 10", True),
        ("stats", "OK with current-jobs-ready: 12", "OK with current-jobs-ready: 13", False),
        ("stats", "OK with current-jobs-ready: 12", "OK with total-jobs: 10", False),
        ("list-tubes", "OK with default, x", "OK with default", False),
    ],
)
def test_statistics_are_explained_by_how_much_they_differ(
    asked: str, expected: str, observed: str, named: bool
) -> None:
    model = KeepsHeld(NEWEST)
    model.step(Connected(), 0, 1)
    ((_, reply),) = model.step(Command(asked), 0, 1)
    assert isinstance(reply, Reply)
    said = escape(reply.encode().replace(b"pid: 0", b"pid: 1"))
    entries = parse(f"{KEPT}A > {asked}\\r\\n\nA < {said}\n").entries
    found = broken(entries, NEWEST, Violation([expected], observed))
    assert ("lifecycle.close-releases-jobs" in found) is named


def test_time_passes_between_messages() -> None:
    text = r"""
A > put 0 1 60 1\r\na\r\n
A < INSERTED 1\r\n
A > reserve-with-timeout 0\r\n
A < TIMED_OUT\r\n
"""
    entries = parse(text).entries
    assert broken(entries, NEWEST) == []
    later = [replace(entry, time=number * 1.0) for number, entry in enumerate(entries)]
    assert broken(later, NEWEST)


@pytest.mark.parametrize(
    ("failed", "is_open"),
    [
        (r"peek 9\r\n", False),
        (r"peek-ready\r\n", False),
        (r"peek-delayed\r\n", True),
    ],
)
def test_only_failures_of_what_is_counted_leave_its_count_open(failed: str, is_open: bool) -> None:
    text = f"A > {failed}\nA < NOT_FOUND\\r\\n\nA > stats\\r\\n\n"
    told = ["OK with cmd-peek-delayed: 4"], "OK with cmd-peek-delayed: 3"
    assert diagnose(Violation(*told, 2), parse(text).entries, NEWEST).de_facto is is_open


def test_a_fault_does_not_explain_what_follows_a_word_that_is_no_command() -> None:
    entries = parse(r"A > DELETE A-+/;.$_()9\r\n" + "\n" + r"A < BAD_FORMAT\r\n" + "\n").entries
    told = Violation([str(UNKNOWN_COMMAND)], str(BAD_FORMAT), 1)
    assert "protocol.name-characters" in broken(entries, NEWEST, told)
    assert diagnose(told, entries, NEWEST).de_facto


class KnowsNoLetters(RequestReader):
    """Where a letter is the argument of delete, it is no line; and Tabs are blanks."""

    def parse(self, line: bytes) -> Request:
        if line == b"delete x":
            return Command("stats", ())
        return super().parse(line.rstrip(b"\t"))


def test_what_is_asked_instead_of_an_open_line_is_not_the_cause() -> None:
    # Nothing is wrong but with the open line, and with what is asked instead of others.
    deviation, shown = _told(Fault("", "odd", reader=KnowsNoLetters), TOUCHED)
    assert deviation.de_facto, deviation
    assert b"delete x" not in b"".join(entry.data for entry in shown.entries)


def test_replies_that_nobody_has_looked_at_contradict_nothing() -> None:
    text = f"{KEPT}A > delete 103\\r\\nlist-tube-used\\r\\n\nA < NOT_FOUND\\r\\n\n"
    violation = Violation(["DELETED"], "NOT_FOUND")
    assert broken(parse(text).entries, NEWEST, violation) == ["lifecycle.close-releases-jobs"]


def test_what_does_not_come_is_owed_to_anybody() -> None:
    text = f"""{KEPT}
C > watch a\\r\\nreserve\\r\\n
C < WATCHING 2\\r\\n
A > peek 9\\r\\n
A < NOT_FOUND\\r\\n
"""
    entries, violation = parse(text).entries, Violation([r"RESERVED 97 1\r\na"], "nothing")
    assert broken(entries, NEWEST, violation) == ["lifecycle.close-releases-jobs"]


def test_jobs_of_others_may_time_out_once_each() -> None:
    before = Before(frozenset(), {"current-jobs-reserved": 1})
    assert before.explains("job-timeouts", "3", "4", True)
    assert not before.explains("job-timeouts", "3", "5", True)


def test_the_step_of_a_violation_has_the_command_that_was_answered() -> None:
    violation = Violation([r"WATCHING 2\r\n"], r"WATCHING 3\r\n", 1)
    text = r"""
A > watch a\r\nwatch a\r\nkick 1\r\n
A < WATCHING 2\r\nWATCHING 3\r\n
"""
    assert diagnose(violation, parse(text).entries, NEWEST).step.command == "watch"


def test_the_step_of_a_wrong_value_has_the_command_whose_reply_has_it() -> None:
    violation = Violation(["OK with current-jobs-urgent: 0"], "OK with current-jobs-urgent: 1", 1)
    text = r"""
A > stats\r\nuse a\r\n
A < OK 31\r\n---\n
A < current-jobs-urgent: 1\nx: 1\r\nUSING a\r\n
"""
    step = diagnose(violation, parse(text).entries, NEWEST).step
    assert (step.command, step.subject) == ("stats", "current-jobs-urgent")


def test_the_step_of_a_violation_has_the_words_of_its_replies() -> None:
    violation = Violation([str(BAD_FORMAT)], str(UNKNOWN_COMMAND))
    entries = parse("A > touch x\\r\\n\nA < UNKNOWN_COMMAND\\r\\n\n").entries
    step = diagnose(violation, entries, NEWEST).step
    assert (step.command, step.words) == ("touch", ("BAD_FORMAT",))
    assert step.came == "UNKNOWN_COMMAND"
