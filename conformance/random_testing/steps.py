"""The steps of a conversation as data.

Steps refer to jobs by the tag of the put that made them, and to connections by a number; so any of
them can be left out, and the rest still means something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conformance.transcript import CLIENT_CLOSES, CLIENT_HALF_CLOSES, CLIENT_RESETS


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

    @classmethod
    def by(cls, client: int, event: bytes) -> Leave:
        """Return the step that a transcript tells by this event."""
        return cls(client, event == CLIENT_HALF_CLOSES, event == CLIENT_RESETS)

    @property
    def event(self) -> bytes:
        """The event by which a transcript tells it."""
        return CLIENT_RESETS if self.reset else CLIENT_HALF_CLOSES if self.half else CLIENT_CLOSES


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
