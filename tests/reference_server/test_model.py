"""The model: what its tables say, the order of its commands, and that it can be copied."""

from __future__ import annotations

import copy
import inspect
import random
import re

import pytest

from reference_server.commands import ABOUT_A_JOB, COMMANDS
from reference_server.engine import Engine, RecordingLink
from reference_server.events import Close, Connected, Event, Tick
from reference_server.lifecycle import BECOMES, CLIENTS, REPLIES, STATES, TRANSITIONS
from reference_server.model import Model
from reference_server.state import SECOND, Job
from reference_server.wire import OUT_OF_MEMORY, Body, Command, Put, Reply


def _busy(model: Model, seed: int) -> None:
    """Send random commands, so that there is something to copy."""
    chance = random.Random(seed)
    model.step(Connected(), 0, 1)
    model.step(Connected(), 0, 2)
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
        model.step(Connected(), later, 3)
        twin.step(Connected(), later, 3)
        for verb in ("stats", "peek-ready", "peek-delayed", "peek-buried", "reserve"):
            event = Command(verb)
            assert model.step(event, later, 3) == twin.step(event, later, 3)
        assert sorted(kept.connections) == [1, 2]
        held = sum(len(conn.reserved) for conn in kept.connections.values())
        assert held == sum(tube.reserved for tube in kept.tubes)


def test_a_server_that_ends_serves_who_waited_for_the_jobs_of_others() -> None:
    engine, links = Engine(Model(), lambda: 0), (RecordingLink(), RecordingLink())
    holder, waiter = (engine.connect(link) for link in links)
    engine.receive(holder, b"put 0 0 60 1\r\na\r\nreserve\r\n")
    engine.receive(waiter, b"reserve\r\nquit\r\n")
    engine.close()
    assert links[1].sent == b"RESERVED 1 1\r\na\r\n"
    assert all(link.is_closed for link in links)


def _model_with_job(state: str, delay: int = 5) -> tuple[Model, int]:
    """Return a model with two clients, and its one job, in a state as the first client sees it."""
    model = Model()
    for conn in (1, 2):
        model.step(Connected(), 0, conn)
    model.step(Put(0, delay if state == "delayed" else 0, 9, 1), 0, 1)
    model.step(Body(b"a"), 0, 1)
    if state in ("buried", "reserved"):
        model.step(Command("reserve"), 0, 1)
    if state == "buried":
        model.step(Command("bury", (1, 0)), 0, 1)
    if state == "reserved by another":
        model.step(Command("reserve"), 0, 2)
    return model, 1


def _state(model: Model, job: int) -> str:
    return model.jobs[job].state.value if job in model.jobs else "gone"


@pytest.mark.parametrize("row", REPLIES.strip().splitlines(), ids=lambda row: row.split()[0])
@pytest.mark.parametrize("state", STATES)
def test_each_command_on_a_job_does_as_the_table_says(state: str, row: str) -> None:
    verb, *words = row.split()
    model, job = _model_with_job(state)
    arguments = {"release": (job, 0, 0), "bury": (job, 0)}.get(verb, (job,))
    ((_, reply),) = model.step(Command(verb, arguments), 0, 1)
    word = words[STATES.index(state)]
    assert isinstance(reply, Reply)
    assert reply.word == word
    assert _state(model, job) == BECOMES.get(word, state.split()[0])


EVENTS: dict[str, tuple[Event, int]] = {
    "reserve": (Command("reserve-with-timeout", (0,)), 0),
    "kick": (Command("kick", (1,)), 0),
    "release-with-delay": (Command("release", (1, 0, 3)), 0),
    "the-delay-ends": (Tick(), 5 * SECOND),
    "the-ttr-ends": (Tick(), 9 * SECOND),
    "the-client-leaves": (Close(), 0),
}
"""Events and the times at which they happen."""


@pytest.mark.parametrize("row", TRANSITIONS.strip().splitlines(), ids=lambda row: row.split()[0])
@pytest.mark.parametrize("state", STATES[:4])
def test_each_other_event_does_as_the_table_says(state: str, row: str) -> None:
    name, *becomes = row.split()
    event, at = EVENTS[name]
    model, job = _model_with_job(state, 5 if name == "the-delay-ends" else 60)
    model.step(event, at, 1)
    after = becomes[STATES.index(state)]
    assert _state(model, job) == (state if after == "-" else after)


_SENT: dict[str, bytes] = {
    "put": b"put 0 0 60 1\r\n",
    "the-body-ends": b"a\r\n",
    "reserve": b"reserve-with-timeout 10\r\n",
    "quit": b"quit\r\n",
}
"""What a client sends."""


@pytest.mark.parametrize("row", CLIENTS.strip().splitlines(), ids=lambda row: " ".join(row.split()))
def test_a_client_is_in_the_state_that_the_table_says(row: str) -> None:
    event, before, after = row.split()
    now, link = 0, RecordingLink()
    engine = Engine(Model(), lambda: now)
    client, other = engine.connect(link), engine.connect(RecordingLink())
    if event == "DEADLINE_SOON":
        engine.receive(client, b"put 0 0 9 1\r\na\r\nreserve\r\n")
    begun = {"in-a-body": _SENT["put"], "waiting": _SENT["reserve"]}
    engine.receive(client, begun.get(before, b""))
    assert _client_state(engine, client) == before
    match event:
        case "a-job-is-ready":
            engine.receive(other, b"put 0 0 60 1\r\na\r\n")
        case "the-timeout-ends" | "DEADLINE_SOON":
            now = 10 * SECOND if event == "the-timeout-ends" else 8 * SECOND
            engine.tick()
        case "the-client-leaves":
            engine.lost(client)
        case _:
            engine.receive(client, _SENT[event])
    assert _client_state(engine, client) == after
    assert link.sent.endswith(b"DEADLINE_SOON\r\n") == (event == "DEADLINE_SOON")


def _client_state(engine: Engine, client: int) -> str:
    if client not in engine.model.connections:
        return "gone"
    if engine.model.connections[client].incoming is not None:
        return "in-a-body"
    return "waiting" if engine.model.is_waiting(client) else "idle"


def test_the_tables_name_every_command_about_a_job() -> None:
    named = {row.split()[0] for row in REPLIES.strip().splitlines()}
    assert named == set(ABOUT_A_JOB)
    assert EVENTS.keys() == {row.split()[0] for row in TRANSITIONS.strip().splitlines()}


def test_a_method_for_each_command_in_the_order_of_the_text_cites_its_section() -> None:
    sections = re.findall(r'# -+ "(.*)"\n((?:.*\n)*?)(?=    # -|\Z)', inspect.getsource(Model))
    cited = [
        (section, verb)
        for section, source in sections
        for line in re.findall(r'""".*\."""|""".*', source)
        for told, verb in re.findall(r'\("(.* Commands)": ([a-z-]+)\)\.', line)
        if told == section and verb in COMMANDS
    ]
    assert list(dict.fromkeys(verb for _, verb in cited)) == list(COMMANDS)


class _Full(dict[int, Job]):
    """A table of jobs that cannot grow."""

    def __setitem__(self, id: int, job: Job) -> None:
        raise MemoryError


def test_a_job_that_does_not_fit_into_the_table_of_jobs_is_refused() -> None:
    model = Model()
    model.step(Connected(), 0, 1)
    model.jobs = _Full()
    tubes = len(model.tubes)
    model.step(Command("use", ("own",)), 0, 1)
    model.step(Put(0, 0, 9, 1), 0, 1)
    assert model.step(Body(b"a"), 0, 1) == [(1, OUT_OF_MEMORY)]
    model.step(Command("use", ("default",)), 0, 1)
    assert len(model.tubes) == tubes
