"""The outcomes of a test other than passing.

An outcome is data: what kind of thing went wrong, at which command, what should have come and what
came. Grouping, blocking and excuses read these fields. Its two sentences are for
people; nothing reads them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from conformance.printable import printable
from conformance.transcript import Transcript


class OutcomeKind(StrEnum):
    """The kind of a deviation."""

    NO_REPLY = "no reply"
    WRONG_REPLY = "wrong reply"
    EXTRA_REPLY = "extra reply"
    NOT_A_REPLY = "not a reply"
    DISCONNECTED = "disconnected"
    NOT_DISCONNECTED = "not disconnected"
    TOO_EARLY = "too early"
    TOO_LATE = "too late"
    WRONG_VALUE = "wrong value"
    CRASHED = "crashed"
    HANGS = "hangs"
    GONE = "gone"

    @property
    def is_loss(self) -> bool:
        """Tell whether the target serves nobody any more."""
        return self in (OutcomeKind.CRASHED, OutcomeKind.HANGS, OutcomeKind.GONE)


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage of the target: it crashed, hangs, or is gone.

    ``signal``: the number of the signal that has ended its process; 0 if that is not known.
    """

    kind: OutcomeKind
    how: str
    signal: int = 0
    more: str = ""
    """The rest of the sentence, if there is more to say."""

    def __str__(self) -> str:
        match self.kind:
            case OutcomeKind.CRASHED:
                sentence = f"the target crashed: {self.how}"
            case OutcomeKind.HANGS:
                sentence = f"the target hangs: {self.how}"
            case _:
                sentence = f"the target is gone: {self.how}"
        return sentence + self.more


GOES_ON = "a target that goes on"
"""The expectation that a lost target has not met."""


@dataclass(frozen=True, slots=True)
class Step:
    """The exchange at which a test has deviated.

    ``command``: the first word of what was sent, empty if there was none. ``words``: the first
    words of the replies that were expected. ``came``: that of the reply that came. ``subject``:
    what a wrong value was about, such as a key of statistics or an assertion of a test.
    """

    kind: OutcomeKind
    command: str = ""
    words: tuple[str, ...] = ()
    came: str = ""
    subject: str = ""


WRONG_VALUE = Step(OutcomeKind.WRONG_VALUE)


class Deviation(AssertionError):
    """The target did what the requirement does not allow.

    ``expected`` and ``observed`` are one line each, for people; ``step`` is the same as data.
    ``marked`` is the position in the transcript of the message that shows it. ``late``: the only
    fault is that the reply came so many seconds later than allowed.
    ``conclusive``: it is so however far the scenario has fallen behind its schedule. ``waited``:
    the seconds of real time that were spent on waiting for what did not come. ``begun``: the mark
    of the wait that it is about, None if that is all of the scenario; ``due``: of its end.
    """

    def __init__(
        self,
        expected: str,
        observed: str,
        marked: int | None = None,
        late: float = 0.0,
        conclusive: bool = False,
        waited: float = 0.0,
        begun: float | None = None,
        due: float | None = None,
        step: Step = WRONG_VALUE,
    ) -> None:
        self.expected, self.observed = printable(expected), printable(observed)
        super().__init__(f"expected {self.expected}, observed {self.observed}")
        self.marked = marked
        self.late = late
        self.conclusive = conclusive
        self.waited = waited
        self.begun = begun
        self.due = due
        self.step = step
        self.de_facto = False
        """Only what every server does is broken, not what the text says."""
        self.owner = ""
        """The requirement that is broken, by slug; empty if it is the one under test."""
        self.suspects: tuple[str, ...] = ()
        """The requirements that may explain it better than the owner, by slug: see ``Blame``."""
        self.whole: tuple[Transcript, int] | None = None
        """All messages of concurrent clients, if the transcript shows only some; and ``marked``."""
        self.client = ""
        """The letter of the client that got no reply, if that is what was observed."""
        self.unanswered: int | None = None
        """The position of its command in the transcript."""


class TargetLost(Deviation):
    """The target crashed, hung, or is not reachable any more: ``outage`` says which."""

    is_own = False
    """It was a server that was started for this alone: no other test has ended it."""

    def __init__(
        self, expected: str, outage: Outage, marked: int | None = None, command: str = ""
    ) -> None:
        step = Step(outage.kind, command)
        super().__init__(expected, str(outage), marked, conclusive=True, step=step)
        self.outage = outage


class _Reason(Exception):
    """A reason, which may quote the target."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason))


class NotTestable(_Reason):
    """This run lacks the means to test the requirement; the text says which."""


class NotApplicable(_Reason):
    """The target's profile does not have the requirement; the text says why."""


class NotOffered(NotApplicable):
    """The target leaves it out on purpose, as the dialect of its profile says."""


class Inconclusive(_Reason):
    """The observations do not decide; ``deviation`` is what they look like, if it is one thing."""

    def __init__(self, reason: str, deviation: Deviation | None = None) -> None:
        super().__init__(reason)
        self.deviation = deviation
