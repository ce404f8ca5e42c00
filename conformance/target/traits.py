"""The traits of a target, measured by the survey before the first test.

They are one frozen value, which all processes, replays and campaigns share. Tests learn nothing
about the target afterwards, so that their order makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.transcript import Transcript
from conformance.usual_answers import usual_answer
from conformance.verdict import Deviation, Outage, OutcomeKind, Step, TargetLost
from reference_server.profiles import LIST_TUBE_USED, NEWEST, Profile
from reference_server.wire import UNKNOWN_COMMAND


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a step of the survey, and the bytes that prove it.

    ``said``: the output of the target, if it is one that we have started.
    """

    step: Step
    expected: str
    observed: str
    transcript: Transcript
    outage: Outage | None = None
    said: str = ""

    def deviation(self, owner: str) -> Deviation:
        """Return it as the failure of a test; ``owner`` is the requirement that is broken."""
        if self.outage is not None:
            deviation: Deviation = TargetLost(self.expected, self.outage, command=self.step.command)
        else:
            deviation = Deviation(self.expected, self.observed, conclusive=True, step=self.step)
        deviation.marked = self.transcript.last if self.transcript.entries else None
        deviation.owner = owner
        return deviation


class Unusable(Exception):
    """A test needs what the survey has shown not to work; ``owner`` is the broken requirement.

    It is no Deviation: a test that looks for those would take it for one of its own.
    """

    def __init__(self, failure: Failure, owner: str) -> None:
        super().__init__(failure.observed)
        self.failure = failure
        self.owner = owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The traits of a target before its tests; the defaults are those of a faultless server.

    ``sync_line``: a line that changes nothing and is answered. ``neutral_line``: the same line, if
    it is one of :data:`NEUTRAL` and answered as it must be; None for the usual one. ``max_body``:
    the largest body that it takes, in bytes; None if it takes all that were tried. ``latencies``:
    the slowest reply to each command, in seconds. ``one_client``: it serves only one client at a
    time. ``rests``: it uses no CPU while nobody sends anything, as far as we see its process.
    ``unusable``: the commands that it does not answer as it should, not even where nothing is
    special.
    ``defect``: it does not outlive its first client, or the like, so that nothing can be tested;
    ``defective`` is the requirement that this breaks.
    """

    profile: Profile = NEWEST
    sync_line: bytes = LIST_TUBE_USED
    neutral_line: bytes | None = None
    one_client: Failure | None = None
    pipelines: bool = True
    ends_connections: bool = True
    ends_waiting: bool = True
    renews_stats: bool = True
    keeps_tubes: bool = False
    rests: bool = True
    clock_follows: bool = False
    max_body: int | None = None
    latencies: Mapping[str, float] = field(default_factory=dict)
    unusable: Mapping[str, Failure] = field(default_factory=dict)
    defect: Failure | None = None
    defective: str = ""

    @property
    def has_tubes(self) -> bool:
        """Tell whether clients can keep their jobs apart by tubes."""
        return self.profile.has_tubes and self.unusable.keys().isdisjoint(TUBE_COMMANDS)

    @property
    def has_timeouts(self) -> bool:
        """Tell whether a client can wait for a job for a limited time."""
        return self.profile.has_timeouts and "reserve-with-timeout" not in self.unusable

    @property
    def unknown(self) -> frozenset[str]:
        """The commands to which the target answers that it does not know them."""
        return frozenset(
            verb
            for verb, failure in self.unusable.items()
            if failure.step.came == UNKNOWN_COMMAND.word
        )

    def slowest(self, command: str = "") -> float:
        """Return the slowest reply to a command, or to any, in seconds."""
        if command:
            return self.latencies.get(command, 0.0)
        return max(self.latencies.values(), default=0.0)

    def needs(self, command: str) -> None:
        """Raise Unusable if this command does not work."""
        failure = self.unusable.get(command)
        if failure is not None and (owner := usual_answer(command, self.profile)):
            raise Unusable(failure, owner)

    def commands_in_words(self) -> str:
        """Return which commands do not work, by what is wrong with them; empty if all do."""
        if not self.unusable:
            return ""
        count = len(self.profile.commands)
        verbs: dict[str, list[str]] = {
            _UNKNOWN: [],
            **{what: [] for what in _WITHOUT_REPLY.values()},
        }
        for verb, failure in self.unusable.items():
            verbs.setdefault(answer_of(failure), []).append(verb)
        lists = [f"{what}: {', '.join(found)}" for what, found in verbs.items() if found]
        return "; ".join([f"{count - len(self.unusable)} of {count} work", *lists])

    def in_words(self) -> list[str]:
        """Return what is unusual, a line each."""
        lines = [f"{verb}: {failure.observed}" for verb, failure in self.unusable.items()]
        if self.one_client is not None:
            lines.append("one client at a time")
        if not self.pipelines:
            lines.append("one command at a time, as it drops what follows")
        if not self.ends_connections:
            lines.append("does not end a connection that its client has half-closed")
        if self.keeps_tubes:
            lines.append("keeps tubes that nothing refers to")
        if not self.rests:
            lines.append("uses a CPU all the time, though nobody sends anything")
        if not self.renews_stats:
            lines.append("stats do not count the stats command")
        if self.sync_line != LIST_TUBE_USED:
            lines.append(f"synchronised by {self.sync_line.decode()}")
        if slow := [verb for verb, seconds in self.latencies.items() if seconds > SLOW]:
            lines.append(f"slow: {', '.join(f'{v} {self.latencies[v]:.2f} s' for v in slow)}")
        return lines


def answer_of(failure: Failure) -> str:
    """Return in words how a command that does not work is answered."""
    if failure.step.came == UNKNOWN_COMMAND.word:
        return _UNKNOWN
    return _WITHOUT_REPLY.get(failure.step.kind, "wrong reply")


_UNKNOWN = "unknown"
_WITHOUT_REPLY = {
    OutcomeKind.NO_REPLY: "no reply",
    OutcomeKind.NOT_DISCONNECTED: "no reply",
    OutcomeKind.DISCONNECTED: "disconnected",
}
TUBE_COMMANDS = ("use", "watch", "ignore")
"""The commands by which a client gets a tube of its own."""
SLOW = 0.5
"""Seconds from which on a reply is called slow."""
