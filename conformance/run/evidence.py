"""The evidence of a failure: clause, transcript, expected, observed, command to reproduce it."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from conformance.catalogue import Requirement
from conformance.diagrams.diagram import Wrong, diagram_of, diagram_of_order
from conformance.printable import printable
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.runner import Outcome
from conformance.transcript import Transcript
from conformance.verdict import Deviation
from reference_server.profiles import Profile
from reports.results import CauseRecord, Diagram, Evidence

LONGEST = 20_000
"""Characters of any text from the target."""
SHORT = 4000
"""Characters of what was expected and observed."""


def gather(
    error: Deviation,
    outcome: Outcome,
    reproduce: Sequence[str],
    test: str,
    keeper: TranscriptKeeper,
    profile: Profile,
) -> Evidence:
    """Return the evidence for a deviation; ``reproduce`` is a command that shows it again."""
    transcript, marked, observed = outcome.transcript, error.marked, error.observed
    if marked is None:
        marked = error.unanswered
    if marked is None and transcript.entries:
        marked = transcript.last_message
    if error.client and len({entry.connection for entry in transcript.entries} - {""}) > 1:
        observed += f" for client {error.client}"
    whole, place = error.whole or (transcript, marked)
    return Evidence(
        transcript=[clean(line) for line in transcript.render(marked).split("\n")],
        expected=clean(error.expected, SHORT),
        observed=clean(observed, SHORT),
        said=clean(outcome.said),
        reproduce=clean(shlex.join(reproduce)),
        kept=keeper.keep(test, whole, error, place),
        diagram=_diagram(error, transcript, marked, observed, profile),
    )


def _diagram(
    error: Deviation, transcript: Transcript, marked: int | None, observed: str, profile: Profile
) -> Diagram | None:
    """Return the diagram of a failure; that of concurrent clients shows the longest order."""
    if marked is None:
        return None
    wrong = Wrong(marked, error.expected, observed)
    if error.whole is not None:
        whole, place = error.whole
        found = diagram_of_order(whole, profile, replace(wrong, position=place))
        if found is not None:
            return found
    return diagram_of(transcript, profile, wrong)


def printable_cause(cause: CauseRecord) -> CauseRecord:
    """Return a cause that any reader of results takes."""
    return CauseRecord(
        command=cause.command, expected=clean(cause.expected), observed=clean(cause.observed)
    )


def clean(text: str, longest: int = LONGEST) -> str:
    """Return text that any reader of JSON, XML and HTML takes: printable, and not too long."""
    return printable(text[:longest]) + ("…" if len(text) > longest else "")


def describe(requirements: Sequence[Requirement], evidence: Evidence) -> str:
    """Return the text of a failure."""
    lines = []
    for requirement in requirements:
        source = f"{requirement.document}, {requirement.section}"
        lines.append(f"REQUIREMENT {requirement.slug} ({requirement.level}; {source})")
        lines.append(textwrap.indent(textwrap.fill(f"“{requirement.clause}”", 96), "  "))
    lines += ["TRANSCRIPT", *evidence.transcript]
    lines += [f"EXPECTED  {evidence.expected}", f"OBSERVED  {evidence.observed}"]
    if evidence.said:
        lines += ["TARGET SAID", textwrap.indent(evidence.said, "  ")]
    lines.append(f"REPRODUCE {evidence.reproduce}")
    return "\n".join(lines)
