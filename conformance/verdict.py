"""The outcomes of a test besides passing."""

from __future__ import annotations

from conformance.printable import printable

GOES_ON = "a target that goes on"
"""The expectation that a lost target has not met."""


UNASKED = "no reply without a request"
"""The words in which it is told that a target has sent more replies than it owed."""


class Deviation(AssertionError):
    """The target did what the requirement does not allow.

    ``expected`` and ``observed`` are one line each; ``marked`` is the position in the transcript
    of the message that shows it. ``late``: the only fault is that the reply came so many seconds
    later than allowed.
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
    ) -> None:
        self.expected, self.observed = printable(expected), printable(observed)
        super().__init__(f"expected {self.expected}, observed {self.observed}")
        self.marked = marked
        self.late = late
        self.conclusive = conclusive
        self.waited = waited
        self.begun = begun
        self.due = due
        self.de_facto = False
        """Only what every server does is broken, not what the text says."""
        self.client = ""
        """The letter of the client that got no reply, if that is what was observed."""
        self.unanswered: int | None = None
        """The position of its command in the transcript."""


class TargetLost(Deviation):
    """The target crashed, hung, or is not reachable any more."""

    is_own = False
    """It was a server that was started for this alone: no other test has ended it."""


class _Told(Exception):
    """A reason, which may quote the target."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason))


class NotTestable(_Told):
    """This run lacks the means to test the requirement; the text says which."""


class NotApplicable(_Told):
    """The target's profile does not have the requirement; the text says why."""


class NotOffered(NotApplicable):
    """The target leaves it out on purpose, as the dialect of its profile says."""


class Inconclusive(_Told):
    """The observations do not decide; ``deviation`` is what they look like, if it is one thing."""

    def __init__(self, reason: str, deviation: Deviation | None = None) -> None:
        super().__init__(reason)
        self.deviation = deviation
