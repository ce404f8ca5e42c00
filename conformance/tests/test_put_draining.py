"""Section "Producer Commands", continued: put in drain mode."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.drain import drain
from conformance.dialogue.scenario import Connect
from conformance.target.target import Target
from reference_server.wire import DELETED, DRAINING, EXPECTED_CRLF, RESERVED


@requirement(
    "put.draining",
    r'"DRAINING\r\n" This means that the server has been put into "drain mode" and is no '
    "longer accepting new jobs. […] To put the server in drain mode, send the SIGUSR1 signal "
    "to the process.",
)
def test_in_drain_mode_put_is_refused(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    drain(own_server, new_client)
    client.raw(b"put 0 0 60 1\r\na\r\n", replies=2).expect(DRAINING)


@requirement(
    "put.draining-only-put",
    r'"DRAINING\r\n" This means that the server has been put into "drain mode" and is no '
    "longer accepting new jobs.",
)
def test_in_drain_mode_new_clients_are_welcome(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    job = client.put(b"a", pri=0)
    drain(own_server, new_client)
    new_client().reserve().expect(RESERVED(job, b"a"))


@requirement(
    "put.draining-reads-the-body",
    r'"DRAINING\r\n" This means that the server has been put into "drain mode" and is no '
    "longer accepting new jobs.",
)
def test_in_drain_mode_a_body_is_not_read_as_commands(
    own_server: Target, client: Connection, new_client: Connect
) -> None:
    drain(own_server, new_client)
    client.raw(b"put 0 0 60 5\r\nstats\r\n" + client.ping, replies=2).expect(DRAINING)
    client.receives(client.pong)
    client.raw(b"put 0 0 60 1\r\nbxx").expect(EXPECTED_CRLF, DRAINING)


@requirement(
    "put.draining-keeps-no-job",
    r'"DRAINING\r\n" This means that the server has been put into "drain mode" and is no '
    "longer accepting new jobs.",
)
def test_in_drain_mode_what_was_refused_is_no_job(
    own_server: Target, connect: Connect, new_client: Connect, new_worker: Connect
) -> None:
    client, waiting = new_client(), new_worker().reserve_waiting()
    drain(own_server, connect)
    before = client.stats()
    for delay in (0, 3600):
        client.raw(b"put 0 %d 60 1\r\nb\r\n" % delay).expect(DRAINING)
    client.linger()
    waiting.is_pending()
    after = client.stats()
    for state in ("ready", "reserved", "delayed", "buried"):
        assert after[f"current-jobs-{state}"] == before[f"current-jobs-{state}"]
    new_worker().finds_no_job()


@requirement(
    "put.draining-stays-in-step",
    "After sending the command line and body, the client waits for a reply, which may be: […] "
    r'"DRAINING\r\n"',
)
def test_in_drain_mode_a_body_is_skipped_and_the_next_command_is_read(
    own_server: Target, client: Connection, connect: Connect
) -> None:
    drain(own_server, connect)
    for body in (b"stats", b"x" * 10, b"bogus\r\nbogus"):
        head = b"put 0 0 60 %d\r\n" % len(body)
        client.raw(head + body + b"\r\n" + client.ping, replies=2)
        client.receives(DRAINING, client.pong)


@requirement(
    "put.draining-keeps-the-connection",
    "The client should try another server or disconnect and try again later.",
)
def test_in_drain_mode_whoever_puts_may_go_on(
    own_server: Target, client: Connection, connect: Connect
) -> None:
    job = client.put(b"a")
    drain(own_server, connect)
    client.raw(b"put 0 0 60 1\r\nb\r\n").expect(DRAINING)
    client.send(f"delete {job}").expect(DELETED)
