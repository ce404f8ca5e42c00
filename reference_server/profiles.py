"""The versions of the protocol, as data, one beside the other.

A profile says what a client can see of a version of beanstalkd: limits, reply shapes and how
strictly arguments are read. The wire codec and the model ask it; they never compare versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Profile:
    """One version of the protocol.

    ``max_line`` is in bytes, CR LF included; ``max_name`` in bytes; ``max_job_size`` is the
    default limit of a body in bytes. ``timeout_argument`` says how reserve-with-timeout reads its
    number: ``"lenient"`` as C's strtol does, negative waits for ever; ``"strict"`` refuses what
    does not start with digits or exceeds 2**31-1. ``yaml_quotes``: strings in stats are quoted.
    """

    name: str
    version: str
    timeout_argument: Literal["lenient", "strict"]
    yaml_quotes: bool
    max_line: int = 224
    max_name: int = 200
    max_job_size: int = 65535

    def is_of(self, version: str) -> bool:
        """Whether a server of this ``version``, as its stats have it, speaks it."""
        rest = version.removeprefix(self.name)
        return rest != version and not rest[:1].isdigit()


V1_12 = Profile("1.12", version="1.12", timeout_argument="lenient", yaml_quotes=False)
V1_13 = replace(V1_12, name="1.13", version="1.13", timeout_argument="strict", yaml_quotes=True)

STAGES = ("0.6", "1.4", "1.10", "1.12", "1.13")
"""The stages of the protocol that the documents describe, oldest first."""

PROFILES: dict[str, Profile] = {p.name: p for p in (V1_12, V1_13)}
"""The profiles that there are, oldest first."""

NEWEST = V1_13


def profile_of_version(version: str) -> Profile:
    """The profile for the ``version`` that a server gives in stats; the newest if unknown."""
    return next((profile for profile in PROFILES.values() if profile.is_of(version)), NEWEST)
