"""Section "Other Commands", continued: stats-job and stats-tube, key by key."""

import pytest

from conformance.catalogue import requirement, told_keys
from conformance.dialogue.connection import Connection, eventually
from conformance.dialogue.removal import delete_ready
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    BURIED,
    DELETED,
    KICKED,
    KICKED_COUNT,
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
COUNTERS = ("reserves", "timeouts", "releases", "buries", "kicks")


def _reserve(client: Connection, job: int) -> None:
    """Reserves the job that is next."""
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "stats-job.ok",
    "The stats-job data is a YAML file representing a single dictionary of […] It contains "
    "these keys",
)
def test_stats_job_has_all_its_keys(client: Connection, profile: Profile) -> None:
    keys = told_keys("stats-job", JOB_KEYS, profile)
    stats = client.stats_job(client.put(b"a"))
    assert sorted(keys - set(stats)) == []
    for key in keys - {"tube", "state"}:
        stats.number(key)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(key, value, marks=requirement(f"stats-job.{key}", clause))
        for key, clause, value in (
            ("pri", '"pri" is the priority value set by the put, release, or bury commands.', "7"),
            (
                "delay",
                '"delay" is the integer number of seconds to wait before putting this job in the '
                "ready queue.",
                "3600",
            ),
            (
                "ttr",
                "Both the TTR and the actual time left can be found in response to the stats-job "
                "command.",
                "99",
            ),
        )
    ],
)
def test_stats_job_tells_what_put_said(client: Connection, key: str, value: str) -> None:
    job = client.put(b"a", pri=7, delay=3600, ttr=99)
    assert client.stats_job(job)[key] == value


@requirement("stats-job.id", '"id" is the job id')
def test_stats_job_tells_the_id(client: Connection) -> None:
    for job in client.put_many([b"a"] * 12):
        assert client.stats_job(job)["id"] == str(job)


@requirement("stats-job.tube", '"tube" is the name of the tube that contains this job')
def test_stats_job_tells_the_tube(client: Connection, new_tube: NewTube) -> None:
    for tube in (client.tube, new_tube(), new_tube().ljust(190, "x")):
        client.send(f"use {tube}").expect(USING(tube))
        assert client.stats_job(client.put(b"a"))["tube"] == tube


@requirement(
    "stats-job.pri",
    '"pri" is the priority value set by the put, release, or bury commands.',
)
def test_stats_job_tells_the_priority_that_release_and_bury_have_set(client: Connection) -> None:
    job = client.put(b"a", pri=1)
    _reserve(client, job)
    assert client.stats_job(job)["pri"] == "1"
    client.send(f"release {job} 2 0").expect(RELEASED)
    assert client.stats_job(job)["pri"] == "2"
    _reserve(client, job)
    client.send(f"bury {job} 3").expect(BURIED)
    assert client.stats_job(job)["pri"] == "3"
    client.send("kick 1").reply("KICKED")
    assert client.stats_job(job)["pri"] == "3"


@requirement(
    "stats-job.delay-and-ttr-stay",
    '"delay" is the integer number of seconds to wait before putting this job in the ready '
    'queue. "ttr" -- time to run -- is the integer number of seconds a worker is allowed to '
    "run this job.",
)
def test_delay_and_ttr_are_told_as_put_said_them(client: Connection) -> None:
    job = client.put(b"a", delay=3600, ttr=99)
    client.send("kick 1").reply("KICKED")
    _reserve(client, job)
    stats = client.stats_job(job)
    assert (stats["delay"], stats["ttr"]) == ("3600", "99")
    client.send(f"release {job} 0 1800").expect(RELEASED)
    stats = client.stats_job(job)
    assert (stats["delay"], stats["ttr"]) == ("1800", "99")


@requirement(
    "stats-job.file",
    '"file" is the number of the earliest binlog file containing this job. If -b wasn\'t used, '
    "this will be 0.",
)
def test_file_is_a_number_that_does_not_grow_without_a_binlog(client: Connection) -> None:
    first, second = (client.stats_job(job).number("file") for job in client.put_many([b"a"] * 2))
    # With -b, jobs put one after the other are mostly in one file, at most in two.
    assert 0 <= first <= second <= first + 1


@requirement("stats-job.state", '"state" is "ready" or "delayed" or "reserved" or "buried"')
def test_stats_job_tells_the_state(client: Connection) -> None:
    job = client.put(b"a", delay=3600)
    assert client.state_of(job) == "delayed"
    client.send("kick 1").reply("KICKED")
    assert client.state_of(job) == "ready"
    _reserve(client, job)
    assert client.state_of(job) == "reserved"
    client.send(f"bury {job} 0").expect(BURIED)
    assert client.state_of(job) == "buried"


@pytest.mark.parametrize(
    ("key", "count"),
    [
        pytest.param(key, count, marks=requirement(f"stats-job.{key}", clause))
        for key, clause, count in (
            ("reserves", '"reserves" is the number of times this job has been reserved.', "8"),
            (
                "releases",
                '"releases" is the number of times a client has released this job from a '
                "reservation.",
                "4",
            ),
            ("buries", '"buries" is the number of times this job has been buried.', "3"),
            ("kicks", '"kicks" is the number of times this job has been kicked.', "4"),
        )
    ],
)
def test_stats_job_counts_what_happened_to_the_job(
    client: Connection, other: Connection, key: str, count: str
) -> None:
    job = client.put(b"a")
    for _ in range(3):
        _reserve(client, job)
        client.send(f"release {job} 0 0").expect(RELEASED)
    for bound in (1, 2, 100):
        _reserve(client, job)
        client.send(f"bury {job} 0").expect(BURIED)
        client.send(f"kick {bound}").reply("KICKED")
    _reserve(client, job)
    client.send(f"release {job} 0 3600").expect(RELEASED)
    client.send("kick 1").reply("KICKED")
    _reserve(other, job)
    assert client.stats_job(job)[key] == count


@requirement(
    "reserve-job.reserved",
    r'"RESERVED <id> <bytes>\r\n<data>\r\n". See the description for the reserve command.',
)
@requirement("stats-job.reserves", '"reserves" is the number of times this job has been reserved.')
def test_stats_job_counts_that_it_was_reserved_by_id(client: Connection) -> None:
    job = client.put(b"a")
    client.send(f"reserve-job {job}").expect(RESERVED(job, b"a"))
    assert client.stats_job(job)["reserves"] == "1"


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
@requirement("stats-job.kicks", '"kicks" is the number of times this job has been kicked.')
def test_stats_job_counts_that_it_was_kicked_by_id(client: Connection) -> None:
    job = client.put_and_bury()
    client.send(f"kick-job {job}").expect(KICKED)
    assert client.stats_job(job)["kicks"] == "1"


@requirement(
    "stats-job.failed-commands-do-not-count",
    '"releases" is the number of times a client has released this job from a reservation.',
)
@pytest.mark.parametrize("verb", ["release", "bury", "kick-job", "reserve-job", "touch"])
def test_commands_that_fail_do_not_count(
    client: Connection, other: Connection, profile: Profile, verb: str
) -> None:
    job = client.put(b"a")
    _reserve(client, job)
    arguments = {"release": " 0 0", "bury": " 0"}.get(verb, "")
    other.send(f"{verb} {job}{arguments}").expect(NOT_FOUND)
    client.send("kick 1").reply("KICKED")
    stats = client.stats_job(job)
    told = [key for key in COUNTERS if f"stats-job.{key}" not in profile.lacks]
    assert [stats[key] for key in told] == ["1" if key == "reserves" else "0" for key in told]


@requirement("stats-job.not-found", r'"NOT_FOUND\r\n" if the job does not exist.')
@pytest.mark.parametrize("job", [0, 2**63, 2**64 - 1])
def test_stats_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"stats-job {job}").expect(NOT_FOUND)


@requirement("stats-job.bad-format", r"stats-job <id>\r\n")
@pytest.mark.parametrize("argument", ["x", "-1", "0x", str(2**64), ""])
def test_a_malformed_stats_job(client: Connection, argument: str) -> None:
    client.send(f"stats-job {argument}").expect(BAD_FORMAT)


@requirement(
    "stats-tube.ok",
    "The stats-tube data is a YAML file representing a single dictionary of […] It contains "
    "these keys",
)
def test_stats_tube_has_all_its_keys(client: Connection, profile: Profile) -> None:
    keys = told_keys("stats-tube", TUBE_KEYS, profile)
    stats = client.stats_tube()
    assert sorted(keys - set(stats)) == []
    assert [key for key in keys - {"name"} if stats.number(key) < 0] == []


@requirement("stats-tube.name", '"name" is the tube\'s name.')
@pytest.mark.parametrize("name", ["null", "1.0", "0x10", "true", "1e3", "a.b", "n" * 190])
def test_a_tube_may_be_called_what_yaml_takes_for_something_else(
    connect: Connect, name: str
) -> None:
    client = connect()
    client.send(f"use {name}").expect(USING(name))
    assert client.stats_tube(name)["name"] == name
    assert name in client.send("list-tubes").names()


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
    client.send("kick 1").expect(KICKED_COUNT(1))
    jobs = client.put_many([b"a"] * 12, in_order=True)
    for job in jobs[:4]:
        _reserve(client, job)
    for job in jobs[4:8]:
        _reserve(other, job)
    for job in jobs[:4]:
        client.send(f"bury {job} 0").expect(BURIED)
    client.send("kick 1").reply("KICKED")
    client.send(f"use {new_tube()}").reply("USING")
    client.put(b"c")
    assert client.stats_tube(client.tube)[f"current-jobs-{state}"] == count


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
        client.reserve().reply("RESERVED")
        assert client.stats_tube()["current-jobs-urgent"] == left


@requirement(
    "stats-tube.current-jobs-urgent",
    '"current-jobs-urgent" is the number of ready jobs with priority < 1024 in this tube.',
)
def test_a_job_becomes_and_ceases_to_be_urgent(client: Connection, profile: Profile) -> None:
    job = client.put(b"a", pri=1023)
    urgent = []
    for command in (f"release {job} 1024 0", f"release {job} 0 0", f"bury {job} 0"):
        _reserve(client, job)
        client.send(command).any_reply()
        urgent.append(client.stats_tube()["current-jobs-urgent"])
    client.send("kick 1").reply("KICKED")
    urgent.append(client.stats_tube()["current-jobs-urgent"])
    delete_ready(client, job, client.tube, profile)
    urgent.append(client.stats_tube()["current-jobs-urgent"])
    assert urgent == ["0", "1", "0", "1", "0"]


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
    producers[0].is_closed_by_target()
    producers[1].send("use default").expect(USING("default"))
    producers[2].send(f"use {tube}").expect(USING(tube))
    observer = connect()
    observer.becomes(lambda: observer.stats_tube(tube)["current-using"] == "1")
    assert observer.stats_tube(tube)["current-using"] == "1"


@requirement(
    "stats-tube.current-watching",
    '"current-watching" is the number of open connections that are currently watching this tube.',
)
def test_stats_tube_counts_those_who_watch_it(
    connect: Connect, new_producer: Connect, new_worker: Connect, tube: str
) -> None:
    workers = [new_worker() for _ in range(4)]
    new_producer()
    workers[0].send(f"watch {tube}").reply("WATCHING")
    assert connect().stats_tube(tube)["current-watching"] == "4"
    workers[0].half_close()
    workers[0].is_closed_by_target()
    workers[1].send("watch default").reply("WATCHING")
    workers[1].send(f"ignore {tube}").reply("WATCHING")
    workers[2].send(f"ignore {tube}").reply("NOT_IGNORED")
    observer = connect()
    observer.becomes(lambda: observer.stats_tube(tube)["current-watching"] == "2")
    assert observer.stats_tube(tube)["current-watching"] == "2"


@requirement(
    "stats-tube.current-waiting",
    '"current-waiting" is the number of open connections that have issued a reserve command '
    "while watching this tube but not yet received a response.",
)
def test_stats_tube_counts_those_who_wait(worker: Connection, producer: Connection) -> None:
    assert producer.stats_tube()["current-waiting"] == "0"
    waiting = worker.send("reserve")
    waits = eventually(lambda: producer.stats_tube()["current-waiting"] == "1")
    assert waits, "current-waiting never became 1"
    job = producer.put(b"a")
    waiting.expect(RESERVED(job, b"a"))
    assert producer.stats_tube()["current-waiting"] == "0"


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
    _reserve(client, job)
    client.send(f"release {job} 0 0").expect(RELEASED)
    client.send(f"use {new_tube()}").reply("USING")
    client.put(b"c")
    assert client.stats_tube(client.tube)["total-jobs"] == "5"


@requirement(
    "stats-tube.cmd-delete",
    '"cmd-delete" is the cumulative number of delete commands for this tube',
)
def test_stats_tube_counts_deletes(client: Connection, new_tube: NewTube) -> None:
    jobs = client.put_many([b"a"] * 4)
    client.send(f"use {new_tube()}").reply("USING")
    for job in jobs[:3]:
        client.send(f"delete {job}").expect(DELETED)
    client.send(f"delete {jobs[0]}").expect(NOT_FOUND)
    assert client.stats_tube(client.tube)["cmd-delete"] == "3"


@requirement("stats-tube.pause", '"pause" is the number of seconds the tube has been paused for.')
@pytest.mark.parametrize("pause", [60, 3600])
def test_stats_tube_tells_how_long_the_pause_is(client: Connection, pause: int) -> None:
    assert client.stats_tube()["pause"] == "0"
    client.send(f"pause-tube {client.tube} {pause}").expect(PAUSED)
    assert client.stats_tube().number("pause") == pause


@requirement(
    "pause-tube.again-replaces",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_stats_tube_tells_the_last_pause(client: Connection) -> None:
    for pause in (3600, 60):
        client.send(f"pause-tube {client.tube} {pause}").expect(PAUSED)
    assert client.stats_tube()["pause"] == "60"


@requirement(
    "stats-tube.cmd-pause-tube",
    '"cmd-pause-tube" is the cumulative number of pause-tube commands for this tube.',
)
def test_stats_tube_counts_pauses(client: Connection) -> None:
    for count in ("0", "1", "2", "3"):
        assert client.stats_tube()["cmd-pause-tube"] == count
        client.send(f"pause-tube {client.tube} 0").expect(PAUSED)


@requirement(
    "stats-tube.pause-time-left",
    '"pause-time-left" is the number of seconds until the tube is un-paused.',
)
def test_without_a_pause_no_time_is_left(client: Connection) -> None:
    assert client.stats_tube()["pause-time-left"] == "0"
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    assert 3500 <= client.stats_tube().number("pause-time-left") <= 3600


@requirement("stats-tube.not-found", r'"NOT_FOUND\r\n" if the tube does not exist.')
def test_stats_of_a_tube_that_does_not_exist(client: Connection, new_tube: NewTube) -> None:
    client.send(f"stats-tube {new_tube()}").expect(NOT_FOUND)


@requirement("stats-tube.bad-format", r"stats-tube <tube>\r\n")
@pytest.mark.parametrize("argument", ["", "a b", "n" * 201])
def test_a_malformed_stats_tube(client: Connection, argument: str) -> None:
    client.send(f"stats-tube {argument}").expect(BAD_FORMAT)


@requirement("stats-tube.bad-format", r"stats-tube <tube>\r\n")
@pytest.mark.parametrize("name", ["-a", "a!"])
def test_stats_of_what_names_no_tube(client: Connection, name: str) -> None:
    client.send(f"stats-tube {name}").expect(BAD_FORMAT, NOT_FOUND)
