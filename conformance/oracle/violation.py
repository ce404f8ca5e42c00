"""The violation: a target did something that the model does not allow."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.printable import printable


class Violation(Exception):
    """The target did what no state allows; ``expected`` is what the states would have given.

    ``mark``: the number that was given to the message that shows it.
    """

    def __init__(self, expected: Sequence[str], observed: str, mark: int = 0) -> None:
        self.expected, self.observed = tuple(map(printable, expected)), printable(observed)
        super().__init__(f"expected {' or '.join(self.expected)}, observed {self.observed}")
        self.mark = mark

    @property
    def kind(self) -> tuple[str, str]:
        """The first words of what was expected and observed: many are alike."""
        return self.expected[0].partition(" ")[0], self.observed.partition(" ")[0]

    @property
    def is_silence(self) -> bool:
        """Return whether nothing has come though the target has had all the time to answer."""
        return self.observed == "nothing"

    @property
    def is_end(self) -> bool:
        """Return whether the target has ended a connection."""
        return self.observed.startswith("the end of the connection")
