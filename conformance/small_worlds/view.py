"""The abstract state of a small world: equal for states that differ in names and counts only.

Two states are the same here if one becomes the other by naming jobs and clients anew, and by
setting the clock. What is counted is no part of it; what a client sees of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from conformance.small_worlds.world import World
from reference_server.model import Model
from reference_server.state import SECOND, Client, Job, JobState

GRAIN = SECOND // 10
"""Nanoseconds by which times must differ to make states differ."""
Key = tuple[object, ...]
"""An abstract state."""


class StateView(NamedTuple):
    """An abstract state: its ``key``, and what stands for the numbers in it.

    ``clients``: the numbers of the clients that are connected; ``jobs``: the ids of all jobs.
    """

    key: Key
    clients: tuple[int, ...]
    jobs: tuple[int, ...]


def view(model: Model, world: World, clients: Mapping[int, Client]) -> StateView:
    """Return the abstract state of a model; ``clients`` are by number, those of the world first."""
    clients = {number: clients[number] for number in clients if number <= world.clients}
    named = {tube: place for place, tube in enumerate(world.tubes)}
    left = _time_left(model.now) if world.timed else _no_time
    ids = tuple(sorted(model.jobs))
    place = {job: index for index, job in enumerate(ids)}
    seen = {
        number: (
            *(named[client.use.name], tuple(sorted(named[tube.name] for tube in client.watch))),
            *(tuple(sorted(place[job] for job in client.reserved)), client.waiting),
            left(client.timeout_at) if client.waiting else None,
            (client.producer, client.worker) if world.roles else None,
        )
        for number, client in clients.items()
    }
    numbers = tuple(sorted(seen, key=lambda number: repr(seen[number])))
    rank = {id(clients[number]): index for index, number in enumerate(numbers)}
    found = [model.jobs[job] for job in ids]
    jobs = tuple((named[job.tube.name], *_of_job(job, left)) for job in found)
    tubes = tuple(
        (
            *(named[tube.name], left(tube.unpause_at) if tube.pause else None),
            *(
                tuple(place[job] for job in tube.buried),
                tuple(place[job] for _, job in tube.delayed),
            ),
            tuple(rank[id(client)] for client in tube.waiting if id(client) in rank),
        )
        for tube in sorted(model.tubes, key=lambda tube: named.get(tube.name, -1))
        if tube.name in named and (tube.pause or tube.buried or tube.delayed or tube.waiting)
    )
    return StateView((jobs, tuple(seen[number] for number in numbers), tubes), numbers, ids)


def _of_job(job: Job, left: Callable[[int | None], object]) -> Key:
    timed = job.state in (JobState.RESERVED, JobState.DELAYED)
    return job.state, job.pri, job.delay, job.ttr, left(job.deadline) if timed else None


def _time_left(now: int) -> Callable[[int | None], object]:
    return lambda end: None if end is None else round((end - now) / GRAIN)


def _no_time(end: int | None) -> object:
    return end is None
