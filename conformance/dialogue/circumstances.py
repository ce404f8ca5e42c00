"""Circumstances of a dialogue: other clients, a client with a history, a producer that leaves.

Each is brought about by a client of the dialogue, and names the client that puts its jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.malformed import put_without_end
from conformance.dialogue.many_clients import gather
from conformance.dialogue.scenario import Connect, NewTube

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
    gather(iter(range(MANY)), connect, lambda one: one.synchronise())
    return client


def tubes(client: Connection, connect: Connect, new_tube: NewTube) -> Connection:
    """Put a job into each of many tubes."""
    other = connect()
    for _ in range(MANY):
        other.use(new_tube())
        other.put(b"a", ttr=A_WHILE)
    return client


def waiting_clients(client: Connection, connect: Connect, new_tube: NewTube) -> Connection:
    """Let many others wait for jobs of their own tubes."""

    def wait(one: Connection) -> None:
        one.go_to(f"watch {new_tube()}", "ignore default")
        one.reserve_waiting()

    gather(iter(range(MANY)), connect, wait)
    return client


def jobs_held(client: Connection, _: Connect, __: NewTube) -> Connection:
    """Let the client hold many jobs."""
    for _number in range(MANY):
        client.put_and_reserve(ttr=A_WHILE)
    return client


def tubes_watched(client: Connection, _: Connect, new_tube: NewTube) -> Connection:
    """Let the client watch many tubes."""
    for _number in range(MANY):
        client.watch(new_tube())
    return client


def past(client: Connection, _: Connect, new_tube: NewTube) -> Connection:
    """Let the client have done, and got wrong, all kinds of things."""
    job, other = client.put_and_bury(), new_tube()
    client.kick_one()
    client.peek(job).reply("FOUND")
    client.reserve().reply("RESERVED")
    client.delete(job)
    client.confirm(f"peek {job}", "NOT_FOUND", "delete.entirely")
    client.go_to(f"use {other}", f"watch {other}", f"use {client.tube}", f"ignore {other}")
    client.send("bogus", Role("error.unknown-command")).any_reply()
    client.send("kick x", Role("kick.bad-format")).any_reply()
    client.send("touch 2000000000", Role("touch.not-found")).any_reply()
    client.stats()
    client.finds_no_job()
    put_without_end(client)
    return client


def leaving_producer(client: Connection, connect: Connect, new_tube: NewTube) -> Connection:
    """Let another client put the jobs, and leave; the client uses another tube."""
    client.use(new_tube())
    producer = connect()
    producer.use(client.tube)
    return producer
