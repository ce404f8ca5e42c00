"""Section "Job Lifecycle", continued: tubes, and the tubes that a new client begins with."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import put_without_end
from conformance.dialogue.removal import delete_ready
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from conformance.verdict import NotApplicable, NotTestable
from reference_server.profiles import Profile
from reference_server.wire import (
    NOT_FOUND,
    RESERVED,
)


@requirement("lifecycle.tube-for-life", "Each job spends its entire life in one tube.")
def test_a_job_stays_in_its_tube(client: Connection, new_tube: NewTube) -> None:
    job = client.put(b"a")
    client.use(new_tube())
    client.hold(job)
    client.release(job)
    assert client.stats_job(job)["tube"] == client.tube
    client.reserve().expect(RESERVED(job, b"a"))
    client.bury(job)
    client.use(client.tube)
    client.kick_one()
    assert client.stats_job(job)["tube"] == client.tube


@requirement(
    "lifecycle.watch-list-default",
    'When a client connects, its watch list is initially just the tube named "default".',
)
def test_a_new_client_watches_default(connect: Connect) -> None:
    client = connect()
    assert client.tubes_watched() == ["default"]


@requirement(
    "lifecycle.use-default",
    'If it submits jobs without having sent a "use" command, they will live in the tube named '
    '"default".',
)
def test_a_new_client_uses_default(connect: Connect) -> None:
    client = connect()
    assert client.tube_used() == "default"


@requirement(
    "lifecycle.use-default",
    'If it submits jobs without having sent a "use" command, they will live in the tube named '
    '"default".',
)
def test_a_job_of_a_new_client_lives_in_default(
    connect: Connect, profile: Profile, server: Target
) -> None:
    if "ready" not in profile.deletes and not server.exclusive:
        raise NotTestable("a job in default could not be deleted without taking those of others")
    client = connect()
    # Nobody else shall take it, and it must be gone at the end.
    job = client.put(b"a", pri=2**32 - 1, delay=3600 if "delayed" in profile.deletes else 0)
    assert client.stats_job(job)["tube"] == "default"
    if "delayed" in profile.deletes:
        client.delete(job, "delayed")
    else:
        delete_ready(client, job, "default", profile)


@requirement(
    "lifecycle.tube-created-on-demand",
    "Tubes are created on demand whenever they are referenced.",
)
def test_use_and_watch_create_a_tube(client: Connection, new_tube: NewTube) -> None:
    used, watched = new_tube(), new_tube()
    client.observe(f"stats-tube {used}").expect(NOT_FOUND)
    client.use(used)
    client.watch(watched)
    assert {used, watched} <= set(client.tubes())


@requirement(
    "lifecycle.tube-created-on-demand",
    "Tubes are created on demand whenever they are referenced.",
)
def test_other_commands_create_no_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.observe(f"pause-tube {tube} 0").any_reply()
    client.observe(f"stats-tube {tube}").expect(NOT_FOUND)
    assert tube not in client.tubes()


@requirement(
    "lifecycle.tube-deleted",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_is_deleted_when_nobody_uses_it_any_more(
    client: Connection, new_tube: NewTube
) -> None:
    tube = new_tube()
    client.use(tube)
    client.use(client.tube)
    client.gets_soon(f"stats-tube {tube}", NOT_FOUND)


@requirement(
    "lifecycle.tube-deleted",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_put_that_is_refused_keeps_no_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.use(tube)
    put_without_end(client)
    client.use(client.tube)
    client.gets_soon(f"stats-tube {tube}", NOT_FOUND)


@requirement(
    "lifecycle.tube-deleted",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_is_deleted_when_nobody_watches_it_any_more(
    client: Connection, new_tube: NewTube
) -> None:
    tube = new_tube()
    client.watch(tube)
    client.ignore(tube)
    client.gets_soon(f"stats-tube {tube}", NOT_FOUND)


@requirement(
    "lifecycle.tube-deleted",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_is_deleted_with_its_last_client(
    client: Connection, connect: Connect, new_tube: NewTube
) -> None:
    visitor, tube = connect(), new_tube()
    visitor.use(tube)
    visitor.watch(tube)
    visitor.half_close()
    client.gets_soon(f"stats-tube {tube}", NOT_FOUND)


@requirement(
    "lifecycle.tube-deleted",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_is_deleted_with_its_last_job(
    client: Connection, profile: Profile, new_tube: NewTube
) -> None:
    tube = new_tube()
    client.use(tube)
    job = client.put(b"a")
    client.use(client.tube)
    assert client.stats_tube(tube)["current-jobs-ready"] == "1"
    delete_ready(client, job, tube, profile)
    client.gets_soon(f"stats-tube {tube}", NOT_FOUND)


@requirement(
    "lifecycle.tube-deleted",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_vanishes_with_the_last_client_that_waits_for_it(
    client: Connection, connect: Connect, profile: Profile, new_tube: NewTube
) -> None:
    if not profile.half_close:
        raise NotApplicable(f"profile {profile.name} need not see the end while a client waits")
    tube, worker = new_tube(), connect()
    worker.watch(tube)
    worker.ignore("default")
    worker.reserve_waiting()
    client.linger()
    worker.close()
    client.gets_soon(f"stats-tube {tube}", NOT_FOUND)


@requirement(
    "lifecycle.tube-kept-by-jobs",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_lives_as_long_as_it_has_a_ready_delayed_or_buried_job(
    client: Connection, new_tube: NewTube
) -> None:
    for state in ("ready", "delayed", "buried"):
        tube = new_tube()
        client.use(tube)
        job = client.put(b"a", delay=3600 if state == "delayed" else 0)
        if state == "buried":
            client.watch(tube)
            client.hold(job)
            client.bury(job)
            client.ignore(tube)
        client.use(client.tube)
        client.finds_tube(tube)
        assert client.stats_tube(tube)[f"current-jobs-{state}"] == "1"


@requirement(
    "lifecycle.tube-kept-by-clients",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
@pytest.mark.parametrize("verb", ["use", "watch"])
def test_a_tube_without_jobs_lives_as_long_as_a_client_refers_to_it(
    client: Connection, other: Connection, profile: Profile, new_tube: NewTube, verb: str
) -> None:
    tube = new_tube()
    other.go_to(f"{verb} {tube}")
    client.use(tube)
    job = client.put(b"a")
    delete_ready(client, job, tube, profile)
    before = client.stats_tube(tube)["total-jobs"]
    client.use(client.tube)
    client.finds_tube(tube)
    assert client.stats_tube(tube)["total-jobs"] == before


@requirement(
    "lifecycle.tube-kept-by-reserved-job",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_lives_as_long_as_it_has_a_reserved_job(
    client: Connection, new_tube: NewTube
) -> None:
    tube = new_tube()
    client.use(tube)
    job = client.put(b"a")
    client.watch(tube)
    client.hold(job)
    client.ignore(tube)
    client.use(client.tube)
    client.finds_tube(tube)
    assert client.stats_tube(tube)["current-jobs-reserved"] == "1"
    client.delete(job)
    client.gets_soon(f"stats-tube {tube}", NOT_FOUND)


@requirement(
    "lifecycle.default-stays",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_default_stays_though_nobody_refers_to_it(
    own_server: Target, real_clock: Timeline, connect: Connect
) -> None:
    client = connect()
    client.go_to("watch a", "ignore default", "use a")
    assert "default" in client.tubes()
    assert client.stats_tube("default")["current-using"] == "0"


@requirement(
    "lifecycle.tube-begins-anew",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_a_tube_that_was_deleted_begins_anew(
    client: Connection, profile: Profile, new_tube: NewTube
) -> None:
    tube = new_tube()
    for _ in range(2):
        client.use(tube)
        stats = client.stats_tube(tube)
        keys = {"total-jobs", "cmd-delete", "cmd-pause-tube", "pause"}
        reported = {key for key in keys if f"stats-tube.{key}" not in profile.lacks}
        assert {stats[key] for key in reported} == {"0"}
        job = client.put(b"a")
        delete_ready(client, job, tube, profile)
        if "pause-tube" in profile.commands:
            client.pause(1000, tube)
        client.use(client.tube)
        client.gets_soon(f"stats-tube {tube}", NOT_FOUND)
