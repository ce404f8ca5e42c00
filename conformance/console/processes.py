"""The number of worker processes for a run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from conformance.target.starvation import processors

MOST = 4
"""Processes beyond which the longest tests decide how long a run takes."""
_IS_NO_CHOICE = re.compile("-[vqr].*|-p|no:cacheprovider|--(tb|color|junitxml)=.*")


def processes(arguments: Iterable[str], shared: bool = False) -> int:
    """Return the number of processes for a run with these arguments of pytest.

    It is one if they choose tests or processes. Else each CPU has two: while a test of one waits
    for the server, that of the other runs. It has one if the processes have a server ``shared``
    between them: there, all that waits overlaps in one of them.
    """
    if not all(map(_IS_NO_CHOICE.fullmatch, arguments)):
        return 1
    return min((1 if shared else 2) * len(processors()), MOST)
