"""Servers with a tick of their own, under a clock that we move."""

from __future__ import annotations

import contextlib
import shlex
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.target.address import ask, connect, visit
from conformance.target.clock import FakeClock
from conformance.target.clock_probe import why_not
from conformance.target.immediate_replies import PAUSE_UNANSWERED, late_instants
from conformance.target.launch import Launched
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import USUAL, Limits
from conformance.target.probe_clients import IN_TIME
from conformance.target.traits import Traits
from conformance.target.transport import Transport
from tests.command_line import suite
from tests.hostile import CHANGES
from tests.servers import (
    BEANSTALKD_COMMAND,
    FAKETIME,
    REFERENCE_COMMAND,
    changed_server,
    needs_beanstalkd,
    needs_faketime,
    shell_with,
)

TICK = """
import time

def tick(self):
    self.engine.model.on_tick = True
    self.engine.tick()
    self.engine.model.on_tick = False

def fire(self, now):
    if self.on_tick:
        plain_fire(self, now)

{before_wait}

due, done, plain_fire = time.monotonic(), 0, Model._fire_timers
serve.Server.before_wait = before_wait
Model._fire_timers, Model.on_tick = fire, False
"""
"""Nothing falls due but on a tick."""
PLAIN = """
def before_wait(self):
    global due
    now = time.monotonic()
    if now >= due:
        due = now + 0.1
        tick(self)
    return due - now
"""
BURST = """
def before_wait(self):
    global due, done
    is_late = False
    while (now := time.monotonic()) >= due:
        due, done, is_late = due + 0.01, done + 1, True
        if done % 3000 == 0:
            break
    if is_late:
        tick(self)
    return max(due - now, 0)
"""
"""Each tick that was missed is worked off, and looks at the clock."""
HELD_BACK = """
import os, time
from reference_server.connection import ServedConnection

plain_write, held = ServedConnection.write, []

def write(self, data):
    if os.environ.get("FAKETIME_TIMESTAMP_FILE") and data != b"NOT_FOUND\\r\\n":
        held.append((time.monotonic() + 0.5, self, data))
    else:
        plain_write(self, data)

def before_wait(self):
    while held and held[0][0] <= time.monotonic():
        _, conn, data = held.pop(0)
        plain_write(conn, data)
    seconds = plain_before(self)
    return 0.01 if held else seconds

plain_before = serve.Server.before_wait
ServedConnection.write, serve.Server.before_wait = write, before_wait
"""
"""Under libfaketime, replies other than NOT_FOUND wait until the clock has moved."""
OWN_UPTIME = """
import re
from reference_server import stats
plain = stats.server
stats.server = lambda model: re.sub(rb"(?m)^uptime: .*", b"uptime: {uptime}", plain(model))
"""


def _ticking(folder: Path, before_wait: str) -> str:
    return changed_server(folder, TICK.format(before_wait=before_wait))


@contextlib.contextmanager
def _under_a_fake_clock(command: str) -> Iterator[tuple[Launched, FakeClock]]:
    assert FAKETIME is not None
    clock = FakeClock(FAKETIME)
    with Launched(command, clock.environment()) as server:
        clock.watch(server.address, USUAL.alive, b"list-tube-used")
        yield server, clock
        clock.close()


def _why_not(command: str, limit: float = USUAL.probe) -> str:
    with _under_a_fake_clock(command) as (server, clock):
        reason = why_not(server.address, clock, server.process.pid, limit)
        return reason or "".join(late_instants(server.address, USUAL.probe, Traits(), IN_TIME))


@pytest.mark.campaign
@needs_faketime
@pytest.mark.parametrize(
    ("before_wait", "reason"),
    [(PLAIN, "a pause of 0 seconds never ends"), (BURST, " s ahead by itself")],
    ids=["plain", "burst"],
)
def test_a_server_with_a_tick_passes_in_real_time(
    tmp_path: Path, before_wait: str, reason: str
) -> None:
    command = _ticking(tmp_path, before_wait)
    tests = ("-k", "deadline_soon or with_timeout or pause", "-m", "must or de_facto")
    done = suite(f"--launch={command}", "--strict", *tests)
    assert done.returncode == 0, done.stdout
    assert "real clock, as under libfaketime, " in done.stdout
    # On a busy machine, something else may show first.
    assert any(reason in _why_not(command) for _ in range(5))
    refused = suite(f"--launch={command}", "--clock=fake", *tests)
    assert refused.returncode == 4
    assert "a fake clock is not possible: under libfaketime" in refused.stderr


@pytest.mark.parametrize("tick", [0.15, 0.2, 0.3, 1.0])
def test_a_timeout_of_zero_that_ends_with_a_tick_ends(tmp_path: Path, tick: float) -> None:
    command = changed_server(tmp_path, TIMEOUT_ENDS_WITH_A_TICK.format(tick=tick))
    with Launched(command) as server:
        assert late_instants(server.where, USUAL.probe, Traits(), IN_TIME) == []


@needs_faketime
@pytest.mark.parametrize(
    "command", [REFERENCE_COMMAND, pytest.param(BEANSTALKD_COMMAND, marks=needs_beanstalkd)]
)
def test_a_server_that_can_be_moved_is_left_as_it_was(command: str) -> None:
    with _under_a_fake_clock(command) as (server, clock):
        assert why_not(server.address, clock, server.process.pid, USUAL.probe) == ""
        with visit(server.address, 5) as sock:
            stats = ask(sock, b"stats", 5).body or b""
            assert (ask(sock, b"list-tubes", 5).body or b"").count(b"\n- ") == 1
    for state in (b"ready", b"reserved", b"delayed", b"buried"):
        assert b"current-jobs-%b: 0\n" % state in stats
    assert b"\ncurrent-connections: 2\n" in stats


@needs_faketime
def test_jobs_that_are_there_already_are_left_alone() -> None:
    with _under_a_fake_clock(REFERENCE_COMMAND) as (server, clock):
        with visit(server.address, 5) as sock:
            for _ in range(3):
                ask(sock, b"put 0 0 60 1\r\na", 5)
        assert why_not(server.address, clock, server.process.pid, USUAL.probe) == ""
        with visit(server.address, 5) as sock:
            stats = ask(sock, b"stats", 5).body or b""
            assert b"\nreserves: 0\n" in (ask(sock, b"stats-job 1", 5).body or b"")
    assert b"\ncurrent-jobs-ready: 3\n" in stats
    assert b"\njob-timeouts: 0\n" in stats


@needs_faketime
def test_the_clock_is_known_by_how_often_it_was_looked_at() -> None:
    with _under_a_fake_clock(REFERENCE_COMMAND) as (server, clock):
        assert clock.time() == 0
        assert clock.read_back(server.process.pid)
        first = clock.time()
        assert 0 < first < 0.1
        for _ in range(10):
            clock.synchronise()
        # Each of 30 round trips looks at least once.
        assert first + 30e-6 <= clock.time() < first + 0.01
        before = clock.time()
        clock.move(3600)
        assert before + 3600 <= clock.time() < before + 3600.01
        shown = clock.time()
    clock.environment()
    assert clock.time() >= shown


@needs_faketime
def test_a_clock_that_cannot_be_read_back_is_not_moved() -> None:
    with _under_a_fake_clock(REFERENCE_COMMAND) as (server, clock):
        reason = why_not(server.address, clock, 2**22 + 1, USUAL.probe)
    assert reason == "the clock of the launched server cannot be read under libfaketime"


@needs_faketime
@pytest.mark.parametrize("runs", ["exec {}", "{} && true"], ids=["program", "its-child"])
@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        (b"__asan_init", "a server built with a sanitizer may wait for itself for ever"),
        (b"__ubsan_init", ""),
    ],
)
def test_a_server_with_a_sanitizer_is_not_moved(
    tmp_path: Path, marks: bytes, reason: str, runs: str
) -> None:
    program = shell_with(tmp_path, marks)
    inner = shlex.quote(f"{REFERENCE_COMMAND} && true")
    told = _why_not(f"sh -c {shlex.quote(runs.format(f'{program} -c {inner}'))}")
    assert told == (f"under libfaketime, {reason}" if reason else "")


@needs_faketime
@pytest.mark.parametrize(
    ("uptime", "reason"),
    [("1", "the launched server does not follow libfaketime"), ("unknown", "")],
)
def test_a_server_that_counts_its_uptime_by_another_clock(
    tmp_path: Path, uptime: str, reason: str
) -> None:
    assert _why_not(changed_server(tmp_path, OWN_UPTIME.format(uptime=uptime))) == reason


TIMEOUT_GOES_ON = """
    plain = Model._reserve
    Model._reserve = lambda self, conn, timeout: plain(self, conn, timeout or None)
"""
TIMEOUT_ENDS_WITH_A_TICK = """
    import math
    def reserve(self, conn, timeout):
        if timeout == 0:
            tick = {tick} * SECOND
            timeout = (math.floor(self.now / tick + 1) * tick - self.now) / SECOND
        return plain(self, conn, timeout)
    plain, Model._reserve = Model._reserve, reserve
"""
FAILS_IN_FAKE_TIME = """
    if "FAKETIME_TIMESTAMP_FILE" in os.environ:
        Model._pause_tube = lambda self, *_: None
"""


def _moved(command: str, limits: Limits = USUAL) -> LaunchedTarget:
    """Return a target whose clock is moved; a busy machine may be to blame a few times."""
    for _ in range(5):
        target = LaunchedTarget(command, limits=limits)
        if target.clock.movable:
            break
        target.close()
    assert (target.clock.movable, target.clock_reason) == (True, "")
    return target


@needs_faketime
@pytest.mark.parametrize("name", ["does not answer pause-tube", "crashes at pause-tube"])
def test_that_pauses_fail_in_any_time_is_no_matter_of_the_clock(tmp_path: Path, name: str) -> None:
    limits = replace(USUAL, probe=2.0)
    with closing(_moved(changed_server(tmp_path, CHANGES[name]), limits)) as target:
        assert target.outage() is None


@needs_faketime
@pytest.mark.parametrize("name", ["pause", "longer pause", "timeout", "timeout of a second"])
def test_that_no_time_never_ends_is_no_matter_of_the_clock_if_it_is_so_in_any(
    tmp_path: Path, name: str
) -> None:
    command = {
        "pause": f"{REFERENCE_COMMAND} --fault a-pause-of-zero-lasts-for-ever",
        "longer pause": f"{REFERENCE_COMMAND} --fault the-end-of-a-pause-wakes-nobody",
        "timeout": changed_server(tmp_path, TIMEOUT_GOES_ON),
        "timeout of a second": f"{REFERENCE_COMMAND} --fault a-timeout-of-zero-waits-a-second",
    }[name]
    with closing(_moved(command)) as target, visit(target.address, 5) as sock:
        assert b"current-jobs-ready: 0\n" in (ask(sock, b"stats", 5).body or b"")


@needs_faketime
@pytest.mark.parametrize(
    ("verb", "reason"),
    [
        ("stats", ""),
        ("stats-job", "under libfaketime, the launched server does not answer stats-job"),
    ],
)
def test_it_is_told_which_command_kept_the_clock_from_being_tried(
    tmp_path: Path, verb: str, reason: str
) -> None:
    silent = f"Model._{verb.replace('-', '_')} = lambda self, *_: None"
    limits = replace(USUAL, probe=2.0)
    with closing(LaunchedTarget(changed_server(tmp_path, silent), limits=limits)) as target:
        assert (target.clock.movable, target.clock_reason) == (not reason, reason)


@needs_faketime
def test_pauses_that_fail_in_fake_time_only_are_tested_in_real_time(tmp_path: Path) -> None:
    command = changed_server(tmp_path, "import os\n" + textwrap.dedent(FAILS_IN_FAKE_TIME))
    with closing(LaunchedTarget(command)) as target:
        assert not target.clock.movable
        assert target.clock_reason == PAUSE_UNANSWERED


@needs_faketime
def test_a_clock_goes_on_over_a_restart() -> None:
    target = LaunchedTarget(REFERENCE_COMMAND)
    try:
        assert target.clock.movable
        target.clock.move(10)
        before = target.clock.time()
        target.restart()
        assert before <= target.clock.time() < before + 0.1
    finally:
        target.close()


@needs_faketime
def test_a_server_that_answers_when_its_clock_moves_is_named_as_such(tmp_path: Path) -> None:
    command = changed_server(tmp_path, HELD_BACK)
    assert _why_not(command, 1.0) == (
        "under libfaketime, the launched server answers use only when its clock moves"
    )


@needs_faketime
def test_what_is_unanswered_while_a_clock_stands_still_is_not_recorded(tmp_path: Path) -> None:
    limits = replace(USUAL, probe=1.0, detection=0.5)
    with closing(LaunchedTarget(changed_server(tmp_path, HELD_BACK), limits=limits)) as target:
        assert not target.clock.movable
        assert target.traits == Traits()


GREEDY = """
import select, socket, sys, time

listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
clients = []
while True:
    readable = select.select([listener, *clients], [], [])[0]
    now = time.time()
    while readable:
        for ready in readable:
            if ready is listener:
                clients.append(listener.accept()[0])
            elif data := ready.recv(100):
                ready.sendall(b"USING %d\\r\\n" % now)
            else:
                clients.remove(ready)
        for _ in range(10**6):
            # The next request arrives meanwhile.
            pass
        readable = select.select([listener, *clients], [], [], 0)[0]
"""


@needs_faketime
def test_a_server_that_looks_at_its_clock_only_when_it_is_idle(tmp_path: Path) -> None:
    script = tmp_path / "greedy.py"
    script.write_text(GREEDY)
    command = f"{sys.executable} {script} {{host}} {{port}}"
    with _under_a_fake_clock(command) as (server, clock):
        clock.read_back(server.process.pid)
        with Transport(connect(server.address, USUAL.probe)) as client:
            times = []
            for _ in range(2):
                reply = ask(client, b"list-tube-used", USUAL.probe)
                times.append(int(reply.args[0]))
                clock.move(100)
    assert times[1] - times[0] == 100
