"""The YAML documents of stats, stats-job, stats-tube and the list-tubes commands."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from reference_server.profiles import Profile
from reference_server.state import SECOND, Bag, Client, Job, JobState, Tube

COUNTED_COMMANDS = (
    *("put", "peek", "peek-ready", "peek-delayed", "peek-buried", "reserve"),
    *("reserve-with-timeout", "delete", "release", "use", "watch", "ignore", "bury", "kick"),
    *("touch", "stats", "stats-job", "stats-tube", "list-tubes", "list-tube-used"),
    *("list-tubes-watched", "pause-tube"),
)
"""The commands that stats counts, in the order in which it lists them."""

_MISREAD = re.compile(r"[-+.0-9#~]|(?:null|yes|no|on|off|true|false)\Z", re.IGNORECASE)
"""The beginnings of texts that YAML may take for a number, a time or a comment, and its words."""
_UNKNOWN_HOST: Mapping[str, object] = {
    "pid": 0,
    "rusage-utime": "0.000000",
    "rusage-stime": "0.000000",
    "binlog-records-written": 0,
    "binlog-max-size": 10485760,
    "id": "0000000000000000",
    "hostname": "localhost",
    "os": "unknown",
    "platform": "unknown",
}


class ServerFacts(Protocol):
    """The state of a server, as far as its statistics tell it; see :class:`Model`."""

    profile: Profile
    host: Callable[[], Mapping[str, object]]
    tubes: Bag[Tube]
    connections: dict[int, Client]
    producers: int
    workers: int
    waiting: int
    commands: Counter[str]
    max_job_size: int
    max_jobs_ready: int | None
    binlog: bool
    draining: bool
    started: int
    now: int
    timeouts: int
    total_jobs: int
    total_connections: int


def _document(model: ServerFacts, command: str, values: Mapping[str, object]) -> bytes:
    """Return a dictionary in YAML, without what the profile lacks, and what is None."""
    lacks = model.profile.lacks
    values = {**values, **model.profile.dialect.keys_of(command)}
    lines = [
        f"{key}: {value}\n"
        for key, value in values.items()
        if value is not None and f"{command}.{key}" not in lacks
    ]
    return "".join(["---\n", *lines]).encode()


def names(tubes: Iterable[Tube]) -> bytes:
    """Return tube names as a YAML list."""
    return "".join(["---\n", *(f"- {_as_string(tube.name)}\n" for tube in tubes)]).encode()


def _quote(model: ServerFacts, value: object) -> object:
    return f'"{value}"' if model.profile.yaml_quotes else _as_string(str(value))


def _as_string(text: str) -> str:
    """Return a text in quotes if YAML might take it for something else without them."""
    return f'"{text}"' if _MISREAD.match(text) else text


def _seconds(time: int) -> int:
    """Return the whole seconds in a span of nanoseconds, rounded towards zero."""
    return time // SECOND if time >= 0 else -(-time // SECOND)


def job(model: ServerFacts, job: Job) -> bytes:
    """Return the document of stats-job, or of stats where that may name a job."""
    timed = job.state in (JobState.RESERVED, JobState.DELAYED)
    return _document(
        model,
        "stats-job",
        {
            "id": job.id,
            "tube": _quote(model, job.tube.name),
            "state": job.state.value,
            "pri": job.pri,
            "age": _seconds(model.now - job.created),
            "delay": job.delay,
            "ttr": job.ttr,
            "time-left": _seconds(job.deadline - model.now) if timed else 0,
            "file": int(model.binlog),
            "reserves": job.reserves,
            "timeouts": job.timeouts,
            "releases": job.releases,
            "buries": job.buries,
            "kicks": job.kicks,
        },
    )


def tube(model: ServerFacts, tube: Tube) -> bytes:
    """Return the document of stats-tube."""
    return _document(
        model,
        "stats-tube",
        {
            "name": _quote(model, tube.name),
            "current-jobs-urgent": tube.urgent,
            "current-jobs-ready": len(tube.ready),
            "current-jobs-reserved": tube.reserved,
            "current-jobs-delayed": len(tube.delayed),
            "current-jobs-buried": len(tube.buried),
            "total-jobs": tube.total_jobs,
            "current-using": tube.using,
            "current-watching": tube.watching,
            "current-waiting": len(tube.waiting),
            "cmd-delete": tube.deletes,
            "cmd-pause-tube": tube.pauses,
            "pause": _seconds(tube.pause),
            "pause-time-left": _seconds(tube.unpause_at - model.now) if tube.pause else 0,
        },
    )


def server(model: ServerFacts) -> bytes:
    """Return the document of stats."""
    tubes = model.tubes
    host = {**_UNKNOWN_HOST, **model.host()}
    return _document(
        model,
        "stats",
        {
            "current-jobs-urgent": sum(t.urgent for t in tubes),
            "current-jobs-ready": sum(len(t.ready) for t in tubes),
            "current-jobs-reserved": sum(t.reserved for t in tubes),
            "current-jobs-delayed": sum(len(t.delayed) for t in tubes),
            "current-jobs-buried": sum(len(t.buried) for t in tubes),
            "limit-max-jobs-ready": model.max_jobs_ready,
            **{
                f"cmd-{verb}": model.commands[verb]
                for verb in COUNTED_COMMANDS
                if verb in model.profile.commands
            },
            "job-timeouts": model.timeouts,
            "total-jobs": model.total_jobs,
            "max-job-size": model.max_job_size,
            "current-tubes": len(tubes),
            "current-connections": len(model.connections),
            "current-producers": model.producers,
            "current-workers": model.workers,
            "current-waiting": model.waiting,
            "total-connections": model.total_connections,
            "pid": host["pid"],
            "version": f'"{model.profile.version}"',
            "rusage-utime": host["rusage-utime"],
            "rusage-stime": host["rusage-stime"],
            "uptime": _seconds(model.now - model.started),
            "binlog-oldest-index": int(model.binlog),
            "binlog-current-index": int(model.binlog),
            "binlog-records-migrated": 0,
            "binlog-records-written": host["binlog-records-written"],
            "binlog-max-size": host["binlog-max-size"],
            "draining": "true" if model.draining else "false",
            "id": host["id"],
            "hostname": _quote(model, host["hostname"]),
            "os": _quote(model, host["os"]),
            "platform": _quote(model, host["platform"]),
        },
    )
