"""The counters and limits of a target at the beginning of a judged conversation."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from conformance import yamlish
from conformance.dialogue.grace_period import STEP, attempts
from conformance.oracle.reply_comparison import Before
from conformance.target.address import TargetError, ask, visit
from conformance.target.clock import TargetClock, pause
from conformance.target.limits import Limits
from conformance.target.target import Target
from conformance.target.transport import Transport
from conformance.transcript import Counters
from conformance.usual_answers import key_requirement
from conformance.verdict import TargetLost
from reference_server.profiles import Profile
from reference_server.state import JobState
from reference_server.wire import ProtocolError, Reply


class GarbledReply(TargetError):
    """Bytes came that are no reply to what was asked."""

    expected = "a reply of the protocol"


class Unanswered(TargetError):
    """After ``line``, a reply with this word should come; nothing came within so many seconds."""

    def __init__(self, line: bytes, word: str, seconds: float) -> None:
        super().__init__(f"no reply within {seconds:g} seconds")
        self.line, self.word, self.expected = line, word, f"{word} …"


class CountedTarget(NamedTuple):
    """The counters that a target reports; ``profile`` has its limits.

    ``fresh``: statistics are as they are now. ``known``: see :class:`Judge`; None if others may
    change the counters, or some are missing. ``jobs``: the number of jobs in the tube in which all
    clients begin. ``taken``: other tubes with jobs.
    """

    profile: Profile
    fresh: bool
    known: Counters | None
    before: Before
    jobs: int
    taken: frozenset[bytes]


def counted(target: Target, profile: Profile) -> CountedTarget:
    """Ask a target for its counters, on a connection that it counts, too, and that then ends.

    Raises TargetLost, GarbledReply, Unanswered, or TargetError if it does not tell its stats.
    """
    last, tubes = 0, frozenset[str]()
    try:
        with visit(target.address, target.limits.probe, target.traits) as sock:
            client = _SnapshotClient(sock, target)
            if target.exclusive and profile.has_tubes:
                if target.traits.ends_connections and not target.traits.keeps_tubes:
                    # Else clients that have left keep them.
                    _await_tubes(client, target.clock, target.limits)
                tubes = client.other_tubes()
            taken = frozenset(tube.encode() for tube in tubes if client.has_jobs(tube))
            if target.exclusive:
                last = client.last_id(profile)
            default = client.dictionary(b"stats-tube default") if profile.has_tubes else None
            first, stats = (client.dictionary(b"stats") for _ in range(2))
        profile = _limited(profile, stats)
        # The connection that asked has ended.
        stats["total-connections"] = str(int(stats["total-connections"]) - 1)
        # Some servers keep their statistics for a while.
        fresh = stats["cmd-stats"] != first["cmd-stats"]
    except (OSError, EOFError, ProtocolError, ValueError, KeyError, Unanswered) as error:
        if outage := target.outage():
            raise TargetLost("a server that reports its stats", outage) from error
        if isinstance(error, Unanswered):
            raise
        if isinstance(error, KeyError):
            key = str(error.args[0])
            missing = TargetError(f"the stats of the target have no key {key!r}")
            missing.requirement = key_requirement("stats", key)
            raise missing from error
        if isinstance(error, ProtocolError):
            raise GarbledReply(str(error)) from error
        why = str(error) or "it closes the connection"
        raise TargetError(f"the target does not report its stats: {why}") from error
    # Without tubes, all that is counted is of the one queue.
    of_default = stats if default is None else default
    complete = target.exclusive and fresh and _is_complete(stats, of_default, profile)
    known = Counters(stats, of_default, last + 1) if complete else None
    there = Before.of(stats, tubes, target.sync_verb)
    return CountedTarget(profile, fresh, known, there, _jobs(of_default), taken)


class _SnapshotClient:
    """A client that asks a target for its counters; raises Unanswered if it is not answered."""

    def __init__(self, sock: Transport, target: Target) -> None:
        self._sock = sock
        self._limit = target.limits.probe

    def _ask(self, line: bytes, word: str = "OK", tells_priority: bool | None = False) -> Reply:
        """Return the reply, which should begin with this word."""
        try:
            return ask(self._sock, line, self._limit, tells_priority)
        except TimeoutError:
            raise Unanswered(line, word, self._limit) from None

    def dictionary(self, line: bytes) -> dict[str, str]:
        """Return the statistics that this line asks for; raises ValueError if there are none."""
        reply = self._ask(line)
        if reply.body is None:
            raise ValueError(f"{line.decode()} is answered {reply}")
        return yamlish.dictionary(reply.body)

    def other_tubes(self) -> frozenset[str]:
        """Return the tubes besides that in which all clients begin, as far as they can be read."""
        listed = self._ask(b"list-tubes").body or b""
        with contextlib.suppress(ValueError):
            # The tests of list-tubes report an invalid list.
            return frozenset(yamlish.names(listed)) - {"default"}
        return frozenset()

    def has_jobs(self, tube: str) -> bool:
        """Return whether a tube has any jobs; it may be gone by now."""
        reply = self._ask(f"stats-tube {tube}".encode())
        return reply.word == "OK" and _jobs(yamlish.dictionary(reply.body or b"")) > 0

    def last_id(self, profile: Profile) -> int:
        """Return the id of a job that is put and deleted at once."""
        try:
            put = self._ask(b"put 0 0 1 0\r\n", "INSERTED")
        except ProtocolError as error:
            raise ProtocolError(f"{error}, instead of a reply to put") from error
        id = int(put.args[0]) if put.args else 0
        if "ready" not in profile.deletes:
            self._ask(b"reserve", "RESERVED", tells_priority=None)
        self._ask(b"delete %d" % id, "DELETED")
        return id


def _await_tubes(client: _SnapshotClient, clock: TargetClock, limits: Limits) -> None:
    """Let tubes go that were left before, as far as they do."""
    for is_last in attempts(limits):
        if is_last or all(client.has_jobs(tube) for tube in client.other_tubes()):
            return
        pause(clock, STEP)


def _jobs(stats: Mapping[str, str]) -> int:
    """Return the number of jobs in statistics."""
    counts = (stats.get(f"current-jobs-{state.value}", "") for state in JobState)
    return sum(int(count) for count in counts if count.isdecimal())


def _limited(profile: Profile, stats: Mapping[str, str]) -> Profile:
    """Return the profile with the limits that a target reports."""
    if "stats.max-job-size" not in profile.lacks:
        profile = replace(profile, max_job_size=int(stats["max-job-size"]))
    if profile.max_jobs_ready is not None:
        profile = replace(profile, max_jobs_ready=int(stats["limit-max-jobs-ready"]))
    return profile


def _is_complete(
    counters: Mapping[str, str], of_default: Mapping[str, str], profile: Profile
) -> bool:
    """Tell whether statistics have all keys that :meth:`Oracle.adopt` needs."""
    needed = [counters.get(key, "") for key in ("total-jobs", "job-timeouts", "total-connections")]
    of_tube = {"total-jobs", "cmd-delete", "cmd-pause-tube"} if profile.has_tubes else set()
    reported = {key for key in of_tube if f"stats-tube.{key}" not in profile.lacks}
    needed += [of_default.get(key, "") for key in reported]
    needed += [value for key, value in counters.items() if key.startswith("cmd-")]
    return all(value.isdecimal() for value in needed)
