"""Other variants of beanstalkd's quirks: no bugs, but the tests of quirks must tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reference_server import stats, wire
from reference_server.faults.arguments import BAD, UNKNOWN
from reference_server.faults.registry import fault, parsed, profiled, says, takes
from reference_server.model import Model
from reference_server.state import Client
from reference_server.wire import Reply

parsed(
    "quirk.pause-tube-without-a-blank",
    "pause-tube needs a blank behind it",
    lambda line: UNKNOWN if line.startswith(b"pause-tubec") else None,
)
takes("quirk.quit-with-letters-behind", "quit is the whole line", b"quitx", UNKNOWN)
for _name, _line in (
    ("kick-with-letters-behind", b"kick 1x"),
    ("kick-beyond-32-bits", b"kick %d" % (2**32 + 1)),
    ("timeout-with-letters-behind", b"reserve-with-timeout 0x"),
    ("timeout-with-a-word-behind", b"reserve-with-timeout 0 x"),
):
    takes(f"quirk.{_name}", f"{_line.decode()} is malformed", _line, BAD)
profiled(
    "quirk.negative-timeout",
    "a negative timeout is none",
    lambda profile: replace(profile, timeout_argument="strict"),
)
profiled(
    "quirk.line-of-225-bytes",
    "lines may have 225 bytes",
    lambda profile: replace(profile, max_line=225),
)
profiled(
    "quirk.replies-to-a-long-line",
    "lines may have 400 bytes",
    lambda profile: replace(profile, max_line=400),
)
takes("quirk.nul-in-a-line", "a line with a NUL is unknown", b"list-tube-used\0", UNKNOWN)
parsed(
    "quirk.carriage-return-in-a-line",
    "a line with a CR is malformed",
    lambda line: BAD if b"\r" in line else None,
)


@fault("quirk.job-visible-while-it-arrives", "a job is shown while its body comes")
class ShowsIncoming(Model):
    def _stats_job(self, conn: Client, id: int) -> Reply:
        for other in self.connections.values():
            if other.incoming is not None and other.incoming.id == id:
                return wire.OK(stats.job(self, other.incoming))
        return super()._stats_job(conn, id)


@fault("quirk.order-of-waiting-clients", "who waits last is served first")
class LastFirst(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.choose = self._last

    @staticmethod
    def _last(options: Sequence[Any]) -> Any:
        return options[0] if "RESERVED" in options else options[-1]


@fault("quirk.order-of-list-tubes", "tubes are listed by name")
class ByName(Model):
    def _list_tubes(self, conn: Client) -> Reply:
        return wire.OK(stats.names(sorted(self.tubes, key=lambda tube: tube.name)))


says(
    "quirk.time-left-of-ready-jobs",
    "the time left of a ready job is its ttr",
    "stats-job",
    r"(?s)^state: ready(.*)\ntime-left: 0$",
    r"state: ready\1\ntime-left: 60",
)
says(
    "quirk.pause-of-zero-is-told",
    "a pause of no time is told as a second",
    "stats-tube",
    r"(?s)^cmd-pause-tube: 1\npause: 0$",
    r"cmd-pause-tube: 1\npause: 1",
)
