"""The knowledge of a target that was gathered while it was tested."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.target.silences import AN_END, FEWER, Silences
from conformance.target.transport import Transport
from reference_server.profiles import NEWEST, Profile

SURE = 4.0
"""Seconds in which a connection has ended, or its end is ignored: a busy machine may take long."""
DEAF = 5
"""Times that an end was waited for in vain, from which on others are not waited for even less."""
BRIEF = 0.01
"""Seconds for the end of a connection where ends have been ignored."""


@dataclass(slots=True)
class Learnt:
    """The knowledge of a target that holds for any other of its kind."""

    profile: Profile = NEWEST
    counts_nothing: bool = False
    """Its statistics have been asked for again and again, and did not count that."""
    keeps_tubes: bool = False
    """A tube that nothing keeps was still there when it had been waited for."""
    clock_follows: bool = False
    """Its clock can be moved, as was tried."""
    pipelines: bool = True
    """It answers commands that arrive together, as it must; else it gets one at a time."""
    missed_ends: int = 0
    """The times that the end of a connection was waited for in vain, as far as they count."""
    known: bytes | None = None
    """A line that it answers, if it hangs up or is silent at the usual ones."""
    max_job_size: int | None = None
    """The largest body that it takes, as far as it has told."""
    reported: set[str] = field(default_factory=set)
    """The kinds of reports of sanitizers that were told already."""
    gave_up: set[str] = field(default_factory=set)
    """The reasons for which no allocation is refused to it any more."""
    silences: Silences = field(default_factory=Silences)
    """The replies that it was waited for in vain."""

    def hang_up(self, transport: Transport, seconds: float) -> None:
        """Close a connection, and wait until the target has done so, if it does that at all."""
        has_come = transport.hang_up(self.until_end(seconds))
        self.saw_end(has_come, seconds, is_sure=transport.floods or seconds > SURE)

    def until_end(self, seconds: float) -> float:
        """Return how many of so many seconds the end of a connection is waited for."""
        if self.silences.ignores_ends:
            return BRIEF
        shorter = seconds / float(FEWER) ** self.missed_ends
        return min(max(shorter, BRIEF), seconds)

    def missed_end(self, seconds: float, is_sure: bool) -> None:
        """Note that an end has not come in so many seconds; ``is_sure``: it was not only late."""
        self.silences.ignores_ends = True
        self.missed_ends = min(self.missed_ends + (is_sure and seconds >= BRIEF), DEAF)

    def saw_end(self, has_come: bool, seconds: float, is_sure: bool) -> None:
        """Note whether an end has come that was waited for; ``is_sure``: else it never comes."""
        if has_come:
            self.silences.ignores_ends = False
            self.silences.saw_end()
        elif is_sure and not self.silences.ignores_ends:
            self.silences.note(AN_END, seconds)
            self.silences.ignores_ends = True
            # On a busy machine, it may only have been late.
            self.missed_ends = max(self.missed_ends, 1)
