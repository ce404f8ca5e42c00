"""Whole transcripts of what failed: their names, and what becomes of old ones."""

from __future__ import annotations

from pathlib import Path

from conformance.reading import parse
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.verdict import Deviation


def test_each_test_has_a_file_of_its_own(tmp_path: Path) -> None:
    transcript = parse("A > use a\\r\\n\nA < USING b\\r\\n")
    error, keeper = (
        Deviation("USING a", "USING b\x1b[31m"),
        TranscriptKeeper(tmp_path, "../my fork"),
    )
    keep = [
        keeper.keep(f"t::test[{name}]", transcript, error, 1) for name in ("a:b", "a?b", "x" * 999)
    ]
    kept = [*keep, keeper.keep("t::test", transcript, error, 1)]
    assert kept[-1] == "my-fork-transcripts/t.test.transcript"
    assert len({*kept}) == 4
    assert all((tmp_path / name).is_file() for name in kept)
    text = (tmp_path / kept[-1]).read_text()
    assert "\x1b" not in text
    assert parse(text).entries == transcript.entries
    (tmp_path / "my-fork-transcripts" / "notes").touch()
    keeper.clear()
    assert [path.name for path in (tmp_path / "my-fork-transcripts").iterdir()] == ["notes"]


def test_what_cannot_be_kept_hides_no_finding(tmp_path: Path) -> None:
    (tmp_path / "transcripts").touch()
    transcript = parse("A > use a\\r\\n")
    assert TranscriptKeeper(tmp_path, "").keep("t::test", transcript, Deviation("a", "b"), 0) == ""
    assert TranscriptKeeper(None, "").keep("t::test", transcript, Deviation("a", "b"), 0) == ""
