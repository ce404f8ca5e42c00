"""Jobs are done in this process or in others, and come back with a result or an error."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from conformance.run.tasks import Backend, InProcess, Processes, Task
from conformance.run.workers import send_message, worker_name
from conformance.target.footprint import FOOTPRINT

LONG = 600.0


def names_a_tube() -> str:
    return FOOTPRINT.new_name()


def fails() -> str:
    raise ValueError("wrong")


def tells(topic: str, message: str) -> str:
    send_message(topic, message)
    return worker_name()


def tasks(*work: Callable[[], Any]) -> Callable[[], Task[Any] | None]:
    left = [Task(str(number), one) for number, one in enumerate(work)]
    return lambda: left.pop(0) if left else None


@pytest.mark.parametrize("backend", [InProcess[str], partial(Processes[str], 2)])
def test_jobs_come_back_with_a_result_or_an_error(backend: Callable[[], Backend[str]]) -> None:
    with contextlib.closing(backend()) as done_by:
        done = {task.name: task for task in done_by.done(tasks(partial(str, 5), fails))}
        assert done["0"].outcome() == "5"
        with pytest.raises(ValueError, match="wrong"):
            done["1"].outcome()
        assert [done_by.number(), done_by.number()] == [0, 1]


def test_no_more_jobs_are_handed_out_than_there_are_slots() -> None:
    seen: list[int] = []
    with contextlib.closing(Processes[str](1, waiting=1)) as backend:
        next_task = tasks(*[partial(str, number) for number in range(6)])

        def counted() -> Task[str] | None:
            seen.append(len(backend._pending))
            return next_task()

        assert sorted(task.outcome() for task in backend.done(counted)) == list("012345")
    assert max(seen) == 1


def test_workers_tell_their_news_and_make_tubes_of_this_run() -> None:
    heard: list[str] = []
    with contextlib.closing(Processes[str](1)) as backend:
        backend.hear("topic", heard.append)
        work = tasks(partial(tells, "topic", "a"), partial(tells, "other", "b"), names_a_tube)
        named, _, tube = (task.outcome() for task in backend.done(work))
    assert heard == ["a"]
    assert named.startswith("process ")
    assert FOOTPRINT.is_ours(tube)
    assert not tube.startswith(FOOTPRINT.new_name()[:-6])


def test_the_jobs_of_a_process_that_was_killed_have_an_error() -> None:
    with contextlib.closing(Processes[str](1)) as backend:
        kills = partial(signal.raise_signal, signal.SIGKILL)
        done = list(backend.done(tasks(kills, partial(str, 5))))
    assert [task.error is None for task in done] == [False, False]


def test_who_is_interrupted_waits_for_no_job() -> None:
    start = time.monotonic()
    with contextlib.closing(Processes[str](2)) as backend:
        done = backend.done(tasks(partial(time.sleep, LONG), partial(str, 5)))
        assert next(done).result == "5"
    assert time.monotonic() - start < LONG
