"""Failures of tests as a run has them, and the requirements that they break."""

from __future__ import annotations

from conformance.catalogue import catalogue
from conformance.run.attribution import Attribution, Blame, attribute
from conformance.verdict import OutcomeKind, Step
from reports import results
from reports.verdicts import Verdict
from tests.made import case

Found = tuple[results.Test, Blame | None]
"""A test, and what a failure of it blames."""
SILENT = Step(OutcomeKind.NO_REPLY, "kick", ("KICKED",))


def attributed(*found: Found) -> list[Attribution]:
    """Return which requirements these failures break."""
    tests, blames = zip(*found, strict=True)
    return attribute(tests, blames, lambda slug: catalogue()[slug].level == "must")


def fails(
    slug: str, owner: str = "", step: Step = SILENT, *suspects: str
) -> tuple[results.Test, Blame]:
    """Return the failure of a test; ``owner`` is the requirement of the step that failed."""
    return case(slug, Verdict.FAIL), Blame(step, owner, suspects)
