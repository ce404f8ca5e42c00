"""Time: pauses of tubes."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Exchange
from conformance.dialogue.schedule import Timeline
from reference_server.wire import DEADLINE_SOON, PAUSED, RESERVED, TIMED_OUT, Reply


@requirement(
    "pause-tube.ends",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_pause_ends(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a")
    client.send(f"pause-tube {client.tube} 2").expect(PAUSED)
    clock.advance(1)
    client.finds_no_job()
    clock.advance(1)
    client.reserve().expect(RESERVED(job, b"a"))
    assert client.stats_tube()["pause"] == "0"


@requirement(
    "stats-tube.pause-time-left",
    '"pause-time-left" is the number of seconds until the tube is un-paused.',
)
def test_nothing_is_left_of_a_pause_that_has_ended(client: Connection, clock: Timeline) -> None:
    client.send(f"pause-tube {client.tube} 1").expect(PAUSED)
    clock.advance(1)
    assert client.stats_tube()["pause-time-left"] == "0"


@requirement(
    "pause-tube.waiting-client-served-after",
    "<delay> is an integer number of seconds […] to wait before reserving any more jobs from "
    "the queue",
)
def test_a_client_that_waits_is_served_when_the_pause_ends(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    waiting = worker.send("reserve")
    client.linger()
    client.send(f"pause-tube {client.tube} 1").expect(PAUSED)
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
    client.send(f"pause-tube {client.tube} 1").expect(PAUSED)
    waiting = worker.send("reserve")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "pause-tube.zero-holds-nothing-back",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_a_pause_of_zero_ends_at_once(client: Connection, worker: Connection) -> None:
    job = client.put(b"a")
    client.send(f"pause-tube {client.tube} 0").expect(PAUSED)
    _is_served_soon(worker, worker.send("reserve"), RESERVED(job, b"a"))


@requirement(
    "pause-tube.zero-holds-nothing-back",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_a_pause_of_zero_ends_a_longer_one(client: Connection, worker: Connection) -> None:
    job = client.put(b"a")
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    waiting = worker.send("reserve")
    client.linger()
    client.send(f"pause-tube {client.tube} 0").expect(PAUSED)
    _is_served_soon(worker, waiting, RESERVED(job, b"a"))


def _is_served_soon(worker: Connection, waiting: Exchange, reply: Reply) -> None:
    """Expect a reply after an instant, which a server may measure by ticks of its own."""
    worker.becomes(lambda: not worker.is_owed)
    waiting.expect(reply)


@requirement(
    "pause-tube.again-replaces",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_a_second_pause_replaces_the_first(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    job = client.put(b"a")
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    client.send(f"pause-tube {client.tube} 1").expect(PAUSED)
    waiting = worker.send("reserve")
    clock.advance(1)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "pause-tube.again-replaces",
    "<delay> is an integer number of seconds < 2**32 to wait before reserving any more jobs "
    "from the queue",
)
def test_a_second_pause_may_be_longer(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    job = client.put(b"a")
    client.send(f"pause-tube {client.tube} 1").expect(PAUSED)
    client.send(f"pause-tube {client.tube} 3").expect(PAUSED)
    waiting = worker.send("reserve")
    clock.advance(3)
    waiting.expect(RESERVED(job, b"a"))


@requirement(
    "pause-tube.timers-go-on",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_delays_end_during_a_pause(client: Connection, clock: Timeline) -> None:
    job = client.put(b"a", delay=1)
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    clock.advance(1)
    assert client.state_of(job) == "ready"
    client.finds_no_job()


@requirement(
    "pause-tube.timers-go-on",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_ttr_ends_during_a_pause(client: Connection, other: Connection, clock: Timeline) -> None:
    job = client.put(b"a", ttr=1)
    client.reserve().expect(RESERVED(job, b"a"))
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    clock.advance(1)
    assert other.state_of(job) == "ready"
    other.finds_no_job()


@requirement(
    "pause-tube.timers-go-on",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_client_that_waits_for_a_paused_tube_is_warned_and_timed_out(
    client: Connection, worker: Connection, clock: Timeline
) -> None:
    held = client.put(b"a", ttr=2)
    client.reserve().expect(RESERVED(held, b"a"))
    client.put(b"b")
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    warned, timed_out = client.send("reserve"), worker.reserve_within(1)
    clock.advance(1)
    warned.expect(DEADLINE_SOON)
    timed_out.expect(TIMED_OUT)


@requirement(
    "stats-tube.pause-time-left",
    '"pause-time-left" is the number of seconds until the tube is un-paused.',
)
def test_stats_tube_tells_how_long_the_pause_lasts_still(
    client: Connection, clock: Timeline
) -> None:
    client.send(f"pause-tube {client.tube} 100").expect(PAUSED)
    assert client.stats_tube()["pause-time-left"] in ("99", "100")
    clock.advance(2)
    stats = client.stats_tube()
    assert stats["pause"] == "100"
    assert stats["pause-time-left"] in ("97", "98")
