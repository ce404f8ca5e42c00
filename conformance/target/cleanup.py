"""Removes everything that the suite has put on a target."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from conformance import yamlish
from conformance.target.address import ask, ask_all, visit
from conformance.target.footprint import FOOTPRINT, NAMES, OURS
from conformance.target.target import Target
from conformance.target.transport import Transport
from reference_server.profiles import Profile
from reference_server.state import JobState
from reference_server.wire import ProtocolError, Reply

MOVES = 1000
"""Jobs that are moved to get at one of them."""
NOTHING_LEFT = "nothing was left on the server"
_PEEKS = ("peek-ready", "peek-delayed", "peek-buried")
_AT_ONCE = 200
"""Commands whose replies fit into the buffers of a connection."""
_AGAIN = 0.02
"""Seconds until what clients had sent before they ended may have come to an effect."""


def delete_jobs(target: Target, generation: int, jobs: Iterable[int], limit: float) -> None:
    """Delete jobs of ours, in any state; give up if a reply takes more than ``limit`` seconds.

    ``generation``: the target's when they were made; in another one, they are somebody else's.
    """
    profile = target.profile
    with (
        contextlib.suppress(OSError, EOFError, ProtocolError, ValueError),
        visit(target.address, limit, target.traits) as sock,
    ):

        def say(line: str) -> Reply:
            return ask(sock, line.encode(), limit, profile.tells_priority)

        for job in jobs if target.generation == generation else ():
            if say(f"delete {job}").word == "NOT_FOUND" and len(profile.deletes) < len(JobState):
                _free_and_delete(job, say, profile, target.exclusive)


def _free_and_delete(
    job: int, say: Callable[[str], Reply], profile: Profile, exclusive: bool
) -> None:
    """Delete a job, in a state in which it cannot be deleted: others may be moved, too."""
    for _ in range(MOVES):
        stats = yamlish.dictionary(say(f"{profile.stats_of_job} {job}").body or b"")
        if stats.get("tube") == "default" and not exclusive:
            # Jobs of others might be kicked.
            return
        match stats.get("state"):
            case "delayed":
                if profile.has_tubes:
                    say(f"use {stats['tube']}")
                say("kick 1")
            case "ready" if "ready" not in profile.deletes:
                if profile.has_tubes:
                    say(f"watch {stats['tube']}")
                    if stats["tube"] != "default":
                        say("ignore default")
                # What comes is another one of ours, perhaps.
                say(f"delete {say('reserve').args[0]}")
            case _:
                say(f"delete {job}")
                return


def leave(target: Target, jobs: list[int]) -> bool:
    """Delete jobs, and all in the tubes of this process; return whether nothing is left there.

    Takes about as long as a farewell may.
    """
    limit = target.limits.farewell
    if jobs:
        delete_jobs(target, target.generation, jobs, limit)
    if not target.profile.has_tubes:
        return True
    with contextlib.suppress(OSError, EOFError, ProtocolError, ValueError):
        return not sweep(target, FOOTPRINT.is_ours, limit)
    return False


def remedy(address: str) -> str:
    """Return how one removes what runs have left."""
    return f"if no run goes on, beanstalk-conformance cleanup --target={address} removes them"


def may_be_left(address: str) -> str:
    """Return the sentence about a run that could not remove everything that it made."""
    return f"jobs may be left in tubes {NAMES}{FOOTPRINT.run}…; {remedy(address)}"


def clean_up(target: Target) -> tuple[int, list[str]]:
    """Delete what runs have left; return the number of their tubes, and those that are left.

    A tube that a client uses or watches is skipped: a run may go on. Raises as :func:`sweep`.
    """
    limit = target.limits.clean_up
    with visit(target.address, limit, target.traits) as sock:
        broom = _Broom(target, sock, time.monotonic() + limit)
        found = broom.tubes(OURS.fullmatch)
        idle = broom.idle(found)
    left = sweep(target, idle.__contains__, limit) if idle else []
    return len(idle) - len(left), [tube for tube in found if tube in left or tube not in idle]


def tubes_of_runs(target: Target) -> list[str]:
    """Return the tubes of runs of the suite; none if the target does not list them."""
    limit = target.limits.clean_up
    with (
        contextlib.suppress(OSError, EOFError, ProtocolError, ValueError),
        visit(target.address, limit, target.traits) as sock,
    ):
        return _Broom(target, sock, time.monotonic() + limit).tubes(OURS.fullmatch)
    return []


def sweep(target: Target, is_meant: Callable[[str], object], limit: float) -> list[str]:
    """Delete the jobs in some tubes, whose names say so; return the tubes that are there after.

    Takes ``limit`` seconds at most, and checks again, as commands sent earlier may still put jobs.
    Raises OSError, EOFError, ProtocolError or ValueError if the target does not answer.
    """
    end = time.monotonic() + limit
    with visit(target.address, limit, target.traits) as sock:
        broom = _Broom(target, sock, end)
        left, times_clean = broom.tubes(is_meant), 0
        while times_clean < 2 and time.monotonic() < end:
            if not (left and broom.deletes_first_jobs(left)):
                time.sleep(_AGAIN)
            times_clean = 0 if left else times_clean + 1
            left = broom.tubes(is_meant)
    return left


class _Broom:
    """A connection that empties tubes; it never keeps one in use, so that empty ones can vanish."""

    def __init__(self, target: Target, sock: Transport, end: float) -> None:
        self._target = target
        self._sock = sock
        self._end = end

    @property
    def _limit(self) -> float:
        return max(self._end - time.monotonic(), 0.1)

    def tubes(self, is_meant: Callable[[str], object]) -> list[str]:
        """Return the tubes with such names."""
        (reply,) = self._say(["list-tubes"])
        return [name for name in yamlish.names(reply.body or b"") if is_meant(name)]

    def idle(self, tubes: list[str]) -> list[str]:
        """Return those of some tubes that no client uses or watches."""
        replies = self._say([f"stats-tube {tube}" for tube in tubes])
        counts = [yamlish.dictionary(reply.body or b"") for reply in replies]
        return [
            tube
            for tube, stats in zip(tubes, counts, strict=True)
            if stats.get("current-using", "0") == stats.get("current-watching", "0") == "0"
        ]

    def deletes_first_jobs(self, tubes: Iterable[str]) -> bool:
        """Delete the first job of each kind in each tube; return whether there was any."""
        asked = [line for tube in tubes for line in (f"use {tube}", *_PEEKS)]
        peeked = self._say([*asked, "use default"])
        jobs = [int(reply.args[0]) for reply in peeked if reply.word == "FOUND"]
        replies = self._say([f"delete {job}" for job in jobs])
        kept = [j for j, reply in zip(jobs, replies, strict=True) if reply.word == "NOT_FOUND"]
        if kept:
            delete_jobs(self._target, self._target.generation, kept, self._limit)
        return bool(jobs)

    def _say(self, lines: list[str]) -> list[Reply]:
        """Send commands, many at once if the target can take them; return the replies."""
        many = _AT_ONCE if self._target.traits.pipelines else 1
        said = [line.encode() for line in lines]
        parts = (said[at : at + many] for at in range(0, len(said), many))
        return [reply for part in parts for reply in ask_all(self._sock, part, self._limit)]
