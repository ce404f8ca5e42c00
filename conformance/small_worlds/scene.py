"""The model and the clients of a small world, in memory."""

from __future__ import annotations

import itertools

from conformance.small_worlds.alphabet import GONE, Action
from conformance.small_worlds.view import StateView, view
from conformance.small_worlds.world import World
from reference_server.model import Model
from reference_server.partner import Partner
from reference_server.profiles import Profile

LOOK = 1000
"""Nanoseconds by which time moves with each event, so that no two timers end at the same time."""


class Scene(Partner[int]):
    """A model with some clients, by number, in a time of its own.

    It can be pickled, and goes on from there as often as needed.
    """

    def __init__(self, profile: Profile) -> None:
        self._now = 0
        super().__init__(Model(profile), self._later)

    def _later(self) -> int:
        self._now += LOOK
        return self._now

    def wait(self, nanoseconds: int) -> None:
        """Let time pass."""
        self._now += nanoseconds
        self.tick()

    def read_all(self) -> tuple[dict[int, bytes], tuple[int, ...]]:
        """Return the new replies of each client that has some, and the clients hung up on."""
        replies, ended = {}, []
        for number in self.names():
            if data := self.read(number):
                replies[number] = data
            if self.is_closed(number):
                self.close(number)
                ended.append(number)
        return replies, tuple(ended)


def look(scene: Scene, world: World) -> StateView:
    """Return the abstract state of a world."""
    return view(scene.model, world, scene.connected())


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
