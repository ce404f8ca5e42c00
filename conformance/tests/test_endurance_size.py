"""Endurance: lists of a megabyte, and tables of tens of thousands of jobs."""

import time

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.bulk import SECONDS, Bulk, has_time, shortfall
from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.dialogue.scenario import NewTube
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.verdict import Deviation, OutcomeKind, Step
from reference_server.profiles import Profile
from reference_server.wire import escape

NAME = 190
"""Bytes of the name of each tube."""
SIZES = (2**12, 2**13, 2**14, 2**16)
"""Bytes that a list has more than, at a time."""
LARGE, PART = 2**20, 500
"""Bytes of a list that no system keeps for a client that does not read; tubes made at a time."""
OWED = 2
"""Times that both lists are owed to a client that reads late."""
WHILE = 0.1
"""Seconds for which it does not read, at most."""
JOBS, PART_OF_JOBS, IN_ORDER = 50_000, 500, 4000
"""Jobs at a time on a fast server, those that are asked for at a time, and in their order:
beanstalkd's table grows for the first time at 49,157 jobs."""
SWIFT = 0.05
"""Seconds of a list until which a longer one is asked for."""
ODD = 40503
"""A number of which no two multiples are the same in 16 bits."""
SAMPLE = 23
"""One in so many jobs is peeked at when all are there."""

LISTS = {
    "list-tubes": "The list-tubes command returns a list of all existing tubes.",
    "list-tubes-watched": (
        "The list-tubes-watched command returns a list tubes currently being watched by the client."
    ),
}


def _wrong_list(verb: str, names: list[str], tubes: list[str]) -> Deviation | None:
    """Return what is wrong with a list of names, of which these must be there once."""
    ours = {*tubes}
    there = [name for name in names if verb == "list-tubes-watched" or name in ours]
    if sorted(there) == sorted(tubes):
        return None
    missing, surplus = ours - {*there}, len(there) - len({*there} & ours)
    observed = f"{len(missing):,} of them missing, {surplus:,} too many"
    return Deviation(f"{len(tubes):,} tubes listed, each once", observed, conclusive=True)


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, marks=requirement(f"endurance.{verb}", clause), id=verb)
        for verb, clause in LISTS.items()
    ],
)
def test_a_list_is_whole_however_long_it_is(
    client: Connection, new_tube: NewTube, profile: Profile, verb: str
) -> str:
    tubes, length, begun = [client.tube], min(NAME, profile.max_name), time.monotonic()
    for size in SIZES:
        if time.monotonic() - begun > SECONDS:
            return f"lists of less than {size:,} bytes"
        more = [new_tube().ljust(length, "n") for _ in range(size // (length + 3) + 1 - len(tubes))]
        client.go_to(*(f"watch {tube}" for tube in more))
        client.confirm(f"stats-tube {more[-1]}", "OK", "watch.creates-tube")
        tubes += more
        if wrong := _wrong_list(verb, client.send(verb).names(), tubes):
            raise wrong
        client.is_in_step()
    return ""


@requirement("endurance.list-tubes", LISTS["list-tubes"])
@requirement("endurance.list-tubes-watched", LISTS["list-tubes-watched"])
def test_lists_of_a_megabyte_are_whole_for_a_client_that_reads_late(
    own_server: Target, client: Connection, profile: Profile, resources: Resources
) -> str:
    bulk, length = Bulk(client, own_server), min(NAME, profile.max_name)
    tubes, most, goes_on = [client.tube], LARGE // (length + 3), has_time(resources)
    while len(tubes) < most and goes_on() and bulk.seconds(b"list-tubes\r\n") < SWIFT:
        first = len(tubes)
        tubes += [f"{number:06}".ljust(length, "n") for number in range(first, first + PART)]
        bulk.ask("".join(f"watch {tube}\r\n" for tube in tubes[first:]).encode())
        client.confirm(f"stats-tube {tubes[-1]}", "OK", "watch.creates-tube")
    lists = [*client.each([f"{verb}\r\n".encode() for verb in (*LISTS,) * OWED] + [client.ping])]
    client.transport.leave_unread(WHILE)
    whole: dict[str, list[bytes]] = {}
    for verb, asked in zip((*LISTS,) * OWED, lists, strict=False):
        try:
            # To read YAML takes long; its order may be another one each time.
            lines = sorted((asked.reply("OK").body or b"").splitlines())
            if lines == whole.get(verb):
                continue
            if wrong := _wrong_list(verb, asked.names(), tubes):
                raise wrong
            whole[verb] = lines
        except Deviation as deviation:
            deviation.owner = deviation.owner or f"endurance.{verb}"
            raise
    lists[-1].expect(client.pong)
    return shortfall(len(tubes), most, "tubes")


def _say(bulk: Bulk, lines: list[bytes], expected: list[bytes]) -> None:
    """Send lines, and expect these replies; raises Deviation with the first that is another one."""
    replies = bulk.ask(b"\r\n".join([*lines, b""]))
    if b"".join(expected) == replies:
        return
    place = 0
    for line, reply in zip(lines, expected, strict=True):
        if not replies.startswith(reply, place):
            raise _different(line, reply, replies[place : place + 100])
        place += len(reply)
    raise _different(b"", b"", replies[place:][:100])


def _different(line: bytes, reply: bytes, came: bytes) -> Deviation:
    """Return the deviation of a reply that should be another one."""
    expected, observed = (
        escape(data.partition(b"\r\n")[0]) or "no more replies" for data in (reply, came)
    )
    words = tuple(word.decode() for word in reply.split()[:1])
    came_word = came.partition(b"\r\n")[0].partition(b" ")[0].decode("latin-1")
    command = line.partition(b" ")[0].decode()
    step = Step(OutcomeKind.WRONG_REPLY, command, words, came_word)
    return Deviation(expected, f"{observed} to {line.decode()}", conclusive=True, step=step)


@requirement(
    "endurance.many-jobs",
    'It waits in the ready queue until a worker comes along and runs the "reserve" command. If '
    "this job is next in the queue, it will be reserved for the worker.",
)
def test_of_many_jobs_each_is_found_and_comes_in_its_turn(
    own_server: Target, client: Connection, resources: Resources
) -> str:
    client.needs_usable(f"peek 1\r\n{client.ask_for_job}\r\ndelete 1\r\n".encode())
    bulk, keys = Bulk(client, own_server), [number * ODD % 2**16 for number in range(JOBS)]
    puts = [b"put %d 0 %d 5\r\n%05d\r\n" % (key, LONG, key) for key in keys]
    ids = bulk.put_some(puts, resources)
    jobs = dict(zip(ids, keys, strict=False))
    if len(jobs) < len(ids):
        raise Deviation(f"{len(ids):,} different ids", f"{len(jobs):,}", conclusive=True)
    some = [*jobs][::SAMPLE]
    found = [b"FOUND %d 5\r\n%05d\r\n" % (job, jobs[job]) for job in some]
    _say(bulk, [b"peek %d" % job for job in some], found)
    left = sorted(jobs, key=lambda job: jobs[job])
    must_reserve = "ready" not in client.profile.deletes
    in_order, goes_on = 0, has_time(resources)
    for first in range(0, len(left), PART_OF_JOBS):
        # Where a client holds many, some servers look through all of them.
        part = left[first : first + PART_OF_JOBS]
        reserved = part if must_reserve or (first < IN_ORDER and goes_on()) else []
        in_order += len(reserved)
        lines = [client.ask_for_job.encode()] * len(reserved)
        lines += [b"delete %d" % job for job in part]
        expected = [b"RESERVED %d 5\r\n%05d\r\n" % (job, jobs[job]) for job in reserved]
        expected += [b"DELETED\r\n"] * len(part)
        _say(bulk, lines, expected)
    client.finds_no_job()
    return shortfall(len(jobs), JOBS, "jobs at a time") or shortfall(
        in_order, IN_ORDER, "jobs in their order"
    )
