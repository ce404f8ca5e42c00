"""Section "Other Commands", continued: stats-job, key by key."""

import pytest

from conformance.catalogue import documented_keys, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.profiles import Profile
from reference_server.wire import RESERVED

JOB_KEYS = {
    *("id", "tube", "state", "pri", "age", "delay", "ttr", "time-left", "file", "reserves"),
    *("timeouts", "releases", "buries", "kicks"),
}
COUNTERS = ("reserves", "timeouts", "releases", "buries", "kicks")


@requirement(
    "stats-job.ok",
    "The stats-job data is a YAML file representing a single dictionary of […] It contains "
    "these keys",
)
def test_stats_job_has_all_its_keys(client: Connection, profile: Profile) -> None:
    keys = documented_keys("stats-job", JOB_KEYS, profile)
    stats = client.tested.stats_job(client.put(b"a"))
    assert sorted(keys - set(stats)) == []
    for key in keys - {"tube", "state"}:
        stats.number(key)


@requirement(
    "stats-job.ok",
    "The stats-job data is a YAML file representing a single dictionary of […] It contains "
    "these keys",
)
def test_stats_job_is_yaml(client: Connection) -> None:
    client.send(f"stats-job {client.put(b'a')}").is_yaml()


@requirement("stats-job.id", '"id" is the job id')
def test_stats_job_tells_the_id(client: Connection) -> None:
    for job in client.put_many([b"a"] * 12):
        assert client.stats_job(job)["id"] == str(job)


@requirement("stats-job.tube", '"tube" is the name of the tube that contains this job')
def test_stats_job_tells_the_tube(client: Connection, new_tube: NewTube) -> None:
    for tube in (client.tube, new_tube(), new_tube().ljust(190, "x")):
        client.use(tube)
        assert client.stats_job(client.put(b"a"))["tube"] == tube


@requirement("stats-job.state", '"state" is "ready" or "delayed" or "reserved" or "buried"')
def test_stats_job_tells_the_state(client: Connection) -> None:
    delayed, job = client.put(b"a", delay=3600), client.put(b"a")
    assert client.state_of(delayed) == "delayed"
    assert client.state_of(job) == "ready"
    client.hold(job)
    assert client.state_of(job) == "reserved"
    client.bury(job)
    assert client.state_of(job) == "buried"


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


@requirement(
    "stats-job.pri",
    '"pri" is the priority value set by the put, release, or bury commands.',
)
def test_stats_job_tells_the_priority_that_release_and_bury_have_set(client: Connection) -> None:
    job = client.put_and_reserve(pri=1)
    assert client.stats_job(job)["pri"] == "1"
    client.release(job, pri=2)
    assert client.stats_job(job)["pri"] == "2"
    client.hold(job)
    client.bury(job, pri=3)
    assert client.stats_job(job)["pri"] == "3"
    client.kick_one()
    assert client.stats_job(job)["pri"] == "3"


@requirement(
    "stats-job.age",
    '"age" is the time in seconds since the put command that created this job.',
)
def test_stats_job_tells_the_age(client: Connection, clock: Timeline) -> None:
    job, start = client.put(b"a"), clock.nominal
    assert client.stats_job(job).number("age") <= 1
    clock.advance(2)
    # It may be rounded up, or be the difference of two times of whole seconds.
    age, nominal = client.stats_job(job).number("age"), clock.nominal - start
    assert nominal <= age <= nominal + 1


@requirement(
    "stats-job.time-left-reserved",
    '"time-left" is the number of seconds left until the server puts this job into the ready '
    "queue. This number is only meaningful if the job is reserved or delayed.",
)
def test_stats_job_tells_the_ttr_that_is_left(client: Connection, clock: Timeline) -> None:
    job = client.put_and_reserve(ttr=100)
    assert client.stats_job(job)["time-left"] in ("99", "100")
    clock.advance(2)
    assert client.stats_job(job)["time-left"] in ("97", "98")


@requirement(
    "stats-job.time-left-delayed",
    '"time-left" is the number of seconds left until the server puts this job into the ready '
    "queue. This number is only meaningful if the job is reserved or delayed.",
)
def test_stats_job_tells_the_delay_that_is_left(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a", delay=100)
    assert client.stats_job(job)["time-left"] in ("99", "100")
    clock.advance(2)
    assert client.stats_job(job)["time-left"] in ("97", "98")


@requirement(
    "stats-job.file",
    '"file" is the number of the earliest binlog file containing this job. If -b wasn\'t used, '
    "this will be 0.",
)
def test_file_is_a_number_that_does_not_grow_without_a_binlog(client: Connection) -> None:
    first, second = (client.stats_job(job).number("file") for job in client.put_many([b"a"] * 2))
    # With -b, jobs put one after the other are mostly in one file, at most in two.
    assert 0 <= first <= second <= first + 1


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
        client.hold(job)
        client.release(job)
    for bound in (1, 2, 100):
        client.hold(job)
        client.bury(job)
        client.kick(bound)
    client.hold(job)
    client.release(job, delay=3600)
    client.kick_one("delayed")
    other.hold(job)
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
    "stats-job.timeouts",
    '"timeouts" is the number of times this job has timed out during a reservation.',
)
def test_stats_job_counts_timeouts(client: Connection, other: Connection, clock: Timeline) -> None:
    job = client.put(b"a", ttr=1)
    for count in (1, 2):
        client.hold(job)
        clock.advance(1)
        other.comes_back(job)
        stats = other.stats_job(job)
        assert stats["timeouts"] == str(count)
        assert stats["releases"] == "0"


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
@requirement("stats-job.kicks", '"kicks" is the number of times this job has been kicked.')
def test_stats_job_counts_that_it_was_kicked_by_id(client: Connection) -> None:
    job = client.put_and_bury()
    client.tested.kick_job(job)
    assert client.stats_job(job)["kicks"] == "1"


@requirement(
    "stats-job.delay-and-ttr-stay",
    '"delay" is the integer number of seconds to wait before putting this job in the ready '
    'queue. "ttr" -- time to run -- is the integer number of seconds a worker is allowed to '
    "run this job.",
)
def test_delay_and_ttr_are_told_as_put_said_them(client: Connection) -> None:
    job = client.put(b"a", delay=3600, ttr=99)
    client.kick_one("delayed")
    client.hold(job)
    stats = client.stats_job(job)
    assert (stats["delay"], stats["ttr"]) == ("3600", "99")
    client.release(job, delay=1800)
    stats = client.stats_job(job)
    assert (stats["delay"], stats["ttr"]) == ("1800", "99")


@requirement(
    "stats-job.delay-and-ttr-stay",
    '"delay" is the integer number of seconds to wait before putting this job in the ready '
    'queue. "ttr" -- time to run -- is the integer number of seconds a worker is allowed to '
    "run this job.",
)
def test_stats_job_tells_delay_and_ttr_as_they_were_given(
    client: Connection, clock: Timeline
) -> None:
    job = client.put(b"a", delay=1, ttr=77)
    clock.advance(1)
    client.delay_ends(job)
    client.hold(job)
    stats = client.stats_job(job)
    assert (stats["delay"], stats["ttr"]) == ("1", "77")


@requirement(
    "stats-job.failed-commands-do-not-count",
    '"releases" is the number of times a client has released this job from a reservation.',
)
@pytest.mark.parametrize("verb", ["release", "bury", "kick-job", "reserve-job", "touch"])
def test_commands_that_fail_do_not_count(
    client: Connection, other: Connection, profile: Profile, verb: str
) -> None:
    job = client.put_and_reserve()
    arguments = {"release": " 0 0", "bury": " 0"}.get(verb, "")
    other.confirm(f"{verb} {job}{arguments}", "NOT_FOUND", f"{verb}.not-found")
    client.kick(1)
    stats = client.stats_job(job)
    keys = [key for key in COUNTERS if f"stats-job.{key}" not in profile.lacks]
    assert [stats[key] for key in keys] == ["1" if key == "reserves" else "0" for key in keys]
