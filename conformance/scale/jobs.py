"""The jobs that a server must have, as sums: none lost, none twice, none early, none out of order.

Each job has its priority in its body, and whether it is delayed for days. So a client that gets it
can tell whether it was due, without a table of all jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

READY, DELAYED = b"r", b"d"
SMALLEST = 11
"""Bytes of the smallest body: a priority in ten digits, and whether it is ready."""


class WrongAnswer(Exception):
    """A server has done what no server may; the text says what, in one sentence."""


def body(pri: int, is_delayed: bool, size: int = SMALLEST) -> bytes:
    """Return the body of a job."""
    return (b"%010d" % pri + (DELAYED if is_delayed else READY)).ljust(size, b"x")


class Sums(NamedTuple):
    """The number of jobs, and two sums of their ids, which no lost or doubled one leaves equal."""

    jobs: int = 0
    total: int = 0
    parity: int = 0

    def changed(self, ids: Iterable[int], sign: int) -> Sums:
        """Return the sums with more jobs, or with fewer if ``sign`` is -1."""
        jobs, total, parity = self
        for id in ids:
            jobs, total, parity = jobs + sign, total + sign * id, parity ^ id
        return Sums(jobs, total, parity)


class Jobs:
    """Takes each reply about jobs, and raises :class:`WrongAnswer` at the first impossible one."""

    def __init__(self) -> None:
        self.sums = Sums()

    def put(self, ids: list[int]) -> None:
        """Take the ids of new jobs."""
        if len({*ids}) < len(ids):
            raise WrongAnswer("two jobs got the same id")
        self.sums = self.sums.changed(ids, 1)

    def delete(self, ids: Iterable[int]) -> None:
        """Take the ids of jobs that were deleted."""
        self.sums = self.sums.changed(ids, -1)

    def reserve(self, found: list[tuple[int, bytes]], is_ordered: bool) -> None:
        """Take jobs that were reserved one after the other; ``is_ordered``: from one queue."""
        if len({id for id, _ in found}) < len(found):
            raise WrongAnswer("a job was reserved twice")
        before = -1
        for id, data in found:
            if not data[:10].isdigit():
                raise WrongAnswer(f"job {id} came back with another body")
            if data[10:11] == DELAYED:
                raise WrongAnswer(f"job {id} was reserved days too early")
            pri = int(data[:10])
            if is_ordered and pri < before:
                raise WrongAnswer(f"job {id} of priority {pri} came after one of priority {before}")
            before = pri

    def end(self) -> None:
        """Check that all jobs have come, now that they were all taken out."""
        if self.sums.jobs:
            fewer = "fewer" if self.sums.jobs > 0 else "more"
            raise WrongAnswer(f"{abs(self.sums.jobs)} {fewer} jobs came out than were put in")
        if self.sums.total or self.sums.parity:
            raise WrongAnswer("other jobs came out than were put in")
