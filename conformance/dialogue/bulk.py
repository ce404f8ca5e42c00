"""Thousands of commands in one go: only the end of all their replies is awaited.

The replies are not parsed, so that a test is as fast as the server; they are not in the transcript.
"""

from __future__ import annotations

import time

from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.target.target import Target
from conformance.usual_answers import IN_STEP
from conformance.verdict import Deviation, NotTestable
from reference_server.wire import FOUND

END = b"the end of all replies"
"""The body of a job that a client peeks at last."""
ROOM = 2**18
"""Bytes that are sent at once, so that neither side has to keep much."""


class Bulk:
    """A client that sends much; raises NotTestable if the target takes one command at a time."""

    def __init__(self, client: Connection, server: Target) -> None:
        if not server.traits.pipelines:
            raise NotTestable("needs a target that takes several commands at once")
        # In a tube of its own, no other command shows it.
        client.use(f"{client.tube}-end")
        job = client.put(END, delay=LONG)
        client.use(client.tube)
        client.peek(job).expect(FOUND(job, END))
        self._transport = client.transport
        self._seconds = server.limits.reply
        self._last = b"peek %d\r\n" % job
        self._end = FOUND(job, END).encode()

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
            elif self._transport.ended or time.monotonic() > limit:
                raise self._missing(data, came)
        return bytes(came[: -len(self._end)])

    def _missing(self, data: bytes, came: bytearray) -> Deviation:
        ended = "the target closed the connection" if self._transport.ended else ""
        observed = ended or f"nothing more within {self._seconds:g} seconds"
        lines = data.count(b"\n")
        deviation = Deviation(
            f"replies to {lines:,} lines",
            f"{observed}, after {len(came):,} bytes",
            waited=0.0 if ended else self._seconds,
        )
        deviation.owner = IN_STEP
        return deviation

    def repeat(self, data: bytes, times: int) -> None:
        """Send commands so many times, and wait for all replies."""
        part = max(ROOM // len(data), 1)
        while times > 0:
            self.ask(data * min(part, times))
            times -= part
