"""The server's side of the wire: bytes of a client in, requests out."""

from __future__ import annotations

from reference_server.profiles import Profile
from reference_server.reserve import RESERVE
from reference_server.wire.lines import parse_line
from reference_server.wire.messages import BAD_FORMAT, CRLF, Body, Malformed, Put, Request

_BAD = Malformed(BAD_FORMAT)


class RequestReader:
    """A reader of requests; it never holds more than one line and one body.

    Call :meth:`receive`, then :meth:`next_request` until it gives None; requests that are not
    taken out stay as bytes in the buffer.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._buffer = bytearray()
        self._body: int | None = None
        self._skip = 0
        self._lacks_memory = False
        self._dropped = b""
        self._overlong = False

    def parse(self, line: bytes) -> Request:
        """Return the request that a line (without CR LF) means."""
        return parse_line(line, self._profile)

    @property
    def buffered(self) -> int:
        """Bytes received and not yet understood."""
        return len(self._buffer)

    def receive(self, data: bytes) -> None:
        """Add bytes; those of a refused body are dropped at once.

        Raises MemoryError if there is no room for them, unless they are of a body.
        """
        try:
            self._buffer += data
        except MemoryError:
            if self._body is None:
                raise
            self._refuse()
            self._drop_refused()
            self._buffer += data
        if self._skip:
            self._drop_refused()

    def next_request(self) -> Request | None:
        """Return the next request, or None until more bytes come."""
        if self._body is None:
            return self._next_line()
        if self._lacks_memory or self._body > self._profile.max_job_size:
            self._drop_refused()
            if self._skip:
                return None
            is_ended = self._dropped == CRLF
            return self._end_body(None)._replace(is_ended=is_ended, lacks_memory=self._lacks_memory)
        end = self._body + len(CRLF)
        if len(self._buffer) < end:
            return None
        complete = self._buffer[self._body : end] == CRLF
        try:
            data = bytes(self._buffer[: self._body]) if complete else None
        except MemoryError:
            self._refuse()
            return self.next_request()
        del self._buffer[:end]
        return self._end_body(data)

    def _end_body(self, data: bytes | None) -> Body:
        self._body = None
        return Body(data)

    def _refuse(self) -> None:
        """Skip a body for which there is no memory."""
        self._lacks_memory = True
        assert self._body is not None
        self._skip = self._body + len(CRLF)

    def _drop_refused(self) -> None:
        count = min(self._skip, len(self._buffer))
        self._dropped = (self._dropped + self._buffer[max(count - 2, 0) : count])[-2:]
        del self._buffer[:count]
        self._skip -= count

    def _next_line(self) -> Request | None:
        buffer = self._buffer
        end = buffer.find(CRLF)
        if end < 0:
            if len(buffer) >= self._profile.max_line:
                self._overlong = True
            if self._overlong:
                # A CR at the very end may be the first half of the line's end.
                del buffer[: len(buffer) - buffer.endswith(b"\r")]
            return None
        line = bytes(buffer[:end])
        end += len(CRLF)
        del buffer[:end]
        if self._overlong or end > self._profile.max_line:
            self._overlong = False
            return _BAD
        request = self.parse(line)
        if type(request) is Put:
            self._body = request.size
            self._lacks_memory = False
            if request.size > self._profile.max_job_size:
                self._skip = request.size + len(CRLF)
            elif not RESERVE.has_room:
                self._refuse()
        return request
