"""Thousands of commands in one go: only the end of all their replies is awaited.

The replies are not parsed, so that a test is as fast as the server. They are in the transcript only
where some are missing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from conformance.dialogue.connection import Connection, command_of
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.usual_answers import IN_STEP, usual_answer
from conformance.verdict import Deviation, NotTestable, OutcomeKind, Step
from reference_server.wire import CRLF, UNKNOWN_COMMAND, USING

TRIES, SLOW = 5, 0.005
"""Round trips that are measured, and the seconds of each from which on a target is too slow."""
MUCH, NAP = 10_000, 0.001
"""Bytes of commands after which replies are collected for so many seconds."""
ROOM = 2**18
"""Bytes that are sent at once, so that neither side has to keep much."""
FIRST = 250
"""Jobs that are put at first where it is not known how many there is time for."""
SECONDS, BUSY = 0.5, 3
"""Seconds of CPU time in which jobs are put, and tubes are made: then no more follow, nor after as
many times as long on a busy machine."""


def has_time(resources: Resources) -> Callable[[], bool]:
    """Return a predicate: there is time left to make more."""
    ran, end = resources.cpu_time().ran + SECONDS, time.monotonic() + BUSY * SECONDS
    return lambda: resources.cpu_time().ran < ran and time.monotonic() < end


def shortfall(done: int, most: int, what: str) -> str:
    """Return how much of so much a slow server has done; empty if all."""
    return "" if done >= most else f"{done:,} of {most:,} {what}"


def put_of(body: bytes) -> bytes:
    """Return the put of a job with this body."""
    return b"put 0 0 1000 %d\r\n%b\r\n" % (len(body), body)


class Bulk:
    """A client that sends much; raises NotTestable if the target is not made for that."""

    def __init__(self, client: Connection, server: Target) -> None:
        if not server.traits.pipelines:
            raise NotTestable("needs a target that takes several commands at once")
        self._client = client
        self._transport = client.transport
        self._seconds = server.limits.reply
        # What is asked has no such reply.
        self._last, self._end = b"end\r\n", UNKNOWN_COMMAND.encode()
        if server.traits.has_tubes:
            tubes = (f"{client.tube}-end", client.tube)
            self._last = "".join(f"use {tube}\r\n" for tube in tubes).encode()
            self._end = b"".join(USING(tube).encode() for tube in tubes)
            client.go_to(*(f"use {tube}" for tube in tubes))
        if (seconds := min(self.seconds() for _ in range(TRIES))) > SLOW:
            raise NotTestable(f"needs a faster target: a round trip takes {1000 * seconds:.0f} ms")

    def ask(self, data: bytes) -> bytes:
        """Send commands, and return all their replies; raises Deviation if some do not come."""
        self._transport.send(data + self._last)
        came, seconds = bytearray(), self._seconds
        limit = time.monotonic() + seconds
        while not came.endswith(self._end):
            part = self._transport.receive_within(seconds)
            if part:
                came += part
                limit = time.monotonic() + seconds
                # A server that wakes us up with each reply would be slower.
                time.sleep(NAP if len(data) > MUCH else 0)
            elif self._transport.ended or time.monotonic() > limit:
                raise self._missing(data, came)
        return bytes(came[: -len(self._end)])

    def _missing(self, data: bytes, came: bytearray) -> Deviation:
        ended = "the target closed the connection" if self._transport.ended else ""
        observed = ended or f"nothing more within {self._seconds:g} seconds"
        data, command = data + self._last, command_of(data or self._last)
        marked = None
        if len(data) + len(came) < MUCH:
            marked = self._client.passed(data, bytes(came))
        expected = f"replies to {data.count(CRLF):,} lines, the first of which is {command}"
        if ended and (lost := self._client.lost(expected, command, marked)):
            lost.owner = usual_answer(command, self._client.profile)
            return lost
        kind = OutcomeKind.DISCONNECTED if ended else OutcomeKind.NO_REPLY
        deviation = Deviation(
            expected,
            f"{observed}, after {len(came):,} bytes",
            marked,
            waited=0.0 if ended else self._seconds,
            step=Step(kind, command, ("",)),
        )
        deviation.owner = IN_STEP
        return deviation

    def repeat(self, data: bytes, times: int) -> None:
        """Send commands so many times, and wait for all replies."""
        part = max(ROOM // len(data), 1)
        while times > 0:
            self.ask(data * min(part, times))
            times -= part

    def put(self, puts: Sequence[bytes]) -> list[int]:
        """Put jobs, all of them at a time; return their ids."""
        said = self.ask(b"".join(puts))
        ids = [int(id) for id in re.findall(rb"INSERTED (\d+)\r\n", said)]
        if len(ids) != len(puts):
            step = Step(OutcomeKind.WRONG_REPLY, "put", ("INSERTED",))
            expected = f"INSERTED for each of {len(puts):,} puts"
            deviation = Deviation(expected, f"{len(ids):,} times INSERTED", step=step)
            deviation.owner = usual_answer("put", self._client.profile)
            raise deviation
        return ids

    def put_some(self, puts: Sequence[bytes], resources: Resources) -> list[int]:
        """Put as many of these jobs as there is time for, ever more at once; return their ids."""
        ids, part, goes_on = list[int](), FIRST, has_time(resources)
        while len(ids) < len(puts) and goes_on():
            ids += self.put(puts[len(ids) : len(ids) + part])
            part *= 2
        return ids

    def put_and_delete(self, body: bytes, times: int) -> None:
        """Put jobs, all of them at a time, and delete them."""
        self.delete(self.put([put_of(body)] * times))

    def delete(self, jobs: Sequence[int]) -> None:
        """Delete jobs, which are all that are ready."""
        if "ready" not in self._client.profile.deletes:
            self.ask(f"{self._client.ask_for_job}\r\n".encode() * len(jobs))
        self.ask(b"".join(b"delete %d\r\n" % job for job in jobs))

    def seconds(self, data: bytes = b"") -> float:
        """Send commands, and return how long their replies have taken."""
        begun = time.monotonic()
        self.ask(data)
        return time.monotonic() - begun
