"""A player at wire speed that judges nothing, but sees which code of the target programs reach.

It is many times as fast as judged play, and need not leave out what would make judging hard.
Programs that reach something new are judged elsewhere.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from conformance.random_testing.job_tags import JobTags
from conformance.random_testing.steps import Ask, Leave, Program, Step
from conformance.target.target import Target
from conformance.target.transport import Transport
from fuzz.coverage import Coverage
from fuzz.undefined_input import Action
from reference_server.wire import CRLF, Reply

ROUND_TRIPS = 2
"""Round trips of another client, in which a server comes to what it was sent."""
_TOLD = re.compile(
    rb"^(INSERTED|BURIED) ([0-9]+)\r$|^(EXPECTED_CRLF|JOB_TOO_BIG|DRAINING)\r$", re.M
)
_MANY = 500
"""Commands that are sent in one go when jobs are deleted."""


class Turn(NamedTuple):
    """A turn of a program: the steps up to its end, and what it has reached."""

    end: int
    reached: int


class Lost(Exception):
    """The target does not answer any more; ``done`` is what it was told."""

    def __init__(self, done: Sequence[Action]) -> None:
        super().__init__()
        self.done = done


class Scout:
    """Plays programs on a target that is its own; ``coverage`` looks where that gets."""

    def __init__(self, target: Target, coverage: Coverage) -> None:
        self.target = target
        self._coverage = coverage
        self._observer: Transport | None = None
        self._neutral = target.profile.neutral + CRLF
        self._clients: dict[int, _Client] = {}
        self._tags = JobTags()
        self._last = 0
        self.done: list[Action] = []
        """The messages to the target since a program was begun."""

    def play(self, program: Program) -> list[Turn]:
        """Return what each turn of a program has reached, on a server without jobs; raises Lost."""
        self.done = []
        try:
            self._settle()
            self._coverage.take()
            turns = [Turn(end, self._take(steps)) for end, steps in turns_of(program)]
            self._clean_up()
        except (OSError, EOFError) as error:
            self.close()
            raise Lost(self.done) from error
        return turns

    def restart(self) -> None:
        """End the server and start it again."""
        self.close()
        self.target.restart()

    def close(self) -> None:
        """End all connections."""
        for client in self._clients.values():
            client.transport.close()
        self._clients.clear()
        self._tags.clear()
        self._last = 0
        if self._observer is not None:
            self._observer.close()
            self._observer = None

    def _take(self, steps: Sequence[Step]) -> int:
        for step in steps:
            if isinstance(step, Ask):
                self._ask(step)
            elif isinstance(step, Leave):
                self._leave(step)
        self._settle()
        for client in self._clients.values():
            self._hear(client)
        return self._coverage.take()

    def _ask(self, ask: Ask) -> None:
        client = self._clients.get(ask.client)
        if client is None or client.transport.ended:
            client = self._clients[ask.client] = _Client(self.target.connect(), deque())
        text = ask.text if ask.job is None else ask.text % self._tags.id(ask.job)
        if ask.tag is not None:
            client.puts.append(ask.tag)
            self._last += 1
            # It may be needed before the server tells.
            self._tags.name(ask.tag, self._last)
        sent = 0
        for cut in (*ask.cuts, len(text)):
            if sent:
                self._settle()
            self.done.append(Action(ask.client, text[sent:cut]))
            client.transport.send(text[sent:cut])
            sent = cut

    def _leave(self, leave: Leave) -> None:
        client = self._clients.get(leave.client)
        if client is None:
            return
        end = "resets" if leave.reset else "half-closes" if leave.half else "closes"
        self.done.append(Action(leave.client, b"", end))
        if end == "half-closes":
            client.transport.half_close()
            return
        del self._clients[leave.client]
        (client.transport.reset if leave.reset else client.transport.close)()

    def _hear(self, client: _Client) -> None:
        while data := client.transport.receive():
            for inserted, id, refused in _TOLD.findall(data):
                word = (inserted or refused).decode()
                if inserted:
                    self._last = max(self._last, int(id))
                self._tags.learn(client.puts, Reply("INSERTED" if id else word, (int(id or 0),)))

    # ------------------------------------------------------------ somebody else

    def _settle(self) -> None:
        """Let the target come to what it was sent; raises OSError if it serves no other client."""
        if self._observer is None or self._observer.ended:
            self._observer = self.target.connect()
        for _ in range(ROUND_TRIPS):
            self._say(self._neutral, 1)

    def _say(self, lines: bytes, count: int) -> None:
        """Say lines, and wait for as many replies of a line each."""
        observer = self._observer
        assert observer is not None
        observer.send(lines)
        while count > 0:
            data = observer.receive_within(self.target.limits.alive)
            if not data:
                raise EOFError
            count -= data.count(b"\n")

    def _clean_up(self) -> None:
        """End all clients, and delete all jobs, so that the next program finds nothing."""
        for client in self._clients.values():
            with contextlib.suppress(OSError):
                client.transport.close()
        self._clients.clear()
        self._settle()
        lines = [b"delete %d\r\n" % id for id in self._tags.ids()]
        for start in range(0, len(lines), _MANY):
            some = lines[start : start + _MANY]
            self._say(b"".join(some), len(some))
        if any(b"pause" in action.data for action in self.done):
            # Where there are no pauses, that is unknown.
            self._say(b"pause-tube default 0\r\n", 1)
        self._tags.clear()


class _Client(NamedTuple):
    """A client, and the tags of its puts that are not answered."""

    transport: Transport
    puts: deque[int]


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
