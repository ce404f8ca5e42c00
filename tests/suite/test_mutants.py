"""The tool that counts which mutants the suite finds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import MutantStage, apart, examine, main, reasons, usual
from tests.mutation import Mutant, mutants_of
from tests.mutation import mutants as all_mutants

COUNTED = "model.Model._release: job.releases += 1 → pass"
SMALL = MutantStage("small", ["1.13"], lambda case: "stats-job.releases" in case.slugs)


def _mutated(source: str) -> set[str]:
    return {mutant.name.removeprefix("module") for mutant in mutants_of("module", source)}


def test_operators_constants_conditions_and_statements_are_changed() -> None:
    source = """
def f(self, x: int) -> None:
    '''Text.'''
    if x < 1 and self.y:
        self.z = x
    return not x
"""
    assert _mutated(source) == {
        ".f: x < 1 → x <= 1",
        ".f: x < 1 → x >= 1",
        ".f: 1 → 2",
        ".f: 1 → 0",
        ".f: x < 1 and self.y → x < 1 or self.y",
        ".f: x < 1 and self.y → x < 1",
        ".f: x < 1 and self.y → self.y",
        ".f: x < 1 and self.y → not (x < 1 and self.y)",
        ".f: self.z = x → pass",
        ".f: not x → x",
    }


def test_equal_changes_have_names_of_their_own() -> None:
    assert _mutated("f(1)\nf(1)") >= {": 1 → 2", ": 1 → 2 (2)"}


def test_a_mutant_is_the_module_with_one_change() -> None:
    changed = [mutant.source for mutant in mutants_of("module", "x = [1, 2]")]
    assert changed == ["x = [2, 2]", "x = [0, 2]", "x = [1, 3]", "x = [1, 1]"]


def test_there_are_many_mutants_each_with_its_own_name() -> None:
    names = [mutant.name for mutant in all_mutants()]
    assert len(names) == len(set(names)) >= 1000
    assert names == [mutant.name for mutant in all_mutants()]


def test_what_is_explained_is_a_mutant_and_is_explained_once() -> None:
    explained = [name for group in reasons() for name in group["mutants"]]
    assert len(explained) == len(set(explained))
    assert {*explained} <= {mutant.name for mutant in all_mutants()}


def test_a_mutant_is_found_by_a_test_and_the_server_itself_is_not() -> None:
    mutant = next(mutant for mutant in all_mutants() if mutant.name == COUNTED)
    variants = apart(partial(usual, SMALL))
    assert variants is not None
    found = apart(partial(examine, mutant, SMALL, variants))
    assert found is not None
    assert found[0] == "small"
    assert " test_" in found[1]


def test_a_mutant_that_hangs_or_crashes_is_told_from_one_that_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mutants, "LIMIT", 0.2)
    assert apart(lambda: time.sleep(60)) is None
    assert apart(lambda: os._exit(1)) is None
    assert apart(lambda: ("", "")) == ("", "")


def test_a_campaign_goes_on_where_it_was_and_fails_if_one_survives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    def examined(left: Sequence[Mutant], stage: str) -> Iterator[tuple[str, str]]:
        for mutant in left:
            asked.append((mutant.name, stage))
            yield (stage, "a test") if mutant.name == "module: 1 → 2" else ("", "")

    monkeypatch.setattr(mutants, "mutants", lambda: list(mutants_of("module", "x = 1")))
    monkeypatch.setattr(mutants, "_examined", examined)
    command = ["mutants", f"--results={tmp_path / 'results'}", "--until"]
    monkeypatch.setattr("sys.argv", [*command, "directed"])
    assert main() == 1
    assert asked == [("module: 1 → 2", "directed"), ("module: 1 → 0", "directed")]
    asked.clear()
    monkeypatch.setattr("sys.argv", [*command, "other profiles"])
    assert main() == 1
    assert asked == [("module: 1 → 0", "other profiles")]
    told = capsys.readouterr().out
    assert "| module | 2 | 0 | 1 | 0 |" in told
    assert "SURVIVED module: 1 → 0" in told
    assert "1 of 2" in told
    monkeypatch.setattr(mutants, "reasons", lambda: [{"reason": "", "mutants": ["module: 1 → 0"]}])
    assert main() == 0
