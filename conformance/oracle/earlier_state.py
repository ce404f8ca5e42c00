"""The state of a server before the first line of a transcript, deduced from its replies.

Nobody knows which jobs it had. But once a reply names a job, that job was there, and later replies
must not contradict the first. So a transcript is judged as if the server had begun
with these jobs, each in the simplest state that explains the first reply about it. Its numbers are
those of its first `stats-job`, less what the transcript itself has done to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from conformance import yamlish
from conformance.oracle.judged_entries import Jobs, JudgedMessages
from conformance.oracle.underspecification import Lines, answered, talks
from conformance.oracle.violation import Violation
from conformance.transcript import OWN_TUBES, Entry
from reference_server.commands import COMMANDS
from reference_server.profiles import Profile
from reference_server.state import SECOND, JobState, KeptJob
from reference_server.wire import Command, Put, Reply

_INSERTED = re.compile(rb"(?:^|\n)INSERTED ([0-9]{1,20})")
_USES_OWN = f"use {OWN_TUBES}".encode()
_LIMIT = re.compile(rb"\nmax-job-size: ([0-9]{1,19})\n")
_KICKED = re.compile(r"KICKED ([0-9]{1,20})")
_BOUND = re.compile(rb"(?:^|\n)kick ([0-9]{1,20})\r\n")
_VALUE = re.compile(r"OK with ([a-z-]+): ([0-9]+)")
_STATES = {
    "peek-buried": JobState.BURIED,
    "peek": JobState.BURIED,
    "kick-job": JobState.BURIED,
    "peek-delayed": JobState.DELAYED,
}
"""The state of a job that a command succeeds with, where it is not ready."""
_SUCCESS = {"RESERVED", "FOUND", "DELETED", "KICKED"}
_NUMBERS = ("pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks")
_FAR = 2**32 * SECOND


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A reply about an earlier job: the command, the tube that it concerns, and the facts."""

    verb: str
    tube: str
    body: bytes
    values: dict[str, str]


def with_earlier_jobs(
    entries: Sequence[Entry], profile: Profile, judge: Callable[[Jobs], JudgedMessages]
) -> JudgedMessages:
    """Judge messages with the earlier jobs that explain most of them.

    ``judge`` judges them if the server had these jobs. A violation is in doubt if jobs of which
    too little is known may explain it.
    """
    sightings = _sightings(entries, profile)
    jobs = {id: _first(id, seen) for id, seen in sightings.items()}
    adjusted: set[tuple[int, str]] = set()
    while True:
        judged = judge(tuple(jobs.values()))
        if (violation := judged.violation) is None:
            return judged
        change = _adjusted(entries[violation.mark], violation, jobs)
        if change is None or change[:2] in adjusted:
            break
        id, key, jobs[id] = change
        adjusted.add((id, key))
    own = any(_USES_OWN in entry.data for entry in entries)
    sent = (entry.data for entry in entries[: violation.mark] if entry.direction == ">")
    bounds = [int(bound) for data in sent for bound in _BOUND.findall(data)]
    doubt = _doubt(sightings, violation, own, bounds[-1] if bounds else 0)
    return replace(judged, doubt=doubt)


def with_its_limit(entries: Sequence[Entry], profile: Profile) -> Profile:
    """Return the profile with the limit of bodies that a server was started with.

    Its statistics report it; else it is between the bodies that it took and those it refused.
    """
    limits = [int(size) for entry in entries for size in _LIMIT.findall(entry.data)]
    if limits:
        return replace(profile, max_job_size=limits[0])
    taken, refused = -1, [2**64]
    for sent, got in talks(entries):
        reader = Lines(profile)
        reader.read(sent)
        for request, _, reply in answered(reader, got, profile):
            if isinstance(request, Put) and reply is not None:
                if reply.word == "INSERTED":
                    taken = max(taken, request.size)
                elif reply.word == "JOB_TOO_BIG":
                    refused.append(request.size)
    least = min(refused)
    usual = profile.max_job_size
    if taken >= least or taken <= usual < least:
        return profile
    return replace(profile, max_job_size=taken if taken > usual else least - 1)


def _doubt(
    sightings: dict[int, list[_Sighting]], violation: Violation, own: bool, bound: int
) -> str:
    """Return why earlier jobs may explain a violation; empty if they do not.

    ``own``: the transcript is of a run of the suite, in tubes that nobody has used before.
    ``bound``: that of the last kick before it.
    """
    for id, seen in sightings.items():
        known = any(sighting.values for sighting in seen)
        held = seen[0].values.get("state") in ("reserved", "delayed")
        if not known or held:
            return f"job {id} is older than the transcript, so that its state is not known"
    kicked = _KICKED.match(violation.observed)
    more_than_asked = kicked is not None and int(kicked[1]) > bound
    is_about_kicks = kicked is not None and violation.expected[0].startswith("KICKED ")
    if is_about_kicks and not (own or more_than_asked):
        return "the tube may have jobs that are older than the transcript"
    return ""


def _sightings(entries: Sequence[Entry], profile: Profile) -> dict[int, list[_Sighting]]:
    """Return the replies about each earlier job: ids increase, so its id is below all new ones."""
    inserted = (found for entry in entries for found in _INSERTED.findall(entry.data))
    first = min(map(int, inserted), default=None)
    found: dict[int, list[_Sighting]] = {}
    for sent, got in talks(entries):
        reader = Lines(profile)
        reader.read(sent)
        for id, sighting in _seen_by(answered(reader, got, profile)):
            if first is None or id < first:
                found.setdefault(id, []).append(sighting)
    return found


def _seen_by(
    talk: Iterator[tuple[object, object, Reply | None]],
) -> Iterator[tuple[int, _Sighting]]:
    """Yield the jobs that one client meets, by their ids."""
    use, watched = "default", ["default"]
    for request, _, reply in talk:
        if not isinstance(request, Command) or reply is None:
            continue
        verb = request.verb
        if verb not in COMMANDS or reply.word not in COMMANDS[verb].replies:
            continue
        about = request.args[0] if request.args else ""
        if reply.word == "USING" and verb == "use":
            use = str(about)
        elif reply.word == "WATCHING" and verb == "watch":
            watched.append(str(about))
        elif reply.word == "WATCHING" and str(about) in watched:
            watched.remove(str(about))
        elif reply.word == "OK" and verb == "stats-job":
            yield from _in_statistics(reply)
        elif reply.word in _SUCCESS and verb not in ("kick", "stats"):
            id = reply.args[0] if reply.args else about
            if not isinstance(id, int):
                continue
            tube = (watched or [use])[0] if reply.word == "RESERVED" else use
            yield id, _Sighting(verb, tube, reply.body or b"", {})


def _in_statistics(reply: Reply) -> Iterator[tuple[int, _Sighting]]:
    try:
        values = yamlish.dictionary(reply.body or b"")
        tube = values.get("tube", "default")
        yield int(values["id"]), _Sighting("stats-job", tube, b"", values)
    except (ValueError, KeyError):
        return


def _first(id: int, seen: Sequence[_Sighting]) -> KeptJob:
    """Return an earlier job in the state that the replies about it imply."""
    first = seen[0]
    values = next((sighting.values for sighting in seen if sighting.values), {})
    body = next((sighting.body for sighting in seen if sighting.body), b"")
    state = _STATES.get(first.verb, JobState.READY)
    reported = first.values.get("state", "")
    if reported in {one.value for one in JobState}:
        state = JobState(reported)
    numbers = {key: _number(values.get(key, "0")) for key in _NUMBERS}
    left = _number(values.get("time-left", "")) * SECOND if first.values else _FAR
    if not values:
        # Its TTR ends at an unknown time.
        numbers["ttr"] = _FAR // SECOND
    return KeptJob(
        id,
        values.get("tube", first.tube),
        body,
        state,
        numbers["pri"],
        numbers["delay"],
        numbers["ttr"],
        -_number(values.get("age", "0")) * SECOND,
        left,
        0,
        *(numbers[key] for key in _NUMBERS[3:]),
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def _adjusted(
    entry: Entry, violation: Violation, jobs: dict[int, KeptJob]
) -> tuple[int, str, KeptJob] | None:
    """Return an earlier job with a number of a reply in place of another, and the key."""
    wanted, seen = _VALUE.fullmatch(violation.expected[0]), _VALUE.fullmatch(violation.observed)
    match = re.search(rb"\nid: ([0-9]{1,20})\n", entry.data)
    job = jobs.get(int(match[1])) if match else None
    if job is None or wanted is None or seen is None or wanted[1] != seen[1]:
        return None
    more = int(seen[2]) - int(wanted[2])
    key = wanted[1]
    if key == "age":
        return job.id, key, job._replace(created=job.created - more * SECOND)
    before = getattr(job, key, None) if key in _NUMBERS else None
    if not isinstance(before, int) or before + more < 0:
        return None
    return job.id, key, KeptJob(**job._asdict() | {key: before + more})
