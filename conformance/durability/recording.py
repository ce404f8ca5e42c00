"""A conversation with a server and its operations on files, merged into one order."""

from __future__ import annotations

import json
import math
import re
import shlex
import tempfile
import time
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from conformance.durability.crashes import Crash, CrashKind, safe
from conformance.durability.expected_jobs import ExpectedJobs
from conformance.durability.operations import Idle, Operation, SendBytes, Timed, Write
from conformance.durability.scene_transcript import SceneTranscript, Spoken
from conformance.durability.scenes import CrashScene, Pause, Say
from conformance.durability.strace import Reader, arguments
from conformance.target.address import connect
from conformance.target.failing_calls import needs_strace
from conformance.target.launch import DidNotStart, Launched
from conformance.target.limits import Limits
from conformance.target.transport import Transport
from conformance.verdict import NotTestable
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, Reply, ReplyReader

SLACK = 1.0
"""Seconds by which a server may be later to sync than it says, as the machine may be busy."""
_LOOK = 0.1
"""Seconds after which it is looked again whether a pause has been long enough."""
NEVER = math.inf
"""The seconds that lost power may cost where nothing is ever synced."""
_SYNCS = (1, 12)
"""The first version of beanstalkd that syncs by default, every 50 milliseconds."""


@dataclass(frozen=True)
class SceneRecording:
    """A scene as it went; ``story`` is its model, ``loss`` the seconds that lost power may cost."""

    scene: CrashScene
    transcript: SceneTranscript
    operations: list[Timed]
    mapped: frozenset[str]
    story: ExpectedJobs
    loss: float

    @cached_property
    def answered(self) -> list[int]:
        """The number of operations that had ended when each command was answered."""
        said, at, found = 0, 0, []
        for one in self.transcript.spoken:
            while said < one.said:
                if at == len(self.operations):
                    if one is not self.transcript.spoken[-1]:
                        raise NotTestable("strace does not show how it sends its replies")
                    # It was ended before strace could tell; so nothing is said about it.
                    at += 1
                    break
                operation = self.operations[at].operation
                said += operation.size if isinstance(operation, SendBytes) else 0
                at += 1
            found.append(at)
        return found

    @cached_property
    def _safe(self) -> list[int]:
        return safe(self.operations)

    def bounds(self, crash: Crash) -> tuple[int, int]:
        """Return how many commands must have had their effect, and how many may have."""
        known = bisect_right(self.answered, crash.at)
        most = min(known + 1, len(self.transcript.spoken))
        if crash.kind is CrashKind.KILLED or self.loss == 0:
            return known, most
        kept = bisect_right(self.answered, self._safe[crash.at])
        if crash.at and self.loss != NEVER:
            until = self.operations[crash.at - 1].time - self.loss - SLACK
            times = [self.operations[at - 1].time for at in self.answered[:known]]
            kept = max(kept, bisect_right(times, until))
        return kept, most


class RecordingFiles(NamedTuple):
    """The files of a recording, in a folder."""

    trace: Path
    talk: Path
    inventories: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> RecordingFiles:
        """Return where the recording of a scene is."""
        return cls(*(folder / f"{name}.{kind}" for kind in ("strace", "json", "inventories")))


def record(
    command: str,
    scene: CrashScene,
    profile: Profile,
    limits: Limits,
    loss: float,
    kept: RecordingFiles,
) -> None:
    """Play a scene on a server under strace, and keep the recording; raises NotTestable."""
    needs_strace()
    with tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-") as folder:
        traced = f"{shlex.join(arguments(str(kept.trace)))} {command}"
        try:
            launched = Launched(traced, values={"binlog": folder}, limits=limits)
        except DidNotStart as error:
            raise NotTestable(f"under strace, it {error.how}: {error.said}") from error
        with launched as server:
            played = play(server, scene, profile, limits, loss)
        place = server.where
    talk = {
        "spoken": played.transcript.as_json(),
        "idle": played.idle,
        "folder": folder,
        "place": place if isinstance(place, str) else list(place),
    }
    kept.talk.write_text(json.dumps(talk), encoding="utf-8")


def _pause(server: Launched, seconds: float) -> float:
    """Wait for so many seconds in which it got the CPU; return when they ended without the rest."""
    begun, before = time.time(), server.meter.read().waited
    while True:
        time.sleep(_LOOK)
        waited = server.meter.read().waited - before
        if (end := time.time() - waited) - begun > seconds + _LOOK:
            return end


class Played(NamedTuple):
    """A scene as it was played, and the times at which all clients had been quiet for long."""

    transcript: SceneTranscript
    idle: list[float]


def usual_loss(profile: Profile) -> float:
    """Return the seconds that a power loss may cost with the default options of beanstalkd."""
    return NEVER if profile.written < _SYNCS else 0.05


def play(
    server: Launched, scene: CrashScene, profile: Profile, limits: Limits, loss: float
) -> Played:
    """Play a scene; raise NotTestable if it goes wrong before any crash."""
    ids: dict[str, int] = {}
    spoken: list[Spoken] = []
    idle: list[float] = []
    clients: dict[str, Transport] = {}
    # It is built again when the recording is read.
    story = ExpectedJobs(profile, None, len(scene.steps))
    said = 0
    for step in scene.steps:
        if isinstance(step, Pause):
            idle.append(_pause(server, loss + SLACK) if 0 < loss < NEVER else time.time())
            continue
        if step.client not in clients:
            clients[step.client] = Transport(connect(server.where, limits.probe))
        begun = time.time()
        reply, size = _ask(clients[step.client], step.encoded(ids), profile, limits.reply)
        said, took = said + size, time.time() - begun
        due = story.say(step, begun)
        if reply.word == "INSERTED" and step.job:
            ids[step.job] = int(reply.args[0])
        _compare(step, reply, due, ids, story)
        spoken.append(Spoken(step, ids.get(step.job, 0), said, begun, took, str(reply)))
    for client in clients.values():
        client.close()
    return Played(SceneTranscript(spoken), idle)


def _ask(client: Transport, request: bytes, profile: Profile, limit: float) -> tuple[Reply, int]:
    """Say a command; return its reply, and the bytes that it has."""
    reader, end, size = ReplyReader.of(profile), time.monotonic() + limit, 0
    client.send(request)
    try:
        while (reply := reader.next_reply()) is None:
            data = client.receive_within(end - time.monotonic())
            if not data and (client.ended or time.monotonic() >= end):
                raise NotTestable(f"it does not answer {request[:60]!r}")
            size += len(data)
            reader.receive(data)
    except ProtocolError as error:
        raise NotTestable(f"it answers {request[:60]!r} with {error}") from error
    return reply, size


def _compare(step: Say, reply: Reply, due: Reply, ids: dict[str, int], story: ExpectedJobs) -> None:
    """Raise NotTestable if a reply is not the one that is due: then nothing can be said of jobs."""
    is_job = due.word == "RESERVED"
    same = reply.word == due.word and reply.body == due.body
    if same and is_job:
        same = ids.get(story.name(int(due.args[0]))) == int(reply.args[0])
    if not same:
        raise NotTestable(f"before any crash, it answers {step.line!r} with {reply}, not {due}")


def read(kept: RecordingFiles, scene: CrashScene, profile: Profile, loss: float) -> SceneRecording:
    """Read a recording that was kept; raise NotTestable if it does not show enough."""
    talk = json.loads(kept.talk.read_text(encoding="utf-8"))
    place = talk["place"]
    pattern = r"UNIX" if isinstance(place, str) else rf":{place[1]}->"
    reader = Reader(talk["folder"], re.compile(pattern))
    with kept.trace.open(encoding="ascii", errors="replace") as lines:
        operations = _coalesced([*reader.read(lines), *(Timed(t, Idle()) for t in talk["idle"])])
    story = ExpectedJobs(profile, None, scene.begin)
    transcript = SceneTranscript.of_json(scene, talk["spoken"])
    for one in transcript.spoken:
        story.say(one.step, one.time)
    recording = SceneRecording(scene, transcript, operations, frozenset(reader.mapped), story, loss)
    if not any(isinstance(one.operation, Write) for one in operations):
        raise NotTestable("strace does not show that it writes any file in {binlog}")
    assert recording.answered
    return recording


def _coalesced(operations: list[Timed]) -> list[Timed]:
    """Return them in order; adjacent writes of zeros are one write."""
    runs: list[list[Timed]] = []
    for one in sorted(operations, key=lambda timed: timed.time):
        if runs and _go_on(runs[-1][-1].operation, one.operation):
            runs[-1].append(one)
        else:
            runs.append([one])
    return [_joined(run) for run in runs]


def _go_on(last: Operation, this: Operation) -> bool:
    """Tell whether both write zeros, one after the other."""
    return (
        isinstance(last, Write)
        and isinstance(this, Write)
        and last.file == this.file
        and last.offset + len(last.data) == this.offset
        and last.is_zeros
        and this.is_zeros
    )


def _joined(run: list[Timed]) -> Timed:
    """Return one write in place of several."""
    first, last = run[0].operation, run[-1].operation
    if not (isinstance(first, Write) and isinstance(last, Write)) or first is last:
        return run[0]
    size = last.offset + len(last.data) - first.offset
    return Timed(run[-1].time, first._replace(data=bytes(size), synced=last.synced))
