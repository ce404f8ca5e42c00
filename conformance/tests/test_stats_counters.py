"""Section "Other Commands", continued: the counters of stats."""

from collections.abc import Sequence

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.oracle.reply_comparison import UNNAMED
from conformance.target.target import Target
from reference_server.profiles import Profile
from reference_server.state import JobState
from reference_server.wire import (
    BAD_FORMAT,
    RESERVED,
    UNKNOWN_COMMAND,
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
OPTIONAL = {key.removeprefix("cmd-") for key in UNNAMED}
SILENT = 4.0
"""Seconds for which a kernel may keep back a connection on which nothing is sent (on Linux, with
TCP_DEFER_ACCEPT: until it repeats its part of the handshake, after 1 and after 3 seconds)."""


def _jobs_in_all_states(client: Connection, tubes: Sequence[str]) -> None:
    """Make 5 ready jobs in each tube, 3 of them urgent, 4 reserved, 2 delayed and 1 buried."""
    for tube in tubes:
        if len(tubes) > 1:
            client.use(tube)
            client.watch(tube)
        jobs = client.put_many([b"a"] * 5, in_order=True)
        for job in jobs:
            client.hold(job)
        client.bury(jobs[0])
        client.put(b"b", delay=3600)
        client.put(b"b", delay=3600, pri=5000)
    for tube in tubes:
        if len(tubes) > 1:
            client.use(tube)
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


def _command(verb: str, client: Connection) -> str:
    """Return a command that succeeds; the client has reserved a job for it."""
    if verb.startswith("peek-"):
        client.job_in(verb.removeprefix("peek-"))
        return verb
    job = client.put_and_reserve()
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


def _command_counts(client: Connection, verb: str, *others: str) -> dict[str, int]:
    """Return the counters of commands; of the others, optional ones may be missing."""
    stats = client.stats()
    reported = [other for other in others if f"cmd-{other}" in stats or other not in OPTIONAL]
    return {name: stats.number(f"cmd-{name}") for name in (verb, *reported)}


@pytest.mark.parametrize(
    "verb",
    [pytest.param(verb, marks=requirement(f"stats.cmd-{verb}", COUNTED[verb])) for verb in COUNTED],
)
def test_stats_counts_each_command(
    alone: None, server: Target, client: Connection, profile: Profile, verb: str
) -> None:
    client.needs(verb.encode())
    command = _command(verb, client)
    if verb == "reserve":
        client.put(b"b")
    # A server may count reserve-with-timeout as reserve, too; the others are also our own.
    ours = {
        "stats",
        server.sync_verb,
        "reserve" * (verb == "reserve-with-timeout"),
    }
    seen = ({*COUNTED, verb} & profile.commands) - ours
    before, least = _command_counts(client, verb, *seen), 3 if verb == "stats" else 1
    client.prepare(command).any_reply()
    after = _command_counts(client, verb, *seen)
    assert after[verb] - before[verb] >= least
    reported = seen & before.keys()
    grown = {key: after[key] - before[key] for key in reported if after[key] != before[key]}
    assert grown == ({} if verb in ours else {verb: 1})


@requirement(
    "stats.job-timeouts",
    '"job-timeouts" is the cumulative count of times a job has timed out.',
)
def test_stats_counts_timeouts(
    alone: None, client: Connection, other: Connection, connect: Connect, clock: Timeline
) -> None:
    observer = connect()
    stats = observer.stats()
    before = stats.number("job-timeouts")
    # Those of clients that have left may stay reserved until they time out.
    others = stats.number("current-jobs-reserved")
    client.put_many([b"a", b"b"], ttr=1)
    taken = client.take_job(), other.take_job()
    clock.advance(1)
    for job in taken:
        observer.comes_back(job)
    assert 2 <= observer.stats().number("job-timeouts") - before <= 2 + others


@requirement("stats.total-jobs", '"total-jobs" is the cumulative count of jobs created.')
def test_total_jobs_counts_from_zero_or_the_first_jobs(
    own_server: Target, client: Connection
) -> None:
    stats = client.stats()
    current_jobs = sum(stats.number(f"current-jobs-{state.value}") for state in JobState)
    assert stats.number("total-jobs") <= current_jobs
    client.put_many([b"a"] * 3)
    assert client.stats().number("total-jobs") - stats.number("total-jobs") == 3


@requirement("stats.total-jobs", '"total-jobs" is the cumulative count of jobs created.')
def test_total_jobs_does_not_go_down(alone: None, client: Connection) -> None:
    before = client.stats().number("total-jobs")
    jobs = client.put_many([b"a"] * 3, in_order=True)
    client.hold(jobs[0])
    client.release(jobs[0])
    for job in jobs:
        client.hold(job)
        client.delete(job)
    assert client.stats().number("total-jobs") - before == 3


@requirement("stats.current-tubes", '"current-tubes" is the number of currently-existing tubes.')
def test_stats_counts_tubes(alone: None, client: Connection, new_tube: NewTube) -> None:
    # What tests before this one have left may still be there.
    client.becomes(lambda: {*client.tubes()} == {"default", client.tube})
    before = client.stats().number("current-tubes")
    for tube in (new_tube(), new_tube()):
        client.watch(tube)
        client.confirm(f"stats-tube {tube}", "OK", "watch.creates-tube")
    client.use(tube)
    assert client.stats().number("current-tubes") - before == 2


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
    worker.take_job()
    both.put(b"a")
    both.take_job()
    gone.half_close()
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
    client.becomes(lambda: client.stats().number(key) - before == 1, within=SILENT)
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
        worker.watch(new_tube())
    before = client.stats().number("current-waiting")
    waiting = worker.reserve_waiting()
    client.eventually(lambda: client.stats().number("current-waiting") == before + 1)
    assert client.stats().number("current-waiting") == before + 1
    job = client.put(b"a")
    waiting.expect_now(RESERVED(job, b"a"))
    assert client.stats().number("current-waiting") == before


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
    before = _command_counts(client, verb)[verb]
    client.prepare(command).any_reply()
    assert _command_counts(client, verb)[verb] == before + 1


@requirement(
    "stats.malformed-commands-do-not-count",
    '"cmd-delete" is the cumulative number of delete commands.',
)
@pytest.mark.parametrize(
    ("command", "owner"),
    [
        *(
            (command, "error.bad-format-non-numeric")
            for command in ("peek x", "delete x", "touch x", "kick x", "release 0 0 x", "bury 0 x")
        ),
        ("use -a", "protocol.name-no-leading-hyphen"),
    ],
)
def test_stats_does_not_count_malformed_commands(
    alone: None, client: Connection, command: str, owner: str
) -> None:
    client.needs(command.encode())
    verb = command.partition(" ")[0]
    before = _command_counts(client, verb)[verb]
    client.send(command, Role(owner)).expect(BAD_FORMAT, UNKNOWN_COMMAND)
    assert _command_counts(client, verb)[verb] == before
