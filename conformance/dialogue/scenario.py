"""The resources of one test: connections, tubes, clock, transcript and clean-up."""

from __future__ import annotations

import signal
import time
import weakref
from collections.abc import Callable
from typing import Protocol

from conformance import yamlish
from conformance.dialogue.connection import Connection
from conformance.dialogue.schedule import Timeline
from conformance.target.address import ask, visit
from conformance.target.cleanup import delete_jobs
from conformance.target.footprint import FOOTPRINT
from conformance.target.resources import Resources
from conformance.target.starvation import Starvation
from conformance.target.target import Target
from conformance.target.traits import TUBE_COMMANDS, Unusable
from conformance.transcript import RESTARTS, Transcript, letters
from conformance.usual_answers import IN_STEP
from conformance.verdict import (
    Deviation,
    NotApplicable,
    NotTestable,
    Outage,
    OutcomeKind,
    TargetLost,
)
from reference_server.wire import ProtocolError

_running: weakref.WeakSet[Scenario] = weakref.WeakSet()
PARTS = (
    *("alone", "client", "clock", "connect", "new_client", "new_producer", "new_tube"),
    *("new_worker", "other", "own_server", "producer", "profile", "real_clock", "resources"),
    "server",
    "transcript",
    *("tube", "worker"),
)
"""The parts that a test may name as its arguments."""
_CONNECTIONS = ("current-connections", "total-connections")
_QUEUES = tuple(f"current-jobs-{state}" for state in ("ready", "reserved", "delayed", "buried"))


NewTube = Callable[[], str]
"""Gives the name of another tube."""


class Connect(Protocol):
    """Opens another connection, of the kind that the part's name says."""

    def __call__(self) -> Connection: ...


class _Witnessed:
    """A target whose signals and restarts are written into the transcript."""

    def __init__(self, target: Target, clock: Timeline, note: Callable[[bytes], None]) -> None:
        self._target = target
        self._clock = clock
        self._note = note

    def __getattr__(self, name: str) -> object:
        return getattr(self._target, name)

    def signal(self, number: int) -> None:
        self._target.signal(number)
        self._note(signal.Signals(number).name.encode())

    def restart(self) -> None:
        self._witness(self._target.restart)

    def crash(self) -> None:
        self._witness(self._target.crash)

    def _witness(self, restart: Callable[[], None]) -> None:
        # It ends the connections of clients that are silent.
        self._clock.before_sending()
        try:
            restart()
        finally:
            # One that does not start again was restarted, too.
            self._note(RESTARTS)

    def set_wall_clock(self, seconds: int) -> None:
        self._target.set_wall_clock(seconds)
        self._note(b"sets the wall clock by %+d s" % seconds)


def jobs_of_running_tests() -> list[int]:
    """Return the jobs of all tests of this process that have not ended."""
    return [job for scenario in list(_running) for job in scenario.created]


class Scenario:
    """The parts of one test, made when it asks for them, cleaned up after it.

    ``arrival``: the seconds in which a pending command reaches the target. ``is_last``: the target
    is ended with the test, and its jobs with it.
    """

    def __init__(self, target: Target, arrival: float, is_last: bool = False) -> None:
        self.target = target
        self._is_last = is_last
        self.generation = target.generation
        self.printed = target.printed()
        """The output of the target up to the beginning of the test."""
        self.transcript = Transcript()
        self.starvation = Starvation(target.cpu_time)
        self.clock = Timeline(target, self.starvation, arrival, self.transcript)
        is_apart = target.traits.has_tubes or not target.exclusive
        self.tube = FOOTPRINT.new_name() if is_apart else "default"
        self.resources: Resources | None = None
        self._letters = letters()
        self._connections: list[Connection] = []
        self._alone_since: int | None = None
        _running.add(self)

    def prepare(self) -> None:
        """Make sure that nobody's jobs get in the way; raises NotTestable."""
        if self.target.profile.has_tubes or self.target.exclusive:
            return
        self.alone()
        if any(self._statistics(*_QUEUES)):
            raise NotTestable("needs an empty server: without tubes, its jobs would be in the way")

    def _note(self, event: bytes) -> None:
        self.transcript.add("", "!", event, self.clock.now())

    def part(self, name: str) -> object:
        """Return the part of the scenario that a test names as its argument."""
        match name:
            case "alone":
                self.alone()
                return None
            case "tube":
                self._need_tubes()
                return self.tube
            case "resources":
                self.resources = Resources(self.target, self._note)
                return self.resources
            case "clock" | "real_clock":
                # A test that looks at times depends on them before it lets any pass.
                self.clock.timed = True
                return self.clock
            case "client" | "other":
                return self.client()
            case "producer":
                return self.producer()
            case "worker":
                return self.worker()
        return {
            "connect": self.connect,
            "new_client": self.client,
            "new_producer": self.producer,
            "own_server": _Witnessed(self.target, self.clock, self._note),
            "profile": self.target.profile,
            "server": _Witnessed(self.target, self.clock, self._note),
            "transcript": self.transcript,
            "new_tube": self.new_tube,
            "new_worker": self.worker,
        }[name]

    def new_tube(self) -> str:
        """Return the name of a tube that nobody else uses; raises NotApplicable without tubes."""
        self._need_tubes()
        return FOOTPRINT.new_name()

    def _need_tubes(self) -> None:
        profile, traits = self.target.profile, self.target.traits
        if not profile.has_tubes:
            raise NotApplicable(f"profile {profile.name} has no tubes")
        for command in TUBE_COMMANDS:
            traits.needs(command)

    def connect(self) -> Connection:
        """Return a new connection on which nothing has been sent.

        Raises Unusable if it is not the only one, and the target serves one client at a time.
        """
        alone = self.target.traits.one_client
        if alone is not None and not all(one.stopped for one in self._connections):
            raise Unusable(alone, IN_STEP)
        try:
            transport = self.target.connect()
        except OSError as error:
            reason = f"it cannot be reached: {error.strerror or error}"
            outage = self.target.outage() or Outage(OutcomeKind.GONE, reason)
            raise TargetLost("a connection", outage) from error
        name = next(self._letters)
        connection = Connection(
            name, transport, self.tube, self.transcript, self.clock, self.target, self.connect
        )
        self._connections.append(connection)
        return connection

    def producer(self) -> Connection:
        """Return a new connection that uses the test's tube."""
        return self._on_the_tube("use {}")

    def worker(self) -> Connection:
        """Return a new connection that watches the test's tube only."""
        return self._on_the_tube("watch {}", "ignore default")

    def client(self) -> Connection:
        """Return a new connection that uses and watches the test's tube only."""
        return self._on_the_tube("use {}", "watch {}", "ignore default")

    def _on_the_tube(self, *lines: str) -> Connection:
        """Return a new connection that has said this of the test's tube, if there are tubes.

        A server of our own on which they do not work is there for this test alone.
        """
        connection, target = self.connect(), self.target
        if target.traits.has_tubes or (target.profile.has_tubes and not target.exclusive):
            connection.go_to(*(line.format(self.tube) for line in lines))
        return connection

    def alone(self) -> None:
        """Make sure that nobody else is connected; raises NotTestable."""
        if not self.target.exclusive:
            current, self._alone_since = self._statistics(*_CONNECTIONS)
            if current != 1:
                raise NotTestable("needs a server of its own: others are connected to the target")

    def clients_at_most(self) -> int | None:
        """Return how many clients of this test the target serves, if it serves no more; else None.

        No text says how many it must serve: a new one is served as soon as one of them has left.
        """
        for connection in self._connections:
            connection.poll()
        resting = [connection for connection in self._connections if connection.is_at_rest]
        if self.exhausts or not resting or not resting[0].is_served():
            return None
        count = sum(not connection.stopped for connection in self._connections)
        is_full = self.target.outage() is not None
        resting[0].finish(time.monotonic() + self.target.limits.clean_up)
        return count if is_full and self.target.outage() is None else None

    @property
    def exhausts(self) -> bool:
        """Return whether the target got less than it needs."""
        return self.resources is not None and self.resources.were_limited

    def may_end(self, outage: Outage) -> bool:
        """Return whether this outage is allowed, as no allocation could succeed."""
        return self.resources is not None and self.resources.may_end(outage)

    def disturbed(self) -> bool:
        """Return whether somebody else has connected though the test had to be alone."""
        if self._alone_since is None:
            return False
        try:
            total = self._statistics(*_CONNECTIONS)[1]
        except NotTestable:
            return False
        return total != self._alone_since + len(self._connections) + 1

    def _statistics(self, *keys: str) -> list[int]:
        """Return some of the target's statistics; the connection that asks for them is counted."""
        limit = self.target.limits.alive
        try:
            with visit(self.target.address, limit, self.target.traits) as sock:
                stats = yamlish.dictionary(ask(sock, b"stats", limit).body or b"")
                return [int(stats[key]) for key in keys]
        except (OSError, EOFError, ProtocolError, ValueError, KeyError) as error:
            raise NotTestable("needs a server of its own, or stats that show that") from error

    def extra_reply(self) -> Deviation | None:
        """Return the deviation if the target has sent more replies than it owes."""
        found = (connection.extra_reply() for connection in self._connections)
        return next((deviation for deviation in found if deviation), None)

    @property
    def tested(self) -> frozenset[str]:
        """The connections on which a command under test was sent."""
        return frozenset(one.name for one in self._connections if one.has_tested)

    def abandon(self) -> None:
        """End all connections to a target that is lost, without waiting for it."""
        self._let_go()
        for connection in self._connections:
            connection.transport.close()

    def close(self) -> None:
        """End all connections, and delete all jobs that the test has made, if they would stay."""
        self._let_go()
        limit = self.target.limits.clean_up
        end = time.monotonic() + limit
        for connection in self._connections:
            connection.finish(end)
        if (created := self.created) and not self._is_last:
            delete_jobs(self.target, self.generation, created, limit)
        _running.discard(self)

    def _let_go(self) -> None:
        if self.resources is not None:
            self.resources.end()

    @property
    def created(self) -> list[int]:
        """The jobs that the test has made."""
        return sorted(job for connection in self._connections for job in connection.created)
