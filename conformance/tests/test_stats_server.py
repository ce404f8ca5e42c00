"""Section "Other Commands", continued: stats, key by key."""

import re
import signal
from collections.abc import Sequence

import pytest

from conformance.catalogue import configured, requirement, told_keys
from conformance.dialogue.connection import Connection, eventually
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.oracle.reply_comparison import UNNAMED
from conformance.oracle.underspecification import must_be_malformed
from conformance.target.target import Target
from conformance.verdict import Deviation
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    BURIED,
    DELETED,
    RELEASED,
    RESERVED,
    UNKNOWN_COMMAND,
    USING,
)

COUNTED = {
    "put": ('"cmd-put" is the cumulative number of put commands.'),
    "peek": ('"cmd-peek" is the cumulative number of peek commands.'),
    "peek-ready": ('"cmd-peek-ready" is the cumulative number of peek-ready commands.'),
    "peek-delayed": ('"cmd-peek-delayed" is the cumulative number of peek-delayed commands.'),
    "peek-buried": ('"cmd-peek-buried" is the cumulative number of peek-buried commands.'),
    "reserve": ('"cmd-reserve" is the cumulative number of reserve commands.'),
    "use": ('"cmd-use" is the cumulative number of use commands.'),
    "watch": ('"cmd-watch" is the cumulative number of watch commands.'),
    "ignore": ('"cmd-ignore" is the cumulative number of ignore commands.'),
    "delete": ('"cmd-delete" is the cumulative number of delete commands.'),
    "release": ('"cmd-release" is the cumulative number of release commands.'),
    "bury": ('"cmd-bury" is the cumulative number of bury commands.'),
    "kick": ('"cmd-kick" is the cumulative number of kick commands.'),
    "stats": ('"cmd-stats" is the cumulative number of stats commands.'),
    "stats-job": ('"cmd-stats-job" is the cumulative number of stats-job commands.'),
    "stats-tube": ('"cmd-stats-tube" is the cumulative number of stats-tube commands.'),
    "list-tubes": ('"cmd-list-tubes" is the cumulative number of list-tubes commands.'),
    "list-tube-used": ('"cmd-list-tube-used" is the cumulative number of list-tube-used commands.'),
    "list-tubes-watched": (
        '"cmd-list-tubes-watched" is the cumulative number of list-tubes-watched commands.'
    ),
    "pause-tube": ('"cmd-pause-tube" is the cumulative number of pause-tube commands.'),
    "reserve-with-timeout": (
        '"cmd-reserve-with-timeout" is the cumulative number of reserve-with-timeout commands.'
    ),
    "touch": ('"cmd-touch" is the cumulative number of touch commands.'),
}
"""The commands with counters; the text names those of the last two from 1.13 on."""
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
    *(
        "current-jobs-delayed",
        "current-jobs-buried",
        *(f"cmd-{verb}" for verb in COUNTED),
    ),
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
    keys = told_keys("stats", NUMBERS | OTHERS, profile)
    stats = client.stats()
    assert sorted(keys - UNNAMED - set(stats)) == []
    told = NUMBERS & keys & set(stats)
    assert [key for key in told if stats.number(key) < 0] == []


@requirement(
    "stats.at-once",
    "The stats command gives statistical information about the system as a whole.",
)
def test_stats_tells_what_has_just_happened(client: Connection) -> None:
    first, second = (client.send("stats").dictionary() for _ in range(2))
    assert first["cmd-stats"] != second["cmd-stats"]


@requirement(
    "stats.draining",
    '"draining" is set to "true" if the server is in drain mode, "false" otherwise.',
)
def test_stats_tells_of_drain_mode(own_server: Target, client: Connection) -> None:
    assert client.stats()["draining"] == "false"
    own_server.signal(signal.SIGUSR1)
    assert eventually(lambda: client.stats()["draining"] == "true"), "draining never became true"


def _jobs_in_all_states(client: Connection, tubes: Sequence[str]) -> None:
    """In each tube: 5 ready jobs, 3 of them urgent, 4 reserved, 2 delayed, 1 buried."""
    for tube in tubes:
        if len(tubes) > 1:
            client.send(f"use {tube}").expect(USING(tube))
            client.send(f"watch {tube}").reply("WATCHING")
        jobs = client.put_many([b"a"] * 5, in_order=True)
        for job in jobs:
            client.reserve().expect(RESERVED(job, b"a"))
        client.send(f"bury {jobs[0]} 0").expect(BURIED)
        client.put(b"b", delay=3600)
        client.put(b"b", delay=3600, pri=5000)
    for tube in tubes:
        if len(tubes) > 1:
            client.send(f"use {tube}").expect(USING(tube))
        for pri in (0, 1, 1023, 1024, 5000):
            client.put(b"c", pri=pri)


@pytest.mark.parametrize(
    ("key", "count"),
    [
        pytest.param(key, count, marks=requirement(f"stats.{key}", clause))
        for key, clause, count in (
            (
                "current-jobs-urgent",
                '"current-jobs-urgent" is the number of ready jobs with priority < 1024.',
                3,
            ),
            (
                "current-jobs-ready",
                '"current-jobs-ready" is the number of jobs in the ready queue.',
                5,
            ),
            (
                "current-jobs-reserved",
                '"current-jobs-reserved" is the number of jobs reserved by all clients.',
                4,
            ),
            ("current-jobs-delayed", '"current-jobs-delayed" is the number of delayed jobs.', 2),
            ("current-jobs-buried", '"current-jobs-buried" is the number of buried jobs.', 1),
            ("total-jobs", '"total-jobs" is the cumulative count of jobs created.', 12),
        )
    ],
)
def test_stats_counts_the_jobs_of_all_tubes(
    alone: None, client: Connection, profile: Profile, new_tube: NewTube, key: str, count: int
) -> None:
    tubes = [client.tube, new_tube()] if profile.has_tubes else [client.tube]
    before = client.stats()
    _jobs_in_all_states(client, tubes)
    assert client.stats().number(key) - before.number(key) == count * len(tubes)


@requirement("stats.current-tubes", '"current-tubes" is the number of currently-existing tubes.')
def test_stats_counts_tubes(alone: None, client: Connection, new_tube: NewTube) -> None:
    # What tests before this one have left may still be there.
    client.becomes(lambda: {*client.send("list-tubes").names()} == {"default", client.tube})
    before = client.stats().number("current-tubes")
    for tube in (new_tube(), new_tube()):
        client.send(f"watch {tube}").reply("WATCHING")
    client.send(f"use {tube}").expect(USING(tube))
    assert client.stats().number("current-tubes") - before == 2


@requirement(
    "stats.yaml-values-parse",
    "It is a YAML file with statistical information represented by a dictionary.",
)
def test_a_client_that_parses_yaml_finds_all_values(client: Connection, profile: Profile) -> None:
    job = client.put(b"a")
    lines = ["stats", f"{profile.stats_of_job} {job}"]
    lines += [f"stats-tube {client.tube}"] if profile.has_tubes else []
    for line in lines:
        told = client.send(line).dictionary()
        parsed = client.send(line).parsed()
        if not isinstance(parsed, dict):
            raise Deviation("OK with a YAML dictionary", f"what YAML takes for {parsed!r}"[:200])
        for key, value in told.items():
            read = parsed.get(key)
            if not isinstance(read, str | int | float) or (key in TEXTS and str(read) != value):
                raise Deviation(
                    f"{key} with a value that YAML takes for {value!r}"[:200],
                    f"a value that YAML takes for {read!r}"[:200],
                )


@requirement("stats.total-jobs", '"total-jobs" is the cumulative count of jobs created.')
def test_total_jobs_does_not_go_down(alone: None, client: Connection) -> None:
    before = client.stats().number("total-jobs")
    jobs = client.put_many([b"a"] * 3, in_order=True)
    client.reserve().expect(RESERVED(jobs[0], b"a"))
    client.send(f"release {jobs[0]} 0 0").expect(RELEASED)
    for job in jobs:
        client.reserve().expect(RESERVED(job, b"a"))
        client.send(f"delete {job}").expect(DELETED)
    assert client.stats().number("total-jobs") - before == 3


def _command(verb: str, client: Connection) -> str:
    """A command that succeeds, on a client that has reserved a job."""
    if verb.startswith("peek-"):
        client.job_in(verb.removeprefix("peek-"))
        return verb
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    return verb + {
        **dict.fromkeys(("use", "watch", "stats-tube"), f" {client.tube}"),
        "ignore": " default",
        **dict.fromkeys(("peek", "delete", "stats-job", "touch"), f" {job}"),
        "release": f" {job} 0 0",
        "bury": f" {job} 0",
        "kick": " 0",
        "pause-tube": f" {client.tube} 0",
        "put": " 0 3600 60 0\r\n",
        "reserve-with-timeout": " 0",
    }.get(verb, "")


RARELY_TOLD = {key.removeprefix("cmd-") for key in UNNAMED}


def _counts(client: Connection, verb: str, *others: str) -> dict[str, int]:
    """The counters of commands; of the others, those may be missing that few texts name."""
    stats = client.stats()
    told = [other for other in others if f"cmd-{other}" in stats or other not in RARELY_TOLD]
    return {name: stats.number(f"cmd-{name}") for name in (verb, *told)}


@pytest.mark.parametrize(
    "verb",
    [pytest.param(verb, marks=requirement(f"stats.cmd-{verb}", COUNTED[verb])) for verb in COUNTED],
)
def test_stats_counts_each_command(
    alone: None, client: Connection, profile: Profile, verb: str
) -> None:
    client.needs(verb.encode())
    command = _command(verb, client)
    if verb == "reserve":
        client.put(b"b")
    # A server may count reserve-with-timeout as reserve, too; the others are also our own.
    ours = {"stats", "list-tube-used", "reserve" * (verb == "reserve-with-timeout")}
    seen = ({*COUNTED, verb} & profile.commands) - ours
    before, least = _counts(client, verb, *seen), 3 if verb == "stats" else 1
    client.send(command).any_reply()
    after = _counts(client, verb, *seen)
    assert after[verb] - before[verb] >= least
    told = seen & before.keys()
    grown = {key: after[key] - before[key] for key in told if after[key] != before[key]}
    assert grown == ({} if verb in ours else {verb: 1})


@requirement(
    "stats.failed-commands-count",
    '"cmd-delete" is the cumulative number of delete commands.',
)
@pytest.mark.parametrize(
    "command",
    ["peek 0", "delete 0", "release 0 0 0", "bury 0 0", "touch 0", "stats-job 0", "peek-ready"],
)
def test_stats_counts_commands_that_find_nothing(
    alone: None, client: Connection, command: str
) -> None:
    client.needs(command.encode())
    verb = command.partition(" ")[0]
    before = _counts(client, verb)[verb]
    client.send(command).reply("NOT_FOUND")
    assert _counts(client, verb)[verb] == before + 1


@requirement(
    "stats.malformed-commands-do-not-count",
    '"cmd-delete" is the cumulative number of delete commands.',
)
@pytest.mark.parametrize(
    "command",
    ["peek x", "delete x", "release 0 0 x", "bury 0 x", "touch x", "kick x", "use -a"],
)
def test_stats_does_not_count_malformed_commands(
    alone: None, client: Connection, command: str
) -> None:
    client.needs(command.encode())
    verb = command.partition(" ")[0]
    before = _counts(client, verb)[verb]
    client.send(command).expect(BAD_FORMAT, UNKNOWN_COMMAND)
    assert _counts(client, verb)[verb] == before


@pytest.mark.parametrize(
    ("key", "count"),
    [
        pytest.param(key, count, marks=requirement(f"stats.{key}", clause))
        for key, clause, count in (
            (
                "current-connections",
                '"current-connections" is the number of currently open connections.',
                3,
            ),
            (
                "current-producers",
                '"current-producers" is the number of open connections that have each issued at '
                "least one put command.",
                2,
            ),
            (
                "current-workers",
                '"current-workers" is the number of open connections that have each issued at '
                "least one reserve command.",
                2,
            ),
            ("total-connections", '"total-connections" is the cumulative count of connections.', 4),
        )
    ],
)
def test_stats_counts_connections_by_what_they_do(
    alone: None, new_client: Connect, key: str, count: int
) -> None:
    observer = new_client()
    before = observer.stats().number(key)
    both, producer, worker, gone = (new_client() for _ in range(4))
    producer.put(b"a")
    worker.reserve().reply("RESERVED")
    both.put(b"a")
    both.reserve().reply("RESERVED")
    gone.half_close()
    gone.is_closed_by_target()
    observer.becomes(lambda: observer.stats().number(key) - before == count)
    assert observer.stats().number(key) - before == count


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=requirement(f"stats.{key}", clause))
        for key, clause in (
            (
                "current-connections",
                '"current-connections" is the number of currently open connections.',
            ),
            ("total-connections", '"total-connections" is the cumulative count of connections.'),
        )
    ],
)
def test_a_client_that_says_nothing_is_connected(
    alone: None, client: Connection, connect: Connect, key: str
) -> None:
    before = client.stats().number(key)
    connect()
    client.becomes(lambda: client.stats().number(key) - before == 1)
    assert client.stats().number(key) - before == 1


@requirement(
    "stats.current-waiting",
    '"current-waiting" is the number of open connections that have issued a reserve command '
    "but not yet received a response.",
)
def test_stats_counts_those_who_wait(
    alone: None, client: Connection, worker: Connection, profile: Profile, new_tube: NewTube
) -> None:
    if profile.has_tubes:
        worker.send(f"watch {new_tube()}").reply("WATCHING")
    before = client.stats().number("current-waiting")
    waiting = worker.send("reserve")
    waits = eventually(lambda: client.stats().number("current-waiting") == before + 1)
    assert waits, "current-waiting never grew by 1"
    job = client.put(b"a")
    waiting.expect_now(RESERVED(job, b"a"))
    assert client.stats().number("current-waiting") == before


@requirement("stats.max-job-size", '"max-job-size" is the maximum number of bytes in a job.')
@configured(max_job_size=10)
def test_max_job_size_is_what_the_server_was_told(own_server: Target, client: Connection) -> None:
    assert client.stats()["max-job-size"] == "10"


@requirement("stats.max-job-size", '"max-job-size" is the maximum number of bytes in a job.')
def test_max_job_size_is_a_size_in_bytes(client: Connection) -> None:
    assert client.stats().number("max-job-size") > 0


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


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=requirement(f"stats.{key}", clause))
        for key, clause in (
            (
                "rusage-utime",
                '"rusage-utime" is the cumulative user CPU time of this process in seconds and '
                "microseconds.",
            ),
            (
                "rusage-stime",
                '"rusage-stime" is the cumulative system CPU time of this process in seconds and '
                "microseconds.",
            ),
        )
    ],
)
def test_processor_time_is_told_in_seconds_and_microseconds(client: Connection, key: str) -> None:
    first, second = client.stats()[key], client.stats()[key]
    for time in (first, second):
        assert re.fullmatch(r"\d+\.\d{1,6}", time), f"{key} is {time!r}, not seconds.microseconds"
    assert float(first) <= float(second)


@requirement(
    "stats.uptime",
    '"uptime" is the number of seconds since this server process started running.',
)
def test_uptime_is_told_in_seconds(client: Connection, clock: Timeline) -> None:
    before, start = client.stats().number("uptime"), clock.nominal
    clock.advance(3)
    grown = client.stats().number("uptime") - before
    assert abs(grown - (clock.nominal - start)) <= 1


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


@requirement("stats.bad-format", r"stats\r\n")
@pytest.mark.parametrize("line", ["stats x", "stats 1", "stats 1 2"])
def test_a_malformed_stats(client: Connection, profile: Profile, line: str) -> None:
    must_be_malformed(line, profile)
    client.send(line).expect(BAD_FORMAT)
