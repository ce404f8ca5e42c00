"""Section "Worker Commands", continued: touch."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import Timeline
from reference_server.wire import DEADLINE_SOON, DELETED, RESERVED, TOUCHED


@requirement(
    "touch.touched",
    'The "touch" command allows a worker to request more time to work on a job. […] '
    r'"TOUCHED\r\n" to indicate success.',
)
def test_touch_of_a_job_that_the_client_has_reserved(client: Connection) -> None:
    job = client.put_and_reserve()
    client.send(f"touch {job}").expect(TOUCHED)
    assert client.state_of(job) == "reserved"
    client.send(f"delete {job}").expect(DELETED)


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
    client.send(f"touch {job}").expect(TOUCHED)
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
    client.reserve().expect(RESERVED(touched, b"a"))
    client.reserve().expect(RESERVED(left, b"b"))
    clock.advance(1)
    client.send(f"touch {touched}").expect(TOUCHED)
    clock.advance(1)
    assert (other.state_of(touched), other.state_of(left)) == ("reserved", "ready")


@requirement(
    "touch.ends-margin",
    "A worker may periodically tell the server that it's still alive and processing a job "
    "(e.g. it may do this on DEADLINE_SOON).",
)
def test_after_touch_a_client_waits_again(client: Connection, clock: Timeline) -> None:
    job = client.put_and_reserve(ttr=3)
    waiting = client.send("reserve")
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)
    client.send(f"touch {job}").expect(TOUCHED)
    client.finds_no_job()
    waiting = client.send("reserve")
    clock.advance(2)
    waiting.expect(DEADLINE_SOON)
