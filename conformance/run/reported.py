"""The reports of sanitizers and runtimes: told as the health of a target, and kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from conformance.random_testing.findings import not_kept
from conformance.target.sanitizers import Report
from conformance.transcript import Transcript
from reports.files import replace


def remarks(reports: Sequence[Report], transcript: Transcript, folder: Path) -> list[str]:
    """Return a sentence for each report; it is kept with what the target was told before."""
    return [_remark(report, transcript, folder) for report in reports]


def _remark(report: Report, transcript: Transcript, folder: Path) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", report.kind.lower()).strip("-")[:60]
    home = folder / f"{words}-{hashlib.sha256(report.kind.encode()).hexdigest()[:6]}"
    told = f"the target has printed: {report.head}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        replace(home / "printed", f"{report.text}\n".encode())
        replace(home / "conversation", f"{transcript.render(fold=False)}\n".encode())
    except OSError as error:
        return f"{told}; {not_kept(folder, error)}"
    return f"{told}; {home} has the rest, and what the target was told"
