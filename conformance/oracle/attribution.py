"""The requirements that a finding breaks, identified by faults that behave the same.

The reference server gets what the clients of a finding have sent, with each of its faults in turn.
Where it answers as the target did, the requirement of that fault is broken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from conformance import yamlish
from conformance.catalogue import catalogue
from conformance.oracle.reenactment import Course, PreparedTranscript, reenacted
from conformance.oracle.used_parts import traced
from conformance.oracle.violation import Violation
from conformance.transcript import Entry
from reference_server.faults import FAULTS, Fault
from reference_server.profiles import Profile
from reference_server.wire import Reply

LONGEST = 60
"""Messages of a finding beyond which nobody looks for the text that it breaks."""
LONGEST_LOOSE = 1000
"""Messages of a finding beyond which nobody asks whether it breaks any text."""
_VALUE = re.compile(r"OK with ([a-z-]+): (.+)")


def broken(
    entries: Sequence[Entry], profile: Profile, violation: Violation | None = None
) -> list[str]:
    """Return the requirements whose faults make the reference server behave as a target did.

    ``violation``: what the last message shows. If a fault that breaks no must explains all of it,
    no must is known to be broken.
    """
    if not 0 < len(entries) <= LONGEST_LOOSE:
        return []
    known = catalogue()
    loose: list[Fault] = []
    conclusive: list[Fault] = []
    for fault in FAULTS.values():
        rule = known.get(fault.requirement)
        # Some faults are about what no conversation shows.
        if rule is not None and not (rule.missing_in(profile.stage) or rule.left_out_of(profile)):
            (conclusive if rule.judged_by(profile.stage).level == "must" else loose).append(fault)
    silent = violation is not None and violation.is_silence
    recording = PreparedTranscript.of(entries, profile, silent)
    plain, footprint = traced(recording, profile)
    if plain.agrees and (violation is None or not _is_of_statistics(violation)):
        return []
    for faults in (loose, conclusive if len(entries) <= LONGEST else []):
        found = (
            fault.requirement
            for fault in faults
            if footprint.meets(fault)
            and _explains(reenacted(fault, recording, profile), plain, violation)
        )
        if names := list(dict.fromkeys(found)):
            return names
    return []


def _is_of_statistics(violation: Violation) -> bool:
    """Return whether it is about something that need not be the same on any two servers."""
    return violation.observed.startswith("OK with ")


def _explains(course: Course, plain: Course, violation: Violation | None) -> bool:
    """Return whether a server with a fault does what was seen, and one without does not.

    What was counted, and which tubes there were, before the messages is not known: there, the two
    differ by as much as what was observed and expected.
    """
    if not course.agrees:
        return False
    if violation is None or not plain.agrees:
        return True
    if course.last is None or plain.last is None:
        return False
    return any(
        _differ_alike(expected, violation.observed, plain.last, course.last)
        for expected in violation.expected
    )


def _differ_alike(expected: str, observed: str, plain: Reply, faulty: Reply) -> bool:
    if plain.body is None or faulty.body is None:
        return False
    wanted, seen = _VALUE.fullmatch(expected), _VALUE.fullmatch(observed)
    if wanted is None or seen is None:
        more = _names(observed) - _names(expected)
        try:
            changed = {*yamlish.names(faulty.body)} - {*yamlish.names(plain.body)}
        except ValueError:
            return False
        return bool(changed) and changed <= more
    key = wanted[1]
    try:
        mine = yamlish.dictionary(plain.body).get(key, "")
        theirs = yamlish.dictionary(faulty.body).get(key, "")
    except ValueError:
        return False
    if mine == theirs or seen[1] != key:
        return False
    values = (wanted[2], seen[2], mine, theirs)
    if not all(map(str.isdecimal, values)):
        return theirs == seen[2]
    return int(theirs) - int(mine) == int(seen[2]) - int(wanted[2])


def _names(said: str) -> set[str]:
    return {*said.removeprefix("OK with ").split(", ")}
