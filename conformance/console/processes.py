"""The number of worker processes for a run on a server that we start."""

from __future__ import annotations

import re
from collections.abc import Iterable

from conformance.target.starvation import processors

MOST = 4
"""Processes beyond which the longest tests decide how long a run takes."""
_IS_NO_CHOICE = re.compile("-[vqr].*|-p|no:cacheprovider|--(tb|color|junitxml)=.*")


def processes(arguments: Iterable[str], quick: bool) -> int:
    """Return the number of processes for a run with these arguments of pytest.

    It is one if they choose tests or processes. Else each CPU has two: while a test of one waits
    for the server, that of the other runs. The tests of a quick run hardly wait: then, one more
    than there are CPUs costs least.
    """
    if not all(map(_IS_NO_CHOICE.fullmatch, arguments)):
        return 1
    cpus = len(processors())
    return min(cpus + 1 if quick else 2 * cpus, MOST)
