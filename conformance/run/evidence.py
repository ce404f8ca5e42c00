"""A failure as its reader sees it: clause, transcript, expected, observed, how to reproduce."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from typing import TypedDict

from conformance.catalogue import Requirement
from conformance.run.runner import Outcome
from conformance.verdict import Deviation

LONGEST = 4000
"""Characters of what was expected and observed."""


class Evidence(TypedDict):
    """The evidence of a deviation, as in results.json; one line of ``transcript`` is marked."""

    transcript: list[str]
    expected: str
    observed: str
    said: str
    reproduce: str


def gather(error: Deviation, outcome: Outcome, reproduce: Sequence[str]) -> Evidence:
    """The evidence for a deviation; ``reproduce`` is the command that runs the test again."""
    transcript, marked = outcome.transcript, error.marked
    if marked is None and transcript.entries:
        marked = transcript.last
    return {
        "transcript": transcript.render(marked).split("\n"),
        "expected": _short(error.expected),
        "observed": _short(error.observed),
        "said": outcome.said,
        "reproduce": shlex.join(reproduce),
    }


def describe(requirements: Sequence[Requirement], evidence: Evidence) -> str:
    """The text of a failure."""
    lines = []
    for requirement in requirements:
        source = f"{requirement.source}, {requirement.section}"
        lines.append(f"REQUIREMENT {requirement.slug} ({requirement.level}; {source})")
        lines.append(textwrap.indent(textwrap.fill(f"“{requirement.clause}”", 96), "  "))
    lines += ["TRANSCRIPT", *evidence["transcript"]]
    lines += [f"EXPECTED  {evidence['expected']}", f"OBSERVED  {evidence['observed']}"]
    if evidence["said"]:
        lines += ["TARGET SAID", textwrap.indent(evidence["said"], "  ")]
    lines.append(f"REPRODUCE {evidence['reproduce']}")
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"
