"""Section "Other Commands", continued: stats-tube, key by key."""

import pytest

from conformance.catalogue import documented_keys, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.removal import delete_ready
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.profiles import Profile
from reference_server.wire import (
    NOT_FOUND,
    RESERVED,
)

TUBE_KEYS = {
    *("name", "current-jobs-urgent", "current-jobs-ready", "current-jobs-reserved"),
    *("current-jobs-delayed", "current-jobs-buried", "total-jobs", "current-using"),
    *("current-waiting", "current-watching", "pause", "cmd-delete", "cmd-pause-tube"),
    "pause-time-left",
}


@requirement(
    "pause-tube.again-replaces",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_stats_tube_tells_the_last_pause(client: Connection) -> None:
    client.pause(3600)
    client.tested.pause(60)
    assert client.stats_tube()["pause"] == "60"


@requirement(
    "stats-tube.ok",
    "The stats-tube data is a YAML file representing a single dictionary of […] It contains "
    "these keys",
)
def test_stats_tube_has_all_its_keys(client: Connection, profile: Profile) -> None:
    keys = documented_keys("stats-tube", TUBE_KEYS, profile)
    client.put(b"a")
    stats = client.tested.stats_tube()
    assert sorted(keys - set(stats)) == []
    assert [key for key in keys - {"name"} if stats.number(key) < 0] == []


@requirement(
    "stats-tube.ok",
    "The stats-tube data is a YAML file representing a single dictionary of […] It contains "
    "these keys",
)
def test_stats_tube_is_yaml(client: Connection) -> None:
    client.put(b"a")
    client.send(f"stats-tube {client.tube}").is_yaml()


@requirement("stats-tube.name", '"name" is the tube\'s name.')
@pytest.mark.parametrize("name", ["null", "1.0", "0x10", "true", "1e3", "a.b", "n" * 190])
def test_a_tube_may_be_called_what_yaml_takes_for_something_else(
    connect: Connect, name: str
) -> None:
    client = connect()
    client.use(name)
    assert client.stats_tube(name)["name"] == name


@requirement(
    "stats-tube.current-jobs-urgent",
    '"current-jobs-urgent" is the number of ready jobs with priority < 1024 in this tube.',
)
def test_stats_tube_counts_ready_jobs_of_a_priority_below_1024(client: Connection) -> None:
    for pri in (0, 1023, 1024, 2**32 - 1):
        client.put(b"a", pri=pri)
    client.put(b"b", pri=0, delay=3600)
    assert client.stats_tube()["current-jobs-urgent"] == "2"
    for left in ("1", "0", "0", "0"):
        client.take_job()
        assert client.stats_tube()["current-jobs-urgent"] == left


@requirement(
    "stats-tube.current-jobs-urgent",
    '"current-jobs-urgent" is the number of ready jobs with priority < 1024 in this tube.',
)
def test_a_job_becomes_and_ceases_to_be_urgent(client: Connection, profile: Profile) -> None:
    job = client.put(b"a", pri=1023)
    urgent = []
    for command in (f"release {job} 1024 0", f"release {job} 0 0", f"bury {job} 0"):
        client.hold(job)
        client.prepare(command).any_reply()
        urgent.append(client.stats_tube()["current-jobs-urgent"])
    client.kick_one()
    urgent.append(client.stats_tube()["current-jobs-urgent"])
    delete_ready(client, job, client.tube, profile)
    urgent.append(client.stats_tube()["current-jobs-urgent"])
    assert urgent == ["0", "1", "0", "1", "0"]


@pytest.mark.parametrize(
    ("state", "count"),
    [
        pytest.param(state, count, marks=requirement(f"stats-tube.current-jobs-{state}", clause))
        for state, clause, count in (
            (
                "ready",
                '"current-jobs-ready" is the number of jobs in the ready queue in this tube.',
                "6",
            ),
            (
                "reserved",
                '"current-jobs-reserved" is the number of jobs reserved by all clients in this '
                "tube.",
                "4",
            ),
            ("delayed", '"current-jobs-delayed" is the number of delayed jobs in this tube.', "2"),
            ("buried", '"current-jobs-buried" is the number of buried jobs in this tube.', "3"),
        )
    ],
)
def test_stats_tube_counts_jobs_by_state(
    client: Connection, other: Connection, new_tube: NewTube, state: str, count: str
) -> None:
    for _ in range(3):
        client.put(b"b", pri=99, delay=3600)
    client.kick_one("delayed")
    jobs = client.put_many([b"a"] * 12, in_order=True)
    for job in jobs[:4]:
        client.hold(job)
    for job in jobs[4:8]:
        other.hold(job)
    for job in jobs[:4]:
        client.bury(job)
    client.kick_one()
    client.use(new_tube())
    client.put(b"c")
    assert client.stats_tube(client.tube)[f"current-jobs-{state}"] == count


@requirement(
    "stats-tube.total-jobs",
    '"total-jobs" is the cumulative count of jobs created in this tube in the current '
    "beanstalkd process.",
)
def test_stats_tube_counts_all_jobs_put_into_it(
    client: Connection, profile: Profile, new_tube: NewTube
) -> None:
    for _ in range(3):
        delete_ready(client, client.put(b"a"), client.tube, profile)
    job = client.put(b"a")
    client.put(b"b", delay=3600)
    client.hold(job)
    client.release(job)
    client.use(new_tube())
    client.put(b"c")
    assert client.stats_tube(client.tube)["total-jobs"] == "5"


@requirement(
    "stats-tube.current-using",
    '"current-using" is the number of open connections that are currently using this tube.',
)
def test_stats_tube_counts_those_who_use_it(
    connect: Connect, new_producer: Connect, new_worker: Connect, tube: str
) -> None:
    producers = [new_producer() for _ in range(3)]
    for _ in range(2):
        new_worker()
    assert connect().stats_tube(tube)["current-using"] == "3"
    producers[0].half_close()
    producers[1].use("default")
    producers[2].use(tube)
    observer = connect()
    observer.becomes(lambda: observer.stats_tube(tube)["current-using"] == "1")
    assert observer.stats_tube(tube)["current-using"] == "1"


@requirement(
    "stats-tube.current-waiting",
    '"current-waiting" is the number of open connections that have issued a reserve command '
    "while watching this tube but not yet received a response.",
)
def test_stats_tube_counts_those_who_wait(worker: Connection, producer: Connection) -> None:
    assert producer.stats_tube()["current-waiting"] == "0"
    waiting = worker.reserve_waiting()
    producer.eventually(lambda: producer.stats_tube()["current-waiting"] == "1")
    assert producer.stats_tube()["current-waiting"] == "1"
    job = producer.put(b"a")
    waiting.expect(RESERVED(job, b"a"))
    assert producer.stats_tube()["current-waiting"] == "0"


@requirement(
    "stats-tube.current-watching",
    '"current-watching" is the number of open connections that are currently watching this tube.',
)
def test_stats_tube_counts_those_who_watch_it(
    connect: Connect, new_producer: Connect, new_worker: Connect, tube: str
) -> None:
    workers = [new_worker() for _ in range(4)]
    new_producer()
    workers[0].watch(tube)
    assert connect().stats_tube(tube)["current-watching"] == "4"
    workers[0].half_close()
    workers[1].watch("default")
    workers[1].ignore(tube)
    workers[2].prepare(f"ignore {tube}").reply("NOT_IGNORED")
    observer = connect()
    observer.becomes(lambda: observer.stats_tube(tube)["current-watching"] == "2")
    assert observer.stats_tube(tube)["current-watching"] == "2"


@requirement("stats-tube.pause", '"pause" is the number of seconds the tube has been paused for.')
@pytest.mark.parametrize("pause", [60, 3600])
def test_stats_tube_tells_how_long_the_pause_is(client: Connection, pause: int) -> None:
    assert client.stats_tube()["pause"] == "0"
    client.pause(pause)
    assert client.stats_tube().number("pause") == pause


@requirement(
    "stats-tube.cmd-delete",
    '"cmd-delete" is the cumulative number of delete commands for this tube',
)
def test_stats_tube_counts_deletes(client: Connection, new_tube: NewTube) -> None:
    jobs = client.put_many([b"a"] * 4)
    client.use(new_tube())
    for job in jobs[:3]:
        client.delete(job)
    client.prepare(f"delete {jobs[0]}").expect(NOT_FOUND)
    assert client.stats_tube(client.tube)["cmd-delete"] == "3"


@requirement(
    "stats-tube.cmd-pause-tube",
    '"cmd-pause-tube" is the cumulative number of pause-tube commands for this tube.',
)
def test_stats_tube_counts_pauses(client: Connection) -> None:
    for count in ("0", "1", "2", "3"):
        assert client.stats_tube()["cmd-pause-tube"] == count
        client.pause(0)


@requirement(
    "stats-tube.pause-time-left",
    '"pause-time-left" is the number of seconds until the tube is un-paused.',
)
def test_without_a_pause_no_time_is_left(client: Connection) -> None:
    assert client.stats_tube()["pause-time-left"] == "0"
    client.pause(3600)
    pause_time_left = client.stats_tube().number("pause-time-left")
    assert 3500 <= pause_time_left <= 3600


@requirement(
    "stats-tube.pause-time-left",
    '"pause-time-left" is the number of seconds until the tube is un-paused.',
)
def test_nothing_is_left_of_a_pause_that_has_ended(client: Connection, clock: Timeline) -> None:
    client.pause(1)
    clock.advance(1)
    assert client.stats_tube()["pause-time-left"] == "0"


@requirement(
    "stats-tube.pause-time-left",
    '"pause-time-left" is the number of seconds until the tube is un-paused.',
)
def test_stats_tube_tells_how_long_the_pause_lasts_still(
    client: Connection, clock: Timeline
) -> None:
    client.pause(100)
    assert client.stats_tube()["pause-time-left"] in ("99", "100")
    clock.advance(2)
    stats = client.stats_tube()
    assert stats["pause"] == "100"
    assert stats["pause-time-left"] in ("97", "98")
