"""A tour judged step by step: slower, but right whatever the target chooses."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.random_testing.session import Session
from conformance.random_testing.steps import Ask
from reference_server.model import Model
from reference_server.state import Client


class JudgedStage:
    """A target whose conversation is judged; its state is that of the judge's model.

    ``reached`` has the transitions that were taken. Its methods raise what a
    :class:`Session` raises.
    """

    def __init__(self, session: Session) -> None:
        self.reached: set[int] = set()
        self._session = session
        self._puts = 0

    @property
    def model(self) -> Model:
        """The model of the judge."""
        return self._session.judge.model

    @property
    def is_full(self) -> bool:
        """Return whether so much is owed that it should be awaited: never much is."""
        return True

    def clients(self) -> dict[int, Client]:
        """Return all clients that are connected, by number."""
        return self._session.clients()

    def tag(self, id: int) -> int:
        """Return the tag of a job, by its id in the model."""
        tag = self._session.tag(id)
        assert tag is not None
        return tag

    def next_tag(self) -> int:
        """Return the tag of the next job that is put."""
        self._puts += 1
        return self._puts

    def ask(self, asks: Sequence[Ask]) -> None:
        """Let a client ask."""
        for ask in asks:
            self._session.ask(*ask)

    def connect(self, number: int) -> None:
        """Let a client connect."""
        self._session.conn(number)

    def leave(self, number: int, half: bool) -> None:
        """Let a client leave."""
        self._session.leave(number, half)

    def wait(self, nanoseconds: int) -> None:
        """Let time pass."""
        self._session.wait(nanoseconds / 1e9)

    def drain(self) -> None:
        """Let the target accept no more jobs."""
        self._session.happen(b"SIGUSR1")

    def reach(self, transition: int) -> None:
        """Record that a transition was taken and its result observed."""
        self._session.flush()
        self.reached.add(transition)

    def end_turn(self) -> None:
        """Take in all replies."""
        self._session.flush()
