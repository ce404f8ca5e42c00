"""Whole transcripts of failures, kept in the folder of the report.

Where a test fails only while others run, the names of all these are kept beside its transcript.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from conformance.printable import printable
from conformance.transcript import Transcript
from conformance.verdict import Deviation
from reports.files import named, replace

TRANSCRIPTS = "transcripts"
_ENDING, _COMPANY = ".transcript", ".tests"
_LONGEST = 120
"""Characters of a name, without its ending."""


class TranscriptKeeper:
    """Keeps transcripts in a folder of the report; without a report, nothing."""

    def __init__(self, report: Path | None, title: str) -> None:
        self._report = report
        self._folder = named(title, TRANSCRIPTS)

    def clear(self) -> None:
        """Remove those of an earlier run; names of tests stay, as this run may have read them."""
        if self._report is not None:
            for path in (self._report / self._folder).glob(f"*{_ENDING}"):
                with contextlib.suppress(OSError):
                    path.unlink()

    def keep(self, test: str, transcript: Transcript, error: Deviation, marked: int | None) -> str:
        """Keep the transcript of a test; return where, from the report's folder, or nothing."""
        if self._report is None or not transcript.entries:
            return ""
        text = f"# {test}\n{transcript.head}{transcript.render(marked, fold=False)}\n"
        text += printable(f"EXPECTED  {error.expected}\nOBSERVED  {error.observed}\n")
        return self._written(self._report, f"{_file_name(test)}{_ENDING}", text)

    def keep_company(self, test: str, company: Iterable[str]) -> Path | None:
        """Keep the names of the tests without which one does not fail; return the file, if any."""
        if self._report is None:
            return None
        names = "".join(f"{name}\n" for name in company)
        path = self._written(self._report, f"{_file_name(test)}{_COMPANY}", names)
        return self._report / path if path else None

    def _written(self, report: Path, name: str, text: str) -> str:
        path = Path(self._folder) / name
        try:
            (report / path.parent).mkdir(parents=True, exist_ok=True)
            replace(report / path, text.encode())
        except OSError:
            # The finding itself is reported all the same.
            return ""
        return str(path)


def _file_name(test: str) -> str:
    """Return a test as the name of a file: the same only for the same test."""
    dotted = test.replace("::", ".")
    plain = re.sub(r"[^\w.-]+", "-", dotted).strip("-.")
    if plain == dotted and len(plain) <= _LONGEST:
        return plain
    return f"{plain[:_LONGEST]}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
