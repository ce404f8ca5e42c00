"""A tour of a small world: a walk over all transitions, with a full check of each state.

A walk ends as it has begun, without clients and jobs, so that what has gone before a deviation is
short.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from conformance.random_testing.steps import Ask
from conformance.small_worlds.alphabet import GONE, Action
from conformance.small_worlds.observation import Observer
from conformance.small_worlds.route import Route
from conformance.small_worlds.scene import free_number
from conformance.small_worlds.view import StateView, view
from conformance.small_worlds.world import World
from reference_server.commands import U64
from reference_server.model import Model
from reference_server.state import Client

OBSERVER = 9
"""The number of a client that only looks."""
QUESTIONS = 2
"""Questions of one client until a server has come to what another client has done."""
_ALL = 100
"""More jobs than there are in any world."""


class TourStage(Protocol):
    """The place where a tour goes on: a model alone, or a target that is judged by one."""

    @property
    def model(self) -> Model: ...
    @property
    def is_full(self) -> bool: ...
    def clients(self) -> dict[int, Client]: ...
    def tag(self, id: int) -> int: ...
    def next_tag(self) -> int: ...
    def ask(self, asks: Sequence[Ask]) -> None: ...
    def connect(self, number: int) -> None: ...
    def leave(self, number: int, half: bool) -> None: ...
    def wait(self, nanoseconds: int) -> None: ...
    def drain(self) -> None: ...
    def reach(self, transition: int) -> None: ...
    def end_turn(self) -> None: ...


def synchronise(stage: TourStage, ask: Ask) -> None:
    """Let one client ask this, so that the server handles what others did before."""
    stage.end_turn()
    for _ in range(QUESTIONS):
        stage.ask([ask])
        stage.end_turn()


class Tour:
    """Walks through a world on a stage, until all transitions of a route are taken."""

    def __init__(self, world: World, stage: TourStage, route: Route) -> None:
        self._world = world
        self._stage = stage
        self._route = route
        self._observer = Observer(world, stage.model.profile)
        self._greeting = [partial(Ask, text=line) for line in world.greeting]
        self._actor: int | None = None
        self._gone: int | None = None

    def walk(self, steps: int) -> None:
        """Take so many steps, or fewer if no way leads on, and leave nothing behind."""
        self._begin()
        for _ in range(steps):
            seen = self.look()
            place = seen.clients.index(self._actor) if self._actor in seen.clients else None
            chosen = self._route.next(seen.key, place)
            if chosen is None:
                break
            self.take(seen, self._route.graph.action(chosen))
            if self._route.take(chosen):
                self._stage.reach(chosen)
        self._reset()

    def follow(self, path: Sequence[Action]) -> None:
        """Take these actions, and observe the result of the last."""
        self._begin()
        for action in path[:-1]:
            self._act(self.look(), action)
        self.take(self.look(), path[-1])
        self._stage.end_turn()

    def look(self) -> StateView:
        """Return the abstract state of now."""
        return view(self._stage.model, self._world, self._stage.clients())

    def _begin(self) -> None:
        if self._world.drains:
            self._stage.drain()
        self._connect(OBSERVER)
        self._stage.ask(self._observer.about_all(OBSERVER, True, ()))
        self._stage.end_turn()

    def _connect(self, number: int) -> None:
        if number not in self._stage.clients():
            self._stage.connect(number)
            if self._greeting:
                self._stage.ask([ask(number) for ask in self._greeting])

    # ------------------------------------------------------------ one step

    def take(self, seen: StateView, action: Action) -> None:
        """Take an action, and observe its result."""
        stage = self._stage
        tags = {job: stage.tag(job) for job in stage.model.jobs}
        actor = self._act(seen, action)
        gone = [tag for job, tag in tags.items() if job not in stage.model.jobs]
        self._gone = gone[-1] if gone else self._gone
        self._observe(actor, gone)
        if self.look().key != seen.key:
            self._observe_tubes()

    def _act(self, seen: StateView, action: Action) -> int:
        """Take an action; return the number of the client that has taken it."""
        actor = OBSERVER
        if action.nanoseconds:
            self._stage.wait(action.nanoseconds)
        elif action.client == len(seen.clients):
            actor = free_number(seen)
            self._connect(actor)
        else:
            actor = seen.clients[action.client]
            if action.text:
                self._say(actor, seen, action)
            else:
                self._stage.leave(actor, action.half)
        return actor

    def _say(self, number: int, seen: StateView, action: Action) -> None:
        text, job = action.text, None
        if action.job is not None:
            job = self._gone if action.job == GONE else self._stage.tag(seen.jobs[action.job])
            text = text if job is not None else text % U64
        tag = self._stage.next_tag() if action.is_put else None
        self._stage.ask([Ask(number, text, job, tag)])
        if action.is_put:
            # What follows needs its id.
            self._stage.end_turn()

    def _observe(self, actor: int, gone: Sequence[int]) -> None:
        """Ask about all; the client that has acted does so if it can."""
        stage, observer = self._stage, self._observer
        clients = stage.clients()
        if actor == OBSERVER or actor not in clients or clients[actor].waiting:
            actor = OBSERVER
            synchronise(stage, self._observer.neutral(OBSERVER))
        jobs = [*map(stage.tag, sorted(stage.model.jobs)), *gone]
        stage.ask(observer.about_all(actor, actor != OBSERVER, jobs))
        if stage.is_full:
            stage.end_turn()
        self._actor = actor

    def _observe_tubes(self) -> None:
        """Ask about the tubes that the client which has asked last does not use."""
        stage, actor = self._stage, self._actor
        used = stage.clients()[actor or OBSERVER].use.name
        mine = {tube.name for tube in stage.model.tubes} & {*self._world.tubes}
        if others := sorted(mine - {used}):
            stage.ask(self._observer.about_tubes(OBSERVER, [*others, self._world.tubes[0]]))
            stage.end_turn()

    # ------------------------------------------------------------ the end of a walk

    def _reset(self) -> None:
        """Let all clients go, and delete all jobs."""
        stage = self._stage
        for number in [*stage.clients()]:
            if number != OBSERVER:
                stage.leave(number, half=False)
        synchronise(stage, self._observer.neutral(OBSERVER))
        home = self._world.tubes[0]
        if stage.model.is_paused(home):
            stage.ask([Ask(OBSERVER, b"pause-tube %b 0\r\n" % home.encode())])
        self._free_jobs()
        for job in sorted(stage.model.jobs):
            stage.ask([Ask(OBSERVER, b"delete %d\r\n", stage.tag(job))])
        stage.end_turn()
        self._actor = self._gone = None

    def _free_jobs(self) -> None:
        """Bring all jobs into states in which they may be deleted."""
        deletes, tubes = self._stage.model.profile.deletes, list(self._stage.model.tubes)
        if "delayed" not in deletes:
            for tube in [tube for tube in tubes if tube.delayed]:
                kick = f"kick {_ALL}"
                self._at(tube.name, "use {}", *[kick] * (1 + bool(tube.buried)), "use {home}")
        if "ready" not in deletes:
            for tube in [tube for tube in tubes if tube.ready]:
                self._at(tube.name, "watch {}", *["reserve"] * len(tube.ready), "ignore {}")

    def _at(self, tube: str, *lines: str) -> None:
        """Let the observer say something in a tube, where there are tubes."""
        home = self._world.tubes[0]
        for line in lines:
            if "{" not in line or (tube != home and self._stage.model.profile.has_tubes):
                text = line.format(tube, home=home).encode()
                self._stage.ask([Ask(OBSERVER, text + b"\r\n")])
        self._stage.end_turn()
