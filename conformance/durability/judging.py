"""The differences between the jobs after a crash and the allowed ones.

Each job is as it was after one of the commands that may have been the last with an effect: those
from the last that must have had one up to the one that was on its way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from conformance.durability.expected_jobs import COUNTS, AllJobs, JobView
from conformance.durability.inspection import Inventory, shown

LATE = 2.0
"""Seconds by which a reported end of a delay may differ: replies have whole seconds."""
LARGE = 2**14
"""Bytes of a body that make a job a large one."""
LEFT = "time-left"
"""The key of the seconds until a delay ends."""


class JobDifference(NamedTuple):
    """One thing that is not as it must be; ``cause`` says in which way, whatever the job.

    ``subject``: the name or id of the job, or the tube; empty if it is about all. ``ids``: those of
    the jobs that it is about.
    """

    requirement: str
    cause: str
    expected: str
    observed: str
    subject: str = ""
    ids: tuple[int, ...] = ()

    @property
    def sides(self) -> tuple[str, str]:
        """The expected and the observed side, as a reader is shown them."""
        subject = f"{self.subject}: " if self.subject else ""
        return subject + self.expected, subject + self.observed


STARTS = "durability.starts"
_CHANGED = {
    "release": "persistence.release-priority",
    "bury": "persistence.bury",
    "kick": "persistence.kick",
    "kick-job": "persistence.kick",
    "put": "persistence.put",
}
"""The requirement about a job that is not as a command has left it, unless there is a finer one."""
_OF_FIELD = {
    "body": "durability.whole-jobs",
    "tube": "persistence.put",
    "ttr": "persistence.priority",
    **dict.fromkeys(COUNTS, "persistence.buries"),
}

JUDGED = (
    *(STARTS, "durability.whole-jobs", "durability.power-loss", "durability.buried-order"),
    *("persistence.put", "persistence.priority", "persistence.delay", "persistence.bury"),
    *("persistence.buries", "persistence.release-priority", "persistence.kick"),
    *("persistence.delete", "persistence.release-with-delay", "persistence.largest-body"),
    "persistence.reserved-becomes-ready",
)
"""All requirements that a job may show to be broken."""

_NUMBER = re.compile(r"[0-9]+")


def differences(
    inventory: Inventory, moments: Sequence[AllJobs], ids: dict[str, int], slowest: float = 0.0
) -> Iterator[JobDifference]:
    """Yield what is not as it is in any of these moments.

    ``slowest``: the seconds by which the server may have been later than the model.
    """
    if inventory.ending:
        cause = _NUMBER.sub("N", f"the server {inventory.ending}")
        expected = "a server that starts, with the jobs that it had"
        yield JobDifference(
            STARTS, cause, expected, f"it {inventory.ending}: {inventory.said[-200:]}"
        )
        return
    for name, id in ids.items():
        views = [moment.jobs.get(name) for moment in moments]
        for one in _of_job(name, views, inventory.jobs.get(id), inventory, id, slowest):
            yield one._replace(ids=(id,))
    known = set(ids.values())
    for id in sorted(set(inventory.jobs) - known):
        what = f"a job with the id {id}, and the body {inventory.jobs[id]['body']}"
        yield JobDifference(
            "durability.whole-jobs", "a job that nobody has put", "no such job", what
        )
    if inventory.counted not in (-1, len(inventory.jobs)):
        counted = f"stats count {inventory.counted} jobs, and {len(inventory.jobs)} can be found"
        yield JobDifference(
            "durability.whole-jobs", "jobs that cannot be found", "as many jobs as stats", counted
        )
    yield from _buried(inventory, moments, ids)


def _of_job(
    name: str,
    views: Sequence[JobView | None],
    found: dict[str, str] | None,
    inventory: Inventory,
    id: int,
    slowest: float,
) -> Iterator[JobDifference]:
    """Yield how a job differs from every allowed state."""
    there = [view for view in views if view is not None]
    if found is None:
        if len(there) == len(views):
            # What must be there at least: the commands after it may have had no effect.
            yield _missing(name, there[0])
        return
    if not there:
        yield _unexpected(name, views, found)
        return
    # What differs least from it, and of those the latest, is what it is most likely to be: in
    # another state, it has not even the same fields.
    there.sort(key=lambda view: view.state == found.get("state"))
    differing = [list(_fields(name, view, found, inventory, slowest)) for view in reversed(there)]
    yield from min(differing, key=len)
    if found.get("id", str(id)) != str(id):
        yield JobDifference("durability.whole-jobs", "another id", str(id), found["id"], name)


def _missing(name: str, view: JobView) -> JobDifference:
    large = len(view.body) >= LARGE
    return JobDifference(
        "persistence.largest-body" if large else "persistence.put",
        f"a {'large ' if large else ''}job is lost, after {view.by}",
        f"a {view.state} job, as {view.by} was answered",
        "NOT_FOUND",
        name,
    )


def _unexpected(name: str, views: Sequence[JobView | None], found: dict[str, str]) -> JobDifference:
    return JobDifference(
        "persistence.delete",
        "a job is there that was deleted, or not yet put",
        "NOT_FOUND",
        f"a {found.get('state', 'broken')} job",
        name,
    )


def _fields(
    name: str, view: JobView, found: dict[str, str], inventory: Inventory, slowest: float
) -> Iterator[JobDifference]:
    """Yield the fields of a job that are not as they are in a view."""
    due = {
        "body": shown(view.body),
        "tube": view.tube,
        "state": view.state,
        "pri": str(view.pri),
        "ttr": str(view.ttr),
    }
    for key, value in due.items():
        if found.get(key, value) != value:
            slug = _requirement(key, view, found[key])
            cause = f"another {key}, after {view.by}"
            yield JobDifference(slug, cause, f"{key}: {value}", f"{key}: {found[key]}", name)
    for key in COUNTS:
        count = found.get(key, "0")
        if count.isdecimal() and int(count) > view.counts[key]:
            cause = f"more {key} than there were"
            expected = f"{key}: {view.counts[key]} at most"
            yield JobDifference(_OF_FIELD[key], cause, expected, f"{key}: {count}", name)
    if view.state == found.get("state") == "delayed":
        least, most = view.due - inventory.ended - LATE, view.due - inventory.began + LATE + slowest
        if (values := other_delay(found, least, most)) is not None:
            cause = f"another end of the delay, after {view.by}"
            yield JobDifference("persistence.delay", cause, *values, name)


def other_delay(found: Mapping[str, str], least: float, most: float) -> tuple[str, str] | None:
    """Return the seconds that a delay must have left, and those it has, if these are others."""
    left = found.get(LEFT, "")
    if not left.lstrip("-").isdecimal() or least <= int(left) <= most:
        return None
    return f"{LEFT}: {least:.1f} to {most:.1f}", f"{LEFT}: {left}"


def _requirement(key: str, view: JobView, found: str) -> str:
    """Return the requirement that a field of a job breaks."""
    if key in _OF_FIELD:
        return _OF_FIELD[key]
    if found == "reserved":
        return "persistence.reserved-becomes-ready"
    if view.by == "release" and view.state == "delayed":
        return "persistence.release-with-delay"
    if view.by == "put" and key == "pri":
        return "persistence.priority"
    if view.by == "put" and view.state == "delayed":
        return "persistence.delay"
    return _CHANGED.get(view.by, "persistence.put")


def _buried(
    inventory: Inventory, moments: Sequence[AllJobs], ids: dict[str, int]
) -> Iterator[JobDifference]:
    """Yield the tubes of which the buried jobs are not in the order in which they were buried."""
    for tube, found in inventory.buried.items():
        orders = [[ids[name] for name in one.buried.get(tube, ())] for one in moments]
        alike = [order for order in orders if sorted(order) == sorted(found)]
        if alike and found not in alike:
            expected = " ".join(map(str, alike[-1]))
            observed = " ".join(map(str, found))
            yield JobDifference(
                "durability.buried-order",
                "buried jobs in another order",
                expected,
                observed,
                tube,
                tuple(found),
            )
