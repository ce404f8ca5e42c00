"""The table of workloads: what grows, how a server gets there, and what is measured then.

A step is a line that is sent many times at once, before its replies are read. It may have

- ``{pri}``: the priority of the job, ``{scattered}``: one that differs from job to job;
- ``{delay}``: days that differ from job to job;
- ``{job}``: the id of each job that the last put, reserve or peek of this cycle has returned;
- ``{old}``: the id of a job that was there before, a different one each time;
- ``{tube}``: the tube in use, ``{old tube}``: one that was there before, ``{new tube}``: another.

``A & B`` are two lines for each time. A step in parentheses only prepares the next one, and is not
measured. ``name = step`` names it, by default after its first word. ``served:`` begins a step of
the clients that were waiting and have got a job.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Self


class Growth(StrEnum):
    """The things that grow."""

    READY = "ready jobs"
    DELAYED = "delayed jobs"
    BURIED = "buried jobs"
    RESERVED = "reserved jobs"
    TUBES = "tubes"
    WATCHED = "watched tubes"
    IDLE = "idle connections"
    WAITING = "waiting connections"
    TIMED = "connections waiting with a timeout"
    BODY = "bytes of a body"
    PAST = "past jobs"


class CycleStep(NamedTuple):
    """A step of a cycle; ``lines`` are sent for each time that it is taken."""

    name: str
    lines: tuple[str, ...]
    is_measured: bool = True
    is_of_served: bool = False

    @classmethod
    def parse(cls, text: str, is_measured: bool) -> Self:
        """Read a step as the table has it, without parentheses."""
        name, equals, rest = text.partition(" = ")
        line = rest if equals else text
        lines = tuple(line.removeprefix(_SERVED).split(" & "))
        verb = lines[0].split()[0]
        return cls(name if equals else verb, lines, is_measured, line.startswith(_SERVED))

    @property
    def verbs(self) -> list[str]:
        """The first words of its lines."""
        return [line.split()[0] for line in self.lines]


_SERVED = "served: "


class Population(NamedTuple):
    """One thing that grows, and how: ``steps`` make one more; ``largest``: how many at most.

    ``shared``: how many on somebody else's server. ``connects``: each is a connection of its own,
    which takes the steps and gets no reply.
    """

    largest: int
    shared: int
    steps: str
    connects: bool = False

    @property
    def parsed(self) -> tuple[CycleStep, ...]:
        """The steps that make one more."""
        return cycle(self.steps)


LOG, LINEAR = 0.0, 1.0
"""Exponents that are to be expected; that of a logarithm is near to 0."""


class Workload(NamedTuple):
    """A row: what grows, the cycle that is measured, and the exponent to be expected."""

    grows: Growth
    cycle: str
    expected: float = LOG

    @property
    def steps(self) -> tuple[CycleStep, ...]:
        """The steps of the cycle."""
        return cycle(self.cycle)


def cycle(text: str) -> tuple[CycleStep, ...]:
    """Return the steps of a text of the table; parentheses go around one or more of them."""
    steps, is_measured = [], True
    for part in filter(None, map(str.strip, text.split(";"))):
        is_measured = is_measured and not part.startswith("(")
        steps.append(CycleStep.parse(part.strip("()"), is_measured))
        is_measured = is_measured or part.endswith(")")
    return tuple(steps)


_PUT, _RELEASE = "put {pri} 0 360000", "release {job} {pri} 0"

POPULATIONS = {
    Growth.READY: Population(10**6, 10**4, "put {scattered} 0 360000"),
    Growth.DELAYED: Population(10**6, 10**4, "put {scattered} {delay} 360000"),
    Growth.BURIED: Population(10**6, 10**4, f"{_PUT}; reserve; bury {{job}} {{pri}}"),
    Growth.RESERVED: Population(10**6, 10**4, "put {scattered} 0 360000; reserve"),
    Growth.TUBES: Population(10**5, 10**3, f"use {{new tube}} & {_PUT}"),
    Growth.WATCHED: Population(10**5, 10**3, "watch {new tube}"),
    Growth.IDLE: Population(10**4, 100, "", connects=True),
    Growth.WAITING: Population(10**4, 100, "reserve", connects=True),
    Growth.TIMED: Population(10**4, 100, "reserve-with-timeout 360000", connects=True),
    Growth.BODY: Population(10**5 // 2, 10**5 // 2, ""),
    Growth.PAST: Population(10**6, 10**4, f"{_PUT}; delete {{job}}"),
}
"""All things that grow, in the order in which they are measured."""

_BRIEF_BEGIN = f"{_PUT}; reserve"
_ANSWERED = "delete = served: delete {job}"

WORKLOADS = (
    Workload(Growth.READY, "put {scattered} 0 360000; delete {job}"),
    Workload(Growth.READY, f"reserve; {_RELEASE}"),
    Workload(Growth.READY, "(reserve); touch {job}; bury {job} {pri}; kick-job {job}"),
    Workload(Growth.READY, f"reserve-job {{old}}; ({_RELEASE})"),
    Workload(Growth.READY, "peek {old}; peek-ready; stats-job {old}; stats-tube {tube}; stats"),
    Workload(Growth.DELAYED, "put = put {pri} {delay} 360000; delete {job}"),
    Workload(Growth.DELAYED, "(put {pri} {delay} 360000); kick-job {job}; (delete {job})"),
    Workload(Growth.DELAYED, f"({_BRIEF_BEGIN}); release {{job}} {{pri}} 300000; (delete {{job}})"),
    Workload(Growth.DELAYED, f"put ready = {_PUT}; reserve; delete reserved = delete {{job}}"),
    Workload(Growth.DELAYED, "peek-delayed; stats-tube {tube}; stats"),
    Workload(Growth.BURIED, f"({_BRIEF_BEGIN}); bury {{job}} {{pri}}; delete {{job}}"),
    Workload(Growth.BURIED, "kick 1; (reserve; bury {job} {pri})"),
    Workload(Growth.BURIED, "kick-job {old}; (reserve; bury {job} {pri})"),
    Workload(Growth.BURIED, "peek-buried; stats-tube {tube}; stats"),
    Workload(Growth.RESERVED, f"put = {_PUT}; reserve; touch {{job}}; delete {{job}}"),
    Workload(Growth.RESERVED, f"({_BRIEF_BEGIN}); {_RELEASE}; (reserve; delete {{job}})"),
    Workload(Growth.RESERVED, f"({_BRIEF_BEGIN}); bury {{job}} {{pri}}; (delete {{job}})"),
    Workload(Growth.RESERVED, "peek {old}; stats-job {old}; stats-tube {tube}; stats"),
    Workload(Growth.TUBES, f"{_PUT}; reserve; delete {{job}}"),
    Workload(Growth.TUBES, "use = use {new tube}; (use {tube})"),
    Workload(Growth.TUBES, "watch {new tube}; ignore {new tube}"),
    Workload(Growth.TUBES, "use old = use {old tube}; (use {tube}); stats-tube {old tube}"),
    Workload(Growth.TUBES, "pause-tube {old tube} 0; list-tube-used"),
    Workload(Growth.TUBES, "list-tubes; stats", expected=LINEAR),
    Workload(Growth.WATCHED, f"{_PUT}; reserve; delete {{job}}"),
    Workload(Growth.WATCHED, "reserve in vain = reserve-with-timeout 0"),
    Workload(Growth.WATCHED, "watch {new tube}; ignore {new tube}; watch again = watch {old tube}"),
    Workload(Growth.WATCHED, "list-tubes-watched", expected=LINEAR),
    Workload(Growth.IDLE, f"{_PUT}; reserve; delete {{job}}; list-tube-used"),
    Workload(Growth.IDLE, "connect; stats"),
    Workload(Growth.WAITING, f"{_PUT}; {_ANSWERED}; (served: reserve)"),
    Workload(Growth.WAITING, "stats-tube {tube}; stats; connect"),
    Workload(Growth.TIMED, f"{_PUT}; {_ANSWERED}; (served: reserve-with-timeout 360000)"),
    Workload(Growth.TIMED, "stats-tube {tube}; connect"),
    Workload(Growth.BODY, f"{_PUT}; peek {{job}}; reserve; delete {{job}}", expected=LINEAR),
    Workload(Growth.PAST, f"{_PUT}; reserve; delete {{job}}"),
    Workload(Growth.PAST, "stats; stats-tube {tube}; connect"),
)
"""All that is measured."""
