"""What was found wrong in conversations that were made up: kept as transcripts, looked at first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from conformance.transcript import NotATranscript, Transcript, parse

FOLDER = Path(".beanstalk-conformance", "findings")
"""Where findings are kept, below the folder that the suite is run in."""


def keep(folder: Path, transcript: Transcript, marked: int, said: str) -> Path:
    """Writes a finding into the folder, named by what it is; gives its path."""
    end = Transcript(transcript.entries[: marked + 1])
    text = end.render(fold=False)
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = folder / f"{name}.transcript"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {said}\n{text}\n", encoding="utf-8")
    return path


def kept(folder: Path) -> Iterator[tuple[Path, Transcript]]:
    """The findings of earlier runs; files that are no transcripts are skipped."""
    for path in sorted(folder.glob("*.transcript")):
        try:
            yield path, parse(path.read_text(encoding="utf-8"))
        except (NotATranscript, UnicodeDecodeError):
            continue
