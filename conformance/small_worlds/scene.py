"""A server of the model and its clients, in memory: bytes go in, and the replies come out."""

from __future__ import annotations

import itertools
from collections import defaultdict

from conformance.small_worlds.alphabet import GONE, Action
from conformance.small_worlds.view import StateView, view
from conformance.small_worlds.world import World
from reference_server.events import Close, Connected, Drain, Event, HalfClose, Hangup, Tick
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import Client
from reference_server.wire import RequestReader

LOOK = 1000
"""Nanoseconds by which time moves with each event, so that no two timers end at the same time."""


class Scene:
    """Some clients of a model, by number; ``replies`` has what each of them got.

    It can be pickled, and goes on from there as often as needed.
    """

    def __init__(self, profile: Profile) -> None:
        self.model = Model(profile)
        self._texts = dict(profile.dialect.texts)
        self.replies: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.ended: set[int] = set()
        """Clients whose connection the server has closed since this was emptied."""
        self._readers: dict[int, RequestReader] = {}
        self._now = 0

    def clients(self) -> dict[int, Client]:
        """Return all clients that are connected, by number."""
        return {number: self.model.connections[number] for number in self._readers}

    def connect(self, number: int) -> None:
        """Let a client connect."""
        self._readers[number] = RequestReader(self.model.profile)
        self._step(Connected(), number)

    def send(self, number: int, data: bytes) -> None:
        """Let a client, that does not wait, send whole requests."""
        reader = self._readers[number]
        reader.receive(data)
        while (request := reader.next_request()) is not None:
            self._step(request, number)

    def half_close(self, number: int) -> None:
        """Let a client send nothing more: it is told what it is owed, and hung up on."""
        self._step(HalfClose(), number)
        self._hang_up(number)

    def close(self, number: int) -> None:
        """Let a client close its connection."""
        del self._readers[number]
        self._step(Close(), number)
        self.replies.pop(number, None)

    def drain(self) -> None:
        """Let the server accept no more jobs."""
        self._step(Drain(), 0)

    def wait(self, nanoseconds: int) -> None:
        """Let time pass."""
        self._now += nanoseconds
        self._step(Tick(), 0)

    def _hang_up(self, number: int) -> None:
        self.ended.add(number)
        del self._readers[number]
        self._step(Close(), number)

    def _step(self, event: Event, number: int) -> None:
        self._now += LOOK
        for receiver, reply in self.model.step(event, self._now, number):
            if isinstance(reply, Hangup):
                self._hang_up(receiver)
            elif receiver in self._readers:
                self.replies[receiver] += reply.spoken(self._texts)


def look(scene: Scene, world: World) -> StateView:
    """Return the abstract state of a world."""
    return view(scene.model, world, scene.clients())


def act(scene: Scene, world: World, action: Action, seen: StateView, gone: int) -> None:
    """Take an action in a state that was looked at; ``gone``: the id of a job that was deleted."""
    if action.nanoseconds:
        scene.wait(action.nanoseconds)
    elif action.client == len(seen.clients):
        number = free_number(seen)
        scene.connect(number)
        scene.send(number, b"".join(world.greeting))
    else:
        number = seen.clients[action.client]
        if action.text:
            scene.send(number, request(action, seen, gone))
        elif action.half:
            scene.half_close(number)
        else:
            scene.close(number)


def free_number(seen: StateView) -> int:
    """Return a number that no client has."""
    return next(number for number in itertools.count(1) if number not in seen.clients)


def request(action: Action, seen: StateView, gone: int) -> bytes:
    """Return what a client sends."""
    if action.job is None:
        return action.text
    return action.text % (gone if action.job == GONE else seen.jobs[action.job])
