"""A failure as its reader sees it: clause, transcript, expected, observed, how to reproduce."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence

from conformance.catalogue import Requirement
from conformance.running import Outcome
from conformance.verdict import Deviation


def describe(
    error: Deviation,
    requirements: Sequence[Requirement],
    outcome: Outcome,
    reproduce: Sequence[str],
) -> str:
    """The text of a failure."""
    transcript, marked = outcome.transcript, error.marked
    if marked is None and transcript.entries:
        marked = transcript.last
    found = [f"EXPECTED  {error.expected}", f"OBSERVED  {error.observed}"]
    lines = []
    for requirement in requirements:
        source = f"{requirement.source}, {requirement.section}"
        lines.append(f"REQUIREMENT {requirement.slug} ({requirement.level}; {source})")
        lines.append(textwrap.indent(textwrap.fill(f"“{requirement.clause}”", 96), "  "))
    lines += ["TRANSCRIPT", transcript.render(marked), *found]
    if outcome.said:
        lines += ["TARGET SAID", textwrap.indent(outcome.said, "  ")]
    lines.append(f"REPRODUCE {shlex.join(reproduce)}")
    return "\n".join(lines)
