"""Faults of the reading of lines, and of the arguments of every command."""

from __future__ import annotations

import re

from reference_server import wire
from reference_server.commands import U32
from reference_server.events import Hangup
from reference_server.faults.registry import asked, fault, parsed, takes, takes_like
from reference_server.model import Model
from reference_server.state import Client
from reference_server.wire import Body, Command, Malformed, Put, Request, RequestReader

BAD = Malformed(wire.BAD_FORMAT)
UNKNOWN = Malformed(wire.UNKNOWN_COMMAND)


@fault("protocol.half-close-is-answered", "what comes behind a pending reserve is not answered")
class HangsUp(Model):
    def _half_close(self, conn: Client) -> None:
        waiting = conn.waiting
        super()._half_close(conn)
        if waiting and conn.reserved:
            self._outputs.append((conn.id, Hangup()))


@fault("protocol.line-ends-with-crlf", "a line feed alone ends a line")
class LineFeed(RequestReader):
    def _next_line(self) -> Request | None:
        end = self._buffer.find(b"\n")
        if 0 < end < 224 and self._buffer[end - 1 : end] != b"\r":
            self._buffer[end : end + 1] = b"\r\n"
        return super()._next_line()


takes_like(
    "protocol.integers-are-decimal",
    "ids may be hexadecimal",
    rb"peek 0x([0-9]+)",
    lambda id: Command("peek", (id,)),
)
takes_like(
    "protocol.integers-are-decimal",
    "a delay may have a fraction",
    rb"release ([0-9]+) ([0-9]+) ([0-9])[.][0-9]+",
    lambda *numbers: Command("release", numbers),
)
takes_like(
    "protocol.plus-sign",
    "an id may have a plus sign",
    rb"touch [+]([0-9]+)",
    lambda id: Command("touch", (id,)),
)
takes_like(
    "protocol.integers-are-nonnegative",
    "a negative priority of bury is 0",
    rb"bury ([0-9]+) -[0-9]+",
    lambda id: Command("bury", (id, 0)),
)
parsed(
    "protocol.leading-zeros",
    "no number may have leading zeros",
    lambda line: BAD if re.search(b" 0[0-9]", line) else None,
)
parsed(
    "protocol.several-blanks",
    "there is one blank before a number",
    lambda line: BAD if b"  " in line else None,
)
takes_like(
    "protocol.tab-is-no-blank",
    "a tab is a blank",
    rb"delete[ \t]*\t([0-9]+)",
    lambda id: Command("delete", (id,)),
)
takes(
    "protocol.blank-at-the-end",
    "a name ends at the first blank and what follows does not matter",
    b"use default ",
    Command("use", ("default",)),
)
for _verb in ("peek-ready", "stats"):
    takes(
        "protocol.blank-at-the-end",
        f"{_verb} ignores a blank at its end",
        f"{_verb} ".encode(),
        Command(_verb),
    )
asked(
    "protocol.name-ends-at-white-space",
    "an x at the end of a name does not count for a pause",
    "pause-tube",
    lambda name, delay: Command("pause-tube", (name.removesuffix("x"), delay)),
)
asked(
    "protocol.name-case-counts",
    "use takes capitals for small letters",
    "use",
    lambda name: Command("use", (name.replace("TUBE", "tube"),)),
)


@fault("protocol.incomplete-put-is-dropped", "a body that ends with its connection is a job")
class KeepsHalves(Model):
    def _close(self, conn: Client) -> None:
        if conn.incoming is not None:
            self._body(conn, b"")
        super()._close(conn)


parsed(
    "error.commands-are-lower-case",
    "commands may be written in capitals",
    lambda line: Command("stats") if line[:3].isupper() else None,
)
takes_like(
    "error.unknown-command",
    "an unknown command with an argument is malformed",
    rb"get .*",
    lambda: BAD,
)
takes_like("error.empty-line", "an empty line is malformed", rb" *", lambda: BAD)
takes("error.word-without-argument", "delete without an id is malformed", b"delete", BAD)


@fault("error.pipeline-goes-on", "what came together with a malformed line is dropped with it")
class DropsRest(RequestReader):
    def _next_line(self) -> Request | None:
        request = super()._next_line()
        if request == BAD and self._buffer.startswith(b"list-tube-used"):
            self._buffer.clear()
        return request


@fault("error.pipeline-goes-on", "after a bad end of a body the rest of the pipeline is dropped")
class DropsBehindBody(RequestReader):
    def next_request(self) -> Request | None:
        request = super().next_request()
        if isinstance(request, Body) and request.data is None and len(self._buffer) > 20:
            self._buffer.clear()
        return request


takes_like(
    "put.size-of-32-bits",
    "a size of 33 bits is cut",
    rb"put ([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)",
    lambda pri, delay, ttr, size: (
        Put(pri, delay, ttr, size & U32) if size > U32 and max(pri, delay, ttr) <= U32 else None
    ),
)


@fault("put.malformed-line-has-no-body", "the line behind a malformed put is dropped")
class DropsBody(RequestReader):
    _drop = False

    def parse(self, line: bytes) -> Request:
        request = super().parse(line)
        self._drop = request == BAD and bool(re.fullmatch(rb"put [0-9]+ [0-9]+ [0-9]+", line))
        return request

    def _next_line(self) -> Request | None:
        drop = self._drop
        request = super()._next_line()
        if drop and request is not None:
            return super()._next_line()
        self._drop |= drop
        return request


takes_like(
    "reserve.longest-timeout",
    "timeouts have 30 bits",
    rb"reserve-with-timeout ([0-9]+)",
    lambda timeout: BAD if 2**30 <= timeout < 2**31 else None,
)
parsed(
    "ignore.name-limit",
    "ignore takes names of 199 bytes",
    lambda line: BAD if line.startswith(b"ignore ") and len(line) == 207 else None,
)
parsed(
    "pause-tube.name-limit",
    "pause-tube takes names of 199 bytes",
    lambda line: BAD if re.match(b"pause-tube [^ ]{200} ", line) else None,
)
