"""Undefined input: bytes that no text covers; a server must survive them and serve others.

Only that is judged. Clients send noise, stop in the middle, do not read, and are gone, while
another client goes on talking with the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

from conformance.oracle.underspecification import understood
from conformance.random_testing.delta_debugging import needed, with_plainer
from conformance.target.address import ask
from conformance.target.target import Target
from conformance.target.transport import Transport
from conformance.transcript import (
    CLIENT_CLOSES,
    CLIENT_HALF_CLOSES,
    CLIENT_RESETS,
    Direction,
    Transcript,
    letters,
)
from conformance.verdict import Fate, OutcomeKind
from fuzz.mutate import Mutator
from reference_server.dialect import Dialect
from reference_server.profiles import Profile
from reference_server.wire import CRLF, ProtocolError

CLIENTS = 8
ACTIONS = 300
"""Actions of all clients together, in one go."""
EVERY = 10
"""Actions after which somebody else wants a reply."""
RECENT = 4
"""Jobs that commands are about, counted from the last one that was put."""
_LINES = (
    *(
        b"put 0 0 60 5\r\nhello\r\n",
        b"reserve-with-timeout 0\r\n",
        b"delete %d\r\n",
        b"peek %d\r\n",
    ),
    *(b"reserve\r\n", b"stats\r\n", b"watch a\r\n", b"use a\r\n", b"kick 9\r\n", b"bury %d 0\r\n"),
    *(
        b"pause-tube a 0\r\n",
        b"touch %d\r\n",
        b"release %d 0 0\r\n",
        b"stats-job %d\r\n",
        b"quit\r\n",
    ),
    *(
        b"put 0 0 1 2147483648\r\n",
        b"put 0 1 1 0\r\n\r\n",
        b"list-tubes\r\n",
        b"ignore default\r\n",
    ),
)


class UndefinedAction(NamedTuple):
    """A client sends something, or (``end``) closes, resets, or half-closes its connection."""

    client: int
    data: bytes
    end: str = ""

    @property
    def lines(self) -> list[bytes]:
        """Return the sent bytes line by line, the beginning of a line included."""
        return [line for line in self.data.split(CRLF) if line]


def lines_of_fork(dialect: Dialect) -> tuple[bytes, ...]:
    """Return lines with the commands that a fork has added."""
    lines = [one.line + CRLF for one in dialect.added if one.grammar is not None]
    for one in dialect.added:
        verb = one.verb.encode()
        lines += [verb + behind for behind in (b"\r\n", b" a\r\n", b" 1\r\n", b" 5\r\nhello\r\n")]
    return tuple(lines)


def actions(chance: Random, lines: tuple[bytes, ...] = ()) -> list[UndefinedAction]:
    """Return the actions of some clients of a new server, where ids begin at 1.

    ``lines`` are said by them, besides the usual ones.
    """
    mutate = Mutator(chance)
    # As often as all the others.
    known = _LINES + lines * max(len(_LINES) // max(len(lines), 1), 1)
    made: list[UndefinedAction] = []
    puts = 1
    for _ in range(ACTIONS):
        client = chance.randrange(CLIENTS)
        kind = chance.random()
        if kind < 0.1:
            made.append(
                UndefinedAction(client, b"", mutate.pick(("closes", "resets", "half-closes")))
            )
            continue
        if kind < 0.3:
            data = chance.randbytes(chance.randrange(1, 300))
        elif kind < 0.9:
            data = mutate(mutate.pick(known))
        else:
            data = mutate.pick(known) * 50
        if chance.random() < 0.2:
            # A CR at any place.
            at = chance.randrange(len(data) + 1)
            data = data[:at] + b"\r" + data[at:]
        # Several clients are about the same few jobs, at the same moment perhaps.
        job = max(puts - chance.randrange(RECENT), 1)
        made.append(UndefinedAction(client, data.replace(b"%d", b"%d" % job)))
        puts += data.count(b"put 0")
    return made


def smallest(
    done: list[UndefinedAction], shows: Callable[[list[UndefinedAction]], bool]
) -> list[UndefinedAction]:
    """Return the actions that are needed to show what these do, each with as few lines."""
    return with_single_lines(needed(done, shows), shows)


def with_single_lines(
    done: list[UndefinedAction], shows: Callable[[list[UndefinedAction]], bool]
) -> list[UndefinedAction]:
    """Return actions that send but the first of their lines, where that still shows it."""
    return with_plainer(done, _with_single_line, shows)


def _with_single_line(action: UndefinedAction) -> Iterator[UndefinedAction]:
    if len(action.lines) > 1:
        yield action._replace(data=action.lines[0] + CRLF)


class Survival(NamedTuple):
    """A target after some actions.

    ``wrong``: its deviation, if there is one. ``slowest``: the longest time that somebody else had
    to wait for a reply, in seconds. ``taken``: the number of actions until it was over.
    """

    wrong: Fate | None
    slowest: float
    taken: int


def survives(target: Target, done: Sequence[UndefinedAction], every: int = EVERY) -> Survival:
    """Return how a target survives these actions.

    After ``every`` of them, somebody else wants a reply.
    """
    clients: dict[int, Transport] = {}
    slowest, taken = 0.0, 0
    try:
        with target.connect() as bystander:
            for taken, action in enumerate(done, 1):
                _take(target, clients, action)
                if taken % every == 0 or taken == len(done):
                    start = time.monotonic()
                    ask(bystander, target.sync_line, target.limits.reply)
                    slowest = max(slowest, time.monotonic() - start)
    except (OSError, EOFError, ProtocolError) as error:
        how = f"another client was not served: {str(error) or type(error).__name__}"
        return Survival(target.fate() or Fate(OutcomeKind.HANGS, how), slowest, taken)
    finally:
        for client in clients.values():
            client.close()
    return Survival(target.fate(), slowest, taken)


def _take(target: Target, clients: dict[int, Transport], action: UndefinedAction) -> None:
    client = clients.get(action.client)
    if client is None:
        client = clients[action.client] = target.connect()
    if not action.end:
        client.send(action.data)
    elif action.end == "half-closes":
        client.half_close()
    else:
        del clients[action.client]
        end = client.reset if action.end == "resets" else client.close
        end()


def is_wild(transcript: Transcript, profile: Profile) -> bool:
    """Return whether none of the sent bytes can be judged, and no answer is recorded."""
    if any(entry.direction == "<" or not entry.connection for entry in transcript.entries):
        return False
    readers = understood(transcript.entries, profile)
    return any(reader.is_quirk or not reader.is_complete for reader in readers)


def actions_of(transcript: Transcript) -> list[UndefinedAction]:
    """Return the actions of a transcript's clients whose results nobody can predict."""
    names = list(dict.fromkeys(entry.connection for entry in transcript.entries))
    return [
        UndefinedAction(names.index(entry.connection), b"", entry.data.decode())
        if entry.direction == "!"
        else UndefinedAction(names.index(entry.connection), entry.data)
        for entry in transcript.entries
        if entry.direction == ">"
        or entry.data in (CLIENT_CLOSES, CLIENT_RESETS, CLIENT_HALF_CLOSES)
    ]


def told(done: Sequence[UndefinedAction]) -> Transcript:
    """Return actions as a transcript; nobody has looked at the time."""
    names, transcript = list(islice(letters(), CLIENTS)), Transcript()
    for action in done:
        direction: Direction = "!" if action.end else ">"
        transcript.add(names[action.client], direction, action.end.encode() or action.data, 0.0)
    return transcript
