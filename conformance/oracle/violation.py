"""A violation: the target did something that the model does not allow."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.printable import printable
from conformance.verdict import Outage

NOTHING = "nothing"
"""The observation where no reply comes."""
THE_END = "the end of the connection"
"""The observation where the target ends a connection."""
UNASKED = "no reply without a request"
"""The expectation where nothing is owed."""


class Violation(Exception):
    """The target did what no state allows; ``expected`` is what the states would have given.

    ``mark``: the number that was given to the message that shows it. ``command``: the first word of
    what was answered, empty if that is not known. ``requirement``: the one that is broken, where it
    can be no other.
    """

    def __init__(
        self,
        expected: Sequence[str],
        observed: str,
        mark: int = 0,
        outage: Outage | None = None,
        command: str = "",
        requirement: str = "",
    ) -> None:
        self.expected, self.observed = tuple(map(printable, expected)), printable(observed)
        super().__init__(f"expected {' or '.join(self.expected)}, observed {self.observed}")
        self.mark = mark
        self.outage = outage
        """The outage of the target, if that is the observation."""
        self.command = command
        self.requirement = requirement

    @property
    def kind(self) -> tuple[str, str]:
        """The first words of what was expected and observed: many are alike."""
        return self.expected[0].partition(" ")[0], self.observed.partition(" ")[0]

    @property
    def is_silence(self) -> bool:
        """Tell whether a reply is missing although the target had time to answer."""
        return self.kind[1] == NOTHING

    @property
    def is_end(self) -> bool:
        """Return whether the target has ended a connection."""
        return self.observed.startswith(THE_END)
