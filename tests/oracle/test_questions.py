"""Sessions like those that people ask about, pasted into ``check``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.__main__ import main

QUESTIONS = yaml.safe_load(Path(__file__).with_name("questions.yaml").read_text(encoding="utf-8"))
_OTHERS = {"delay": 0, "ttr": 60, "time-left": 0, "file": 0, "releases": 0, "kicks": 0}


def text_of(question: dict[str, Any]) -> str:
    """Return the session, with the statistics of its job."""
    session: str = question["session"]
    if "stats" not in question:
        return session
    values = question["stats"] | _OTHERS
    stats = "---\n" + "".join(f"{key}: {value}\n" for key, value in values.items())
    return session.replace("{size}", str(len(stats))).replace("{stats}", stats)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: str(question["name"]))
def test_what_people_ask_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: dict[str, Any]
) -> None:
    file = tmp_path / "session"
    file.write_text(text_of(question), encoding="utf-8")
    code = main(["check", str(file), "--profile=1.13"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(question["verdict"])
    assert question.get("says", lines[0]) in lines
    assert code == (0 if question["verdict"] == "allowed" else 1)
