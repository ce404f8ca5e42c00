"""The verdict of the suite on a variant that runs in this process."""

from __future__ import annotations

from typing import NamedTuple
from unittest import mock

from conformance.catalogue import catalogue
from conformance.target import builtin
from conformance.verdict import Deviation, Inconclusive, NotTestable
from reference_server.profiles import NEWEST, Profile
from tests.faults import Case, outcomes
from tests.variants.variant import Variant


class Judgement(NamedTuple):
    """What the suite said: musts broken, with what was seen; de-facto requirements; undecided."""

    broken: list[str]
    non_strict: frozenset[str]
    undecided: list[str]


def _is_judged(case: Case) -> bool:
    quirk = all(catalogue()[slug].level == "quirk" for slug in case.slugs)
    return not quirk and "real_clock" not in case.arguments


def judge(variant: Variant, profile: Profile = NEWEST, examples: int = 3) -> Judgement:
    """Run the suite on a variant, without waiting."""
    broken, undecided = [], []
    non_strict: set[str] = set()
    with mock.patch.object(builtin, "Server", variant.server):
        for case, outcome in outcomes(variant, _is_judged, examples, profile):
            error = outcome.error
            levels = {catalogue()[slug].judged_by(profile.stage).level for slug in case.slugs}
            if isinstance(error, Inconclusive):
                undecided.append(f"{case.name}: {error}")
            elif isinstance(error, Deviation) and (error.de_facto or "must" not in levels):
                non_strict |= case.slugs
            elif error is not None and not isinstance(error, NotTestable):
                broken.append(f"{case.name} ({', '.join(sorted(case.slugs))}): {error}")
    return Judgement(broken, frozenset(non_strict), undecided)
