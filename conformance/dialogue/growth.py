"""Queues that grow and shrink in many shapes: the commands, and the expected content.

Small queues are easily right. What goes wrong with larger ones depends on how many items there are,
in which order they came, and where one is taken out.
"""

from __future__ import annotations

import bisect
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.usual_answers import usual_answer
from reference_server.profiles import Profile
from reference_server.wire import (
    BURIED,
    DELETED,
    FOUND,
    KICKED,
    RELEASED,
    RESERVED,
    TOUCHED,
    Reply,
)

LONG = 1000
"""Seconds of a delay or TTR that no test lives through."""
APART = 50
"""Seconds between two delays or TTRs, as a slow target takes some between two commands."""


class Exchanged(NamedTuple):
    """A line, and the reply or its word; ``state``: that of a job that is deleted."""

    line: str
    reply: Reply | str
    state: str = "reserved"


Lines = list[Exchanged]
Dialogue = list[tuple[str, Reply]]
"""Lines, and the reply to each."""


def _zigzag(size: int) -> list[int]:
    return [*range(0, size, 2), *reversed(range(1, size, 2))]


def _random(size: int) -> list[int]:
    return random.Random(size).sample(range(size), size)


ORDERS: Mapping[str, Callable[[int], Sequence[int]]] = {
    "sorted": range,
    "reversed": lambda size: range(size)[::-1],
    "zigzag": _zigzag,
    "random": _random,
}
"""The orders in which so many items come, as their keys: 0 is to be first."""
PLACES: Sequence[Callable[[int], int]] = (
    lambda _: 0,
    lambda size: size // 2,
    lambda size: size - 1,
    lambda size: size // 3,
    lambda size: 2 * size // 3,
)
"""The places from which one of so many items is taken."""


class Queue(ABC):
    """The jobs of one state in one tube; of those made, ``items`` are in the queue, in its order.

    An item is the key that it is ordered by, and the id of a job. ``verbs``: the ways to take one
    out of it, from anywhere. ``shows``: other commands than reserve and peek whose replies show
    what is in the queue; all others belong to the set-up.
    """

    verbs: tuple[str, ...] = ()
    shows: frozenset[str] = frozenset()

    def __init__(self, client: Connection, profile: Profile, most: int) -> None:
        self.client = client
        self.profile = profile
        self.items: list[tuple[int, int]] = []
        usable = tuple(verb for verb in self.verbs if self.allows(verb))
        self._turns = cycle([(verb, place) for place in PLACES for verb in usable])
        self.prepare(most)

    def allows(self, verb: str) -> bool:
        """Return whether the profile takes a job out of this queue by this command."""
        return verb in self.profile.commands

    def prepare(self, most: int) -> None:
        """Make what is needed for so many items."""

    @abstractmethod
    def add(self, keys: Sequence[int]) -> None:
        """Put items into the queue."""

    @abstractmethod
    def takes(self, verb: str, item: tuple[int, int]) -> Lines:
        """Return how an item is taken out of it, and removed from the server."""

    @abstractmethod
    def first(self) -> Lines:
        """Return the lines that take out the first item, even if the profile has no other way."""

    @abstractmethod
    def look(self) -> Lines:
        """Return how to see what is first, if the profile lets see that."""

    def take_some(self, count: int) -> None:
        """Take items out, each another way and from another place, and look after each."""
        dialogue: Lines = []
        for _ in range(count):
            turn = next(self._turns, None)
            if turn is None:
                dialogue += self.first()
                del self.items[0]
            else:
                verb, place = turn
                dialogue += self.takes(verb, self.items.pop(place(len(self.items))))
            dialogue += self.look()
        self.say(dialogue)

    def drain(self) -> None:
        """Take all items out, in their order."""
        dialogue: Lines = []
        while self.items:
            dialogue += self.first()
            del self.items[0]
        self.say(dialogue)

    def say(self, dialogue: Lines) -> None:
        """Say lines in one go, each in its role."""
        roles = [self._role(said) for said in dialogue]
        self.client.says([(said.line, said.reply) for said in dialogue], roles=roles)

    def _role(self, said: Exchanged) -> Role:
        verb = said.line.partition(" ")[0]
        if verb in self.shows and said.state == "reserved":
            return self.client.observation(said.line)
        if verb == "delete":
            return self.client.role_of_delete(said.state)
        return self.client.usual_role(said.line)

    def reserved(self, item: tuple[int, int]) -> Reply:
        """Return the reply that gives an item."""
        return RESERVED(item[1], b"%d" % item[0])

    def next_reserved(self, item: tuple[int, int]) -> Lines:
        """Return how an item that is the next ready job is reserved, and removed."""
        return [
            Exchanged(self.client.ask_for_job, self.reserved(item)),
            Exchanged(f"delete {item[1]}", DELETED),
        ]


class Ready(Queue):
    """Ready jobs, of which no two have the same priority."""

    verbs = ("delete", "reserve-job")

    def allows(self, verb: str) -> bool:
        return super().allows(verb) and (verb != "delete" or "ready" in self.profile.deletes)

    def add(self, keys: Sequence[int]) -> None:
        jobs = self.client.put_each([(b"%d" % key, key, 0, LONG) for key in keys])
        for item in zip(keys, jobs, strict=True):
            bisect.insort(self.items, item)

    def takes(self, verb: str, item: tuple[int, int]) -> Lines:
        if verb == "delete":
            return [Exchanged(f"delete {item[1]}", DELETED, "ready")]
        reserved = Exchanged(f"reserve-job {item[1]}", self.reserved(item))
        return [reserved, Exchanged(f"delete {item[1]}", DELETED)]

    def first(self) -> Lines:
        return self.next_reserved(self.items[0])

    def look(self) -> Lines:
        key, job = self.items[0]
        return [Exchanged("peek-ready", FOUND(job, b"%d" % key))] * super().allows("peek-ready")


class _Kickable(Queue):
    """A queue of jobs that kick makes ready."""

    verbs = ("delete", "kick-job", "reserve-job")
    state = ""

    def takes(self, verb: str, item: tuple[int, int]) -> Lines:
        delete = f"delete {item[1]}"
        match verb:
            case "kick-job":
                return [
                    Exchanged(f"kick-job {item[1]}", KICKED),
                    Exchanged(delete, DELETED, "ready"),
                ]
            case "reserve-job":
                reserved = Exchanged(f"reserve-job {item[1]}", self.reserved(item))
                return [reserved, Exchanged(delete, DELETED)]
        return [Exchanged(delete, DELETED, self.state)]

    def first(self) -> Lines:
        return [Exchanged("kick 1", "KICKED"), *self.next_reserved(self.items[0])]


class Delayed(_Kickable):
    """Delayed jobs, of which no two have the same delay; the least urgent are ready first."""

    state = "delayed"

    def allows(self, verb: str) -> bool:
        return super().allows(verb) and (verb != "delete" or "delayed" in self.profile.deletes)

    def add(self, keys: Sequence[int]) -> None:
        jobs = self.client.put_each(
            [(b"%d" % key, 2**20 - key, LONG + APART * key, LONG) for key in keys]
        )
        for item in zip(keys, jobs, strict=True):
            bisect.insort(self.items, item)

    def look(self) -> Lines:
        key, job = self.items[0]
        return [Exchanged("peek-delayed", FOUND(job, b"%d" % key))] * super().allows("peek-delayed")


class _Held(Queue):
    """A queue that jobs come into which a client has reserved; key N is the Nth that was put."""

    def prepare(self, most: int) -> None:
        bodies = [(b"%d" % key, key, 0, LONG + APART * key) for key in range(most)]
        self.jobs = self.client.put_each(bodies)

    def reserve(self) -> None:
        """Reserve all of them."""
        line = self.client.ask_for_job
        role = Role(usual_answer(line.partition(" ")[0], self.profile))
        self.client.says([(line, "RESERVED")] * len(self.jobs), roles=[role] * len(self.jobs))


class Buried(_Kickable, _Held):
    """Buried jobs, in the order in which they were buried."""

    state = "buried"

    def prepare(self, most: int) -> None:
        super().prepare(most)
        self.reserve()

    def add(self, keys: Sequence[int]) -> None:
        self.say([Exchanged(f"bury {self.jobs[key]} {key * 7 % 5}", BURIED) for key in keys])
        self.items += [(key, self.jobs[key]) for key in keys]

    def look(self) -> Lines:
        key, job = self.items[0]
        line = "peek" if self.profile.id_is_optional else "peek-buried"
        return [Exchanged(line, FOUND(job, b"%d" % key))] * super().allows(line)


class Reserved(_Held):
    """The jobs that one client has reserved, each for another time."""

    verbs = ("delete", "release", "bury")
    shows = frozenset(("touch", *verbs))

    def add(self, keys: Sequence[int]) -> None:
        line = "reserve-job {}"
        if "reserve-job" not in self.profile.commands:
            # They come as they were put.
            line = self.client.ask_for_job
            keys = range(len(self._known), len(self._known) + len(keys))
        items = [(key, self.jobs[key]) for key in keys]
        self.say([Exchanged(line.format(item[1]), self.reserved(item)) for item in items])
        self._known += keys
        self.items += items

    def prepare(self, most: int) -> None:
        super().prepare(most)
        self._known: list[int] = []
        self._deletes_ready = "ready" in self.profile.deletes

    def takes(self, verb: str, item: tuple[int, int]) -> Lines:
        job = item[1]
        if verb == "release":
            # Behind all that are to be reserved.
            released = [Exchanged(f"release {job} {2**20} 0", RELEASED)]
            deleted = [Exchanged(f"delete {job}", DELETED, "ready")] * self._deletes_ready
            return [*released, *deleted]
        if verb == "bury":
            return [
                Exchanged(f"bury {job} 0", BURIED),
                Exchanged(f"delete {job}", DELETED, "buried"),
            ]
        return [Exchanged(f"delete {job}", DELETED)]

    def first(self) -> Lines:
        job = self.items[0][1]
        touched = [Exchanged(f"touch {job}", TOUCHED)] * super().allows("touch")
        return [*touched, Exchanged(f"delete {job}", DELETED)]

    def look(self) -> Lines:
        ends = {self.items[0][1], self.items[-1][1]} if super().allows("touch") else set()
        return [Exchanged(f"touch {job}", TOUCHED) for job in ends]
