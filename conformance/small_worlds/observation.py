"""The commands that reveal the full state of the server after each step of a tour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.random_testing.steps import Ask
from conformance.small_worlds.world import World
from reference_server.profiles import Profile

_OF_A_CLIENT = ("list-tube-used", "list-tubes-watched")
_OF_A_TUBE = ("peek-ready", "peek-delayed", "peek-buried")
_OF_ALL = ("list-tubes", "stats")
_OF_ALL_BESIDE_OTHERS = ("list-tubes",)
"""The same where others may use the server, too: what it counts is then not compared."""


class Observer:
    """Asks about a world under a profile. Each question is the same object each time."""

    def __init__(self, world: World, profile: Profile) -> None:
        self._profile = profile
        self._tubes = [f"stats-tube {tube}" for tube in world.tubes]
        self._of_all = _OF_ALL_BESIDE_OTHERS if world.home else _OF_ALL
        self._of_job = f"{profile.stats_of_job} %d"
        self._known: dict[tuple[int, str, int | None], Ask] = {}

    def about_all(self, number: int, is_actor: bool, jobs: Sequence[int]) -> list[Ask]:
        """Return what a client asks about all, and, if it has just acted, about itself."""
        lines = [*(_OF_A_CLIENT if is_actor else ()), *_OF_A_TUBE, *self._tubes]
        return [
            *self._asks(number, lines),
            *(self._ask(number, self._of_job, job) for job in jobs),
            *self._asks(number, self._of_all),
        ]

    def about_tubes(self, number: int, tubes: Sequence[str]) -> list[Ask]:
        """Return what a client asks about tubes, each of which it uses for that."""
        lines = [line for tube in tubes for line in (f"use {tube}", *_OF_A_TUBE)]
        return [*self._asks(number, lines)]

    def neutral(self, number: int) -> Ask:
        """Return the request that changes nothing: its reply shows that all before was handled."""
        return self._ask(number, self._profile.neutral.decode())

    def _asks(self, number: int, lines: Sequence[str]) -> Iterator[Ask]:
        for line in lines:
            if line.split()[0] in self._profile.commands:
                yield self._ask(number, line)

    def _ask(self, number: int, line: str, job: int | None = None) -> Ask:
        key = number, line, job
        if key not in self._known:
            self._known[key] = Ask(number, f"{line}\r\n".encode(), job)
        return self._known[key]
