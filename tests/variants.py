"""Servers that conform and yet are not like beanstalkd: the suite must not fail them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reference_server.events import Event, Hangup, Output
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.state import SECOND, Connection, Tube
from reference_server.wire import (
    BAD_FORMAT,
    DRAINING,
    JOB_TOO_BIG,
    UNKNOWN_COMMAND,
    Body,
    Command,
    Malformed,
    Put,
    Reply,
    Request,
    RequestReader,
)


def _edits(edit: Callable[[bytes], bytes]) -> type[Model]:
    """A server whose YAML documents look different."""

    class Edits(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            return [
                (receiver, reply._replace(body=edit(reply.body)))
                if isinstance(reply, Reply) and reply.word == "OK" and reply.body
                else (receiver, reply)
                for receiver, reply in super().step(event, now, conn)
            ]

    return Edits


def _reversed(document: bytes) -> bytes:
    first, *rest = document.splitlines(keepends=True)
    return b"".join([first, *reversed(rest)])


def _chooses(choice: Callable[[Sequence[Any]], Any]) -> type[Model]:
    """A server that makes other choices where the text leaves them open."""

    class Chooses(Model):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.choose = choice

    return Chooses


class _Ids(Model):
    """Ids begin high and have gaps."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.next_id = 2**40

    def _put(self, conn: Connection, put: Put) -> None:
        self.next_id += 6
        super()._put(conn, put)


class _KeepsStatistics(Model):
    """Stats is made anew once in a second."""

    _kept: tuple[int, Reply] | None = None

    def _stats(self, conn: Connection) -> Reply:
        if self._kept is None or self.now - self._kept[0] >= SECOND:
            self._kept = self.now, super()._stats(conn)
        return self._kept[1]


class _LateTimers(Model):
    """All timers fire a tenth of a second late."""

    def _fire_timers(self, now: int) -> None:
        super()._fire_timers(now - SECOND // 10)


class _ClosesAfterLongLine(Model):
    """The connection ends after the error for a line that is too long."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if event == Malformed(BAD_FORMAT, "long"):
            outputs.append((conn, Hangup()))
        return outputs


class _MarksLongLines(RequestReader):
    def next_request(self) -> Any:
        size = self._buffer.find(b"\r\n") + 2
        long = self._body is None and (self._overlong or size > self._profile.max_line)
        request = super().next_request()
        if long and request == Malformed(BAD_FORMAT):
            return Malformed(BAD_FORMAT, "long")
        return request


def _unquoted(document: bytes) -> bytes:
    return re.sub(rb'(?m): "(.*)"$', rb": \1", document)


class _DrainsAtOnce(Model):
    """In drain mode, put is refused when its line comes; what follows is taken for commands."""

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        if self.draining and isinstance(event, Body):
            return [(conn, DRAINING), *super().step(Malformed(UNKNOWN_COMMAND), now, conn)]
        return super().step(event, now, conn)


_NEWEST_FIRST = Fault(
    "", "of equal priorities the newest is next", _chooses(lambda options: options[-1])
)


class _NoTimeToRun(Model):
    def _put(self, conn: Connection, put: Put) -> None:
        super()._put(conn, put)
        if conn.incoming and not put.ttr:
            conn.incoming.ttr = 0


class _LongTimeouts(RequestReader):
    """A timeout may have any number of digits."""

    def parse(self, line: bytes) -> Request:
        match = re.fullmatch(rb"reserve-with-timeout +([0-9]+)", line)
        if match is None:
            return super().parse(line)
        return Command("reserve-with-timeout", (int(match[1]),))


_LONG_LINES = Fault(
    "", "lines of any length", profile=lambda profile: replace(profile, max_line=2**20)
)

OF_OLD = (
    ("1.4", _NEWEST_FIRST),
    ("1.8", _NEWEST_FIRST),
    ("1.4", _LONG_LINES),
    ("1.10", _LONG_LINES),
    ("0.6", _NEWEST_FIRST),
    ("0.6", Fault("", "ids high and with gaps", _Ids)),
    ("0.6", Fault("", "timers late by a tenth of a second", _LateTimers)),
    ("0.6", Fault("", "drains at once", _DrainsAtOnce)),
    ("0.6", Fault("", "a ttr of 0 is no time", _NoTimeToRun)),
    (
        "0.6",
        Fault("", "more keys", _edits(lambda yaml: yaml.replace(b"\nage:", b"\nttr: 1\nage:"))),
    ),
)
"""Where old profiles leave more open than those that follow."""

VARIANTS = {
    variant.summary: variant
    for variant in (
        Fault("", "lists in reverse order", _edits(_reversed)),
        Fault(
            "", "more keys in stats", _edits(lambda yaml: yaml.replace(b"\nid:", b"\nmood: 1\nid:"))
        ),
        Fault("", "no first line in YAML", _edits(lambda yaml: yaml.removeprefix(b"---\n"))),
        Fault("", "unquoted strings", _edits(_unquoted)),
        Fault("", "strings in single quotes", _edits(lambda yaml: yaml.replace(b'"', b"'"))),
        Fault(
            "", "lines of YAML end with CR LF", _edits(lambda yaml: yaml.replace(b"\n", b"\r\n"))
        ),
        Fault("", "ids high and with gaps", _Ids),
        FAULTS["a-put-that-fails-does-not-use-up-an-id"],
        Fault("", "the last choice everywhere", _chooses(lambda options: options[-1])),
        Fault("", "statistics kept for a second", _KeepsStatistics),
        Fault("", "timers late by a tenth of a second", _LateTimers),
        Fault("", "larger jobs", profile=lambda profile: replace(profile, max_job_size=2**20)),
        Fault("", "smaller jobs", profile=lambda profile: replace(profile, max_job_size=66000)),
        Fault("", "another version", profile=lambda profile: replace(profile, version="dev+g1")),
        Fault("", "long lines end the connection", _ClosesAfterLongLine, _MarksLongLines),
        Fault("", "timeouts of any length", reader=_LongTimeouts),
        FAULTS["a-line-feed-alone-ends-a-line"],
    )
}


class _LateTubes(Model):
    """A tube that nothing keeps goes a tenth of a second later; until then it is as it was."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._left: dict[str, int] = {}

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        for name, since in list(self._left.items()):
            if now - since >= SECOND // 10:
                del self._left[name]
                tube = self._by_name[name]
                if not tube.refs:
                    tube.refs = 1
                    super()._deref(tube)
        return super().step(event, now, conn)

    def _deref(self, tube: Tube) -> None:
        if tube.refs > 1:
            super()._deref(tube)
            return
        tube.refs = 0
        self._left[tube.name] = self.now


class _RefusesAtOnce(Model):
    """JOB_TOO_BIG comes with the line of the put; the body is skipped when it comes."""

    def _put(self, conn: Connection, put: Put) -> None:
        super()._put(conn, put)
        if put.size > self.max_job_size:
            conn.refused = True
            self._outputs.append((conn.id, JOB_TOO_BIG))


VARIANTS |= {
    variant.summary: variant
    for variant in (
        Fault("", "tubes vanish a tenth of a second late", _LateTubes),
        Fault("", "JOB_TOO_BIG when the line comes, the body skipped afterwards", _RefusesAtOnce),
    )
}
