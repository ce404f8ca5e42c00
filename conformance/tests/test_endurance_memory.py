"""Endurance: memory, descriptors and files do not grow with each use of a server."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from conformance.catalogue import configured, requirement
from conformance.dialogue.bulk import Bulk, put_of, shortfall
from conformance.dialogue.connection import Connection
from conformance.dialogue.departures import TOO_LONG
from conformance.dialogue.leaks import ROUNDS, growth, paced, seems_to_grow
from conformance.dialogue.scaled_lines import largest_body
from conformance.dialogue.scenario import Connect
from conformance.dialogue.shortage import leaves_descriptors
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.usual_answers import SURVIVES_ERRORS
from conformance.verdict import Deviation, NotTestable, OutcomeKind, Step

TIMES = 20_000
"""Times that each command is sent to a fast server, in all rounds together."""
COMMANDS_SECONDS, CLIENTS_SECONDS, ROUND_SECONDS = 0.03, 0.015, 0.01
"""Seconds of CPU time that a server needs for a round of all commands, of clients, and others."""
CLIENTS, TUBES, JOBS, SIZE = 5_000, 1_500, 2_500, 10_000
"""Clients, tubes and jobs in all rounds together, and the bytes of each job."""
LOGGED, LARGE, LOG_SECONDS = 600, 60_000, 0.03
"""The same for a binlog: two rounds need more than one of beanstalkd's files, of 10 MB."""
KEPT, LAST, MORE = 700, 3, 1.2
"""Jobs that are there over a restart, the last sizes of the binlog of which one must be small then,
and how much larger that may be than the largest without a restart."""
COMPACTED, MIGRATED = 400, 20
"""Jobs of three such files, and the records that compaction may write for each put and delete."""
PUT_AND_DELETE = b"put 0 0 1000 1\r\na\r\nreserve\r\ndelete 1\r\n"
"""The commands with which jobs come and go."""
VISITS = (
    b"list-tube-used\r\n",
    b"watch a\r\nwatch b\r\nuse c\r\nput 0 0",
    b"use d\r\nput 0 0 60 10000\r\n" + b"x" * 2000,
    b"list-tube-used\r\nreserve\r\n",
    b"list-tube-used\r\n" + b"x" * TOO_LONG,
)
"""Requests of clients that leave then; the first command of each is answered."""
PROMPT, SLOWER = 0.001, 10
"""Seconds that a command may take, and how much longer than the fastest."""
HARDLY = 2**14
"""Bytes by which two rounds of all commands let memory grow, if any single one may leak."""
WRONG = {
    "a put with a wrong end": (b"put 0 0 60 2\r\nabcd\r\n", SURVIVES_ERRORS),
    # No text says that it is refused before its body has come.
    "a malformed put": (b"put x 0 60 2\r\nab\r\n", SURVIVES_ERRORS),
    "an unknown command": (b"bogus\r\n", SURVIVES_ERRORS),
    "a line that is too long": (
        b"peek " + b"1" * 400 + b"\r\n",
        "error.long-line-resynchronises",
    ),
}
"""Requests that get errors, and the requirements that say what follows; by names in messages."""
MISSING = 2**63 - 1
"""The id of no job."""
NAME = "n" * 190
"""A tube that comes and goes."""


def _commands(client: Connection, server: Target) -> Mapping[str, bytes]:
    """Return commands that change nothing in the end, by what they are called."""
    held = client.put_and_reserve()
    client.job_in("buried")
    client.job_in("delayed")
    ready, tube = client.job_in("ready"), client.tube
    # Where nothing is ready, reserve-with-timeout gives nothing.
    client.go_to(f"watch {tube}-empty", f"ignore {tube}")
    lines = (
        *(f"peek {ready}", f"peek {MISSING}", "peek-ready", "peek-delayed", "peek-buried"),
        *("stats", f"stats-job {ready}", f"stats-job {MISSING}", f"stats-tube {tube}"),
        *("stats-tube none", "list-tubes", "list-tube-used", "list-tubes-watched"),
        *("reserve-with-timeout 0", f"reserve-job {MISSING}", f"touch {held}", "kick 0"),
        *(f"touch {MISSING}", f"delete {MISSING}", f"release {MISSING} 0 0"),
        *(f"bury {MISSING} 0", f"kick-job {MISSING}", f"pause-tube {tube} 0"),
        *(f"watch {NAME}\r\nignore {NAME}", f"use {NAME}\r\nuse {tube}"),
    )
    known = client.profile.commands - {*server.traits.unusable}
    commands = {line: f"{line}\r\n".encode() for line in lines if line.split()[0] in known}
    return commands | {name: data for name, (data, _) in WRONG.items()}


def _needs_exact_memory(resources: Resources) -> None:
    if resources.keeps_freed_memory:
        raise NotTestable("needs a server without a sanitizer, which keeps what was freed")


def _memory_growth(work: Callable[[], object], resources: Resources) -> int:
    return growth(work, lambda: resources.private_memory, resources.cpu_time)


def _leak(observed: str) -> Deviation:
    return _needs_too_much("a size that stops growing", observed)


def _needs_too_much(expected: str, observed: str) -> Deviation:
    step = Step(OutcomeKind.WRONG_VALUE, subject="no growth")
    return Deviation(expected, observed, conclusive=True, step=step)


@requirement(
    "endurance.commands-memory",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_commands_that_change_nothing_take_no_memory(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    _needs_exact_memory(resources)
    known = _commands(client, own_server)
    bulk = Bulk(client, own_server)
    commands = {name: known[name] for name in _swift(known, bulk)}
    everything = b"".join(commands.values())
    times = paced(partial(bulk.repeat, everything), COMMANDS_SECONDS, TIMES // ROUNDS, resources)
    work = partial(bulk.repeat, everything, times)
    if seems_to_grow(work, lambda: resources.private_memory, HARDLY):
        name = _most_costly(commands, bulk, resources, times)
        one = partial(bulk.repeat, commands[name])
        more = paced(one, COMMANDS_SECONDS, TIMES, resources)
        if left := _memory_growth(partial(one, more), resources):
            raise _leak(f"{left / more:.0f} bytes more with each {_shown(name)}")
    return shortfall(times * ROUNDS, TIMES, "times each command")


def _swift(commands: Mapping[str, bytes], bulk: Bulk) -> Iterator[str]:
    """Yield the commands that a server does not wait for a timer in, as some do in a reserve."""
    seconds = {}
    for name, data in commands.items():
        try:
            seconds[name] = min(bulk.seconds(data) for _ in range(3))
        except Deviation as deviation:
            if name in WRONG:
                _, deviation.owner = WRONG[name]
            raise
    for name, taken in seconds.items():
        if taken < PROMPT + SLOWER * min(seconds.values()):
            yield name


def _most_costly(
    commands: Mapping[str, bytes], bulk: Bulk, resources: Resources, times: int
) -> str:
    """Return which command takes most memory."""
    costs: dict[str, int] = {}
    for name, data in commands.items():
        before = resources.private_memory
        bulk.repeat(data, 2 * times)
        costs[name] = resources.private_memory - before
    return max(costs, key=lambda name: costs[name])


def _shown(name: str) -> str:
    """Return a command without names and ids of ours."""
    shown = name.replace("\r\n", ", ").replace(NAME, "TUBE")
    return shown.replace(str(MISSING), "ID-OF-NO-JOB")


@requirement(
    "endurance.clients-memory",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
def test_clients_that_have_left_take_no_memory_and_no_descriptor(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    _needs_exact_memory(resources)

    def come_and_go(times: int) -> None:
        for number in range(times):
            with own_server.connect() as visitor:
                visitor.send(VISITS[number % len(VISITS)])
                visitor.receive_within(own_server.limits.reply)
                if number % 2:
                    visitor.reset()
        client.synchronise()

    times = paced(come_and_go, CLIENTS_SECONDS, CLIENTS // ROUNDS, resources)
    if left := _memory_growth(partial(come_and_go, times), resources):
        raise _leak(f"{left / times:.0f} bytes more with each client")
    leaves_descriptors(client, resources, partial(come_and_go, times))
    return shortfall(times * ROUNDS, CLIENTS, "clients")


@requirement(
    "endurance.tubes-memory",
    "If a tube is empty (that is, it contains no ready, delayed, or buried jobs) and no client "
    "refers to it, it will be deleted.",
)
def test_tubes_that_are_deleted_take_no_memory(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    _needs_exact_memory(resources)
    client.needs_usable(b"watch a\r\nignore a\r\n")
    bulk = Bulk(client, own_server)

    def come_and_go(times: int) -> None:
        names = [f"{number:06}{NAME}".encode() for number in range(times)]
        for verb in (b"watch", b"ignore"):
            bulk.ask(b"".join(b"%b %b\r\n" % (verb, name) for name in names))

    times = paced(come_and_go, ROUND_SECONDS, TUBES // ROUNDS, resources)
    if left := _memory_growth(partial(come_and_go, times), resources):
        raise _leak(f"{left / times:.0f} bytes more with each tube")
    return shortfall(times * ROUNDS, TUBES, "tubes")


@requirement(
    "endurance.jobs-memory",
    'The worker will execute the job; when it is finished the worker will send a "delete" command '
    "to delete the job.",
)
def test_jobs_that_are_deleted_take_no_memory(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    _needs_exact_memory(resources)
    client.needs_usable(PUT_AND_DELETE)
    bulk, body = Bulk(client, own_server), largest_body(own_server, SIZE)
    work = partial(bulk.put_and_delete, body)
    times = paced(work, ROUND_SECONDS, JOBS // ROUNDS, resources)
    if left := _memory_growth(partial(work, times), resources):
        raise _leak(f"{left / times:.0f} bytes more with each job")
    return shortfall(times * ROUNDS, JOBS, "jobs")


@requirement(
    "endurance.binlog-size",
    '"binlog-oldest-index" is the index of the oldest binlog file needed to store the current '
    "jobs.",
)
@configured(binlog=True)
def test_jobs_that_are_deleted_take_no_room_in_the_binlog(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    client.needs_usable(PUT_AND_DELETE)
    known = _commands(client, own_server)
    bulk, body = Bulk(client, own_server), largest_body(own_server, LARGE)
    commands = b"".join(known[name] for name in _swift(known, bulk))
    times = paced(partial(bulk.put_and_delete, body), LOG_SECONDS, LOGGED // ROUNDS, resources)

    def work() -> None:
        bulk.put_and_delete(body, times)
        bulk.ask(commands)

    if left := growth(work, own_server.binlog_size, resources.cpu_time):
        raise _leak(f"{left / times:.0f} bytes of the binlog more with each job")
    return shortfall(times * ROUNDS, LOGGED, "jobs")


@requirement(
    "endurance.binlog-size",
    '"binlog-oldest-index" is the index of the oldest binlog file needed to store the current '
    "jobs.",
)
@configured(binlog=True)
def test_a_binlog_is_no_larger_because_a_server_was_started_again(
    own_server: Target, client: Connection, new_client: Connect, resources: Resources
) -> str:
    client.needs_usable(PUT_AND_DELETE)
    client.job_in("buried")
    body = largest_body(own_server, LARGE)
    work = partial(Bulk(client, own_server).put_and_delete, body)
    times = paced(work, ROUNDS * LOG_SECONDS, KEPT, resources)
    without = max(_binlog_sizes(own_server, new_client, body, times, lambda: None))
    after = min(_binlog_sizes(own_server, new_client, body, times, own_server.restart)[-LAST:])
    if after > MORE * without:
        observed = f"{after:,} bytes after a restart, where {without:,} were enough before"
        raise _needs_too_much("a binlog that is no larger after a restart", observed)
    return shortfall(times, KEPT, "jobs")


def _binlog_sizes(
    server: Target, new_client: Connect, body: bytes, times: int, restart: Callable[[], object]
) -> list[int]:
    """Return how many bytes it has while jobs come, go after what may be a restart, and others."""
    jobs = Bulk(new_client(), server).put([put_of(body)] * times)
    sizes = [server.binlog_size()]
    restart()
    bulk = Bulk(new_client(), server)
    bulk.delete(jobs)
    for _ in range(ROUNDS):
        sizes.append(server.binlog_size())
        bulk.put_and_delete(body, times // ROUNDS)
    return [*sizes, server.binlog_size()]


@requirement(
    "endurance.binlog-compaction",
    '"binlog-records-migrated" is the cumulative number of records written as part of compaction.',
)
@configured(binlog=True)
def test_compaction_writes_little_for_each_command(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    client.needs_usable(PUT_AND_DELETE)
    client.job_in("buried")
    bulk, body = Bulk(client, own_server), largest_body(own_server, LARGE)
    jobs = bulk.put_some([put_of(body)] * COMPACTED, resources)
    bulk.delete(jobs)
    migrated, commands = client.stats().number("binlog-records-migrated"), 2 * len(jobs)
    if migrated > MIGRATED * commands:
        expected = f"{MIGRATED} records at most that compaction writes for each command"
        raise _needs_too_much(expected, f"{migrated:,} after {commands:,} commands")
    return shortfall(len(jobs), COMPACTED, "jobs")
