"""The usual answer of each command, as a requirement: what a failing step of a test breaks.

A test needs commands that it does not test: it puts a job, to bury it, to look at it. If such a
step fails, the requirement of that command's usual answer is broken, and the test's own
requirement is blocked by it.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def usual_answer(verb: str, profile: Profile) -> str:
    """Return the requirement of a command's usual answer; empty if the profile has none."""
    for slug in _SLUGS.get(verb, ()):
        rule = catalogue()[slug]
        if not (rule.missing_in(profile.stage) or rule.left_out_of(profile)):
            return slug
    return ""


def key_requirement(command: str, key: str) -> str:
    """Return the requirement of a key of statistics; that of the command if it has none."""
    slug = f"{command}.{key}"
    return slug if slug in catalogue() else f"{command}.ok"
