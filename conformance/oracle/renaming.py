"""Renames jobs of a model to the ids that the target gives."""

from __future__ import annotations

from sortedcontainers import SortedList

from reference_server.model import Model
from reference_server.state import Deadlines, Job, Timer


def rename(model: Model, old: int, new: int) -> None:
    """Give a job of a model another id; it keeps its place but where ids make the order."""
    job, timers = model.jobs[old], model._timers
    tables: list[dict[int, Job]] = [model.jobs, job.tube.buried]
    queues: list[tuple[SortedList[tuple[int, int]] | Deadlines, int]]
    queues = [(job.tube.ready, job.pri), (job.tube.delayed, job.deadline)]
    if job.reserver is not None:
        tables.append(job.reserver.reserved)
        queues.append((job.reserver.deadlines, job.deadline))
    for queue, place in queues:
        if (place, old) in queue:
            queue.remove((place, old))
            queue.add((place, new))
    for kind in (Timer.DELAY, Timer.TTR):
        if (job.deadline, kind, old) in timers:
            timers.remove((job.deadline, kind, old))
            timers.add((job.deadline, kind, new))
    for table in tables:
        renamed = [(new if id == old else id, other) for id, other in table.items()]
        if old in table:
            table.clear()
            table.update(renamed)
    job.id = new
    model.next_id = max(model.next_id, new + 1)
