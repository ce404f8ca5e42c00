"""One connection to a server, as bytes; all communication with a target uses it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Mapping

from conformance.target.command_rate import COMMAND_RATE

CHUNK = 2**18
"""Bytes that are taken in at once."""
PROMPT = 0.02
"""Seconds for which a read waits that is sure to get something soon."""
_PROMPT = struct.pack("ll", 0, round(PROMPT * 1e6))
_RESET = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
_NOW = getattr(socket, "MSG_DONTWAIT", 0)
"""The flag of a call that must not block; 0 where only the whole socket can be set so."""
FLOOD = 2**22
"""Bytes after an end of ours that are no replies: the server does not look whether it is read."""
_ALL = 2**24
"""More bytes than a system keeps for a connection."""
_IN, _OUT = 1, 4
"""The events that are waited for; the bits of poll(2)."""


class Transport:
    """A connection: bytes go out as far as the server reads, and come in as they arrive.

    Only methods that take a timeout wait. ``ended``: nothing more comes, as the server has
    closed the connection, or we have; ``error`` is the reason if it has not just been closed.
    ``is_deaf``: the server has ended it before all was sent, though it may have answered.
    ``unsent``: bytes that the server does not read yet; every wait sends them on.
    ``number``: its descriptor, -1 when it is closed. ``floods``: at the end it went on sending.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(bool(_NOW))
        if _NOW:
            # Without a timeout of Python's, one system call is enough for what is sure to come.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PROMPT)
        self.ended = False
        self.is_deaf = self.floods = False
        self.error: OSError | None = None
        self.unsent = bytearray()
        self._socket = sock
        self.number = sock.fileno()
        self._half_closes = False

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ sending

    def send(self, data: bytes | bytearray) -> None:
        """Send bytes, as far as the server reads; the rest is kept."""
        COMMAND_RATE.sends(data)
        self.unsent += data
        self.send_on()

    def send_on(self) -> None:
        """Send what is left, as far as the server reads now."""
        unsent = self.unsent
        try:
            while unsent:
                del unsent[: self._socket.send(unsent, _NOW)]
        except BlockingIOError:
            return
        except OSError:
            # What the server has sent before it hung up says more than this error.
            unsent.clear()
            self.is_deaf = True
        if self._half_closes:
            self._shut(socket.SHUT_WR)

    def half_close(self) -> None:
        """Send nothing after the rest of the output; a later read shows a reset by the server."""
        self._half_closes = True
        self.send_on()

    # ------------------------------------------------------------ receiving

    def receive(self, size: int = CHUNK, flags: int = _NOW) -> bytes:
        """Return up to ``size`` received bytes; empty if there are none."""
        try:
            data = self._socket.recv(size, flags)
        except BlockingIOError:
            return b""
        except OSError as error:
            data, self.error = b"", error
        self.ended = not data
        return data

    def receive_soon(self, size: int, whole: bool) -> bytes:
        """Return up to ``size`` bytes that are sure to come soon; ``whole``: as many as that.

        Fewer, or none, if they do not come within :data:`PROMPT` seconds.
        """
        if _NOW:
            return self.receive(size, socket.MSG_WAITALL if whole else 0)
        end, data = time.monotonic() + PROMPT, self.receive(size)
        while len(data) < (size if whole else 1) and not self.ended:
            if (left := end - time.monotonic()) <= 0:
                break
            wait_for([self], left)
            data += self.receive(size - len(data))
        return data

    def receive_within(self, seconds: float) -> bytes:
        """Return received bytes, waiting this long for the first; empty if none arrive."""
        end = time.monotonic() + seconds
        is_long = seconds > PROMPT and not self.unsent
        data = self.receive_soon(CHUNK, whole=False) if is_long else self.receive()
        while not (data or self.ended) and (left := end - time.monotonic()) > 0:
            wait_for([self], left)
            data = self.receive()
        return data

    @property
    def ports(self) -> tuple[int, int] | None:
        """Our port and the target's; None if there are none, as with UNIX sockets."""
        ours, theirs = self._socket.getsockname(), self._socket.getpeername()
        return (ours[1], theirs[1]) if isinstance(ours, tuple) else None

    def keep_little(self) -> None:
        """Let the system keep as little as it can of what comes and is not read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)

    def leave_unread(self, seconds: float) -> None:
        """Wait until no more bytes arrive, for so many seconds at most, without reading them."""
        end, come, before = time.monotonic() + seconds, 0, -1
        while come != before and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, PROMPT))
            before, come = come, self._unread()

    def _unread(self) -> int:
        """Return the number of received bytes that were not read."""
        return len(self.receive(_ALL, _NOW | socket.MSG_PEEK))

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Close the connection at once."""
        self.ended = True
        self.number = -1
        self.unsent.clear()
        self._socket.close()

    def reset(self) -> None:
        """Reset the connection: the server sees an error, and nothing more arrives."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def hang_up(self, seconds: float) -> bool:
        """Close the connection; return whether the server has done so first, in so many seconds.

        A server that keeps sending is cut off.
        """
        end, left = time.monotonic() + seconds, FLOOD
        self.half_close()
        while not (self.ended or left <= 0 or time.monotonic() >= end):
            left -= len(self.receive_within(end - time.monotonic()))
        ended, self.floods = self.ended, left <= 0
        self.close()
        return ended

    def abort(self) -> None:
        """End the connection from another thread, which wakes a waiting reader."""
        self._shut(socket.SHUT_RDWR)

    def _shut(self, direction: int) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(direction)


def wait_for(transports: Iterable[Transport], seconds: float) -> list[Transport]:
    """Wait until something comes or can be sent on, or the time is up; return where that is so."""
    waiting = list(transports)
    events = {one.number: _IN | _OUT if one.unsent else _IN for one in waiting}
    numbers = _happened(events, max(seconds, 0))
    ready = [transport for transport in waiting if transport.number in numbers] if numbers else []
    for transport in ready:
        if transport.unsent:
            transport.send_on()
    return ready


def _polled(events: Mapping[int, int], seconds: float) -> list[int]:
    """Return the descriptors of which an event happens first, within so many seconds."""
    poll = select.poll()
    for number, wanted in events.items():
        poll.register(number, wanted)
    return [number for number, _ in poll.poll(seconds * 1000)]


def _selected(events: Mapping[int, int], seconds: float) -> list[int]:
    """Do the same where there is no poll(2)."""
    if not events:
        time.sleep(seconds)
        return []
    sending = [number for number, wanted in events.items() if wanted & _OUT]
    heard, sent, _ = select.select(list(events), sending, [], seconds)
    return [*heard, *sent]


_happened = _polled if hasattr(select, "poll") else _selected
