"""Section "Other Commands", continued: stats, key by key."""

import pytest

from conformance.catalogue import configured, documented_keys, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.oracle.reply_comparison import UNNAMED
from conformance.target.signals import named
from conformance.target.target import Target
from conformance.tests.test_stats_counters import COUNTED
from conformance.verdict import Deviation
from reference_server.profiles import Profile

MUCH = 2**17
"""Bytes that a server must take if it says so."""
BINLOG = {
    "binlog-oldest-index": (
        '"binlog-oldest-index" is the index of the oldest binlog file needed to store the '
        "current jobs."
    ),
    "binlog-current-index": (
        '"binlog-current-index" is the index of the current binlog file being written to. '
        "If binlog is not active this value will be 0."
    ),
    "binlog-max-size": (
        '"binlog-max-size" is the maximum size in bytes a binlog file is allowed to get '
        "before a new binlog file is opened."
    ),
    "binlog-records-written": (
        '"binlog-records-written" is the cumulative number of records written to the binlog.'
    ),
    "binlog-records-migrated": (
        '"binlog-records-migrated" is the cumulative number of records written as part of '
        "compaction."
    ),
}
NUMBERS = {
    *("current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved"),
    *("current-jobs-delayed", "current-jobs-buried", *(f"cmd-{verb}" for verb in COUNTED)),
    *("job-timeouts", "total-jobs", "max-job-size", "current-tubes", "current-connections"),
    *("current-producers", "current-workers", "current-waiting", "total-connections", "pid"),
    *("uptime", *BINLOG),
}
OTHERS = {
    *("version", "rusage-utime", "rusage-stime", "draining", "id", "hostname", "os", "platform")
}
TEXTS = ("version", "os", "platform", "state")
"""Keys whose values a client must get as they are."""


@requirement(
    "stats.ok",
    "The stats data for the system is a YAML file representing a single dictionary",
)
def test_stats_has_all_its_keys(client: Connection, profile: Profile) -> None:
    keys = documented_keys("stats", NUMBERS | OTHERS, profile)
    stats = client.tested.stats()
    assert sorted(keys - UNNAMED - set(stats)) == []
    numbers = NUMBERS & keys & set(stats)
    assert [key for key in numbers if stats.number(key) < 0] == []


@requirement(
    "stats.ok",
    "The stats data for the system is a YAML file representing a single dictionary",
)
def test_stats_is_yaml(client: Connection) -> None:
    client.send("stats").is_yaml()


@pytest.mark.parametrize(
    "key",
    [pytest.param(key, marks=requirement(f"stats.{key}", BINLOG[key])) for key in BINLOG],
)
def test_numbers_of_the_binlog(client: Connection, key: str) -> None:
    stats = client.stats()
    assert stats.number(key) >= 0
    if not stats.number("binlog-current-index") and key != "binlog-max-size":
        client.put(b"a")
        assert client.stats()[key] == "0"


@requirement(
    "stats.at-once",
    "The stats command gives statistical information about the system as a whole.",
)
def test_stats_tells_what_has_just_happened(client: Connection) -> None:
    first, second = (client.observe("stats").dictionary() for _ in range(2))
    assert first["cmd-stats"] != second["cmd-stats"]


@requirement("stats.max-job-size", '"max-job-size" is the maximum number of bytes in a job.')
@configured(max_job_size=10)
def test_max_job_size_is_what_the_server_was_told(own_server: Target, client: Connection) -> None:
    assert client.stats()["max-job-size"] == "10"


@requirement("stats.max-job-size", '"max-job-size" is the maximum number of bytes in a job.')
def test_max_job_size_is_a_size_in_bytes(client: Connection) -> None:
    assert client.stats().number("max-job-size") > 0


@requirement("stats.max-job-size", '"max-job-size" is the maximum number of bytes in a job.')
def test_a_body_of_no_more_bytes_is_not_too_big(client: Connection) -> None:
    client.tested.put(b"m" * min(client.stats().number("max-job-size"), MUCH))


@requirement("stats.pid", '"pid" is the process id of the server.')
def test_pid_is_a_process_id_that_stays(client: Connection, other: Connection) -> None:
    pid = client.stats().number("pid")
    assert pid > 0
    assert other.stats().number("pid") == pid


@requirement("stats.version", '"version" is the version string of the server.')
def test_version_is_a_string(client: Connection, other: Connection) -> None:
    version = client.stats()["version"]
    assert version
    assert other.stats()["version"] == version


@requirement(
    "stats.uptime",
    '"uptime" is the number of seconds since this server process started running.',
)
def test_uptime_is_told_in_seconds(client: Connection, clock: Timeline) -> None:
    before, start = client.stats().number("uptime"), clock.nominal
    clock.advance(3)
    grown = client.stats().number("uptime") - before
    # Whole seconds, and statistics may be up to a second old.
    assert abs(grown - (clock.nominal - start)) <= 2


@requirement(
    "stats.draining",
    '"draining" is set to "true" if the server is in drain mode, "false" otherwise.',
)
def test_stats_tells_of_drain_mode(own_server: Target, client: Connection) -> None:
    assert client.stats()["draining"] == "false"
    own_server.signal(named("SIGUSR1"))
    client.eventually(lambda: client.stats()["draining"] == "true")
    assert client.stats()["draining"] == "true"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=requirement(f"stats.{key}", clause))
        for key, clause in (
            (
                "id",
                '"id" is a random id string for this server process, generated every time '
                "beanstalkd process starts.",
            ),
            ("hostname", '"hostname" is the hostname of the machine as determined by uname.'),
            ("os", '"os" is the OS version as determined by uname'),
            ("platform", '"platform" is the machine architecture as determined by uname'),
        )
    ],
)
def test_what_identifies_a_server_is_told_and_stays(
    client: Connection, other: Connection, key: str
) -> None:
    value = client.stats()[key]
    assert value, f"{key} is empty"
    assert other.stats()[key] == value


@requirement(
    "stats.id",
    '"id" is a random id string for this server process, generated every time beanstalkd '
    "process starts.",
)
def test_a_server_has_another_id_each_time_it_starts(
    own_server: Target, client: Connection, connect: Connect
) -> None:
    first = client.stats()["id"]
    own_server.restart()
    assert connect().stats()["id"] != first


@requirement(
    "stats.yaml-values-parse",
    "It is a YAML file with statistical information represented by a dictionary.",
)
def test_a_client_that_parses_yaml_finds_all_values(client: Connection, profile: Profile) -> None:
    job = client.put(b"a")
    lines = ["stats", f"{profile.stats_of_job} {job}"]
    lines += [f"stats-tube {client.tube}"] if profile.has_tubes else []
    for line in lines:
        stats = client.observe(line).dictionary()
        parsed = client.observe(line).parsed()
        if not isinstance(parsed, dict):
            raise Deviation("OK with a YAML dictionary", f"what YAML takes for {parsed!r}"[:200])
        for key, value in stats.items():
            read = parsed.get(key)
            if not isinstance(read, str | int | float) or (key in TEXTS and str(read) != value):
                raise Deviation(
                    f"{key} with a value that YAML takes for {value!r}"[:200],
                    f"a value that YAML takes for {read!r}"[:200],
                )
