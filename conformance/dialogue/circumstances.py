"""Circumstances of a dialogue: many others, a client with a past, and a producer that leaves.

Each is brought about by a client of the dialogue, and gives who puts its jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.dialogue.connection import Connection
from conformance.dialogue.crowd import gather
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import USING, WATCHING

MANY = 12
"""Other clients, tubes or jobs."""
A_WHILE = 1000
"""A TTR in seconds that does not end meanwhile."""
Circumstance = Callable[[Connection, Connect, NewTube], Connection]


def nothing(client: Connection, _: Connect, __: NewTube) -> Connection:
    """Do nothing."""
    return client


def clients(client: Connection, connect: Connect, _: NewTube) -> Connection:
    """Let many others be connected."""
    gather(iter(range(MANY)), connect, lambda one: one.raw(one.ping).any_reply())
    return client


def tubes(client: Connection, connect: Connect, new_tube: NewTube) -> Connection:
    """Put a job into each of many tubes."""
    other = connect()
    for _ in range(MANY):
        other.send(f"use {(tube := new_tube())}").expect(USING(tube))
        other.put(b"a", ttr=A_WHILE)
    return client


def waiting_clients(client: Connection, connect: Connect, new_tube: NewTube) -> Connection:
    """Let many others wait for jobs of their own tubes."""

    def wait(one: Connection) -> None:
        one.send(f"watch {new_tube()}").expect(WATCHING(2))
        one.send("ignore default").expect(WATCHING(1))
        one.send("reserve")

    gather(iter(range(MANY)), connect, wait)
    return client


def jobs_held(client: Connection, _: Connect, __: NewTube) -> Connection:
    """Let the client hold many jobs."""
    for _number in range(MANY):
        client.put_and_reserve(ttr=A_WHILE)
    return client


def tubes_watched(client: Connection, _: Connect, new_tube: NewTube) -> Connection:
    """Let the client watch many tubes."""
    for number in range(MANY):
        client.send(f"watch {new_tube()}").expect(WATCHING(2 + number))
    return client


def past(client: Connection, _: Connect, new_tube: NewTube) -> Connection:
    """Let the client have done, and got wrong, all kinds of things."""
    job, other = client.put_and_bury(), new_tube()
    for line in ("kick 1", f"peek {job}", client.ask_for_job, f"delete {job}"):
        client.send(line).any_reply()
    for line in (f"use {other}", f"watch {other}", f"use {client.tube}", f"ignore {other}"):
        client.send(line).any_reply()
    for line in ("bogus", "kick x", "touch 2000000000", "stats"):
        client.send(line).any_reply()
    client.finds_no_job()
    client.raw(b"put 0 0 60 1\r\nabb").any_reply()
    return client


def leaving_producer(client: Connection, connect: Connect, new_tube: NewTube) -> Connection:
    """Let somebody else put the jobs, who leaves then; the client uses another tube."""
    client.send(f"use {(tube := new_tube())}").expect(USING(tube))
    producer = connect()
    producer.send(f"use {client.tube}").expect(USING(client.tube))
    return producer
