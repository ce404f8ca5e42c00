"""Findings of random conversations, kept as transcripts and tried first by the next run.

Each has a folder of its own, named by what it is about, so that several that look for the same
at the same time find it once: ``transcript`` drives it again, ``README.md`` explains it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from conformance.oracle.diagnosis import Diagnosis
from conformance.reading import parse
from conformance.transcript import NotATranscript, Transcript
from reports.files import replace

FOLDER = Path(".beanstalk-conformance", "findings")
"""Where findings are kept, below the folder that the suite is run in."""


def keep(
    folder: Path,
    diagnosis: Diagnosis,
    transcript: Transcript,
    seen: str = "",
    name: str = "transcript",
) -> tuple[Path, bool]:
    """Write a finding into the folder; return where, and whether it is a new one.

    ``seen``: how often it was reproduced; ``name``: that of the file. Raises OSError.
    """
    home = folder / diagnosis.name
    try:
        home.mkdir(parents=True)
    except FileExistsError:
        # Somebody else has found it.
        return home / name, False
    said = f"Expected {diagnosis.expected}, observed {diagnosis.observed}"
    lines = "\n".join(f"# {line}" for line in f"{said}.".splitlines())
    text = "; ".join(part for part in (said, diagnosis.about, seen) if part)
    try:
        whole = f"{lines}\n{transcript.head}{transcript.render(fold=False)}\n"
        replace(home / name, whole.encode())
        readme = f"# {diagnosis.name}\n\n{text}.\n\n{how_to_replay(transcript, name)}"
        replace(home / "README.md", readme.encode())
    except OSError:
        # Else it would pass for one that is known.
        shutil.rmtree(home, ignore_errors=True)
        raise
    return home / name, True


def not_kept(folder: Path, error: OSError) -> str:
    """Return the sentence about a finding that could not be written."""
    return f"could not be kept in {folder}: {error.strerror or error}"


def at_first_sight(folder: Path, transcript: Transcript) -> Path:
    """Write what was found before anything else is done with it; return where."""
    text = transcript.render(fold=False)
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"unreduced-{name}.transcript"
    replace(path, f"{text}\n".encode())
    return path


def how_to_replay(transcript: Transcript, name: str) -> str:
    """Return the commands that show it again; ``name`` is that of the file."""
    said = [entry for entry in transcript.entries if entry.direction == ">"]
    ways = [f"    beanstalk-conformance replay {name} --target 127.0.0.1:11300"]
    if len({entry.connection for entry in said}) == 1 and all(
        entry.direction != "+" for entry in transcript.entries
    ):
        text = "".join(map(_printable, b"".join(entry.data for entry in said)))
        ways.append(f"    printf '{text}' | nc -N 127.0.0.1 11300")
    return "Drive it again:\n\n" + "\n".join(ways) + "\n"


def _printable(byte: int) -> str:
    """Return a byte as printf takes it."""
    plain = 0x20 <= byte < 0x7F and chr(byte) not in "%'\\"
    return chr(byte) if plain else {13: "\\r", 10: "\\n"}.get(byte, f"\\{byte:03o}")


def kept(folder: Path) -> Iterator[tuple[Path, Transcript]]:
    """Yield the findings of earlier runs; files that are no transcripts are skipped."""
    for path in sorted(folder.glob("*/transcript")):
        try:
            yield path, parse(path.read_text(encoding="utf-8"))
        except (NotATranscript, UnicodeDecodeError, OSError):
            continue
