"""The random requests of concurrent clients, each about jobs that the client knows of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from conformance.oracle.invariants import SentCommand
from conformance.random_testing.concurrent_client import WAITS, ConcurrentClient
from conformance.target.target import Target
from reference_server.profiles import Profile

T = TypeVar("T")
Said = tuple[bytes, SentCommand]
"""The bytes of a request, and what the invariants are to know of it."""
LONG = 10_000
"""Seconds of time limits, delays and timeouts: none ends meanwhile."""
PRIORITIES = (0, 1, 2, 1023, 1024, 2**32 - 1)
NAME = 6
"""Bytes of a body that are its name, at most."""


@dataclass(slots=True)
class Requests:
    """Generates requests for clients of the same tubes.

    ``now`` orders them. ``tidy``: a client sends nothing more until it knows what it holds.
    ``waits_on``: it may send more while it waits. ``known``: jobs that any client may name.
    """

    target: Target
    profile: Profile
    tubes: Sequence[str]
    chance: Random
    now: Callable[[], int]
    tidy: bool
    waits_on: bool
    known: deque[int] = field(default_factory=lambda: deque(maxlen=20))
    _puts: float = 0.0
    """The share of requests that put a job."""

    def __post_init__(self) -> None:
        # Where jobs are scarce, clients wait.
        self._puts = self._pick((0.3, 0.6))

    def _pick(self, options: Sequence[T]) -> T:
        return self.chance.choice(options)

    def burst(self, client: ConcurrentClient) -> list[Said]:
        """Return the requests that a client sends in one go."""
        length = self._pick((1, 1, 1, 2, 3))
        burst: list[Said] = []
        while len(burst) < (1 if self.tidy else length):
            burst.append(self._command(client))
            if burst[-1][1].verb == WAITS and not self.waits_on:
                # What is sent while it waits need not be read, nor its end noticed after that.
                break
        return burst

    def _command(self, client: ConcurrentClient) -> Said:
        if client.held and self.chance.random() < 0.5:
            about_held = ("delete", "delete", "release", "bury", "touch", "peek")
            return self.of_job(self._one_of(about_held), self._pick(client.held))
        kind = self.chance.random()
        if kind < self._puts:
            return self.put(client)
        if kind < 0.85:
            return self._reserve(client)
        if self.known and (kind < 0.97 or not self.profile.has_tubes):
            # Which jobs a kick takes would depend on an order that nobody has seen.
            verbs = ("kick-job", "kick-job", "reserve-job", "delete", "release", "touch", "bury")
            return self.of_job(self._one_of(verbs), self._pick(self.known))
        if not self.profile.has_tubes:
            return self.put(client)
        return self.of_tube(client, self._pick(("use", "watch", "ignore")), self._pick(self.tubes))

    def _one_of(self, verbs: Sequence[str]) -> str:
        """Return one of these commands, as far as there are such."""
        # Where ready jobs cannot be deleted, those that are buried would be left over.
        leaves = () if "ready" in self.profile.deletes else ("bury",)
        known = [v for v in verbs if v in self.profile.commands and v not in leaves]
        return self._pick(known)

    def put(self, client: ConcurrentClient) -> Said:
        """Return a put of a job with a body of its own."""
        pri, delay = self._pick(PRIORITIES), 0
        if self.chance.random() < 0.05 and "delayed" in self.profile.deletes:
            # No two delays end together: which is first, then, is unspecified.
            delay = LONG + 60 * self.now()
        # No two bodies are the same.
        more = self._pick([n for n in (0, 1, 100, 3000) if self.target.takes(NAME + n)])
        body = b"%d" % self.now() + b"x" * more
        head = b"put %d %d %d %d\r\n" % (pri, delay, LONG, len(body))
        asked = SentCommand("put", self.now(), 0, pri, delay, client.used, body)
        return head + body + b"\r\n", asked

    def _reserve(self, client: ConcurrentClient) -> Said:
        if client.reserves and not client.held and self.chance.random() < 0.5:
            return self.waits(client)
        if not self.profile.has_timeouts:
            return self.put(client)
        asked = SentCommand("reserve-at-once", self.now(), watched=client.watched)
        return b"reserve-with-timeout 0\r\n", asked

    def waits(self, client: ConcurrentClient) -> Said:
        """Return a request that waits for a job."""
        lines = [b"reserve\r\n"]
        if self.profile.has_timeouts:
            lines.append(b"reserve-with-timeout %d\r\n" % LONG)
        return self._pick(lines), SentCommand(WAITS, self.now(), watched=client.watched)

    def of_job(self, verb: str, job: int) -> Said:
        """Return a request about a job."""
        pri = self._pick(PRIORITIES)
        more = {"release": f" {pri} 0", "bury": f" {pri}"}.get(verb, "")
        return f"{verb} {job}{more}\r\n".encode(), SentCommand(verb, self.now(), job, pri)

    def of_tube(self, client: ConcurrentClient, verb: str, tube: str) -> Said:
        """Return a request about a tube, and record its effect for the client."""
        if verb == "use":
            client.used = tube
        elif verb == "watch":
            client.watched = tuple({*client.watched, tube})
        elif client.watched != (tube,):
            client.watched = tuple({*client.watched} - {tube})
        return f"{verb} {tube}\r\n".encode(), SentCommand(verb, self.now())
