"""Persistence: what a server remembers when it ends and is started again."""

import pytest

from conformance.catalogue import configured, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from conformance.verdict import Deviation, NotApplicable
from reference_server.profiles import Profile
from reference_server.wire import (
    BURIED,
    DELETED,
    FOUND,
    KICKED_COUNT,
    NOT_FOUND,
    RELEASED,
    RESERVED,
)


@requirement(
    "persistence.put",
    "Use a binlog to keep jobs on persistent storage in directory path.",
)
@configured(binlog=True)
def test_ready_jobs_are_remembered_with_their_tubes_and_bodies(
    own_server: Target, client: Connection, new_client: Connect, new_tube: NewTube
) -> None:
    bodies = [b"", bytes(range(256)), b"\r\n", b"a" * 4096]
    jobs = client.put_many(bodies)
    tube = new_tube()
    client.use(tube)
    other = client.put(b"b")
    own_server.restart()
    client = new_client()
    for job, body in zip(jobs, bodies, strict=True):
        client.reserve().expect(RESERVED(job, body))
    client.finds_no_job()
    assert client.stats_job(other)["tube"] == tube


@requirement(
    "persistence.priority",
    '"pri" is the priority value set by the put, release, or bury commands.',
)
@configured(binlog=True)
def test_priority_and_ttr_are_remembered(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put(b"a", pri=2**32 - 1, ttr=77)
    own_server.restart()
    stats = new_client().stats_job(job)
    assert [stats[key] for key in ("state", "pri", "ttr")] == ["ready", str(2**32 - 1), "77"]


@requirement(
    "persistence.delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready "
    'queue. The job will be in the "delayed" state during this time.',
)
@configured(binlog=True)
def test_a_delay_ends_when_it_would_have_ended(
    own_server: Target, client: Connection, new_client: Connect, clock: Timeline
) -> None:
    job = client.put(b"a", delay=3)
    clock.advance(1)
    own_server.restart()
    client = new_client()
    clock.advance(1)
    assert client.state_of(job) == "delayed"
    clock.advance(1)
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "persistence.delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready "
    'queue. The job will be in the "delayed" state during this time.',
)
@configured(binlog=True)
def test_a_delay_that_ends_while_the_server_is_down(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job, later = client.put(b"a", delay=3600), client.put(b"b", delay=1800)
    own_server.restart()
    client = new_client()
    client.peek_delayed().expect(FOUND(later, b"b"))
    assert client.kick(1) == 1
    client.peek_delayed().expect(FOUND(job, b"a"))


@requirement(
    "persistence.bury",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
@configured(binlog=True)
def test_a_buried_job_stays_buried(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put_and_reserve()
    client.bury(job, pri=5)
    own_server.restart()
    client = new_client()
    client.finds_no_job()
    stats = client.stats_job(job)
    assert (stats["state"], stats["pri"]) == ("buried", "5")
    assert client.kick(1) == 1
    client.reserve().expect(RESERVED(job, b"a"))


@requirement("persistence.buries", '"buries" is the number of times this job has been buried.')
@configured(binlog=True)
def test_a_restart_buries_no_job_again(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put_and_bury()
    assert client.stats_job(job)["buries"] == "1"
    own_server.restart()
    again = new_client()
    try:
        again.peek(job).reply("FOUND")
    except Deviation as deviation:
        # No text says that jobs are remembered.
        deviation.de_facto = True
        raise
    # What has happened to a job may be forgotten, but nothing more has.
    assert again.stats_job(job).number("buries") <= 1


@requirement(
    "persistence.release-priority",
    '"pri" is the priority value set by the put, release, or bury commands.',
)
@configured(binlog=True)
def test_the_priority_that_release_has_set_is_remembered(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put_and_reserve(pri=5)
    client.release(job, pri=9)
    own_server.restart()
    assert new_client().stats_job(job)["pri"] == "9"


@requirement(
    "persistence.kick",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
@configured(binlog=True)
def test_a_kicked_job_stays_ready(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    buried, delayed = client.put(b"a"), client.put(b"b", delay=3600)
    client.reserve().expect(RESERVED(buried, b"a"))
    client.bury(buried)
    client.kick(1)
    client.kick(1)
    own_server.restart()
    client = new_client()
    assert [client.state_of(job) for job in (buried, delayed)] == ["ready", "ready"]


@requirement(
    "persistence.delete",
    "The delete command removes a job from the server entirely.",
)
@configured(binlog=True)
@pytest.mark.parametrize("state", ["ready", "delayed", "reserved", "buried"])
def test_a_deleted_job_stays_deleted(
    own_server: Target, client: Connection, new_client: Connect, profile: Profile, state: str
) -> None:
    if state == "delayed" and "delayed" not in profile.deletes:
        raise NotApplicable(f"profile {profile.name} has no delete of delayed jobs")
    kept = client.put(b"b", delay=3600)
    job = client.job_in(state)
    client.delete(job)
    own_server.restart()
    client = new_client()
    client.peek(job).expect(NOT_FOUND)
    client.peek(kept).expect(FOUND(kept, b"b"))


@requirement(
    "persistence.delete",
    "The delete command removes a job from the server entirely.",
)
@configured(binlog=True)
def test_jobs_that_are_deleted_after_a_ttr_has_ended_stay_deleted(
    own_server: Target, client: Connection, new_client: Connect, clock: Timeline
) -> None:
    expired = client.put_and_reserve(ttr=1)
    clock.advance(1)
    other = new_client()
    other.comes_back(expired)
    job = other.put(b"b")
    other.delete(expired, "ready")
    other.delete(job, "ready")
    own_server.restart()
    client = new_client()
    for deleted in (expired, job):
        client.peek(deleted).expect(NOT_FOUND)


@requirement(
    "persistence.release-with-delay",
    "<delay> is an integer number of seconds to wait before putting the job in the ready "
    'queue. The job will be in the "delayed" state during this time.',
)
@configured(binlog=True)
def test_a_job_released_with_a_delay_stays_delayed(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put_and_reserve()
    client.release(job, pri=7, delay=3600)
    own_server.restart()
    stats = new_client().stats_job(job)
    assert [stats[key] for key in ("state", "pri", "delay")] == ["delayed", "7", "3600"]


@requirement(
    "persistence.reserved-becomes-ready",
    "Upon startup, beanstalkd will recover any binlog that is present in path",
)
@configured(binlog=True)
def test_a_reserved_job_is_ready_again(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put_and_reserve()
    own_server.restart()
    client = new_client()
    assert client.state_of(job) == "ready"
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "persistence.order",
    "Within each priority, it will choose the one that was received first.",
)
@configured(binlog=True)
def test_ready_jobs_keep_their_order(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    order = sorted((n * 7 % 5, client.put(b"a", pri=n * 7 % 5)) for n in range(30))
    own_server.restart()
    client = new_client()
    for _, job in order:
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "persistence.largest-body",
    '"max-job-size" is the maximum number of bytes in a job.',
)
@configured(binlog=True)
def test_the_largest_body_is_remembered_and_what_follows_it(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    body = b"m" * min(client.stats().number("max-job-size"), 2**20)
    jobs = client.put_many([b"a", body, b"b"])
    own_server.restart()
    client = new_client()
    for job, remembered in zip(jobs, (b"a", body, b"b"), strict=True):
        client.reserve().expect(RESERVED(job, remembered))


@requirement(
    "persistence.ids-go-on",
    "<id> is the job id -- an integer unique to this job in this instance of beanstalkd.",
)
@configured(binlog=True)
def test_ids_of_jobs_that_are_remembered_are_not_given_again(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    jobs = client.put_many([b"a"] * 10)
    own_server.restart()
    more = new_client().put_many([b"b"] * 20)
    assert len({*jobs, *more}) == 30


@requirement(
    "persistence.counters-begin-anew",
    'Entries described as "cumulative" are reset when the beanstalkd process starts; they are '
    "not stored on disk with the -b flag.",
)
@configured(binlog=True)
def test_cumulative_counters_begin_anew(
    own_server: Target, client: Connection, connect: Connect
) -> None:
    job = client.put(b"a", delay=3600)
    client.peek(job).reply("FOUND")
    own_server.restart()
    stats = connect().stats()
    # The suite has sent its sync command since.
    own = f"cmd-{own_server.sync_verb}"
    unused = [key for key in ("cmd-put", "cmd-peek", "cmd-use", "job-timeouts") if key != own]
    assert [stats[key] for key in unused] == ["0"] * len(unused)
    assert all(stats.number(key) <= 5 for key in ("cmd-stats", "total-connections") if key != own)


@requirement(
    "persistence.file",
    '"file" is the number of the earliest binlog file containing this job. If -b wasn\'t used, '
    "this will be 0.",
)
@configured(binlog=True)
def test_file_names_the_binlog_that_holds_a_job(own_server: Target, client: Connection) -> None:
    first, second = (client.stats_job(job).number("file") for job in client.put_many([b"a"] * 2))
    assert 1 <= first <= second


@requirement(
    "persistence.current-index",
    '"binlog-current-index" is the index of the current binlog file being written to. If '
    "binlog is not active this value will be 0.",
)
@requirement(
    "persistence.file",
    '"file" is the number of the earliest binlog file containing this job. If -b wasn\'t used, '
    "this will be 0.",
)
def test_without_a_binlog_file_and_index_are_0(own_server: Target, client: Connection) -> None:
    assert client.stats_job(client.put(b"a"))["file"] == "0"
    assert client.stats()["binlog-current-index"] == "0"


@requirement(
    "persistence.current-index",
    '"binlog-current-index" is the index of the current binlog file being written to. If '
    "binlog is not active this value will be 0.",
)
@configured(binlog=True)
def test_the_current_binlog_has_an_index(own_server: Target, client: Connection) -> None:
    client.put(b"a")
    stats = client.stats()
    assert 1 <= stats.number("binlog-oldest-index") <= stats.number("binlog-current-index")


@requirement(
    "persistence.records-written",
    '"binlog-records-written" is the cumulative number of records written to the binlog.',
)
@configured(binlog=True)
def test_records_written_are_counted(own_server: Target, client: Connection) -> None:
    before = client.stats().number("binlog-records-written")
    jobs = client.put_many([b"a"] * 10)
    client.delete(jobs[0])
    assert client.stats().number("binlog-records-written") - before >= 11


@requirement(
    "persistence.records-written",
    '"binlog-records-written" is the cumulative number of records written to the binlog.',
)
@configured(binlog=True)
def test_records_that_were_written_stay_counted(own_server: Target, client: Connection) -> None:
    job = client.put(b"a")
    written = [client.stats().number("binlog-records-written")]
    for line, reply in (
        (f"release {job} 0 100", RELEASED),
        ("kick 1", KICKED_COUNT(1)),
        (f"bury {job} 0", BURIED),
        ("kick 1", KICKED_COUNT(1)),
        (f"delete {job}", DELETED),
    ):
        if not line.startswith("kick"):
            client.reserve().expect(RESERVED(job, b"a"))
        client.prepare(line).expect(reply)
        written.append(client.stats().number("binlog-records-written"))
    assert written == sorted(written)
