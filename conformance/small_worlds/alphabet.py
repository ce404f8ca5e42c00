"""The actions of a small world: all that its clients may do in an abstract state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from conformance.small_worlds.view import StateView
from conformance.small_worlds.world import World
from reference_server.lifecycle import SAFETY_MARGIN
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import SECOND, Client, JobState

GONE = -1
"""The place of a job that was deleted, or never there."""
MARGIN = 3 * SECOND // 10
"""Nanoseconds before and behind the end of a timer that are just before and just past it."""
NEAR = SECOND // 20
"""Nanoseconds that do not matter."""
_ERRORS = (b"foo\r\n", b"put 0 0 1 1\r\nxyz")
_MANY = 10


class Action(NamedTuple):
    """Something that may be done next; ``client`` and ``job`` are places in a :class:`View`.

    ``text``: a command of the client, with ``%d`` for the id of the job. Without it, the client
    connects if it is the first behind those that are there, else closes its connection; ``half``:
    it sends nothing more, and is heard to the end. ``nanoseconds``: time that passes.
    """

    client: int = 0
    text: bytes = b""
    job: int | None = None
    half: bool = False
    nanoseconds: int = 0

    @property
    def is_put(self) -> bool:
        """Return whether it is a put that makes a job, if the server takes any."""
        return self.text.startswith(b"put") and self.text.endswith(b"\r\na\r\n")

    @property
    def verb(self) -> str:
        """The command, or what happens instead."""
        if self.text:
            return self.text.split()[0].decode()
        return "time" if self.nanoseconds else "half-close" if self.half else "connect or close"


class Alphabet:
    """All actions of a world under a profile."""

    def __init__(self, world: World, profile: Profile) -> None:
        self._world = world
        self._profile = profile
        self._by_job = [
            f"{text}\r\n".encode()
            for verb, texts in self._about_jobs()
            if verb in profile.commands
            for text in texts
        ]
        self._always = [f"{text}\r\n".encode() for text in self._about_all()]
        self._puts = [b"put %d %d %d 1\r\na\r\n" % put for put in world.puts]

    def _about_jobs(self) -> Iterator[tuple[str, list[str]]]:
        world = self._world
        for verb in ("reserve-job", "delete", "touch", "kick-job", "peek"):
            yield verb, [f"{verb} %d"]
        yield "bury", [f"bury %d {pri}" for pri in world.priorities]
        yield (
            "release",
            [f"release %d {pri} {delay}" for pri in world.priorities for delay in world.delays],
        )

    def _about_all(self) -> Iterator[str]:
        world, commands = self._world, self._profile.commands
        yield from (f"kick {bound}" for bound in (0, 1, _MANY))
        if "reserve-with-timeout" in commands:
            yield "reserve-with-timeout 0"
        if "pause-tube" in commands:
            yield from (
                f"pause-tube {tube} {pause}" for tube in world.tubes for pause in world.pauses
            )
            if world.pauses:
                yield f"pause-tube {world.unknown} 1"
        if len(world.tubes) > 1:
            verbs = ("use", "watch", "ignore")
            yield from (f"{verb} {tube}" for verb in verbs for tube in world.tubes)
            yield from (f"{verb} {world.unknown}" for verb in ("ignore", "stats-tube"))

    def actions(self, seen: StateView, model: Model, clients: dict[int, Client]) -> list[Action]:
        """Return all actions that may come next in a state, in the same order for equal states."""
        world, found = self._world, list[Action]()
        for place, number in enumerate(seen.clients):
            conn = clients[number]
            if not conn.waiting:
                found += self._requests(place, seen, model, conn)
            if world.leaves:
                found.append(Action(place))
                if self._profile.half_close:
                    found.append(Action(place, half=True))
        if len(seen.clients) < world.clients:
            found.append(Action(len(seen.clients)))
        if world.timed:
            found += [Action(nanoseconds=span) for span in _spans(model)]
        return found

    def _requests(
        self, place: int, seen: StateView, model: Model, conn: Client
    ) -> Iterator[Action]:
        world = self._world
        if len(seen.jobs) < world.jobs:
            yield from (Action(place, text) for text in self._puts)
        for job in (*range(len(seen.jobs)), GONE):
            yield from (Action(place, text, job) for text in self._by_job)
        yield from (Action(place, text) for text in self._always)
        if _is_answered(conn, model.now):
            yield Action(place, b"reserve\r\n")
        elif sum(client.waiting for client in model.connections.values()) < world.waiting:
            for timeout in world.timeouts:
                line = "reserve" if timeout is None else f"reserve-with-timeout {timeout}"
                yield Action(place, f"{line}\r\n".encode())
        if world.errors:
            yield from (Action(place, text) for text in _ERRORS)
        if world.leaves and "quit" in self._profile.commands:
            yield Action(place, b"quit\r\n")


def _is_answered(conn: Client, now: int) -> bool:
    """Tell whether a client that reserves a job now need not wait."""
    soon = conn.deadlines and conn.deadlines[0][0] - SAFETY_MARGIN <= now
    return bool(soon) or any(tube.ready and not tube.pause for tube in conn.watch)


def _spans(model: Model) -> list[int]:
    """Return the times to just before and just past what falls due next, in nanoseconds.

    Not where something else falls due at nearly the same time, as it is open which comes first.
    """
    edges = sorted(edge - model.now for edge in _edges(model) if edge > model.now)
    found = []
    for side in (-MARGIN, MARGIN) if edges else ():
        span = edges[0] + side
        others = edges[1:] if side > 0 else edges
        if span > MARGIN and all(edge - span > MARGIN - NEAR for edge in others):
            found.append(span)
    return found


def _edges(model: Model) -> Iterator[int]:
    """Yield the times at which something changes of itself."""
    for job in model.jobs.values():
        if job.state in (JobState.RESERVED, JobState.DELAYED):
            yield job.deadline
        if job.state is JobState.RESERVED:
            yield job.deadline - SAFETY_MARGIN
    yield from (tube.unpause_at for tube in model.tubes if tube.pause)
    for client in model.connections.values():
        if client.waiting and client.timeout_at is not None:
            yield client.timeout_at
