"""Jobs that return to a different place of their priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.oracle.judged_entries import first_violation
from conformance.oracle.violation import Violation
from conformance.transcript import Entry
from conformance.verdict import Inconclusive
from reference_server.profiles import Profile

KEEPS_PLACES = (
    *("release.keeps-place", "kick.keeps-place", "reserve.expiry-keeps-place"),
    "lifecycle.close-keeps-place",
)
"""The requirements of the places of jobs that come back; the text does not name those places."""
LONGEST = 2000
"""Messages beyond which it is not looked for."""


def is_misplaced(violation: Violation, entries: Sequence[Entry], profile: Profile) -> bool:
    """Return whether all is allowed once jobs that come back may have any place."""
    names_a_job = violation.observed.startswith(("RESERVED", "FOUND"))
    if not (names_a_job and profile.first_in_first_out and len(entries) <= LONGEST):
        return False
    try:
        return first_violation(entries, None, replace(profile, keeps_places=False)) is None
    except Inconclusive:
        return False
