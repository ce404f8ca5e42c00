"""Section "Other Commands", continued: pause-tube."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Exchange
from conformance.dialogue.scenario import NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.wire import (
    DEADLINE_SOON,
    FOUND,
    RESERVED,
    TIMED_OUT,
    Reply,
)


@requirement(
    "pause-tube.paused",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_paused_tube_gives_no_job(client: Connection) -> None:
    client.put(b"a")
    client.pause(3600)
    client.finds_no_job()
    client.peek_ready().reply("FOUND")


@requirement(
    "pause-tube.paused",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_paused_tube_gives_no_job_to_a_client_that_waits(
    client: Connection, worker: Connection
) -> None:
    waiting = worker.reserve_waiting()
    client.linger()
    client.pause(3600)
    client.put(b"a")
    client.linger()
    waiting.is_pending()


@requirement(
    "pause-tube.paused",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_other_tubes_go_on_while_one_is_paused(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.put(b"a", pri=0)
    client.pause(3600)
    client.use(tube)
    client.watch(tube)
    job = client.put(b"b", pri=9)
    client.reserve().expect(RESERVED(job, b"b"))


@requirement(
    "pause-tube.ends",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_pause_ends(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a")
    client.pause(2)
    clock.advance(1)
    client.finds_no_job()
    clock.advance(1)
    client.reserve().expect(RESERVED(job, b"a"))
    assert client.stats_tube()["pause"] == "0"


@requirement(
    "pause-tube.waiting-client-served-after",
    "<delay> is an integer number of seconds […] to wait before reserving any more jobs from "
    "the queue",
)
def test_a_client_that_waits_is_served_when_the_pause_ends(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    waiting = worker.reserve_waiting()
    client.linger()
    client.pause(1)
    job = client.put(b"a")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "pause-tube.waiting-client-served-after",
    "<delay> is an integer number of seconds […] to wait before reserving any more jobs from "
    "the queue",
)
def test_a_client_that_comes_during_the_pause_is_served_when_it_ends(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    client.put(b"b", pri=2)
    job = client.put(b"a", pri=1)
    client.pause(1)
    waiting = worker.reserve_waiting()
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


def _is_served_soon(worker: Connection, waiting: Exchange, reply: Reply) -> None:
    """Expect a reply after an instant, which a server may measure by ticks of its own."""
    worker.becomes(lambda: not worker.is_owed)
    waiting.expect(reply)


@requirement(
    "pause-tube.zero-holds-nothing-back",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_a_pause_of_zero_ends_at_once(client: Connection, worker: Connection) -> None:
    job = client.put(b"a")
    client.tested.pause(0)
    _is_served_soon(worker, worker.send("reserve"), RESERVED(job, b"a"))


@requirement(
    "pause-tube.zero-holds-nothing-back",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_a_pause_of_zero_ends_a_longer_one(client: Connection, worker: Connection) -> None:
    job = client.put(b"a")
    client.pause(3600)
    waiting = worker.reserve_waiting()
    client.linger()
    client.tested.pause(0)
    _is_served_soon(worker, waiting, RESERVED(job, b"a"))


@requirement(
    "pause-tube.again-replaces",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
@pytest.mark.parametrize(("first", "second"), [(3600, 1), (1, 3)])
def test_a_second_pause_replaces_the_first(
    client: Connection, worker: Connection, clock: Timeline, first: int, second: int
) -> None:
    job = client.put(b"a")
    client.pause(first)
    client.tested.pause(second)
    waiting = worker.reserve_waiting()
    clock.advance(second)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "pause-tube.timers-go-on",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_delays_end_during_a_pause(
    client: Connection, other: Connection, new_tube: NewTube, clock: Timeline
) -> None:
    other.use(new_tube())
    job, elsewhere = client.put(b"a", delay=1), other.put(b"a", delay=1)
    client.pause(3600)
    clock.advance(1)
    other.delay_ends(elsewhere)
    assert client.state_of(job) == "ready"
    client.finds_no_job()


@requirement(
    "pause-tube.timers-go-on",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_ttr_ends_during_a_pause(
    client: Connection, worker: Connection, new_tube: NewTube, clock: Timeline
) -> None:
    tube = new_tube()
    worker.use(tube)
    worker.watch(tube)
    job, elsewhere = client.put_and_reserve(ttr=1), worker.put_and_reserve(ttr=1)
    client.pause(3600)
    clock.advance(1)
    worker.comes_back(elsewhere)
    assert client.state_of(job) == "ready"
    client.finds_no_job()


@requirement(
    "pause-tube.timers-go-on",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_client_that_waits_for_a_paused_tube_is_warned_and_timed_out(
    client: Connection, worker: Connection, other: Connection, new_tube: NewTube, clock: Timeline
) -> None:
    tube = new_tube()
    other.use(tube)
    other.watch(tube)
    other.put_and_reserve(ttr=2)
    client.put_and_reserve(ttr=2)
    client.put(b"b")
    client.pause(3600)
    elsewhere = other.wait_for_margin()
    warned, timed_out = client.reserve_waiting(), worker.reserve_within(1)
    clock.advance(1)
    elsewhere.expect(DEADLINE_SOON)
    warned.expect(DEADLINE_SOON)
    timed_out.expect(TIMED_OUT)


@requirement(
    "pause-tube.only-reserve",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_pause_holds_back_nothing_but_reserve(client: Connection) -> None:
    client.pause(3600)
    job = client.put(b"a")
    client.peek_ready().expect(FOUND(job, b"a"))
    client.tested.delete(job)
    client.put(b"a", delay=3600)
    assert client.kick(1) == 1


@requirement(
    "pause-tube.not-reserve-job",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_reserve_job_takes_a_job_of_a_paused_tube(client: Connection) -> None:
    client.pause(3600)
    job = client.put(b"a")
    client.reserve_job(job).expect(RESERVED(job, b"a"))
    client.release(job)
    client.finds_no_job()


@requirement("pause-tube.delay-limit", "<delay> is an integer number of seconds < 2**32")
@pytest.mark.parametrize("delay", [1, 2**31, 2**32 - 1])
def test_a_pause_of_32_bits(client: Connection, delay: int) -> None:
    client.put(b"a")
    client.tested.pause(delay)
    assert client.stats_tube()["pause"] == str(delay)


@requirement("pause-tube.name-limit", "if the name of a tube exceeds 200 bytes")
def test_pause_tube_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(client.profile.max_name, "n")
    client.use(name)
    client.put(b"a")
    client.tested.pause(1000, name)
    assert client.stats_tube(name)["pause"] == "1000"
