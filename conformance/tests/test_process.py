"""Section "Other Commands", continued: what stats reports of the server's process and machine.

The values are compared with those that the system reports for a process that we have started.
"""

import re
import time

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.target.serving import ServerProcess
from conformance.target.target import Target
from conformance.verdict import Deviation, NotTestable

_SECONDS = re.compile(r"\d+(\.\d*)?")
ROUNDING = 1.0
"""Seconds by which whole seconds of an age may differ."""
TICKS = 0.03
"""Seconds by which two measurements of CPU time may differ."""
UNKNOWN = "unknown"
"""The value where the system does not report it to the server."""
WORTH = 0.06
"""Seconds of CPU time from which on it is worth comparing."""
WORKS, PART = 3.0, 200
"""Seconds for which a server gets work to come to that, and how many commands at a time."""
MACHINE = {
    "hostname": '"hostname" is the hostname of the machine as determined by uname.',
    "os": '"os" is the OS version as determined by uname',
    "platform": '"platform" is the machine architecture as determined by uname',
}
"""The clauses of the keys that describe the machine."""
PROCESSOR_TIME = {
    "rusage-utime": (
        '"rusage-utime" is the cumulative user CPU time of this process in seconds and '
        "microseconds."
    ),
    "rusage-stime": (
        '"rusage-stime" is the cumulative system CPU time of this process in seconds and '
        "microseconds."
    ),
}
"""The clauses of the keys that report its CPU time."""


def _process(client: Connection, server: Target) -> ServerProcess:
    """Return the server's process; raises NotTestable if several may be it."""
    processes, pid = server.processes(), client.stats().number("pid")
    if len(processes) == 1:
        return processes[0]
    for process in processes:
        if pid in process.numbers:
            return process
    raise NotTestable(f"any of {len(processes)} processes may be the server")


@requirement("stats.pid", '"pid" is the process id of the server.')
def test_pid_is_that_of_the_process(server: Target, client: Connection) -> None:
    numbers = {number for process in server.processes() for number in process.numbers}
    pid = client.stats().number("pid")
    if pid not in numbers:
        raise Deviation(f"pid to be {' or '.join(map(str, sorted(numbers)))}", f"pid is {pid}")


@requirement(
    "stats.uptime",
    '"uptime" is the number of seconds since this server process started running.',
)
@pytest.mark.parametrize("seconds", [0, 2, 100])
def test_uptime_is_the_age_of_the_process(
    server: Target, client: Connection, clock: Timeline, seconds: int
) -> None:
    clock.advance(seconds)
    least, _ = server.age()
    uptime = client.stats().number("uptime")
    _, most = server.age()
    assert least - ROUNDING <= uptime <= most + ROUNDING


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=requirement(f"stats.{key}", clause))
        for key, clause in PROCESSOR_TIME.items()
    ],
)
def test_processor_time_is_told_in_seconds_and_microseconds(client: Connection, key: str) -> None:
    first, second = client.stats()[key], client.stats()[key]
    for value in (first, second):
        assert re.fullmatch(r"\d+\.\d{1,6}", value), f"{key} is {value!r}, not seconds.microseconds"
    assert float(first) <= float(second)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=requirement(f"stats.{key}", clause))
        for key, clause in PROCESSOR_TIME.items()
    ],
)
def test_processor_time_is_that_of_the_process(
    server: Target, client: Connection, key: str
) -> None:
    process = _process(client, server)
    end = time.monotonic() + WORKS
    while process.cpu[key] < WORTH:
        if time.monotonic() > end:
            raise NotTestable(f"needs a server that takes {WORTH:g} s of CPU time for its work")
        client.synchronise(PART)
    before = process.cpu[key]
    value = client.stats()[key]
    after = process.cpu[key]
    is_right = _SECONDS.fullmatch(value) and before - TICKS <= float(value) <= after + TICKS
    if not is_right:
        raise Deviation(f"{key} of {before:.2f} to {after:.2f} seconds", f"{key} is {value}"[:100])


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=requirement(f"stats.{key}", clause))
        for key, clause in MACHINE.items()
    ],
)
def test_the_machine_is_named_as_uname_does(server: Target, client: Connection, key: str) -> None:
    names, value = _process(client, server).system[key], client.stats()[key]
    if value == UNKNOWN:
        raise NotTestable(f"the server does not know its {key}")
    if not any(name in value for name in names):
        raise Deviation(f"{key} to be {' or '.join(map(repr, names))}", f"{key} is {value!r}"[:200])


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=requirement(f"stats.{key}", clause))
        for key, clause in {
            "version": '"version" is the version string of the server.',
            **MACHINE,
        }.items()
    ],
)
def test_a_server_that_is_started_again_is_the_same(
    own_server: Target, client: Connection, connect: Connect, key: str
) -> None:
    first = client.stats()[key]
    own_server.restart()
    assert connect().stats()[key] == first
