"""The requirement that a failing step of a test breaks: the usual answer of its command.

A test needs commands that it does not test: it puts a job, to bury it, to look at it. If such a
step fails, the requirement of that command's usual answer is broken, and the test's own
requirement is blocked by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from conformance.catalogue import catalogue
from reference_server.profiles import Profile

_SLUGS: Mapping[str, tuple[str, ...]] = {
    "put": ("put.inserted",),
    "use": ("use.using",),
    "reserve": ("reserve.reserved", "reserve.reserved-with-priority"),
    "reserve-with-timeout": ("reserve.timeout-zero",),
    "reserve-job": ("reserve-job.reserved",),
    "delete": ("delete.reserved-by-client",),
    "release": ("release.released",),
    "bury": ("bury.buried",),
    "touch": ("touch.touched",),
    "watch": ("watch.watching",),
    "ignore": ("ignore.watching",),
    "peek": ("peek.found", "peek.found-with-priority"),
    "peek-ready": ("peek.ready",),
    "peek-delayed": ("peek.delayed",),
    "peek-buried": ("peek.buried",),
    "kick": ("kick.kicked",),
    "kick-job": ("kick-job.kicked",),
    "stats-job": ("stats-job.ok",),
    "stats-tube": ("stats-tube.ok",),
    "stats": ("stats.ok",),
    "list-tubes": ("list-tubes.all",),
    "list-tube-used": ("list-tube-used.using",),
    "list-tubes-watched": ("list-tubes-watched.list",),
    "quit": ("quit.closes",),
    "pause-tube": ("pause-tube.paused",),
}
"""The candidates of each command; the first that the profile has counts."""


_DELETED: Mapping[str, str] = {
    "ready": "delete.ready",
    "delayed": "delete.delayed",
    "buried": "delete.buried",
}
"""The requirements of a delete by the job's state; of a reserved job, it is the usual answer."""
_OBSERVING = ("reserve", "peek", "stats", "list-")
"""The beginnings of commands by which tests observe what they test."""
REPORTED_BY: Mapping[str, str] = {
    "state_of": "stats-job.state",
    "tubes": "list-tubes.all",
    "tubes_watched": "list-tubes-watched.list",
    "tube_used": "list-tube-used.using",
}
"""The requirements of what tests observe by these helpers."""
IN_STEP = "protocol.serial-replies"
"""The requirement of a target that sends what nobody has asked for."""
AFTER_LONG_LINE = "error.long-line-resynchronises"
"""The requirement of a target that does so after a line that is too long."""
ID_UNIQUE = "reserve.id-unique"
"""The requirement of a target that gives a job the id of another."""
GIVES_JOBS = (
    "lifecycle.starts-ready",
    "put.into-used-tube",
    "lifecycle.tube-for-life",
    "reserve.any-watched-tube",
)
"""The requirements of a target that does not give a client a job that is there."""
HOLDS_BACK = (
    "put.delay",
    "delete.reserved-by-client",
    "bury.untouched-until-kick",
    "put.into-used-tube",
    "reserve-job.not-found",
)
"""The requirements of a target that gives a client a job that it must not have."""
WAKES_CLIENTS = ("reserve.waits-for-job", "reserve.timeout-limits-wait")
"""The requirements of a target that does not give a job to a client that waits."""
MAY_BE_SILENT = "protocol.silent-for-a-long-time"
"""The requirement of a target that ends the connections of clients that say nothing."""
SURVIVES_ERRORS = "error.connection-survives"
"""The requirement of a target that no longer serves a client to which it has given an error."""
CLOSES = "protocol.close-ends-connection"
"""The requirement of a target that does not outlive the end of a client's connection."""
COMES_BACK = "persistence.put"
"""The requirement of a target that is not there when it was restarted with its binlog."""
DRAINS = "SIGUSR1"
"""The signal that puts a server into drain mode."""
DRAINING = "put.draining"
"""The requirement of a target that this signal ends."""
OVERLAP = "protocol.any-overlap"
"""The requirement of a target that fails only where several clients go on at the same time."""
SERIALLY = "protocol.any-conversation"
"""The requirement of a target that fails only after all that other tests have done."""
LARGE = 2**31
"""Numbers from here on are a matter of their own limit."""


def usual_answer(verb: str, profile: Profile) -> str:
    """Return the requirement of a command's usual answer; empty if the profile has none."""
    return _first_of(_SLUGS.get(verb, ()), profile)


def answer_to_put(profile: Profile, pri: int, delay: int, ttr: int) -> str:
    """Return the requirement that a put breaks which is not answered as usual."""
    numbers = {"put.priority-limit": pri, "put.delay-limit": delay, "put.ttr-limit": ttr}
    limits = [slug for slug, number in numbers.items() if number >= LARGE]
    return _first_of((*limits, *_SLUGS["put"]), profile)


def answer_to_delete(profile: Profile, state: str) -> str:
    """Return the requirement that a delete of a job in this state breaks."""
    return _first_of((*filter(None, (_DELETED.get(state),)), *_SLUGS["delete"]), profile)


def answer_to_malformed(profile: Profile, verb: str) -> str:
    """Return the requirement of the answer to a malformed line with this verb; empty if none."""
    slug = f"{verb}.bad-format"
    return _first_of((slug,), profile) if slug in catalogue() else ""


def answer_about_tube(profile: Profile) -> str:
    """Return the requirement that is broken where a tube that a client uses is not there."""
    return _first_of(("use.creates-tube",), profile)


def is_observing(line: str) -> bool:
    """Tell whether tests send this command to observe, and not to set something up."""
    return line.startswith(_OBSERVING)


def _first_of(slugs: Iterable[str], profile: Profile) -> str:
    """Return the first of these requirements that the profile has; empty if it has none."""
    for slug in slugs:
        rule = catalogue()[slug]
        if not (rule.missing_in(profile.stage) or rule.left_out_of(profile)):
            return slug
    return ""


def keys_requirement(command: str) -> str:
    """Return the requirement that the statistics which a command reports have all their keys."""
    return _SLUGS[command][0]


def key_requirement(command: str, key: str) -> str:
    """Return the requirement of a key of statistics; that of all keys if it has none."""
    slug = f"{command}.{key}"
    return slug if slug in catalogue() else keys_requirement(command)
