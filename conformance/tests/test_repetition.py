"""Beside the text: each command many times on the same job, or the same tube.

Counters may be too small, and what happens the third or the 256th time may be something else.
"""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.dialogue.schedule import Timeline
from conformance.random_testing.budget import Budget
from conformance.target.target import Target
from conformance.tests.test_stats_counters import COUNTED
from reference_server.commands import COMMANDS
from reference_server.wire import (
    BURIED,
    CRLF,
    DELETED,
    KICKED,
    KICKED_COUNT,
    RELEASED,
    RESERVED,
    TOUCHED,
)

TIMES = 300
"""Times that each command is said: more than fit into a byte."""
TIMEOUTS = 260
"""Times that a job times out."""
SOME = 25
"""Times after which the statistics and the time are checked."""
OWN = 250
"""Commands of ours, at most, until there are new statistics of a server that keeps them."""
SECONDS = 0.6
"""Seconds that one test may take with a slow target."""


@pytest.mark.parametrize(
    ("key", "verbs"),
    [
        pytest.param(
            key, verbs, marks=requirement(f"stats-job.{key}", clause), id=f"{key}: {verbs}"
        )
        for key, clause, ways in (
            (
                "reserves",
                '"reserves" is the number of times this job has been reserved.',
                ("reserve release", "reserve-job release"),
            ),
            (
                "releases",
                '"releases" is the number of times a client has released this job from a '
                "reservation.",
                ("reserve release", "reserve release-with-delay kick-job"),
            ),
            (
                "buries",
                '"buries" is the number of times this job has been buried.',
                ("reserve bury kick",),
            ),
            (
                "kicks",
                '"kicks" is the number of times this job has been kicked.',
                ("reserve bury kick", "reserve bury kick-job"),
            ),
        )
        for verbs in ways
    ],
)
def test_a_job_counts_what_happens_again_and_again(client: Connection, key: str, verbs: str) -> str:
    job = client.put(b"a", ttr=LONG)
    said = {
        "reserve": (client.ask_for_job, RESERVED(job, b"a")),
        "reserve-job": (f"reserve-job {job}", RESERVED(job, b"a")),
        "release": (f"release {job} 7 0", RELEASED),
        "release-with-delay": (f"release {job} 7 {LONG}", RELEASED),
        "bury": (f"bury {job} 7", BURIED),
        "kick": ("kick 1", KICKED_COUNT(1)),
        "kick-job": (f"kick-job {job}", KICKED),
    }
    dialogue = [said[verb] for verb in verbs.split()]
    for line, _ in dialogue:
        client.needs(line.encode())
    budget, count = Budget(SECONDS), 0
    for _ in budget.turns(TIMES // SOME):
        client.prepares(dialogue * SOME)
        count += SOME
        stats = client.stats_job(job)
        assert (stats[key], stats["state"]) == (str(count), "ready")
    return budget.reached(TIMES // SOME, f"times {SOME} repetitions")


@requirement(
    "stats-job.timeouts",
    '"timeouts" is the number of times this job has timed out during a reservation.',
)
def test_a_job_times_out_again_and_again(
    client: Connection, other: Connection, clock: Timeline
) -> str:
    clock.can_wait(TIMEOUTS)
    job, budget = client.put(b"a", ttr=1), Budget(3 * SECONDS)
    for number in budget.turns(TIMEOUTS):
        client.hold(job)
        clock.advance(1)
        client.synchronise()
        client.becomes(lambda: other.state_of(job) == "ready")
        if (number + 1) % SOME == 0:
            assert other.stats_job(job)["timeouts"] == str(number + 1)
    assert other.stats_job(job)["timeouts"] == str(budget.begun)
    return budget.shortfall(TIMEOUTS, "timeouts")


@requirement(
    "touch.postpones-expiry",
    "The command postpones the auto release of a reserved job until TTR seconds from when the "
    "command is issued.",
)
def test_a_job_is_touched_again_and_again(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=2)
    client.prepares([(f"touch {job}", TOUCHED)] * TIMES)
    for _ in range(2):
        clock.advance(1)
        assert other.state_of(job) == "reserved"
        client.touch(job)
    clock.advance(2)
    assert other.state_of(job) == "ready"


@pytest.mark.parametrize(
    ("key", "line", "word", "value"),
    [
        pytest.param(key, *values, marks=requirement(f"stats-tube.{key}", clause), id=key)
        for key, clause, *values in (
            (
                "cmd-pause-tube",
                '"cmd-pause-tube" is the cumulative number of pause-tube commands for this tube.',
                "pause-tube {tube} 0",
                "PAUSED",
                str(TIMES),
            ),
            (
                "current-using",
                '"current-using" is the number of open connections that are currently using this '
                "tube.",
                "use {tube}",
                "USING",
                "1",
            ),
            (
                "current-watching",
                '"current-watching" is the number of open connections that are currently watching '
                "this tube.",
                "watch {tube}",
                "WATCHING",
                "1",
            ),
        )
    ],
)
def test_a_tube_counts_what_is_said_again_and_again(
    client: Connection, key: str, line: str, word: str, value: str
) -> None:
    client.needs(line.encode())
    client.prepares([(line.format(tube=client.tube), word)] * TIMES)
    assert client.stats_tube()[key] == value


AGAIN = {
    "peek": ("peek {ready}",),
    "peek-ready": ("peek-ready",),
    "peek-delayed": ("peek-delayed",),
    "peek-buried": ("peek-buried",),
    "reserve": ("reserve", "release {ready} 0 0"),
    "use": ("use {tube}",),
    "watch": ("watch {tube}",),
    "ignore": ("ignore default",),
    "release": ("reserve", "release {ready} 0 0"),
    "bury": ("reserve", "bury {ready} 0", "kick 1"),
    "kick": ("kick 0",),
    "stats": ("stats",),
    "stats-job": ("stats-job {ready}",),
    "stats-tube": ("stats-tube {tube}",),
    "list-tubes": ("list-tubes",),
    "list-tube-used": ("list-tube-used",),
    "list-tubes-watched": ("list-tubes-watched",),
    "pause-tube": ("pause-tube {tube} 0",),
    "reserve-with-timeout": ("reserve-with-timeout 0", "release {ready} 0 0"),
    "touch": ("touch {reserved}",),
}
"""Commands that succeed however often they are said, with what must be said between them."""


@pytest.mark.parametrize(
    "verb",
    [pytest.param(verb, marks=requirement(f"stats.cmd-{verb}", COUNTED[verb])) for verb in AGAIN],
)
def test_stats_counts_what_is_said_again_and_again(
    alone: None, server: Target, client: Connection, verb: str
) -> str:
    client.needs(verb.encode())
    reserved = client.job_in("reserved")
    if verb in ("peek-delayed", "peek-buried"):
        client.job_in(verb.removeprefix("peek-"))
    ready = client.job_in("ready")
    lines = [line.format(tube=client.tube, ready=ready, reserved=reserved) for line in AGAIN[verb]]
    requests = [line.encode() + CRLF for line in lines] * SOME
    roles = [client.usual_role(line) for line in lines] * SOME
    # What is said between them must succeed, or they would wait.
    said = [line.split()[0] for line in lines]
    words = [COMMANDS[one].replies[0] if one != verb else "" for one in said] * SOME
    before, budget = client.stats().number(f"cmd-{verb}"), Budget(SECONDS)
    for _ in budget.turns(TIMES // SOME):
        for exchange, word in zip(client.each(requests, roles), words, strict=True):
            if word:
                exchange.reply(word)
            else:
                exchange.any_reply()
    counted = client.stats().number(f"cmd-{verb}") - before
    surplus = counted - SOME * budget.begun
    assert 0 <= surplus <= (OWN if verb in ("stats", server.sync_verb) else 0)
    return budget.reached(TIMES // SOME, f"times {SOME} commands")


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, marks=requirement(f"stats.cmd-{verb}", COUNTED[verb]))
        for verb in ("put", "delete")
    ],
)
def test_stats_counts_300_jobs(alone: None, client: Connection, verb: str) -> None:
    before = client.stats().number(f"cmd-{verb}")
    jobs = client.put_many([b"a"] * TIMES, in_order=True)
    client.take_jobs(TIMES)
    client.prepares([(f"delete {job}", DELETED) for job in jobs])
    assert client.stats().number(f"cmd-{verb}") - before == TIMES
