"""Random programs: what an application asks of its library, and how the server's replies arrive.

Jobs are named by the tag of the put that makes them, so that any call can be left out and the rest
still means something. A *feature* is anything that a program can do without, such as a verb, a body
or disconnects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from conformance.clients.cases import BODIES
from conformance.clients.protocol import data
from conformance.clients.server import PLAIN, Change, End
from reference_server.commands import COMMANDS, ArgumentKind

DISCONNECTS, SEGMENTS = "disconnects", "segments"
VERBS = tuple(verb for verb in COMMANDS if verb != "quit")
"""Operations of programs; after a ``quit``, there is nothing to compare."""
ERRORS = {
    "OUT_OF_MEMORY": VERBS,
    "INTERNAL_ERROR": VERBS,
    "DRAINING": ("put",),
    "JOB_TOO_BIG": ("put",),
}
"""Errors that a conforming server may reply at any time, and to which commands."""
ALWAYS = ("wait", "connect")
"""Calls of every program: time passes, or there is a new client."""
CORE = {
    "put": 12,
    "reserve-with-timeout": 12,
    "delete": 6,
    "release": 4,
    "bury": 4,
    "use": 5,
    "watch": 5,
    "ignore": 5,
}
WEIGHTS = {**dict.fromkeys(VERBS, 3), **CORE, "wait": 4, "connect": 2}
"""The chances of operations; each program has some of the core, and a third of the others."""
TUBES = (b"default", b"a", b"ub", b"A-+/;.$_()9")
NUMBERS = {
    ArgumentKind.PRIORITY: (0, 1, 7, 1024),
    ArgumentKind.SECONDS: (0, 0, 0, 1, 3),
    ArgumentKind.TIMEOUT: (0, 0, 1, 5),
    ArgumentKind.COUNT: (1, 2, 100),
}
TTRS = (1, 2, 60, 60)
CONTENTS = {f"body-{name}": body for name, body in BODIES.items() if len(body) < 1000}
"""Bodies; single bytes of long ones would take the time of many programs."""
FEATURES = frozenset({*VERBS, *ERRORS, *CONTENTS, DISCONNECTS, SEGMENTS})
LENGTHS = (6, 12, 24, 48)
"""Calls of a program."""
PIECES = (
    Change(every=True, chunk=1),
    Change(every=True, chunk=2),
    Change(every=True, chunk=9, delay=0.0003),
    Change(every=True, delay=0.003),
    *(Change(every=True, pause=size, delay=0.0005) for size in (1, 5, 9, 10, 13, 20)),
)
"""The ways in which replies are cut into segments."""
ERROR_RATE, CUT_RATE = 0.06, 0.15
"""The chance of an error, and of a disconnect during a reply or after it."""
LONGEST_CUT = 30
"""Bytes of a reply before a disconnect; most replies are shorter."""


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A question in which ``#3`` is the id of the job with the tag 3; ``tag``: that of a put.

    ``wait SECONDS`` is no question: time passes in the server. ``connect`` has no arguments here.
    ``change`` alters the reply.
    """

    question: str
    tag: int = 0
    change: Change = PLAIN

    @property
    def verb(self) -> str:
        """The operation."""
        return self.question.split()[0]


ClientProgram = list[ProgramCall]


def write_program(chance: Random) -> ClientProgram:
    """Make up a program. It begins after the first ``connect``."""
    pieces = chance.choice((PLAIN, *PIECES))
    program: ClientProgram = []
    tags = deletes = 0
    tubes = chance.sample(TUBES, chance.choice((1, 2, 4)))
    # Swarm testing (Groce et al., 2012): a program with few operations has more of each.
    weights = [
        weight * chance.choice((1, 1, 4) if verb in CORE else (0, 0, 1))
        for verb, weight in WEIGHTS.items()
    ]
    for verb in chance.choices([*WEIGHTS], weights, k=chance.choice(LENGTHS)):
        change, danger = pieces, chance.random()
        error = chance.choice([*ERRORS])
        if danger < ERROR_RATE and verb in ERRORS[error]:
            change = replace(pieces, says=error.encode() + b"\r\n", times=1)
        elif danger > 1 - CUT_RATE and verb in VERBS:
            end: End = "reset" if chance.random() < 0.5 else "close"
            change = Change(cut=chance.randrange(LONGEST_CUT), end=end, times=1)
        tags += verb == "put"
        deletes += verb == "delete"
        kinds = COMMANDS[verb].kinds if verb in COMMANDS else ()
        words = [verb, *(_argument(kind, chance, tubes, tags, deletes) for kind in kinds)]
        if verb == "put":
            words[3] = str(chance.choice(TTRS))
        elif verb == "wait":
            words.append(str(chance.choice(TTRS)))
        program.append(ProgramCall(" ".join(words), tags if verb == "put" else 0, change))
    return program


def limited(program: ClientProgram, features: Collection[str]) -> ClientProgram:
    """Return what is left of a program with these features."""
    return [_limited(call, features) for call in program if call.verb in (*features, *ALWAYS)]


def _limited(call: ProgramCall, features: Collection[str]) -> ProgramCall:
    change, question = call.change, call.question
    if SEGMENTS not in features:
        change = replace(change, every=False, chunk=0, pause=None, delay=0.0)
    if DISCONNECTS not in features:
        change = replace(change, cut=None)
    if change.says is not None and change.says.strip().decode() not in features:
        change = replace(change, says=None)
    for name, body in CONTENTS.items():
        if name not in features and call.verb == "put":
            question = question.replace(f" {data(body)}", " x61")
    return replace(call, question=question, change=change)


def _argument(
    kind: ArgumentKind, chance: Random, tubes: Sequence[bytes], tags: int, deletes: int
) -> str:
    if kind is ArgumentKind.JOB:
        # Often the oldest that is left, sometimes one that no server has.
        oldest = min(deletes + 1, tags + 1)
        return f"#{chance.choice((oldest, oldest, chance.randint(1, tags + 1)))}"
    if kind is ArgumentKind.TUBE:
        return data(chance.choice(tubes))
    if kind is ArgumentKind.SIZE:
        return data(chance.choice((b"a", *CONTENTS.values())))
    return str(chance.choice(NUMBERS[kind]))


def plainer_calls(call: ProgramCall) -> Iterator[ProgramCall]:
    """Yield plainer forms of a call, the plainest first."""
    plain = "put 0 0 60 x61" if call.verb == "put" else call.question
    in_one_piece = replace(call.change, chunk=0, pause=None, delay=0.0, every=False)
    for question in (plain, call.question):
        for change in (PLAIN, in_one_piece, call.change):
            yield replace(call, question=question, change=change)
