"""Plays programs on a target, generated on the fly or recorded."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Protocol

from conformance.random_testing.session import Session
from conformance.random_testing.steps import Ask, Leave, Step, Wait
from fuzz.program import BRISK, MOVED, REAL, Times, Writer
from reference_server.model import Model

CLIENTS = range(1, 4)
COMMANDS = 300
"""Commands of one program; a longer one is no better, and takes longer to shrink."""
MANY = 10_000
"""The same where speed matters."""
WAITS = 0.01
"""The chance of a step in which time passes."""
BURSTS = (1, 1, 1, 2, 3, 8, 20, 64)
"""Commands that are sent in one go."""
OVERLAPS = 0.01
"""The chance that a client does not wait for another's replies, or sends more while it waits."""
LONG_BURSTS = (256, 512, 1024)
"""The same where speed matters."""


def second_gear(
    session: Session, chance: Random, brisk: bool = False, commands: int = COMMANDS
) -> Iterator[Step]:
    """Return a program of the second gear. ``brisk``: fast and long, where nothing is timed."""
    times = BRISK if brisk else MOVED if session.target.clock.movable else REAL
    return ProgramAuthor(session, chance, times).steps(MANY if brisk else commands)


class ProgramStage(Protocol):
    """The place where a program is played: a target that is judged by a model, or one alone."""

    @property
    def model(self) -> Model: ...
    @property
    def is_open(self) -> bool: ...
    def tag(self, id: int) -> int | None: ...
    def conn(self, number: int) -> int: ...
    def may_ask(self, number: int) -> bool: ...
    def is_clear(self, number: int) -> bool: ...


class ProgramAuthor:
    """Makes up a program of ``commands`` commands step by step, while it is played.

    Choices depend on the model, never on what the target says.
    """

    def __init__(self, stage: ProgramStage, chance: Random, times: Times) -> None:
        self._stage = stage
        self._chance = chance
        self._brisk = times is BRISK
        self._times = times
        self._writer = Writer(chance, times, stage.tag)
        profile = stage.model.profile
        at_once = b"reserve-with-timeout 0" if profile.has_timeouts else profile.neutral
        self._instead = at_once + b"\r\n"

    def steps(self, commands: int) -> Iterator[Step]:
        """Yield the steps; each must be taken before the next is asked for."""
        chance = self._chance
        while commands > 0:
            if self._brisk and self._stage.is_open:
                return
            kind = chance.random()
            free = [number for number in CLIENTS if self._stage.may_ask(number)]
            if self._times.waits and (kind < WAITS or not (free or kind < 0.5)):
                commands -= 1
                # Odd times, so that few delays end together: which is first, then, is unspecified.
                yield Wait(chance.choice(self._times.waits) + chance.randrange(1000) / 1000)
                continue
            if kind < WAITS + 0.015 or not free:
                client = chance.choice(CLIENTS)
                if free and chance.random() < 0.2:
                    # Its last command is not complete.
                    client = chance.choice(free)
                    conn = self._stage.conn(client)
                    last = self._writer.ask(self._stage.model, client, conn)
                    keep = int(chance.random() * (len(last.text) - 2))
                    if b"%" not in last.text:
                        yield last._replace(apart=True, tag=None, text=last.text[:keep])
                elif client in free and chance.random() < 0.2:
                    # Nothing that comes together with it is done.
                    behind = chance.choice((b"", b"put 0 0 1 1\r\na\r\n"))
                    yield Ask(client, b"quit\r\n" + behind, apart=True)
                yield Leave(client, half=chance.random() < 0.5)
                continue
            length = chance.choice(LONG_BURSTS if self._brisk else BURSTS)
            burst = self._burst(chance.choice(free), length)
            for step in burst:
                commands -= 1
                yield step

    def _may_wait(self, conn: int) -> bool:
        """Return whether a client may ask for a job though it will wait: one does, now and then.

        Where several wait, much is open when a job comes.
        """
        model = self._stage.model
        if any(tube.ready and not tube.pause for tube in model.connections[conn].watch):
            return True
        waiting = sum(other.waiting for other in model.connections.values())
        if self._brisk:
            return not waiting and self._chance.random() < 0.01
        return self._chance.random() < (0.1 if waiting else 0.5)

    def _burst(self, client: int, length: int) -> Iterator[Step]:
        stage = self._stage
        hasty = not self._brisk and self._chance.random() < OVERLAPS
        stubborn = not self._brisk and self._chance.random() < OVERLAPS
        for number in range(length):
            conn = stage.conn(client)
            ask = self._writer.ask(stage.model, client, conn)
            text = ask.text
            if (text.startswith(b"reserve") and not self._may_wait(conn)) or (
                # When exactly a pause of 0 ends is open.
                self._brisk and text.startswith(b"pause") and text.endswith(b" 0\r\n")
            ):
                ask = Ask(client, self._instead)
            if number:
                yield ask
            else:
                cut = int(self._chance.random() * len(ask.text)) if length < 3 else 0
                cuts = (cut,) if cut else ()
                yield ask._replace(apart=True, hasty=hasty, cuts=cuts)
            if not stage.is_clear(client) and (number > 3 or not stubborn):
                return
