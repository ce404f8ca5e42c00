"""Whole transcripts of failures, kept in the folder of the report."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path

from conformance.printable import printable
from conformance.transcript import Transcript
from conformance.verdict import Deviation
from reports.files import named, replace

TRANSCRIPTS = "transcripts"
_ENDING = ".transcript"
_LONGEST = 120
"""Characters of a name, without its ending."""


class TranscriptKeeper:
    """Keeps transcripts in a folder of the report; without a report, nothing."""

    def __init__(self, report: Path | None, title: str) -> None:
        self._report = report
        self._folder = named(title, TRANSCRIPTS)

    def clear(self) -> None:
        """Remove those of an earlier run."""
        if self._report is not None:
            for path in (self._report / self._folder).glob(f"*{_ENDING}"):
                with contextlib.suppress(OSError):
                    path.unlink()

    def keep(self, test: str, transcript: Transcript, error: Deviation, marked: int | None) -> str:
        """Keep the transcript of a test; return where, from the report's folder, or nothing."""
        if self._report is None or not transcript.entries:
            return ""
        path = Path(self._folder) / f"{_file_name(test)}{_ENDING}"
        text = f"# {test}\n{transcript.head}{transcript.render(marked, fold=False)}\n"
        text += printable(f"EXPECTED  {error.expected}\nOBSERVED  {error.observed}\n")
        try:
            (self._report / path.parent).mkdir(parents=True, exist_ok=True)
            replace(self._report / path, text.encode())
        except OSError:
            # The finding itself is told all the same.
            return ""
        return str(path)


def _file_name(test: str) -> str:
    """Return a test as the name of a file: the same only for the same test."""
    dotted = test.replace("::", ".")
    plain = re.sub(r"[^\w.-]+", "-", dotted).strip("-.")
    if plain == dotted and len(plain) <= _LONGEST:
        return plain
    return f"{plain[:_LONGEST]}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
