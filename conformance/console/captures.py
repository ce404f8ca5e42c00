"""The part of ``check`` that judges packet captures."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from conformance.captures.files import CaptureFile, DamagedCapture, Frame
from conformance.captures.flows import Flows
from conformance.captures.judging import JudgedServer, judged
from conformance.captures.segments import Decoder, TcpSegment
from conformance.captures.servers import MOST_SERVERS
from conformance.captures.strace import HOW, TRACED, Ambiguous, Trace
from conformance.captures.survey import Survey, survey
from conformance.console.progress import ProgressBar
from conformance.traffic.alarms import About, Alarm
from conformance.traffic.summary import notes, results, summary_lines
from conformance.traffic.view import lines_of
from conformance.usage import refuse
from reference_server.profiles import Profile
from reference_server.state import SECOND
from reports.words import counted

_NOTES = 10
"""Notes about what cannot be followed that are printed for a server."""
_FRAMES = 4096
"""Frames between two words about the progress."""


class _Pass:
    """One pass over a capture."""

    def __init__(self, file: BinaryIO, verb: str) -> None:
        self.capture = CaptureFile(file)
        self.decoder = Decoder()
        self.flows = Flows()
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._progress = ProgressBar(verb)

    def segments(self) -> Iterator[TcpSegment]:
        """Yield all TCP segments."""
        self._file.seek(0)
        try:
            yield from self.decoder.segments(self._watched())
        finally:
            self._progress.end()

    def _watched(self) -> Iterator[Frame]:
        for number, frame in enumerate(self.capture.frames()):
            if number % _FRAMES == 0 and self._size:
                self._progress.show(self._file.tell() / self._size)
            yield frame


def check_capture(name: str, file: BinaryIO, profile: Profile) -> int:
    """Judge a capture and print the verdict; return the exit code."""
    if file.seekable():
        return _check(name, file, profile)
    with tempfile.TemporaryFile() as copy:
        # It is read twice.
        shutil.copyfileobj(file, copy)
        return _check(name, copy, profile)


def _check(name: str, file: BinaryIO, profile: Profile) -> int:
    first, second = _Pass(file, "read"), _Pass(file, "judged")
    try:
        found = survey(first.flows, first.segments(), profile)
    except DamagedCapture as error:
        raise refuse(f"{name}: {error}") from None
    found.dropped = first.capture.dropped
    if not found.servers:
        raise refuse(f"{name}: {_nothing(first, found)}")
    servers = judged(second.flows, second.segments(), found, profile)
    for server in servers:
        for line in _lines(server):
            print(line)
    for line in _remarks(first, found):
        print(f"note: {line}")
    return int(any(server.judge.known.alarms.are_real for server in servers))


def check_trace(name: str, file: BinaryIO, profile: Profile) -> int:
    """Judge the output of strace and print the verdict; return the exit code."""
    trace, servers = Trace(), dict[str, JudgedServer]()
    try:
        for server, event in trace.events(io.TextIOWrapper(file, "latin-1", newline="\n")):
            if server not in servers:
                # The trace of clients shows nothing of others.
                is_client = server != TRACED
                # A client may read late.
                overdue: About | None = "server" if trace.has_times and not is_client else None
                servers[server] = JudgedServer(server, profile, is_client, overdue, trace.has_times)
            servers[server].event(*event)
    except Ambiguous as error:
        raise refuse(f"{name}: {error}") from None
    spoken = [one for one in servers.values() if one.judge.replies]
    if not spoken:
        raise refuse(f"{name}: there is no beanstalk conversation in it; trace with {HOW}")
    for judged_server in spoken:
        for line in _lines(judged_server):
            print(line)
    has_alarms = any(one.judge.known.alarms.are_real for one in spoken)
    if has_alarms and TRACED in servers and not trace.has_vectors:
        print(f"not decided: the trace has no writev, so replies may be missing; use {HOW}")
    return int(has_alarms)


def _nothing(first: _Pass, found: Survey) -> str:
    """Return why there is nothing to judge."""
    decoder = first.decoder
    if found.has_requests_only:
        return "it has requests and no replies; capture both directions"
    if decoder.links and sum(decoder.links.values()) == decoder.frames:
        return f"frames of link type {min(decoder.links)} cannot be read"
    return (
        f"there is no beanstalk conversation in it: {counted(decoder.frames, 'frame')},"
        f" {counted(found.connections, 'TCP connection')}"
    )


def _lines(server: JudgedServer) -> list[str]:
    """Return what is printed of a server."""
    title = f"server {server.name}"
    traffic = results(title, server.judge, server.totals)
    lines = [title]
    for alarm in server.judge.known.alarms.kept:
        lines += _with_time(alarm)
    remarks = notes(traffic)
    lines += [*summary_lines(traffic), *_unseen(server), *remarks[:_NOTES]]
    if more := len(remarks[_NOTES:]):
        lines.append(f"and {counted(more, 'note')} more")
    return lines


def _with_time(alarm: Alarm) -> list[str]:
    first, *others = lines_of(alarm)
    at = datetime.fromtimestamp(alarm.at, UTC).isoformat(timespec="milliseconds")
    return [f"{first}, {at}", *others]


def _unseen(server: JudgedServer) -> list[str]:
    """Return sentences about what the capture does not show of a server."""
    lines = []
    if server.gaps:
        cut = f", {server.cut:,} of them cut by the snap length" if server.cut else ""
        lines.append(
            f"not seen: {server.missing:,} bytes in {counted(server.gaps, 'gap')}{cut};"
            f" the first: {server.first_gap}"
        )
    if server.earlier:
        lines.append(f"begun before the capture: {counted(server.earlier, 'conversation')}")
    if server.joined:
        lines.append(
            f"judged again from where they are understood: {counted(server.joined, 'conversation')}"
        )
    passed = server.totals.last - server.totals.first
    if server.followed < passed:
        lines.append(
            f"jobs were followed in {server.followed / SECOND:.3f} of {passed / SECOND:.3f} s"
        )
    return lines


def _remarks(first: _Pass, found: Survey) -> list[str]:
    """Return sentences about the whole capture."""
    decoder = first.decoder
    lines = []
    if len(found.servers) == MOST_SERVERS:
        lines.append(f"no more than {MOST_SERVERS:,} servers are judged")
    if found.disorder:
        lines.append(
            f"the capture is out of order within {counted(found.disorder, 'segment')}: it does not"
            " tell whether a reply was sent before the requests of others nearby"
        )
    if found.dropped:
        lines.append(
            f"the capture has lost {counted(found.dropped, 'packet')}, by its own statistics: what"
            " they held is not seen, and may have changed any job"
        )
    if first.capture.is_cut:
        lines.append("the file ends in the middle of a frame")
    for link, count in sorted(decoder.links.items()):
        lines.append(f"{counted(count, 'frame')} of link type {link} cannot be read")
    if decoder.fragments:
        lines.append(f"{counted(decoder.fragments, 'fragment')} of IP packets left out")
    if decoder.malformed:
        lines.append(f"{counted(decoder.malformed, 'frame')} malformed, or cut within a header")
    return lines
