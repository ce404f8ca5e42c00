"""The parts of the server that a re-enactment has used.

A fault changes nothing where none of its own code would have run. So most faults need not be
tried, as their methods are not called for the few commands of a finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from conformance.oracle.reenactment import Course, PreparedTranscript, reenacted
from reference_server.events import Event, Output
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.wire import Body, Command, Put, Request, RequestReader


@dataclass(slots=True)
class UsedParts:
    """The names that a model and a reader without a fault were asked for, and what they got."""

    profile: Profile
    model: set[str] = field(default_factory=set)
    reader: set[str] = field(default_factory=set)
    verbs: set[str] = field(default_factory=set)
    lines: dict[bytes, Request] = field(default_factory=dict)

    def meets(self, fault: Fault) -> bool:
        """Return whether a server with a fault might have done anything else."""
        if fault.profile(self.profile) != self.profile:
            return True
        if fault.verb and fault.verb not in self.verbs:
            return False
        if self.model & _own_names(fault.model, Model):
            return True
        names = self.reader & _own_names(fault.reader, RequestReader)
        return bool(names) and (names != {"parse"} or self._reads_otherwise(fault))

    def _reads_otherwise(self, fault: Fault) -> bool:
        reader = fault.reader(self.profile)
        return any(reader.parse(line) != request for line, request in self.lines.items())


def traced(recording: PreparedTranscript, profile: Profile) -> tuple[Course, UsedParts]:
    """Return how a recording goes on with a server that has no fault, and what that has used."""
    found = UsedParts(profile)

    class Traced(Model):
        def __getattribute__(self, name: str) -> Any:
            found.model.add(name)
            return super().__getattribute__(name)

        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            if isinstance(event, Command):
                found.verbs.add(event.verb)
            elif isinstance(event, Put | Body):
                found.verbs.add("put")
            return super().step(event, now, conn)

    class TracedReader(RequestReader):
        def __getattribute__(self, name: str) -> Any:
            found.reader.add(name)
            return super().__getattribute__(name)

        def parse(self, line: bytes) -> Request:
            found.lines[line] = request = super().parse(line)
            return request

    fault = Fault("", "traced", model=Traced, reader=TracedReader)
    course = reenacted(fault, recording, profile)
    # Nobody asks for the way in which they are made.
    found.model.add("__init__")
    found.reader.add("__init__")
    return course, found


def _own_names(cls: type, base: type) -> set[str]:
    """Return the names that a class, or one between it and its base, defines."""
    added = [between for between in cls.__mro__ if between not in base.__mro__]
    return {name for between in added for name in vars(between)}
