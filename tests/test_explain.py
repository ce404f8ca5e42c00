"""The failure of a test's own ``assert``, in two lines."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from conformance.run import explain
from conformance.verdict import Deviation


def _failure(file: Path) -> Deviation:
    """Return what is told of a test that fails in this file."""
    file.write_text("value = 2\nassert value == 1, f'assert {value} == 1'\n", encoding="utf-8")
    code = compile(file.read_text(encoding="utf-8"), file, "exec")
    with pytest.raises(AssertionError) as caught:
        exec(code, {})
    return explain.as_deviation(caught.value)


def test_an_assertion_tells_what_it_says_and_what_there_was(tmp_path: Path) -> None:
    told = _failure(tmp_path / "test_it.py")
    assert (told.expected, told.observed) == ("value == 1", "2 == 1")


def test_an_assertion_behind_the_test_is_told_by_its_message_alone(tmp_path: Path) -> None:
    told = _failure(tmp_path / "helper.py")
    assert (told.expected, told.observed) == ("the test's assertion", "2 == 1")


def test_tests_in_the_background_read_their_files_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, met = threading.Barrier(2), threading.Event()

    def read(filename: str) -> list[tuple[int, str]]:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)
            met.set()
        return []

    monkeypatch.setattr(explain, "_read", read)
    tests = [
        threading.Thread(target=_failure, args=(tmp_path / f"test_{name}.py",)) for name in "ab"
    ]
    for test in tests:
        test.start()
    for test in tests:
        test.join()
    assert not met.is_set()
