"""The failure of a test's own ``assert``, in two lines."""

from __future__ import annotations

import ast
import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import fuzz
from conformance import tests
from conformance.dialogue.connection import Connection
from conformance.run import assertions
from conformance.verdict import Deviation


def _failure(file: Path, assertion: str = "value == 1, 'assert 2 == 1'") -> Deviation:
    """Return the deviation of a test in this file whose value is 2."""
    file.write_text(f"value = 2\nassert {assertion}\n", encoding="utf-8")
    code = compile(file.read_text(encoding="utf-8"), file, "exec")
    with pytest.raises(AssertionError) as caught:
        exec(code, {})
    return assertions.as_deviation(caught.value)


def test_an_assertion_is_shown_as_a_sentence_and_the_value(tmp_path: Path) -> None:
    shown = _failure(tmp_path / "test_it.py")
    assert (shown.expected, shown.observed) == ("the value to be 1", "2")
    assert shown.step.subject == "value == 1"


def test_of_a_sum_its_value_is_shown(tmp_path: Path) -> None:
    assert _failure(tmp_path / "test_it.py", "3 - value == 2, '(3 - 2) == 2'").observed == "1"


def test_the_entries_of_a_dictionary_are_shown(tmp_path: Path) -> None:
    text = (
        "(grown := {'cmd-put': 2, 'cmd-use': 1}) is None\nassert grown == {}, 'assert {...} == {}'"
    )
    assert _failure(tmp_path / "test_it.py", f"not {text}").observed == "cmd-put: 2, cmd-use: 1"


def test_of_a_value_with_a_name_nothing_is_left_out(tmp_path: Path) -> None:
    assert _failure(tmp_path / "test_it.py", "value == 1, 'assert ...2 == 1'").observed == "2"


@pytest.mark.parametrize("assertion", ["3 <= value <= 5, '3 <= 2'", "0 <= value <= 1, '2 <= 1'"])
def test_of_an_interval_the_value_inside_is_observed(tmp_path: Path, assertion: str) -> None:
    shown = _failure(tmp_path / "test_it.py", assertion)
    assert shown.expected.startswith("the value to be between ")
    assert shown.observed == "2"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ('client.stats_job(job)["ttr"] == "1"', "ttr in stats-job 3 to be 1"),
        (
            '{client.state_of(one) for one in (3, 4)} == {"ready"}',
            "the state of job N for each N of 3, 4 to be ready",
        ),
        ('client.state_of(jobs[1]) == "ready"', "the state of job 5 to be ready"),
        ("client.tubes_watched() == [client.tube]", "the list of watched tubes to be emails"),
        ("client.tube not in client.tubes()", "emails not to be in the list of tubes"),
        ('stats["time-left"] in ("99", "100")', "time-left in the stats to be one of 99, 100"),
        (
            "0 <= client.stats_job(job).number('age') <= 2",
            "age in stats-job 3 to be between 0 and 2",
        ),
        ("most - 2.25 - 1 <= time_left <= most", "the time left to be between 996.75 and 1000"),
        ("client.kick(1) == 1", "the number of kicked jobs to be 1"),
        ("sorted(keys - set(stats)) == []", "the keys minus the stats to be empty"),
        ("jobs == sorted(set(jobs))", "the jobs to be in order without repetitions"),
        ("version", "the version not to be empty"),
        ("ready_jobs <= most", "the ready jobs to be at most 1000"),
        ("_reserved_jobs(worker, 2) == jobs", "the reserved jobs to be 4, 5"),
        (
            "listed_alike(client.tube, worker)",
            "emails to be in list-tubes just if stats-tube finds it",
        ),
    ],
)
def test_a_sentence(code: str, sentence: str) -> None:
    values = {"job": 3, "jobs": [4, 5], "client": SimpleNamespace(tube="emails"), "most": 1000}
    values["worker"] = object.__new__(Connection)
    assert assertions._sentence(ast.parse(code, mode="eval").body, values) == sentence


def test_no_assertion_of_the_suite_is_shown_as_code() -> None:
    sentences = [
        assertions._sentence(test, {})
        for folder in (tests, fuzz)
        for file in sorted(Path(folder.__path__[0]).glob("test_*.py"))
        for _, test in assertions._asserts(str(file))
    ]
    assert len(sentences) > 200
    assert [words for words in sentences if any(mark in words for mark in "[]()=`")] == []


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

    monkeypatch.setattr(assertions, "_read", read)
    tests = [
        threading.Thread(target=_failure, args=(tmp_path / f"test_{name}.py",)) for name in "ab"
    ]
    for test in tests:
        test.start()
    for test in tests:
        test.join()
    assert not met.is_set()
