"""Section "Other Commands", continued: stats-job, stats-tube and stats."""

import signal

import pytest

from conformance.catalogue import requirement
from conformance.connection import Connection
from conformance.scenario import Connect, NewTube
from conformance.target import Target
from reference_server.wire import (
    BAD_FORMAT,
    BURIED,
    DELETED,
    NOT_FOUND,
    PAUSED,
    RELEASED,
    RESERVED,
    USING,
)

JOB_KEYS = {
    *("id", "tube", "state", "pri", "age", "delay", "ttr", "time-left", "file", "reserves"),
    *("timeouts", "releases", "buries", "kicks"),
}
TUBE_KEYS = {
    *("name", "current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved"),
    *("current-jobs-delayed", "current-jobs-buried", "total-jobs", "current-using"),
    *("current-waiting", "current-watching", "pause", "cmd-delete", "cmd-pause-tube"),
    "pause-time-left",
}
COUNTED = (
    *("put", "peek", "peek-ready", "peek-delayed", "peek-buried", "reserve", "use", "watch"),
    *("ignore", "delete", "release", "bury", "kick", "stats", "stats-job", "stats-tube"),
    *("list-tubes", "list-tube-used", "list-tubes-watched", "pause-tube"),
)
NUMBERS = {
    *("current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved"),
    *("current-jobs-delayed", "current-jobs-buried", *(f"cmd-{verb}" for verb in COUNTED)),
    *("job-timeouts", "total-jobs", "max-job-size", "current-tubes", "current-connections"),
    *("current-producers", "current-workers", "current-waiting", "total-connections", "pid"),
    *("uptime", "binlog-oldest-index", "binlog-current-index", "binlog-max-size"),
    *("binlog-records-written", "binlog-records-migrated"),
}
OTHERS = {
    *("version", "rusage-utime", "rusage-stime", "draining", "id", "hostname", "os", "platform")
}


def _reserve(client: Connection, job: int) -> None:
    """Reserves the job that is next."""
    client.reserve().expect(RESERVED(job, b"a"))


@requirement("stats-job.ok")
def test_stats_job_has_all_its_keys(client: Connection) -> None:
    stats = client.stats_job(client.put(b"a"))
    assert sorted(JOB_KEYS - set(stats)) == []
    for key in JOB_KEYS - {"tube", "state"}:
        stats.number(key)


@requirement("stats-job.values")
def test_stats_job_tells_what_put_said(client: Connection) -> None:
    job = client.put(b"a", pri=7, delay=3600, ttr=99)
    stats = client.stats_job(job)
    told = [stats[key] for key in ("id", "tube", "pri", "delay", "ttr")]
    assert told == [str(job), client.tube, "7", "3600", "99"]


@requirement("stats-job.state")
def test_stats_job_tells_the_state(client: Connection) -> None:
    job = client.put(b"a", delay=3600)
    assert client.state_of(job) == "delayed"
    client.send(f"kick-job {job}").reply("KICKED")
    assert client.state_of(job) == "ready"
    _reserve(client, job)
    assert client.state_of(job) == "reserved"
    client.send(f"bury {job} 0").expect(BURIED)
    assert client.state_of(job) == "buried"


@requirement("stats-job.counters")
def test_stats_job_counts_what_happened_to_the_job(client: Connection) -> None:
    job = client.put(b"a")
    for _ in range(3):
        _reserve(client, job)
        client.send(f"release {job} 0 0").expect(RELEASED)
    for _ in range(2):
        _reserve(client, job)
        client.send(f"bury {job} 0").expect(BURIED)
        client.send("kick 1").reply("KICKED")
    _reserve(client, job)
    stats = client.stats_job(job)
    counts = [stats[key] for key in ("reserves", "releases", "buries", "kicks", "timeouts")]
    assert counts == ["6", "3", "2", "2", "0"]


@requirement("stats-job.counters")
def test_commands_that_fail_do_not_count(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    _reserve(client, job)
    for command in (f"release {job} 0 0", f"bury {job} 0", f"kick-job {job}", f"touch {job}"):
        other.send(command).expect(NOT_FOUND)
    stats = client.stats_job(job)
    assert [stats[key] for key in ("reserves", "releases", "buries", "kicks")] == list("1000")


@requirement("stats-job.not-found")
@pytest.mark.parametrize("job", [0, 2**63, 2**64 - 1])
def test_stats_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"stats-job {job}").expect(NOT_FOUND)


@requirement("stats-job.bad-format")
@pytest.mark.parametrize("argument", ["x", "-1", "1x", str(2**64), ""])
def test_a_malformed_stats_job(client: Connection, argument: str) -> None:
    client.send(f"stats-job {argument}").expect(BAD_FORMAT)


@requirement("stats-tube.ok")
def test_stats_tube_has_all_its_keys(client: Connection) -> None:
    stats = client.stats_tube()
    assert sorted(TUBE_KEYS - set(stats)) == []
    assert stats["name"] == client.tube
    assert [key for key in TUBE_KEYS - {"name"} if stats.number(key) < 0] == []


@requirement("stats-tube.ok")
@pytest.mark.parametrize("name", ["null", "1.0", "0x10", "true", "1e3", "a.b"])
def test_a_tube_may_be_called_what_yaml_takes_for_something_else(
    connect: Connect, name: str
) -> None:
    client = connect()
    client.send(f"use {name}").expect(USING(name))
    assert client.stats_tube(name)["name"] == name
    assert name in client.send("list-tubes").names()


@requirement("stats-tube.job-counts")
def test_stats_tube_counts_jobs_by_state(client: Connection) -> None:
    jobs = client.put_many([b"a"] * 6)
    client.put(b"b", delay=3600)
    for job in jobs[:3]:
        _reserve(client, job)
    client.send(f"bury {jobs[0]} 0").expect(BURIED)
    stats = client.stats_tube()
    states = ("ready", "reserved", "delayed", "buried")
    assert [stats[f"current-jobs-{state}"] for state in states] == ["3", "2", "1", "1"]


@requirement("stats-tube.urgent")
def test_stats_tube_counts_ready_jobs_of_a_priority_below_1024(client: Connection) -> None:
    for pri in (0, 1023, 1024, 2**32 - 1):
        client.put(b"a", pri=pri)
    client.put(b"b", pri=0, delay=3600)
    assert client.stats_tube()["current-jobs-urgent"] == "2"
    for left in ("1", "0", "0", "0"):
        client.reserve().reply("RESERVED")
        assert client.stats_tube()["current-jobs-urgent"] == left


@requirement("stats-tube.client-counts")
def test_stats_tube_counts_those_who_use_and_watch(
    connect: Connect, new_producer: Connect, new_worker: Connect, tube: str
) -> None:
    producers = [new_producer() for _ in range(3)]
    for _ in range(2):
        new_worker()
    stats = connect().stats_tube(tube)
    assert (stats["current-using"], stats["current-watching"]) == ("3", "2")
    producers[0].half_close()
    producers[0].is_closed_by_target()
    producers[1].send("use default").expect(USING("default"))
    assert connect().stats_tube(tube)["current-using"] == "1"


@requirement("stats-tube.waiting")
def test_stats_tube_counts_those_who_wait(worker: Connection, producer: Connection) -> None:
    assert producer.stats_tube()["current-waiting"] == "0"
    waiting = worker.send("reserve")
    waits = any(producer.stats_tube()["current-waiting"] == "1" for _ in range(1000))
    assert waits, "current-waiting never became 1"
    job = producer.put(b"a")
    waiting.expect(RESERVED(job, b"a"))
    assert producer.stats_tube()["current-waiting"] == "0"


@requirement("stats-tube.cumulative")
def test_stats_tube_counts_puts_and_deletes(client: Connection) -> None:
    jobs = client.put_many([b"a"] * 4)
    for job in jobs[:3]:
        client.send(f"delete {job}").expect(DELETED)
    client.send(f"delete {jobs[0]}").expect(NOT_FOUND)
    stats = client.stats_tube()
    assert (stats["total-jobs"], stats["cmd-delete"]) == ("4", "3")


@requirement("stats-tube.pause")
def test_stats_tube_tells_of_a_pause(client: Connection) -> None:
    before = client.stats_tube()
    assert [before[key] for key in ("pause", "cmd-pause-tube", "pause-time-left")] == ["0"] * 3
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    after = client.stats_tube()
    assert (after["pause"], after["cmd-pause-tube"]) == ("3600", "1")
    assert 3500 <= after.number("pause-time-left") <= 3600


@requirement("stats-tube.not-found")
def test_stats_of_a_tube_that_does_not_exist(client: Connection, new_tube: NewTube) -> None:
    client.send(f"stats-tube {new_tube()}").expect(NOT_FOUND)


@requirement("stats-tube.bad-format")
@pytest.mark.parametrize("argument", ["", "-a", "a b", "a!", "n" * 201])
def test_a_malformed_stats_tube(client: Connection, argument: str) -> None:
    client.send(f"stats-tube {argument}").expect(BAD_FORMAT)


@requirement("stats.ok")
def test_stats_has_all_its_keys(client: Connection) -> None:
    stats = client.stats()
    assert sorted((NUMBERS | OTHERS) - set(stats)) == []
    assert [key for key in NUMBERS if stats.number(key) < 0] == []
    assert stats["draining"] in ("true", "false")


@requirement("stats.draining")
def test_stats_tells_of_drain_mode(own_server: Target, client: Connection) -> None:
    assert client.stats()["draining"] == "false"
    own_server.signal(signal.SIGUSR1)
    told = any(client.stats()["draining"] == "true" for _ in range(1000))
    assert told, "draining never became true"


@requirement("stats.job-counts")
def test_stats_counts_the_jobs_of_all_tubes(
    alone: None, client: Connection, new_tube: NewTube
) -> None:
    states = ("urgent", "ready", "reserved", "delayed", "buried")
    before = client.stats()
    tubes = (client.tube, new_tube())
    for tube in tubes:
        client.send(f"use {tube}").expect(USING(tube))
        client.send(f"watch {tube}").reply("WATCHING")
        jobs = client.put_many([b"a"] * 2)
        client.put(b"b", delay=3600)
        _reserve(client, jobs[0])
        _reserve(client, jobs[1])
        client.send(f"bury {jobs[1]} 0").expect(BURIED)
    for tube in tubes:
        client.send(f"use {tube}").expect(USING(tube))
        client.put(b"c")
    after = client.stats()
    grown = [
        after.number(key) - before.number(key) for key in (f"current-jobs-{s}" for s in states)
    ]
    assert grown == [2, 2, 2, 2, 2]
    assert after.number("total-jobs") - before.number("total-jobs") == 8


@requirement("stats.command-counts")
@pytest.mark.parametrize("verb", COUNTED)
def test_stats_counts_each_command(alone: None, client: Connection, verb: str) -> None:
    arguments = {
        **dict.fromkeys(("use", "watch", "ignore", "stats-tube"), f" {client.tube}"),
        **dict.fromkeys(("peek", "delete", "stats-job"), " 0"),
        "release": " 0 0 0",
        "bury": " 0 0",
        "kick": " 0",
        "pause-tube": f" {client.tube} 0",
        "put": " 0 3600 60 0\r\n",
    }
    client.put(b"a")
    before = client.stats()
    client.send(verb + arguments.get(verb, "")).any_reply()
    after = client.stats()
    grown = {key for key in COUNTED if after[f"cmd-{key}"] != before[f"cmd-{key}"]}
    assert grown == {verb, "stats"}
    expected = 2 if verb == "stats" else 1
    assert after.number(f"cmd-{verb}") - before.number(f"cmd-{verb}") == expected


@requirement("stats.connection-counts")
def test_stats_counts_connections_by_what_they_do(alone: None, connect: Connect) -> None:
    keys = ("current-connections", "current-producers", "current-workers", "total-connections")
    observer = connect()
    before = observer.stats()
    client = connect()
    client.send(f"use {client.tube}").reply("USING")
    client.put(b"a", delay=3600)
    connect().reserve().reply("TIMED_OUT")
    after = observer.stats()
    assert [after.number(key) - before.number(key) for key in keys] == [2, 1, 1, 2]


@requirement("stats.bad-format")
@pytest.mark.parametrize("line", ["stats ", "stats x", "stats 1"])
def test_a_malformed_stats(client: Connection, line: str) -> None:
    client.send(line).expect(BAD_FORMAT)
