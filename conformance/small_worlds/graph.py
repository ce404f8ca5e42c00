"""The graph of a small world: all of its abstract states, and the transitions between them.

It is found breadth-first on the model, so that each state has a shortest path from the first one.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

from conformance.small_worlds.alphabet import Action, Alphabet
from conformance.small_worlds.scene import Scene, act, look
from conformance.small_worlds.view import Key
from conformance.small_worlds.world import World
from reference_server.commands import U64
from reference_server.profiles import Profile


@dataclass(slots=True)
class Graph:
    """States are numbered; ``edges[state]`` has each action, and the state that it leads to.

    Transitions are numbered, too, state by state.
    """

    numbers: dict[Key, int] = field(default_factory=dict)
    edges: list[list[tuple[Action, int]]] = field(default_factory=list)
    parents: list[tuple[int, Action] | None] = field(default_factory=list)
    """For each state, the one before it on a shortest path, and the action that leads here."""
    firsts: list[int] = field(default_factory=lambda: [0])
    """For each state the number of its first transition, and behind them the number of all."""

    @property
    def transitions(self) -> int:
        """The number of all transitions."""
        return self.firsts[-1]

    def place(self, transition: int) -> tuple[int, int]:
        """Return the state of a transition, and its place among the edges there."""
        state = bisect_right(self.firsts, transition) - 1
        return state, transition - self.firsts[state]

    def action(self, transition: int) -> Action:
        """Return the action of a transition."""
        state, edge = self.place(transition)
        return self.edges[state][edge][0]

    def path(self, state: int) -> list[Action]:
        """Return a shortest path from the first state."""
        found: list[Action] = []
        while (parent := self.parents[state]) is not None:
            state, action = parent
            found.append(action)
        return found[::-1]

    def path_through(self, transition: int) -> list[Action]:
        """Return a shortest path that ends with a transition."""
        state, _ = self.place(transition)
        return [*self.path(state), self.action(transition)]


class Explorer:
    """Explores a world on the model; ``limit``: the largest number of states."""

    def __init__(self, world: World, profile: Profile, limit: int) -> None:
        self.graph = Graph()
        self._world = world
        self._profile = profile
        self._limit = limit
        self._alphabet = Alphabet(world, profile)

    def explore(self) -> Graph:
        """Return the graph, whole or of as many states as the limit says."""
        graph, scene = self.graph, Scene(self._profile)
        if self._world.drains:
            scene.drain()
        seen = look(scene, self._world)
        graph.numbers[seen.key] = 0
        graph.parents.append(None)
        waiting = deque([pickle.dumps(scene, pickle.HIGHEST_PROTOCOL)])
        while waiting and len(graph.edges) < self._limit:
            self._follow(waiting.popleft(), waiting)
        return graph

    def _follow(self, saved: bytes, waiting: deque[bytes]) -> None:
        """Take all transitions of the next state."""
        graph, state = self.graph, len(self.graph.edges)
        scene: Scene = pickle.loads(saved)
        seen = look(scene, self._world)
        edges: list[tuple[Action, int]] = []
        for action in self._alphabet.actions(seen, scene.model, scene.connected()):
            scene = pickle.loads(saved)
            act(scene, self._world, action, seen, U64)
            key = look(scene, self._world).key
            number = graph.numbers.setdefault(key, len(graph.numbers))
            if number == len(graph.parents):
                graph.parents.append((state, action))
                waiting.append(pickle.dumps(scene, pickle.HIGHEST_PROTOCOL))
            edges.append((action, number))
        graph.edges.append(edges)
        graph.firsts.append(graph.firsts[-1] + len(edges))
