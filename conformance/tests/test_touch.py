"""Section "Worker Commands", continued: touch."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import Timeline
from reference_server.wire import DEADLINE_SOON, TOUCHED


@requirement(
    "touch.touched",
    'The "touch" command allows a worker to request more time to work on a job. […] '
    r'"TOUCHED\r\n" to indicate success.',
)
def test_touch_of_a_job_that_the_client_has_reserved(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"touch {job}").expect(TOUCHED)
    assert client.state_of(job) == "reserved"


@requirement(
    "touch.postpones-expiry",
    "The command postpones the auto release of a reserved job until TTR seconds from when the "
    "command is issued.",
)
def test_touch_gives_the_whole_ttr_again(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    job = client.put_and_reserve(ttr=2)
    clock.advance(1)
    client.touch(job)
    clock.advance(1)
    assert other.state_of(job) == "reserved"
    clock.advance(1)
    assert other.state_of(job) == "ready"


@requirement(
    "touch.postpones-expiry",
    "The command postpones the auto release of a reserved job until TTR seconds from when the "
    "command is issued.",
)
def test_touch_of_one_job_does_not_postpone_another(
    client: Connection, other: Connection, clock: Timeline
) -> None:
    touched, left = client.put_many([b"a", b"b"], ttr=2, in_order=True)
    client.hold(touched, b"a")
    client.hold(left, b"b")
    clock.advance(1)
    client.touch(touched)
    clock.advance(1)
    assert (other.state_of(touched), other.state_of(left)) == ("reserved", "ready")


@requirement(
    "touch.ends-margin",
    "A worker may periodically tell the server that it's still alive and processing a job "
    "(e.g. it may do this on DEADLINE_SOON).",
)
def test_after_touch_a_client_waits_again(client: Connection, clock: Timeline) -> None:
    job = client.put_and_reserve(ttr=3)
    waiting = client.wait_for_margin()
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)
    client.touch(job)
    client.finds_no_job()
    waiting = client.reserve_waiting()
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)
