"""The reference server without memory: what is refused, and what is answered all the same."""

from __future__ import annotations

import pytest

from reference_server import reserve
from reference_server.engine import Engine, RecordingLink
from reference_server.events import Event, Output
from reference_server.model import Model
from reference_server.profiles import NEWEST
from reference_server.reserve import RESERVE, Reserve
from reference_server.wire import Body, Command, Put, RequestReader

PUT = b"put 0 0 60 5\r\nstats\r\n"


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RESERVE, "is_spent", True)


@pytest.mark.usefixtures("spent")
def test_a_body_without_room_is_skipped_and_the_next_command_is_read() -> None:
    reader = RequestReader(NEWEST)
    reader.receive(PUT + b"stats\r\n")
    assert reader.next_request() == Put(0, 0, 60, 5)
    assert reader.next_request() == Body(None, lacks_memory=True)
    assert reader.next_request() == Command("stats")


@pytest.mark.usefixtures("spent")
def test_a_body_without_room_is_answered_at_its_end_and_is_no_job() -> None:
    link, model = RecordingLink(), Model(NEWEST, now=0)
    engine = Engine(model, lambda: 0)
    number = engine.connect(link)
    engine.receive(number, PUT[:-1])
    assert link.sent == b""
    engine.receive(number, PUT[-1:])
    assert (link.sent, model.jobs) == (b"OUT_OF_MEMORY\r\n", {})


def test_a_command_without_memory_is_answered() -> None:
    class Needy(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            if isinstance(event, Command):
                raise MemoryError
            return super().step(event, now, conn)

    link = RecordingLink()
    engine = Engine(Needy(NEWEST, now=0), lambda: 0)
    engine.receive(engine.connect(link), b"list-tubes\r\nstats\r\n")
    assert link.sent == b"OUT_OF_MEMORY\r\n" * 2


def test_the_reserve_is_given_up_for_what_needs_it_and_filled_again() -> None:
    kept, calls = Reserve(), []

    def needs() -> int:
        calls.append(kept.is_spent)
        if not kept.is_spent:
            raise MemoryError
        return 7

    kept.fill()
    assert kept.needed(needs) == 7
    assert (calls, kept.has_room) == ([False, True], False)
    kept.refill()
    assert (kept.is_spent, kept.has_room) == (False, True)


def test_there_is_no_room_where_the_system_gives_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Reserve()
    kept.fill()
    monkeypatch.setattr(reserve, "ROOM", 2**62)
    assert not kept.has_room
    kept.spend()
    monkeypatch.setattr(reserve, "SIZE", 2**62)
    kept.refill()
    assert kept.is_spent
