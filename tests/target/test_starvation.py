"""What tells a busy machine from a slow server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.target import starvation
from conformance.target.starvation import (
    CpuTime,
    Meter,
    Starvation,
    Timeout,
    _kept_waiting,
    _Reading,
)

needs_linux = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the system does not tell CPU times"
)


def _until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


@needs_linux
def test_two_who_share_a_cpu_wait_for_it() -> None:
    one = {next(iter(os.sched_getaffinity(0)))}
    busy = [
        subprocess.Popen(
            [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {one})\nwhile True: pass"],
            start_new_session=True,
        )
        for _ in range(2)
    ]
    meters = [starvation.session(process.pid) for process in busy]
    try:
        for meter in meters:
            _until(lambda meter=meter: meter.read().waited > 0.3)  # type: ignore[misc]
    finally:
        for process in busy:
            process.kill()
            process.wait()


@needs_linux
def test_who_sleeps_waits_for_no_cpu() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        meter = starvation.session(process.pid)
        time.sleep(0.2)
        before = meter.read()
        time.sleep(0.5)
        assert meter.read() == before
        process.kill()


@needs_linux
def test_children_count_and_those_who_have_ended_do_not_take_it_back() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    script = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    script += "\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as process:
        meter = starvation.session(process.pid)
        seen = []

        def burnt() -> bool:
            seen.append(meter.read().ran)
            return seen[-1] > 0.25

        _until(burnt)
        time.sleep(0.5)
        assert meter.read().ran > 0.25
        process.kill()
    assert seen == sorted(seen)


def test_the_watch_sees_that_it_is_kept_waiting() -> None:
    watch = starvation.watch()
    before = watch.overslept()
    # One call that holds the interpreter's lock all the time.
    total = 0
    while total < 5:
        begun = time.monotonic()
        sum(range(10_000_000))
        total += 1
        lasted = time.monotonic() - begun
    assert watch.overslept() - before > lasted / 2


def test_starvation_is_ours_and_the_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = [1.0]
    measured = Starvation(lambda: CpuTime(0.0, waited[0]))
    idle = measured.since().seconds
    waited[0] = 3.5
    assert measured.since().seconds >= 2.5
    # Another process in its place begins anew.
    waited[0] = 0.0
    assert idle <= measured.since().seconds < 2.5


def test_what_was_waited_before_a_mark_is_not_of_the_wait_that_begins_there() -> None:
    waited = [1.0]
    measured = Starvation(lambda: CpuTime(0.0, waited[0]))
    waited[0] = 31.0
    mark = measured.mark()
    waited[0] = 31.5
    starved = measured.since(mark)
    assert starved.target == 0.5
    assert starved.of == starved.target_of < measured.since().of
    assert measured.since().target == 30.5
    later = measured.mark()
    due = measured.since(mark, later)
    assert (due.of < due.target_of, due.target) == (True, 0.5)
    told = str(starved._replace(own=1.2, of=5.0, target_of=6.0))
    assert told == "this process waited 1.2 s of 5.0 s for a CPU, the target 0.5 s of 6.0 s"


class _Told(Meter):
    """A meter that says what it is told to."""

    def __init__(self, wanted: Callable[[], float]) -> None:
        super().__init__(list)
        self._wanted = wanted

    def read(self) -> CpuTime:
        return CpuTime(self._wanted(), 0.0)


def _lasts(timeout: Timeout) -> float:
    begun = time.monotonic()
    while not timeout.is_over:
        time.sleep(0.01)
    return time.monotonic() - begun


def test_a_timeout_beside_an_idle_target_ends() -> None:
    assert 0.3 <= _lasts(Timeout(_Told(lambda: 0.0), 0.3, 60.0)) < 30


def test_a_timeout_beside_a_target_that_needs_the_cpu_is_extended() -> None:
    assert _lasts(Timeout(_Told(time.monotonic), 0.3, 1.0)) >= 1.0


def test_a_timeout_of_a_target_that_only_uses_the_cpu_ends() -> None:
    assert 0.6 <= _lasts(Timeout(_Told(time.monotonic), 0.3, 60.0, running=0.6)) < 30


def test_a_timeout_where_only_the_load_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(starvation, "_PROC", tmp_path)
    monkeypatch.setattr(os, "getloadavg", lambda: (4.0 * (os.cpu_count() or 1), 0.0, 0.0))
    assert starvation.session(os.getpid()).read() == CpuTime(0.0, 0.0)
    assert _lasts(Timeout(starvation.session(os.getpid()), 0.2, 60.0)) >= 0.75


@pytest.mark.parametrize(
    ("ran", "waited", "idle", "starved"),
    [
        pytest.param(2.0, 6.0, 0.0, 0.0, id="its-threads-fill-the-machine"),
        pytest.param(1.0, 7.0, 1.0, 0.0, id="its-threads-queue-for-one-cpu"),
        pytest.param(1.9, 6.0, 0.0, 0.1, id="we-ran-a-little-meanwhile"),
        pytest.param(0.5, 1.5, 0.0, 1.5, id="others-have-the-rest"),
        pytest.param(0.5, 3.0, 0.5, 1.0, id="others-have-a-part-of-the-rest"),
        pytest.param(0.0, 3.0, 2.0, 3.0, id="nobody-tells-how-long-it-ran"),
    ],
)
def test_a_target_is_kept_from_a_cpu_by_other_processes_only(
    ran: float, waited: float, idle: float, starved: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starvation, "processors", lambda: frozenset((0, 1)))
    begun, ended = (
        _Reading(seconds, 0.0, 0.0, CpuTime(ran * seconds, waited * seconds), idle * seconds)
        for seconds in (3.0, 13.0)
    )
    assert _kept_waiting(begun, ended) == pytest.approx(10 * starved)


def test_idle_cpus_are_read_with_the_time_of_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = iter((0.0, 1e9))
    monkeypatch.setattr(starvation, "idle_time", lambda: next(idle))
    told = iter((CpuTime(1.0, 2.0), CpuTime(1.001, 9.0)))
    measured = Starvation(lambda: next(told))
    time.sleep(0.1)
    assert measured.since().target == 0


@needs_linux
def test_an_idle_cpu_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert starvation.idle_time() >= 0
    (tmp_path / "stat").write_text(
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 1 1 200 100 1 1 1 0 0\ncpu1 1 1 1 900 0 1 1 1 0 0\n"
    )
    shares = tmp_path / "cpu.stat"
    monkeypatch.setattr(starvation, "_PROC", tmp_path)
    monkeypatch.setattr(starvation, "_TICKS", 100)
    monkeypatch.setattr(starvation, "_SHARES", [(shares, "throttled_usec", 1e6)])
    monkeypatch.setattr(starvation, "processors", lambda: frozenset((0,)))
    assert starvation.idle_time() == 3.0
    shares.write_text("usage_usec 7\nthrottled_usec 500000\n")
    assert starvation.idle_time() == 2.5


@needs_linux
def test_threads_are_looked_for_only_if_any_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    newest = ["7"]
    folder = Path("/proc/self/task") / str(threading.get_native_id())

    def threads_of(leader: int) -> list[Path]:
        looked.append(leader)
        return [folder]

    monkeypatch.setattr(starvation, "_threads_of", threads_of)
    monkeypatch.setattr(starvation, "_newest_thread", lambda: newest[0])
    meter = starvation.session(5)
    first = meter.read()
    assert meter.read().ran >= first.ran
    assert looked == [5]
    newest[0] = "8"
    meter.read()
    assert looked == [5, 5]
    # A system that does not tell is always looked through.
    newest[0] = ""
    meter.read()
    meter.read()
    assert looked == [5, 5, 5, 5]


@needs_linux
def test_a_process_that_begins_later_is_measured() -> None:
    with subprocess.Popen(["sh", "-c", "read x; sleep 9"], stdin=-1, start_new_session=True) as led:
        threads = starvation._Threads(led.pid)
        assert len(threads()) == 1
        assert led.stdin is not None
        led.stdin.write(b"\n")
        led.stdin.flush()
        deadline = time.monotonic() + 30
        while len(threads()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(threads()) == 2
        os.killpg(led.pid, signal.SIGKILL)
