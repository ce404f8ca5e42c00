"""Reports of sanitizers and runtimes: kept, and shown as health of the target."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from conformance.random_testing.findings import how_to_replay, not_kept
from conformance.target.sanitizers import SanitizerReport
from conformance.transcript import Transcript
from reports.files import replace


def remarks(
    reports: Sequence[SanitizerReport], transcript: Transcript | None, folder: Path
) -> list[str]:
    """Return a sentence for each report, which is kept with the transcript before it.

    ``transcript``: None for reports of a server that was ended.
    """
    return [_remark(report, transcript, folder) for report in reports]


def _remark(report: SanitizerReport, transcript: Transcript | None, folder: Path) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", report.kind.lower()).strip("-")[:60]
    home = folder / f"{words}-{hashlib.sha256(report.kind.encode()).hexdigest()[:6]}"
    when = "" if transcript is not None else " when it was ended"
    sentence = f"the target has printed{when}: {report.head}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        replace(home / "README.md", _readme(home.name, report, transcript).encode())
        replace(home / "printed", f"{report.text}\n".encode())
        if transcript is not None:
            replace(home / "conversation", f"{transcript.render(fold=False)}\n".encode())
    except OSError as error:
        return f"{sentence}; {not_kept(folder, error)}"
    more = "" if transcript is None else ", and what the target was sent"
    return f"{sentence}; {home} has the rest{more}"


def _readme(name: str, report: SanitizerReport, transcript: Transcript | None) -> str:
    """Return the page about a report; a transcript is in the file ``conversation``."""
    printed = "".join(f"    {line}\n" for line in report.text.splitlines())
    again = "" if transcript is None else f"\n{how_to_replay(transcript, 'conversation')}"
    return f"# {name}\n\nThe target has printed:\n\n{printed}{again}"
