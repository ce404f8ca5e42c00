"""The process that judges: it reads events from standard input, and prints what it finds.

It has a low priority, so that it takes no time that the forwarder, the server or clients need.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self

from conformance.display import Display
from conformance.traffic.events import Event, EventReader, Kind
from conformance.traffic.judge import TrafficJudge
from conformance.traffic.record import Record
from conformance.traffic.strangers import bypassing
from conformance.traffic.summary import Totals, results, sentences, write
from conformance.traffic.view import Rates, lines_of, table
from reference_server.finding import find_profile
from reference_server.state import SECOND

NICE = 10
_READ = 1 << 18
_EVERY = 0.5
"""Seconds between two looks at the live view."""
_LOOKS = 5.0
"""Seconds between two searches for clients that bypass the proxy."""
_BEHIND = 1.0
"""Seconds from which on a lag is reported."""
FAILED = 4
"""The exit code if the record or the report cannot be written."""


@dataclass(frozen=True)
class Setup:
    """The settings of the judging process, as JSON on its command line.

    ``port``: that of a server on this machine whose sockets are inspected; 0 if it is elsewhere.
    ``is_near``: no network is between the proxy and the server.
    """

    title: str
    profile: str
    record: str = ""
    report: str = ""
    is_shared: bool = False
    port: int = 0
    proxy: int = 0
    is_near: bool = False

    def encode(self) -> str:
        """Return it as an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read an argument."""
        return cls(**json.loads(text))


class Judging:
    """Judges events as they come, and shows how it goes."""

    def __init__(self, setup: Setup, display: Display) -> None:
        self._setup = setup
        self._display = display
        self.judge = TrafficJudge(
            find_profile(setup.profile),
            setup.is_shared,
            self._finds_strangers,
            "server" if setup.is_near else "suspicion",
        )
        self.totals = Totals()
        self.failure = ""
        self._file: IO[str] | None = None
        self._record: Record | None = None
        if setup.record:
            self._file = open(setup.record, "w", encoding="ascii")
            self._record = Record(self._file)
        self._rates = Rates()
        self._shown = self._looked = 0.0
        self._printed = 0
        self._lag = 0.0
        self._was_behind = False

    def _finds_strangers(self) -> bool:
        setup = self._setup
        return bool(setup.port and bypassing(setup.port, setup.proxy))

    def take(self, event: Event) -> None:
        """Judge and record an event."""
        totals = self.totals
        totals.first = totals.first or event.at
        totals.last = event.at
        if event.kind is Kind.OPENED:
            totals.connections += 1
        elif event.kind is Kind.RECEIVED:
            totals.received_bytes += len(event.data)
        if self._record is not None:
            try:
                self._record.take(event)
            except OSError as error:
                self.failure = f"cannot write {self._setup.record}: {error.strerror}"
                self._record = None
        self.judge.take(event)

    def look(self) -> None:
        """Print new alarms, and show the live view, now and then."""
        now = time.monotonic()
        self._lag = max(time.time_ns() - self.totals.last, 0) / SECOND if self.totals.last else 0.0
        alarms = self.judge.known.alarms
        for alarm in alarms.kept[self._printed :]:
            for line in lines_of(alarm):
                self._display.print(line)
        self._printed = len(alarms.kept)
        if now - self._shown < _EVERY:
            return
        self._shown = now
        if self._setup.port and now - self._looked > _LOOKS and self.judge.known.is_following:
            self._looked = now
            if self._finds_strangers():
                self.judge.known.note_strangers()
        counts = {
            "requests": self.judge.requests,
            "replies": self.judge.replies,
            "bytes": self.totals.received_bytes,
        }
        self._rates.note(now, counts)
        if self._display.is_live:
            behind = self._lag if self._was_behind else 0.0
            self._display.update(table(self.judge, self._rates, behind, self.judge.known.unjudged))
        if self._file is not None and self._record is not None:
            with contextlib.suppress(OSError):
                self._file.flush()

    def note_lag(self, at: int) -> None:
        """Note by how much an event is judged late."""
        lag = max(time.time_ns() - at, 0) / SECOND
        self.totals.longest_lag = max(self.totals.longest_lag, lag)
        if lag > _BEHIND and not self._was_behind:
            said = f"the judge is {lag:.1f} s behind; nobody waits for it"
            self.judge.known.alarms.notice(at / SECOND, said)
        self._was_behind = lag > _BEHIND

    def run(self, fd: int) -> None:
        """Judge all that comes from a descriptor, to its end."""
        reader = EventReader()
        while True:
            ready, _, _ = select.select([fd], [], [], _EVERY)
            if ready:
                data = os.read(fd, _READ)
                if not data:
                    break
                event = None
                for event in reader.read(data):
                    self.take(event)
                if event is not None:
                    self.note_lag(event.at)
            self.look()
        self.look()

    def end(self) -> int:
        """Print the results, and write the report; return the exit code."""
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self.failure = f"cannot write {self._setup.record}: {error.strerror}"
        traffic = results(self._setup.title, self.judge, self.totals)
        if self._setup.report:
            folder = Path(self._setup.report)
            try:
                write(traffic, folder)
                print(f"report: {folder / 'traffic.html'}")
            except OSError as error:
                self.failure = f"cannot write the report: {error.strerror}"
        for line in sentences(traffic):
            print(line)
        if self.failure:
            print(self.failure, file=sys.stderr)
            return FAILED
        return int(self.judge.known.alarms.are_real)


def main() -> int:
    """Judge standard input; the exit code is that of the proxy."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(NICE)
    with Display() as display:
        judging = Judging(Setup.decode(sys.argv[1]), display)
        judging.run(0)
    return judging.end()


if __name__ == "__main__":
    sys.exit(main())
