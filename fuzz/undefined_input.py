"""Undefined input: bytes that no text covers; a server must survive them and serve others.

Only that is judged. Clients send noise, stop in the middle, do not read, and are gone, while
another client goes on talking with the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

from conformance.oracle.underspecification import understood
from conformance.random_testing.delta_debugging import needed, with_plainer
from conformance.random_testing.steps import Ask, Leave, Program, Step
from conformance.random_testing.unjudged_clients import UnjudgedClients
from conformance.target.address import ask
from conformance.target.target import Target
from conformance.transcript import (
    CLIENT_CLOSES,
    CLIENT_ENDS,
    CLIENT_HALF_CLOSES,
    CLIENT_RESETS,
    Transcript,
    letters,
)
from conformance.verdict import Outage, OutcomeKind
from fuzz.mutate import Mutator
from reference_server.dialect import Dialect
from reference_server.profiles import Profile
from reference_server.wire import CRLF, ProtocolError

CLIENTS = 8
STEPS = 300
"""Steps of all clients together, in one go."""
EVERY = 10
"""Steps after which somebody else wants a reply."""
RECENT = 4
"""Jobs that commands are about, counted from the last one that was put."""
_ENDS = (CLIENT_CLOSES, CLIENT_RESETS, CLIENT_HALF_CLOSES)
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


def message(client: int, data: bytes) -> Ask:
    """Return the step in which bytes are sent, whatever has been answered before."""
    return Ask(client, data, apart=True, hasty=True)


def lines_of(program: Program) -> list[bytes]:
    """Return the bytes that are sent, line by line; the last of a step may be incomplete."""
    texts = (step.text for step in program if isinstance(step, Ask))
    return [line for text in texts for line in text.split(CRLF) if line]


def lines_of_fork(dialect: Dialect) -> tuple[bytes, ...]:
    """Return lines with the commands that a fork has added."""
    lines = [one.line + CRLF for one in dialect.added if one.grammar is not None]
    for one in dialect.added:
        verb = one.verb.encode()
        lines += [verb + behind for behind in (b"\r\n", b" a\r\n", b" 1\r\n", b" 5\r\nhello\r\n")]
    return tuple(lines)


def undefined_program(chance: Random, lines: tuple[bytes, ...] = ()) -> list[Step]:
    """Return what some clients of a new server do, where ids begin at 1.

    ``lines`` are said by them, besides the usual ones.
    """
    mutate = Mutator(chance)
    # As often as all the others.
    known = _LINES + lines * max(len(_LINES) // max(len(lines), 1), 1)
    made: list[Step] = []
    puts = 1
    for _ in range(STEPS):
        client = chance.randrange(CLIENTS)
        kind = chance.random()
        if kind < 0.1:
            made.append(Leave.by(client, mutate.pick(_ENDS)))
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
        made.append(message(client, data.replace(b"%d", b"%d" % job)))
        puts += data.count(b"put 0")
    return made


def smallest(done: list[Step], shows: Callable[[list[Step]], bool]) -> list[Step]:
    """Return the steps that are needed to show what these do, each with as few lines."""
    return with_single_lines(needed(done, shows), shows)


def with_single_lines(done: list[Step], shows: Callable[[list[Step]], bool]) -> list[Step]:
    """Return steps that send but the first of their lines, where that still shows it."""
    return with_plainer(done, _with_single_line, shows)


def _with_single_line(step: Step) -> Iterator[Step]:
    lines = lines_of([step])
    if isinstance(step, Ask) and len(lines) > 1:
        yield step._replace(text=lines[0] + CRLF)


class Survival(NamedTuple):
    """A target after some steps.

    ``wrong``: its deviation, if there is one. ``slowest``: the longest time that somebody else had
    to wait for a reply, in seconds. ``taken``: the number of steps until it was over.
    """

    wrong: Outage | None
    slowest: float
    taken: int


def survives(target: Target, done: Program, every: int = EVERY) -> Survival:
    """Return how a target survives these steps.

    After ``every`` of them, somebody else wants a reply.
    """
    clients = UnjudgedClients(target)
    slowest, taken = 0.0, 0
    try:
        with target.connect() as bystander:
            for taken, step in enumerate(done, 1):
                if isinstance(step, Ask):
                    clients.connect(step.client).send(step.text)
                elif isinstance(step, Leave):
                    # That somebody connects and says nothing may be too much, too.
                    clients.connect(step.client)
                    clients.leave(step)
                if taken % every == 0 or taken == len(done):
                    start = time.monotonic()
                    ask(bystander, target.sync_line, target.limits.reply)
                    slowest = max(slowest, time.monotonic() - start)
    except (OSError, EOFError, ProtocolError) as error:
        how = f"another client was not served: {str(error) or type(error).__name__}"
        return Survival(target.outage() or Outage(OutcomeKind.HANGS, how), slowest, taken)
    finally:
        clients.close()
    return Survival(target.outage(), slowest, taken)


def is_wild(transcript: Transcript, profile: Profile) -> bool:
    """Return whether none of the sent bytes can be judged, and no answer is recorded."""
    if any(entry.direction == "<" or not entry.connection for entry in transcript.entries):
        return False
    readers = understood(transcript.entries, profile)
    return any(reader.is_quirk or not reader.is_complete for reader in readers)


def steps_of(transcript: Transcript) -> list[Step]:
    """Return the steps of a transcript's clients, whose results are unpredictable."""
    names = list(dict.fromkeys(entry.connection for entry in transcript.entries))
    return [
        Leave.by(names.index(entry.connection), entry.data)
        if entry.direction == "!"
        else message(names.index(entry.connection), entry.data)
        for entry in transcript.entries
        if entry.direction == ">" or entry.data in CLIENT_ENDS
    ]


def transcript_of(done: Program) -> Transcript:
    """Return steps as a transcript without times."""
    names, transcript = list(islice(letters(), CLIENTS)), Transcript()
    for step in done:
        if isinstance(step, Ask):
            transcript.add(names[step.client], ">", step.text, 0.0)
        elif isinstance(step, Leave):
            transcript.add(names[step.client], "!", step.event, 0.0)
    return transcript
