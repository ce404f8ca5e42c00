"""A server that conforms and yet is not like beanstalkd, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from reference_server.fault import Fault
from reference_server.serve import Server


@dataclass(frozen=True, slots=True)
class Variant(Fault):
    """What is different: the model, the codec, the profile, or (``server``) how bytes travel.

    ``non_strict``: the requirements in which it is not like any beanstalkd, all of them de-facto.
    """

    requirement: str = field(default="", init=False)
    """It breaks none."""
    server: type[Server] = Server
    non_strict: frozenset[str] = frozenset()
    slow: bool = False
    """The suite takes minutes, and more where its tests do not overlap."""


RANDOM = (
    *("protocol.any-bytes", "protocol.any-conversation", "protocol.any-program"),
    "protocol.any-transition",
)
"""What shows whatever else is not as with beanstalkd."""


def non_strict(*slugs: str) -> frozenset[str]:
    """Return those requirements, and, if there are any, those that show anything."""
    return frozenset((*slugs, *RANDOM) if slugs else ())
