"""The steps of a conversation as data, and how to take one.

Steps refer to jobs by the tag of the put that made them, and to connections by a number; so any of
them can be left out, and the rest still means something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from conformance.random_testing.session import Session


class Ask(NamedTuple):
    """A command of a client, its line end and its body included.

    ``job``: the tag of a job whose id belongs where ``text`` has ``%d``. ``tag``: what a put's job
    is called. ``apart``: not sent in one go with the step before, though the client is the same.
    ``hasty``: sent before the step before has been answered. ``cuts``: where it is cut into
    pieces, each of which is read by the target before the next is sent.
    """

    client: int
    text: bytes
    job: int | None = None
    tag: int | None = None
    apart: bool = False
    hasty: bool = False
    cuts: tuple[int, ...] = ()

    def asking(self, text: bytes) -> Ask:
        """Return the same with this text; where it does not name the job, it names none."""
        if self.job is None or b"%d" in text.replace(b"%%", b""):
            return self._replace(text=text)
        return self._replace(text=text.replace(b"%%", b"%"), job=None)


class Leave(NamedTuple):
    """A client closes its connection, or (``half``) sends nothing more and reads to the end.

    ``reset``: it closes at once, in the middle of a command perhaps.
    """

    client: int
    half: bool
    reset: bool = False


class Wait(NamedTuple):
    """Time passes, in seconds."""

    seconds: float


class Happen(NamedTuple):
    """The target gets a signal, as ``b"SIGUSR1"``, or is ended and started again."""

    event: bytes


Step = Ask | Leave | Wait | Happen
Program = Sequence[Step]


def waits(program: Program) -> float:
    """Return for how many seconds a program waits."""
    return sum(step.seconds for step in program if isinstance(step, Wait))


def play(session: Session, program: Program, look: bool = True) -> None:
    """Play a program to its end, see :meth:`Session.finish`; raises Violation or Inconclusive."""
    for step in program:
        take(session, step)
    session.finish(look)


def take(session: Session, step: Step) -> None:
    """Take one step; raises Violation or Inconclusive."""
    if isinstance(step, Ask):
        session.ask(*step)
    elif isinstance(step, Leave):
        session.leave(*step)
    elif isinstance(step, Wait):
        session.wait(step.seconds)
    else:
        session.happen(step.event)
