"""The requests of one client, and those of them that work only by accident.

A remark shows the first byte at which the stream stops to mean what its author meant: a line feed
without CR, a byte that no name may have, the place where the CR LF after a body is missing, or the
CR LF in the middle of what was sent as one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from conformance.oracle.underspecification import LenientReader, Open, is_decided
from reference_server.commands import ABOUT_A_TUBE, COMMANDS, ArgumentKind
from reference_server.events import Close
from reference_server.profiles import PROFILES, Profile
from reference_server.wire import CRLF, Body, Command, Malformed, Put, Request, escape, parse_line

SHOWN = 60
"""Bytes before and after the wrong one that a remark shows."""
_PLAIN = rb"(?:0|[1-9][0-9]{0,8})"
_MARK = "⟦{}⟧"
_NAMING = tuple(verb.encode() + b" " for verb in ABOUT_A_TUBE)
_LOCKSTEP = 2
"""Segments of one request each after which a client is taken for one that does not pipeline."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a request: ``what`` is wrong, ``place`` the first wrong byte of the connection.

    ``shown``: the bytes around it, escaped, the wrong one marked. ``is_certain``: False if the
    client may have meant it.
    """

    what: str
    place: int
    shown: str
    is_certain: bool = True


class Understood(NamedTuple):
    """A request, its line (None: too long), and what is to be said of it.

    ``request``: None if there is only a remark. ``is_clear``: the text decides how the line is
    read, and what follows it.
    """

    request: Request | Open | None
    line: bytes | None
    is_clear: bool
    remarks: tuple[Remark, ...] = ()


class StreamReader(LenientReader):
    """Reads what one client sends. It keeps one line and one body at most."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self._plain = plain_lines(profile)
        self._is_plain = False
        self._received = 0
        self._line: bytes | None = None
        self._put: tuple[bytes, int] | None = None
        self._lockstep = 0
        self._has_remarked_lf = False

    @property
    def is_complete(self) -> bool:
        """Return whether all that was sent is understood."""
        return self._body is None and not self._skip and not self._buffer

    @property
    def understood(self) -> int:
        """Return how many bytes of the connection are understood."""
        return self._received - len(self._buffer)

    def parse(self, line: bytes) -> Request:
        self._line = line
        self._is_plain = self._plain.fullmatch(line) is not None
        return parse_line(line, self._profile) if self._is_plain else super().parse(line)

    def read(self, data: bytes, in_flight: int) -> Iterator[Understood]:
        """Take in a segment, and yield its requests; ``in_flight``: requests not answered yet."""
        begins_request = self.is_complete
        self._received += len(data)
        self.receive(data)
        count, naming = 0, b""
        while True:
            begin = self._received - len(self._buffer)
            self._line = None
            request = self.next_request()
            if request is None:
                break
            remarks: tuple[Remark, ...]
            if self._line is not None and self._is_plain:
                remarks, is_clear = (), True
                count += 1
            elif isinstance(request, Body):
                remarks, is_clear = self._body_remarks(request, begin)
            else:
                remarks, is_clear = self._line_remarks(request, begin)
                count += 1
            if count == 1 and begins_request and not naming:
                naming = self._line or b""
            elif count == 2 and naming.startswith(_NAMING) and not in_flight:
                remarks += self._smuggled(naming, begin, request)
                naming = b" "
            yield Understood(request, self._line, is_clear, remarks)
        if count > 1 or in_flight:
            self._lockstep = 0
        elif count == 1:
            self._lockstep += 1
        yield from self._line_feed()

    def _line_feed(self) -> Iterator[Understood]:
        """Yield a remark on a line feed that ends no line, though nothing ends the line yet."""
        end = self._buffer.find(b"\n") if self._body is None else -1
        if end < 0 or self._has_remarked_lf:
            self._has_remarked_lf &= end >= 0
            return
        self._has_remarked_lf = True
        begin = self._received - len(self._buffer)
        remark = _remark("a line ends with LF alone", bytes(self._buffer), end, begin)
        yield Understood(None, None, False, (remark,))

    # ------------------------------------------------------------ what is wrong

    def _body_remarks(self, body: Body, begin: int) -> tuple[tuple[Remark, ...], bool]:
        is_right = body.data is not None or (
            body.is_ended and self._last_size > self._profile.max_job_size
        )
        if is_right:
            return (), True
        what = f"no CR LF after the {self._last_size} bytes of a body: the size is wrong"
        size = self._last_size
        return (Remark(what, begin + size, self._around_body_end(size)),), False

    def _around_body_end(self, size: int) -> str:
        kept, self._kept = self._kept, b""
        return shown_at(kept, min(size, SHOWN)) if kept else ""

    def next_request(self) -> Request | None:
        size = self._body
        if size is not None:
            self._last_size = size
            if self._buffer[size : size + 2] not in (CRLF, b"", b"\r"):
                begin = max(size - SHOWN, 0)
                self._kept = bytes(self._buffer[begin : size + 2 + SHOWN])
        return super().next_request()

    def _line_remarks(self, request: object, begin: int) -> tuple[tuple[Remark, ...], bool]:
        line = self._line
        if line is None:
            what = f"a line of more than {self._profile.max_line} bytes"
            return (Remark(what, begin + self._profile.max_line, ""),), False
        is_clear = not isinstance(request, Open) and is_decided(line, self._profile)
        whole = line + b"\r\n"
        if (at := line.find(b"\n")) >= 0:
            return (_remark("a line ends with LF alone", whole, at, begin),), False
        first = request.options[0] if isinstance(request, Open) else request
        if isinstance(first, Malformed):
            what, at = _fault_of(line, self._profile)
            return (_remark(what, whole, at, begin),), is_clear and not line.startswith(b"put")
        if isinstance(request, Open):
            what = "works only by accident: the text does not say how this is read"
            return (_remark(what, whole, _odd_place(line), begin),), False
        return (), is_clear or isinstance(first, Put)

    def _smuggled(self, naming: bytes, begin: int, second: object) -> tuple[Remark, ...]:
        """Return the remark on a second line in the segment of a command that names a tube."""
        first = second.options[0] if isinstance(second, Open) else second
        is_refused = isinstance(first, Malformed)
        if not (is_refused or self._lockstep >= _LOCKSTEP):
            return ()
        verb = naming.partition(b" ")[0].decode()
        line = self._line or b""
        what = f"CR LF in the name of a tube: {verb} and what follows were sent as one"
        text = naming + b"\r\n" + line
        return (_remark(what, text, len(naming), begin - len(naming) - 2, is_refused),)

    _last_size = 0
    _kept = b""


@cache
def plain_lines(profile: Profile) -> re.Pattern[bytes]:
    """Return a pattern that matches only lines that the text decides, and most of these."""
    tube = rb"[A-Za-z0-9+/;.$()][-A-Za-z0-9+/;.$()]{0,149}"
    forms = [
        b" ".join(
            (verb.encode(), *(tube if kind is ArgumentKind.TUBE else _PLAIN for kind in kinds))
        )
        for verb, _, kinds, *_ in (COMMANDS[verb] for verb in sorted(profile.commands))
        if verb != "put" or (profile.skips_big_bodies and profile.raises_ttr)
    ]
    if profile.id_is_optional:
        forms = [b"put " + b" ".join((_PLAIN,) * 4)] if profile.raises_ttr else []
    return re.compile(b"|".join(forms) or b"(?!)")


def shown_at(data: bytes, place: int) -> str:
    """Return bytes as text, the one at a place marked."""
    before, after = data[max(place - SHOWN, 0) : place], data[place + 1 : place + 1 + SHOWN]
    wrong = _MARK.format(escape(data[place : place + 1]))
    start = "…" if place > SHOWN else ""
    return f"{start}{escape(before)}{wrong}{escape(after)}"


def _remark(what: str, text: bytes, place: int, begin: int, is_certain: bool = True) -> Remark:
    return Remark(what, begin + place, shown_at(text, place), is_certain)


def _fault_of(line: bytes, profile: Profile) -> tuple[str, int]:
    """Return what is wrong with a line that is refused, and at which byte."""
    word, blank, rest = line.partition(b" ")
    verb = word.decode("latin-1")
    others = [other for other in PROFILES.values() if _is_taken(line, other)]
    if others:
        return f"profile {profile.name} does not have this request", 0
    if verb not in COMMANDS:
        return "no version of the protocol has this command", 0
    if verb in ABOUT_A_TUBE and blank:
        name = rest.partition(b" ")[0] if verb == "pause-tube" else rest
        bad = next((n for n, byte in enumerate(name) if byte not in profile.name_chars), -1)
        if bad < 0 and name.startswith(b"-"):
            bad = 0
        if bad < 0 and len(name) > profile.max_name:
            bad = profile.max_name
        if bad >= 0 or not name:
            return "no tube may have this name", len(word) + 1 + max(bad, 0)
    place = min(len(word) + 1, len(line))
    return f"the arguments of {verb} are malformed", place + _digits_of(rest)


def _digits_of(arguments: bytes) -> int:
    """Return where arguments stop to be decimal numbers."""
    return next(
        (n for n, byte in enumerate(arguments) if byte not in b"0123456789 "), len(arguments)
    )


def _is_taken(line: bytes, profile: Profile) -> bool:
    return isinstance(parse_line(line, profile), Command | Put | Close)


def _odd_place(line: bytes) -> int:
    """Return the first byte of a line that a plain form of it would not have."""
    word, _, rest = line.partition(b" ")
    for place, byte in enumerate(rest):
        if byte == 0x20 and (place == 0 or rest[place - 1] == 0x20 or place == len(rest) - 1):
            return len(word) + 1 + place
        if byte not in b"0123456789 ":
            return len(word) + 1 + place
    return min(len(word) + 1, max(len(line) - 1, 0))
