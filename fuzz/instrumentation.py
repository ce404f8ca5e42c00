"""Detects whether a server counts edges as AFL++'s runtime does.

That runtime is in what ``afl-cc``, AFL++'s plugin for gcc and ``cargo afl`` build, and can be
linked to what clang builds with ``-fsanitize-coverage=trace-pc-guard``. On request, it prints how
many counters it has; older ones begin to count.
"""

from __future__ import annotations

import re

from conformance.target.launch import DidNotStart, Launched
from conformance.target.limits import Limits
from fuzz.shared_memory import SharedSegment

CLASSIC = 2**16
"""The number of counters of a server, if its runtime does not print it."""
LARGEST = 2**26
_SIZE = re.compile(r"^[0-9]{1,9}$", re.MULTILINE)


def map_size(command: str, limits: Limits) -> int | None:
    """Return how many counters a server has, None if it has none.

    Raises NoMemory if there can be none here, and LaunchError if the server cannot be run.
    """
    segment = SharedSegment(CLASSIC)
    try:
        environment = {**segment.environment, "AFL_DUMP_MAP_SIZE": "1"}
        with Launched(command, environment, limits=limits):
            return CLASSIC if any(segment.take()) else None
    except DidNotStart as error:
        sizes = _SIZE.findall(error.said)
        return min(int(sizes[-1]), LARGEST) if sizes else None
    finally:
        segment.close()
