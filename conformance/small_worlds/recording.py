"""Records conversations before they are played: the requests, and the reply to each."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from conformance.random_testing.steps import Ask, Happen, Leave, Step, Wait
from conformance.small_worlds.scene import Scene
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import Client

FULL = 2**14
"""Bytes of requests or replies, about, after which they are awaited."""


class Turn(NamedTuple):
    """Steps that are taken in one go, and the replies that each client then gets.

    ``steps``: requests of one client, or one other thing. ``ended``: clients that are hung up on.
    ``reached``: how many transitions of a world have been taken when it is over.
    """

    steps: Sequence[Step]
    replies: Mapping[int, bytes]
    ended: Sequence[int] = ()
    reached: Sequence[int] = ()


class Segment(NamedTuple):
    """Turns that begin and end without clients, jobs and tubes; ``data`` has them compressed."""

    data: bytes

    @classmethod
    def of(cls, turns: list[Turn]) -> Segment:
        """Return turns compressed."""
        return cls(zlib.compress(pickle.dumps(turns, pickle.HIGHEST_PROTOCOL), 1))

    @property
    def turns(self) -> list[Turn]:
        """The turns."""
        turns: list[Turn] = pickle.loads(zlib.decompress(self.data))
        return turns


class TourRecorder:
    """Writes down what is said to the model. ``turns`` has what is complete."""

    def __init__(self, profile: Profile) -> None:
        self.turns: list[Turn] = []
        self._scene = Scene(profile)
        self._asked: list[Ask] = []
        self._reached: list[int] = []
        self._said = 0

    # ------------------------------------------------------------ the state

    @property
    def model(self) -> Model:
        """The model."""
        return self._scene.model

    @property
    def is_full(self) -> bool:
        """Return whether so much is said or owed that it should be awaited."""
        return max(self._said, self._scene.unread()) > FULL

    def clients(self) -> dict[int, Client]:
        """Return all clients that are connected, by number."""
        return self._scene.connected()

    def tag(self, id: int) -> int:
        """Return the tag of a job: its id in the model."""
        return id

    def next_tag(self) -> int:
        """Return the tag of the next job that is put."""
        return self.model.next_id

    # ------------------------------------------------------------ what the clients do

    def ask(self, asks: Sequence[Ask]) -> None:
        """Let a client ask, in one go with what it has asked before."""
        if self._asked and self._asked[0].client != asks[0].client:
            self.end_turn()
        for ask in asks:
            text = ask.text if ask.job is None else ask.text % ask.job
            self._scene.send(ask.client, text)
            self._said += len(text)
        self._asked += asks

    def connect(self, number: int) -> None:
        """Let a client connect, which the server notices with what it asks next."""
        self.end_turn()
        self._scene.connect(number)

    def leave(self, number: int, half: bool) -> None:
        """Let a client leave."""
        self.end_turn()
        if half:
            self._scene.half_close(number)
        else:
            self._scene.close(number)
        self._end([Leave(number, half)])

    def wait(self, nanoseconds: int) -> None:
        """Let time pass."""
        self.end_turn()
        self._scene.wait(nanoseconds)
        self._end([Wait(nanoseconds / 1e9)])

    def drain(self) -> None:
        """Let the server accept no more jobs."""
        self._scene.drain()
        self._end([Happen(b"SIGUSR1")])

    def reach(self, transition: int) -> None:
        """Record that a transition was taken and its result observed."""
        self._reached.append(transition)

    def end_turn(self) -> None:
        """Let the replies be awaited before anything else is done."""
        if self._asked:
            self._end(self._asked)
            self._asked = []

    def _end(self, steps: Sequence[Step]) -> None:
        self.turns.append(Turn(tuple(steps), *self._scene.read_all(), tuple(self._reached)))
        self._reached = []
        self._said = 0
