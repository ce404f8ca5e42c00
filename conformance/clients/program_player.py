"""Plays a program with a driver, and compares each answer with that of a partner.

Two models get the same operations: the server's, by way of the library, and its partner, straight
from the program. They must give the same replies and keep the same jobs, and the library must
report what the partner says. The time of both is virtual: it passes while a client waits for a job,
and by ``wait``.

A library may put off ``use``, ``watch`` and ``ignore``. After a disconnect it may fail until the
next ``connect``; if it connects by itself, it uses and watches what it did before. A library that
repeats a command ends the comparison: the models are not alike any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from conformance.clients.checks import (
    CallRecord,
    Check,
    Mismatch,
    does_not_succeed,
    fails,
    gives,
    has_all,
    names,
    returns,
    succeeds,
)
from conformance.clients.driver import Channel, DriverEnded
from conformance.clients.judging import excuse
from conformance.clients.programs import ClientProgram, ProgramCall
from conformance.clients.protocol import Answer
from conformance.clients.server import Change, ScriptedServer, ServerPeer
from conformance.random_testing.job_tags import JobTags
from conformance.target.starvation import Starvation
from reference_server.commands import COMMANDS, ArgumentKind
from reference_server.model import Model
from reference_server.partner import Partner
from reference_server.profiles import NEWEST
from reference_server.state import SECOND
from reference_server.wire import Reply, escape

APPLICATION, OTHERS = "application", "others"
"""The clients of the partner."""
PUT_OFF = ("use", "watch", "ignore")
"""Operations that a library need not send at once."""
RESERVES = ("reserve", "reserve-with-timeout")
"""Operations that a library may do by the same command."""
SERVER_WIDE = ("stats", "stats-tube", "list-tubes")
"""Commands whose replies also show commands that a library sends by itself, or later."""
_TAG = re.compile(r"#(\d+)")


@dataclass
class ProgramClock:
    """A clock that stands still unless somebody sets it, in nanoseconds."""

    now: int = 0

    def __call__(self) -> int:
        return self.now

    def run_until_answered(self, model: Model, client: int, tick: Callable[[], None]) -> None:
        """Let time pass as long as a client waits for a job, from timer to timer."""
        while model.is_waiting(client) and (due := model.next_due) is not None:
            self.now = max(self.now, due)
            tick()


class ProgramServer(ScriptedServer):
    """The server of the library, in virtual time."""

    def __init__(self) -> None:
        self.clock = ProgramClock()
        self.answered: ServerPeer | None = None
        """The connection that sent the last command that was asked."""
        super().__init__(clock=self.clock)

    def _model_due(self) -> float | None:
        return None

    def _handle(self, peer: ServerPeer, raw: bytes) -> None:
        if is_command(raw, self._asked):
            self.answered = peer
        super()._handle(peer, raw)
        self.clock.run_until_answered(self.model, peer.number, self.engine.tick)

    def is_connected(self) -> bool:
        """Return whether the connection that sent this command is still there."""
        return self.answered in self._peers


class _NotComparable(Exception):
    """The models are not alike any more, and that is no fault of the library."""


@dataclass
class ProgramRun:
    """A program on the way. ``words`` are those of all replies that were expected."""

    driver: Channel
    timeout: float
    server: ProgramServer = field(default_factory=ProgramServer)
    clock: ProgramClock = field(default_factory=ProgramClock)
    tags: JobTags = field(default_factory=JobTags)
    words: set[str] = field(default_factory=set)
    asked: str = ""
    """The last question."""
    said: str = ""
    """The last line of the driver's error output, if there is a mismatch."""
    excuse: str = ""
    """The starvation that may have caused the mismatch, in words."""
    is_hung: bool = False
    """True if the driver owes an answer, or has ended."""
    _may_fail: bool = False
    """True after a disconnect."""
    _answer: Answer | None = None

    def __post_init__(self) -> None:
        self._partner: Partner[str] = Partner(Model(NEWEST), self.clock)
        self._partner.connect(OTHERS)

    @property
    def transcript(self) -> list[str]:
        """The questions, the bytes and the answers."""
        return self.server.transcript

    def play(self, program: ClientProgram) -> Mismatch | None:
        """Return the first mismatch; raises DriverError."""
        starvation = Starvation(self.driver.cpu_time)
        try:
            for call in (ProgramCall("connect"), *program):
                if (found := self._take(call)) is not None:
                    self.said = self.driver.said()
                    self.excuse = excuse(starvation, self._answer, self.timeout)
                    return found
        except _NotComparable:
            pass
        finally:
            self.server.close()
        return None

    def _take(self, call: ProgramCall) -> Mismatch | None:
        if call.verb == "wait":
            self.transcript.append(f"+ {call.question.split()[1]}s")
            self._pass_until(self.clock.now + int(call.question.split()[1]) * SECOND)
            return None
        if call.verb == "connect":
            return self._connect()
        if call.verb == "reserve":
            self._let_others_put()
        question = _TAG.sub(lambda match: str(self.tags.id(int(match[1]))), call.question)
        server, lost, cut = self.server, self.server.lost_count, self.server.cut_count
        answer = self._record(question, call.change)
        sent = [one for one in answer.commands if is_command(one, call.verb)]
        is_ok = answer.answer is not None and answer.answer.is_ok
        is_lost = bool(sent) and not server.is_connected()
        # A library that ends the connection by itself has no excuse for the call that does so.
        has_error = server.altered > 0 and call.change.says is not None
        is_excused = self._may_fail or has_error or server.cut_count > cut
        self._may_fail |= server.lost_count > lost
        if server.lost_count > lost and not is_lost:
            self._reconnect()
        if is_excused and answer.answer is not None and not is_ok:
            if call.verb in PUT_OFF:
                # A library may do it or not when it connects again.
                raise _NotComparable
            if not sent:
                return None
        if len(sent) > 1:
            raise _NotComparable
        is_cut = is_lost and server.cut_count > cut
        found = self._compare(call, question, answer, bool(sent), is_cut)
        if is_lost:
            self._reconnect()
        elif is_ok and sent:
            self._may_fail = False
        self._pass_until(max(self.clock.now, server.clock.now))
        return found or self._compare_jobs()

    def _compare(
        self, call: ProgramCall, question: str, record: CallRecord, is_sent: bool, is_cut: bool
    ) -> Mismatch | None:
        """Compare an answer with the partner's."""
        if self.server.altered and call.change.says is not None:
            self.words.add(call.change.says.split()[0].decode())
            return fails(record)
        reply = self._expected(question)
        self.words.add(reply.word)
        is_usual = reply.word == COMMANDS[call.verb].replies[0]
        if call.verb in PUT_OFF and not is_sent and not is_usual:
            raise _NotComparable
        if call.tag and is_usual:
            self.tags.name(call.tag, int(reply.args[0]))
        if is_cut and record.answer is not None and not record.answer.is_ok:
            return None
        cut = call.change.cut if self.server.altered else None
        if cut is not None and cut < len(reply.encode()):
            return returns(record) or does_not_succeed(record)
        for check in _checks(call.verb, reply, record, is_usual):
            if (found := check(record)) is not None:
                return found
        return None

    def _record(self, question: str, change: Change) -> CallRecord:
        """Ask a question; return all that came of it."""
        server, answer, ended, self.asked = self.server, None, "", question
        server.mark()
        server.change, server.is_armed, server.altered = change, True, 0
        try:
            answer = server.await_answer(self.driver, question, self.timeout)
        except DriverEnded as error:
            ended = str(error)
            server.transcript.append(f"  {error}")
        self.is_hung, self._answer = answer is None, answer
        return server.recorded(question, answer, self.timeout, ended)

    def _connect(self) -> Mismatch | None:
        # An earlier client may stay connected for as long as nobody collects it.
        self.server.disconnect()
        self._partner.connect(APPLICATION)
        self._may_fail = False
        return succeeds(self._record(f"connect 127.0.0.1 {self.server.port}", Change()))

    def _reconnect(self) -> None:
        """Let the partner's client lose its connection, and make one that is like it."""
        client = self._partner.connected()[APPLICATION]
        used, watched = client.use.name, [tube.name for tube in client.watch]
        self._partner.connect(APPLICATION)
        lines = [f"use {used}", *(f"watch {name}" for name in watched)]
        lines += [] if "default" in watched else ["ignore default"]
        self._partner.send(APPLICATION, "".join(f"{line}\r\n" for line in lines).encode())
        self._partner.read(APPLICATION)

    def _let_others_put(self) -> None:
        """Put a job that a reserve without a timeout gets, if there is no other."""
        [tube, *_] = self._partner.connected()[APPLICATION].watch
        put = b"use %b\r\nput 9 0 60 5\r\nother\r\n" % tube.name.encode()
        self._partner.send(OTHERS, put)
        self.server.engine.receive(self.server.other_client, put)
        self.transcript.append(f"  another client puts a job into {tube.name}")

    def _expected(self, question: str) -> Reply:
        """Return the reply of the partner."""
        self._partner.send(APPLICATION, command(question))
        number = self._partner.connected()[APPLICATION].id
        self.clock.run_until_answered(self._partner.model, number, self._partner.tick)
        [reply] = self._partner.replies(APPLICATION)
        return reply

    def _pass_until(self, now: int) -> None:
        self.clock.now = self.server.clock.now = now
        self._partner.tick()
        self.server.engine.tick()

    def _compare_jobs(self) -> Mismatch | None:
        """Compare the jobs of both models."""
        theirs, ours = (
            {
                id: f"{job.state.value} in {job.tube.name}, priority {job.pri}, delay {job.delay},"
                f" TTR {job.ttr}, body {escape(job.body)}"
                for id, job in model.jobs.items()
            }
            for model in (self.server.model, self._partner.model)
        )
        for id in sorted(theirs.keys() | ours.keys()):
            if theirs.get(id) != ours.get(id):
                expected = f"job {id} is {ours.get(id, 'not there')}"
                return Mismatch(expected, f"it is {theirs.get(id, 'not there')}")
        return None


def is_command(raw: bytes, verb: str) -> bool:
    """Tell whether a library does an operation by this command."""
    word = raw.split()[0].decode("latin-1") if raw.strip() else ""
    return word == verb or (word in RESERVES and verb in RESERVES)


def command(question: str) -> bytes:
    """Return the command that is named like an operation, with its arguments."""
    verb, *words = question.split()
    line, end = verb.encode(), b""
    for kind, word in zip(COMMANDS[verb].kinds, words, strict=True):
        if kind is ArgumentKind.SIZE:
            end = bytes.fromhex(word[1:]) + b"\r\n"
            word = str(len(end) - 2)
        line += b" " + (bytes.fromhex(word[1:]) if kind is ArgumentKind.TUBE else word.encode())
    return line + b"\r\n" + end


def _checks(verb: str, reply: Reply, record: CallRecord, is_usual: bool) -> Iterator[Check]:
    """Yield the checks of an answer to a command with this reply."""
    if not is_usual:
        yield fails
    elif reply.word in ("RESERVED", "FOUND"):
        yield gives(str(reply.args[0]), reply.body or b"")
    elif reply.word in ("INSERTED", "WATCHING") or (reply.word == "KICKED" and reply.args):
        yield gives(str(reply.args[0]))
    elif verb == "list-tube-used":
        yield gives(str(reply.args[0]).encode())
    elif reply.word == "OK":
        said = [one for one in record.replies if one.startswith(b"OK ")]
        text = said[-1] if verb in SERVER_WIDE and said else reply.encode()
        lines = text.splitlines()[2:]
        if verb.startswith("list"):
            yield names([line[2:] for line in lines if line.startswith(b"- ")])
        pairs = [line.split(b": ", 1) for line in lines if b": " in line]
        # Directed cases are about the other values, and about numbers with leading zeros.
        numbers = [pair for pair in pairs if re.fullmatch(rb"0|[1-9]\d*", pair[1])]
        yield has_all(numbers)
    else:
        yield succeeds
