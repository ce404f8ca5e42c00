"""A model can be copied at any time, and the copy goes its own way."""

from __future__ import annotations

import copy
import random

from reference_server.engine import Engine
from reference_server.events import Close, Connect
from reference_server.model import Model
from reference_server.wire import Body, Command, Put


def _busy(model: Model, seed: int) -> None:
    """Some random commands, so that there is something to copy."""
    chance = random.Random(seed)
    model.step(Connect(), 0, 1)
    model.step(Connect(), 0, 2)
    for _ in range(300):
        conn = chance.choice((1, 2))
        if model.is_waiting(conn):
            continue
        job = chance.randrange(1, 60)
        if chance.random() < 0.3:
            model.step(Put(chance.randrange(3), chance.choice((0, 0, 5)), 3, 1), model.now, conn)
            model.step(Body(b"a"), model.now, conn)
            continue
        command = chance.choice(
            (
                Command("reserve-with-timeout", (chance.randrange(2),)),
                Command("release", (job, 1, chance.randrange(2))),
                Command("bury", (job, 2)),
                Command("delete", (job,)),
                Command("kick", (1,)),
                Command("pause-tube", ("default", chance.randrange(2))),
            )
        )
        model.step(command, model.now + chance.randrange(10**9), conn)


def test_a_copy_answers_as_the_model_does_and_shares_nothing() -> None:
    for seed in range(20):
        model = Model()
        _busy(model, seed)
        twin, kept = copy.deepcopy(model), copy.deepcopy(model)
        for number in (1, 2):
            model.step(Close(), model.now, number)
            twin.step(Close(), twin.now, number)
        later = model.now + 10**10
        model.step(Connect(), later, 3)
        twin.step(Connect(), later, 3)
        for verb in ("stats", "peek-ready", "peek-delayed", "peek-buried", "reserve"):
            event = Command(verb)
            assert model.step(event, later, 3) == twin.step(event, later, 3)
        assert sorted(kept.connections) == [1, 2]
        held = sum(len(conn.reserved) for conn in kept.connections.values())
        assert held == sum(tube.reserved for tube in kept.tubes)


class _Link:
    congested = False

    def __init__(self) -> None:
        self.got = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.got += data

    def close(self) -> None:
        self.closed = True


def test_a_server_that_ends_serves_who_waited_for_the_jobs_of_others() -> None:
    engine, links = Engine(Model(), lambda: 0), (_Link(), _Link())
    holder, waiter = (engine.connect(link) for link in links)
    engine.receive(holder, b"put 0 0 60 1\r\na\r\nreserve\r\n")
    engine.receive(waiter, b"reserve\r\nquit\r\n")
    engine.close()
    assert links[1].got == b"RESERVED 1 1\r\na\r\n"
    assert all(link.closed for link in links)
