"""The levels and verdicts of requirements, as runs give them and reports show them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args

Level = Literal["must", "de-facto", "hardening", "quirk"]
LEVELS: tuple[Level, ...] = get_args(Level)
SERVER_LEVELS: tuple[Level, ...] = ("must", "de-facto", "quirk")
CLIENT_LEVELS: tuple[Level, ...] = ("must", "de-facto", "hardening")
"""The levels that requirements for servers and for client libraries have."""


class Verdict(StrEnum):
    """The verdict of a requirement: the worst outcome of its tests, in this order.

    Of a quirk it says which variant was seen. What is blocked was not tested, as its test failed
    before it came to that, at what another requirement says that is broken itself. What is not
    offered is what the target leaves out on purpose, as its profile says.
    """

    ERROR = "error"
    FAIL = "fail"
    NON_STRICT = "non-strict"
    FLAKY = "flaky"
    BLOCKED = "blocked"
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"
    SEEN = "seen"
    NOT_TESTABLE = "not testable"
    NOT_OFFERED = "not offered"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"

    @property
    def words(self) -> str:
        """The verdict as people read it; its value is that in files."""
        return "de-facto deviation" if self is Verdict.NON_STRICT else self.value


DEVIATIONS = (Verdict.ERROR, Verdict.FAIL, Verdict.NON_STRICT)
"""Verdicts that a report shows as not met, the error of ours among them."""

OF_OTHERS = (Verdict.NOT_APPLICABLE, Verdict.NOT_OFFERED)
"""Verdicts of requirements that the profile does not have."""
