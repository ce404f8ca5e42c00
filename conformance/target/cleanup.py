"""What the suite has put on a target is taken away again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from conformance import yamlish
from conformance.target.address import ask, visit
from conformance.target.target import Target
from reference_server.profiles import Profile
from reference_server.state import JobState
from reference_server.wire import ProtocolError, Reply

MOVES = 1000
"""Jobs that are moved to get at one of them."""


def delete_jobs(target: Target, generation: int, jobs: Iterable[int], limit: float) -> None:
    """Deletes jobs of ours, in whatever state; gives up ``limit`` seconds after a reply.

    ``generation``: the target's when they were made; in another one, they are somebody else's.
    """
    profile = target.profile
    with (
        contextlib.suppress(OSError, EOFError, ProtocolError, ValueError),
        visit(target.address, limit) as sock,
    ):

        def say(line: str) -> Reply:
            return ask(sock, line.encode(), limit, profile.tells_priority)

        for job in jobs if target.generation == generation else ():
            if say(f"delete {job}").word == "NOT_FOUND" and len(profile.deletes) < len(JobState):
                _free_and_delete(job, say, profile, target.exclusive)


def _free_and_delete(
    job: int, say: Callable[[str], Reply], profile: Profile, exclusive: bool
) -> None:
    """Deletes a job, in a state in which it cannot be deleted: others may be moved, too."""
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
                # What comes is another one of ours, perhaps.
                say(f"delete {say('reserve').args[0]}")
            case _:
                say(f"delete {job}")
                return
