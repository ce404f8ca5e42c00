"""A player at wire speed that judges nothing, and observes which code programs reach.

It is many times as fast as judged play, and need not leave out what would make judging hard.
Programs that reach something new are judged elsewhere, and so are those to which the target
replies otherwise than the reference model.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from conformance.random_testing.job_tags import JobTags
from conformance.random_testing.steps import Ask, Leave, Program, Step
from conformance.random_testing.unjudged_clients import UnjudgedClients
from conformance.target.target import Target
from conformance.target.transport import Transport
from fuzz.coverage import Coverage
from fuzz.model_comparison import NOTHING, ModelComparison
from fuzz.suppression import Signature, signature
from fuzz.undefined_input import message
from reference_server.wire import CRLF, Reply

ROUND_TRIPS = 2
"""Round trips of another client, in which a server comes to what it was sent."""
_FLOOD = 2**26
"""Bytes that no program of scouts makes a server say in one turn."""
_LATE = 10
"""Times that scouts listen once more for what should have come."""
_PUT_REPLY = re.compile(
    rb"^(INSERTED|BURIED) ([0-9]+)\r$|^(EXPECTED_CRLF|JOB_TOO_BIG|DRAINING)\r$", re.M
)
_MANY = 500
"""Commands that are sent in one go when jobs are deleted."""
_MOST_IDS = 10_000
"""Ids that are tried to delete all jobs; a server that has given more is started anew."""
_PROBE = b"put 0 0 120 0\r\n\r\n"


class ScoutTurn(NamedTuple):
    """A turn of a program: the steps up to its end, and what it has reached."""

    end: int
    reached: int


class Discrepancy(NamedTuple):
    """A turn in which the target replied otherwise than the model: the steps up to its end."""

    end: int
    kind: Signature
    is_silent: bool
    """A reply is missing, or has come where none should."""


class TargetFellSilent(Exception):
    """The target does not answer any more; ``done`` is what it was sent."""

    def __init__(self, done: Program) -> None:
        super().__init__()
        self.done = done


class Scout:
    """Plays programs on a target that is its own; ``coverage`` looks where that gets."""

    def __init__(self, target: Target, coverage: Coverage) -> None:
        self.target = target
        self._coverage = coverage
        self._observer: Transport | None = None
        self._neutral = target.profile.neutral + CRLF
        self._clients = UnjudgedClients(target)
        self._puts: dict[int, deque[int]] = {}
        """The tags of each client's puts that are not answered."""
        self._tags = JobTags()
        self._last = 0
        self._sending = 0
        self._unsent = bytearray()
        """The unsent bytes of the client ``_sending``."""
        self._next_id = 1
        """The id that the next job is taken to get; a new server most likely begins with 1."""
        self._probed = 1
        """The same when that was seen last."""
        self._comparison = ModelComparison(target.profile, self._next_id)
        """The model that is sent the same."""
        self.discrepancies: list[Discrepancy] = []
        """The turns of the last program that the model did not predict, up to a missing reply."""
        self.done: list[Step] = []
        """The messages to the target since a program was begun."""

    def play(self, program: Program) -> list[ScoutTurn]:
        """Play a program on a server without jobs; return its turns; raises TargetFellSilent."""
        self.done, self.discrepancies, turns = [], [], []
        try:
            self._settle()
            self._comparison = ModelComparison(self.target.profile, self._next_id)
            self._coverage.take()
            for end, steps in turns_of(program):
                turns.append(ScoutTurn(end, self._take(steps)))
                self._compare(end, steps)
            self._clean_up()
        except (OSError, EOFError) as error:
            self.close()
            raise TargetFellSilent(self.done) from error
        return turns

    def restart(self) -> None:
        """End the server and start it again."""
        self.close()
        self.target.restart()

    def close(self) -> None:
        """End all connections."""
        self._clients.close()
        self._tags.clear()
        self._unsent.clear()
        self._last = 0
        self._next_id = self._probed = 1
        if self._observer is not None:
            self._observer.close()
            self._observer = None

    def _take(self, steps: Sequence[Step]) -> int:
        for step in steps:
            if isinstance(step, Ask):
                self._ask(step)
            elif isinstance(step, Leave):
                self._leave(step)
        self._send()
        self._listen()
        for _ in range(_LATE):
            # Some servers handle a command of each client in turn.
            if not self._comparison.is_ahead:
                break
            self._listen()
        return self._coverage.take()

    def _listen(self) -> None:
        self._settle()
        for number, transport in self._clients.transports.items():
            self._hear(number, transport)

    def _compare(self, end: int, steps: Sequence[Step]) -> None:
        """Compare what clients got in a turn with what the model says."""
        difference = self._comparison.difference()
        if difference is None:
            return
        number, position, due, came = difference
        asks = [step for step in steps if isinstance(step, Ask) and step.client == number]
        line = asks[min(position, len(asks) - 1)].text.partition(CRLF)[0] if asks else b""
        kind = signature(line, due, came)
        self.discrepancies.append(Discrepancy(end, kind, NOTHING in (due, came)))

    def _ask(self, ask: Ask) -> None:
        if not self._clients.is_connected(ask.client):
            self._clients.connect(ask.client)
            self._puts[ask.client] = deque()
            self._comparison.connect(ask.client)
        text = ask.text if ask.job is None else ask.text % self._tags.id(ask.job)
        if ask.tag is not None:
            self._puts[ask.client].append(ask.tag)
            self._last += 1
            # It may be needed before the server replies.
            self._tags.name(ask.tag, self._last)
        if self._sending != ask.client:
            self._send()
            self._sending = ask.client
        sent = 0
        for cut in ask.cuts:
            self._unsent += text[sent:cut]
            self._send()
            self._settle()
            sent = cut
        self._unsent += text[sent:]

    def _send(self) -> None:
        """Send what a client says in one go."""
        number, data = self._sending, bytes(self._unsent)
        self._unsent.clear()
        if number not in self._clients.transports or not data:
            return
        self.done.append(message(number, data))
        self._clients.transports[number].send(data)
        self._comparison.send(number, data)

    def _leave(self, leave: Leave) -> None:
        self._send()
        if leave.client not in self._clients.transports:
            return
        self.done.append(leave)
        self._comparison.is_off |= self._comparison.is_behind(leave.client)
        if leave.half and not leave.reset:
            self._comparison.half_close(leave.client)
        else:
            self._comparison.close(leave.client)
        self._clients.leave(leave)

    def _hear(self, number: int, transport: Transport) -> None:
        left = _FLOOD
        while data := transport.receive():
            left -= len(data)
            if left < 0:
                raise EOFError
            self._comparison.observe(number, data)
            for inserted, id, refused in _PUT_REPLY.findall(data):
                word = (inserted or refused).decode()
                if inserted:
                    self._last = max(self._last, int(id))
                self._tags.learn(
                    self._puts[number], Reply("INSERTED" if id else word, (int(id or 0),))
                )

    # ------------------------------------------------------------ somebody else

    def _settle(self) -> None:
        """Synchronise with the target; raises OSError if it serves no other client."""
        if self._observer is None or self._observer.ended:
            self._observer = self.target.connect()
        for _ in range(ROUND_TRIPS):
            self._say(self._neutral, 1)

    def _say(self, lines: bytes, count: int) -> bytes:
        """Say lines; wait for as many replies of a line each, and return them."""
        observer = self._observer
        assert observer is not None
        observer.send(lines)
        replies = b""
        while replies.count(b"\n") < count:
            data = observer.receive_within(self.target.limits.alive)
            if not data or len(replies) > _FLOOD:
                raise EOFError
            replies += data
        return replies

    def _probe(self) -> int:
        """Return the id of the next job."""
        match = _PUT_REPLY.match(self._say(_PROBE, 1))
        last = int(match[2] or 0) if match is not None else 0
        self._say(b"delete %d\r\n" % last, 1)
        self._last, self._probed = last, last + 1
        return self._probed

    def _clean_up(self) -> None:
        """End all clients, and delete all jobs, so that the next program finds nothing."""
        for number in self._clients.transports:
            self._comparison.is_off |= self._comparison.is_behind(number)
        self._clients.close()
        self._settle()
        first_id = self._next_id
        if self._comparison.is_off or self.discrepancies:
            # It may have been wrong for long.
            first_id = self._probed
            self._next_id = self._probe()
        else:
            self._next_id = self._comparison.next_id
        if self._next_id > first_id + _MOST_IDS:
            self.restart()
            return
        ids = {*self._tags.ids(), *range(first_id, self._next_id)}
        lines = [b"delete %d\r\n" % id for id in ids]
        for start in range(0, len(lines), _MANY):
            some = lines[start : start + _MANY]
            self._say(b"".join(some), len(some))
        if any(isinstance(step, Ask) and b"pause" in step.text for step in self.done):
            # Where there are no pauses, that is unknown.
            self._say(b"pause-tube default 0\r\n", 1)
        self._tags.clear()


def turns_of(program: Program) -> Iterator[tuple[int, Sequence[Step]]]:
    """Yield the turns, whose steps are sent in one go, and the number of steps up to their end."""
    start = 0
    for number, step in enumerate(program):
        if number > start and begins_turn(step, program[number - 1]):
            yield number, program[start:number]
            start = number
    if start < len(program):
        yield len(program), program[start:]


def begins_turn(step: Step, before: Step) -> bool:
    """Return whether a step is not done in one go with the one before."""
    if not (isinstance(step, Ask) and isinstance(before, Ask)):
        return True
    return not step.hasty and (step.apart or step.client != before.client)
