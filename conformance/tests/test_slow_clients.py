"""Beside the text: clients that read late, and clients that send in pieces, many at a time."""

import random
import time
from collections.abc import Iterator

from conformance.catalogue import configured, requirement
from conformance.dialogue.bulk import put_of
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.growth import LONG, Dialogue
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.target.target import Target
from conformance.target.transport import wait_for
from conformance.verdict import NotApplicable, NotTestable
from reference_server.wire import (
    BURIED,
    DELETED,
    FOUND,
    KICKED_COUNT,
    NOT_FOUND,
    NOT_IGNORED,
    RELEASED,
    RESERVED,
    TOUCHED,
    USING,
    WATCHING,
    Reply,
)

HUGE, LARGE = 8_000_000, 400_000
"""Bytes of a body that no system keeps for a client that does not read, and of a smaller one."""
SWIFT = 10.0
"""Seconds that the huge one may take to a target that needs as long for each byte of both."""
ROUNDS = 60
"""Times that the replies of all kinds are owed to a client that does not read."""
PEEKS = 10
"""Bodies among them; together with the others they are more than buffers take."""
SIZE = 8000
"""Bytes of each of them."""
WHILE = 0.2
"""Seconds, at most, in which a target sends what it can without being read."""
CLIENTS, PUTS = 20, 5
"""Clients that send at the same time, and what each puts."""
PIECES = 300
"""Bytes of a piece, at most."""


def _said(
    client: Connection, errors: Dialogue, job: int, pri: int, body: bytes
) -> Iterator[tuple[str, Reply]]:
    """Yield lines that have replies of all kinds, about the ready job that is next.

    ``errors``: malformed lines, and how the target answers them.
    """
    dialogue: Dialogue = [
        *[(f"peek {job}", FOUND(job, body))] * PEEKS,
        (client.ask_for_job, RESERVED(job, body)),
        (f"peek {2**64 - 1}", NOT_FOUND),
        (f"touch {job}", TOUCHED),
        (f"release {job} {pri} 0", RELEASED),
        *errors,
        (f"reserve-job {job}", RESERVED(job, body)),
        *[(f"release {job} {pri} 0", RELEASED)] * ("reserve-job" in client.profile.commands),
        (client.ask_for_job, RESERVED(job, body)),
        (f"bury {job} {pri}", BURIED),
        ("kick 9", KICKED_COUNT(1)),
        (f"kick-job {job}", NOT_FOUND),
        (f"ignore {client.tube}", NOT_IGNORED),
        (f"use {client.tube}", USING(client.tube)),
        (f"watch {client.tube}", WATCHING(1)),
        (client.ask_for_job, RESERVED(job, body)),
        (f"delete {job}", DELETED),
    ]
    known = {*client.profile.commands, *(line.partition(" ")[0] for line, _ in errors)}
    return (said for said in dialogue if said[0].partition(" ")[0] in known)


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_a_client_that_reads_late_gets_all_replies(client: Connection) -> None:
    bodies = [b"%d." % number * (SIZE // 4) for number in range(ROUNDS)]
    jobs = client.put_many(bodies, ttr=LONG, in_order=True)
    errors = [
        (line, client.send(line, Role(owner)).any_reply())
        for line, owner in (("bogus", "error.unknown-command"), ("touch x", "touch.bad-format"))
    ]
    first, *others = [
        _said(client, errors, job, pri, body)
        for pri, (job, body) in enumerate(zip(jobs, bodies, strict=True))
    ]
    # One after the other, each of them is answered as it should be.
    for line, reply in first:
        client.prepare(line).expect(reply)
    client.says([said for dialogue in others for said in dialogue], WHILE)
    client.is_in_step()


@requirement(
    "protocol.body-opaque",
    "Each job body is an opaque sequence of bytes. The server never inspects or modifies a job "
    "body and always sends it back in its original form.",
)
@configured(max_job_size=HUGE)
def test_a_client_that_reads_late_gets_all_of_a_body(
    own_server: Target, client: Connection, other: Connection, clock: Timeline
) -> None:
    body = _swiftly(client, b"0123456789" * (HUGE // 10))
    job = other.put(body)
    with clock.unread(client):
        peeked = client.send(f"peek {job}")
        wait_for([client.transport], own_server.limits.reply)
        other.synchronise()
    peeked.expect_now(FOUND(job, body))
    client.is_in_step()


@requirement(
    "reserve.body",
    "This is a verbatim copy of the bytes that were originally sent to the server in the put "
    "command for this job.",
)
@configured(max_job_size=HUGE)
def test_a_client_that_reads_late_gets_a_body_that_is_deleted_meanwhile(
    own_server: Target, client: Connection, other: Connection, clock: Timeline
) -> None:
    if "ready" not in client.profile.deletes:
        raise NotApplicable(f"profile {client.profile.name} has no delete of ready jobs")
    body = _swiftly(client, b"0123456789" * (HUGE // 10))
    job = other.put(body, ttr=1)
    with clock.unread(client):
        reserved = client.send(client.ask_for_job)
        # It has begun to answer before the job is gone.
        wait_for([client.transport], own_server.limits.reply)
        clock.advance(1)
        delete = f"delete {job}"
        if not other.eventually(lambda: other.prepare(delete).any_reply() == DELETED):
            raise NotTestable("the job is still reserved when its TTR has ended")
        other.put(body[::-1], pri=1)
    reserved.expect_now(RESERVED(job, body))


def _swiftly(client: Connection, body: bytes) -> bytes:
    """Return a body that a server can be expected to send soon; raises NotTestable if not."""
    begun = time.monotonic()
    job = client.put(body[:LARGE])
    client.hold(job, body[:LARGE])
    client.delete(job)
    seconds = (time.monotonic() - begun) * len(body) / LARGE
    if seconds > SWIFT:
        raise NotTestable(f"{len(body):,} bytes would take {seconds:.0f} seconds")
    return body


@requirement(
    "protocol.body-opaque",
    "Each job body is an opaque sequence of bytes. The server never inspects or modifies a job "
    "body and always sends it back in its original form.",
)
def test_bodies_that_come_in_pieces_from_many_clients_are_not_mixed(
    server: Target, client: Connection, new_producer: Connect
) -> None:
    server.needs_body(2 * PIECES)
    dice = random.Random(CLIENTS)
    bodies = [
        [dice.randbytes(dice.randrange(2 * PIECES)) for _ in range(PUTS)] for _ in range(CLIENTS)
    ]
    sent = [b"".join(map(put_of, own)) for own in bodies]
    clients = [new_producer() for _ in sent]
    begun = [
        producer.raw(data[:1], replies=PUTS) for producer, data in zip(clients, sent, strict=True)
    ]
    left = {producer: data[1:] for producer, data in zip(clients, sent, strict=True)}
    while left:
        for producer, data in list(left.items()):
            size = dice.randrange(1, PIECES)
            producer.raw(data[:size], replies=0)
            left[producer] = data[size:]
            if not left[producer]:
                del left[producer]
        # A busy server would read the pieces only when they are whole.
        client.synchronise()
    for first, own in zip(begun, bodies, strict=True):
        for number, body in enumerate(own):
            inserted = first.nth(number, Role("protocol.any-segmentation")).reply("INSERTED")
            job = int(inserted.args[0])
            client.send(f"peek {job}").expect(FOUND(job, body))
