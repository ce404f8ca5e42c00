"""The number of processes that share a whole run on a server that we start."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from conformance.run.options import Options
from conformance.target.command import LaunchError
from conformance.usage import refuse

MOST = 4
"""Processes beyond which the longest tests decide how long a run takes."""
_IS_NO_CHOICE = re.compile("-[vqr].*|-p|no:cacheprovider|--(tb|color|junitxml)=.*")


def processes(options: Options, arguments: Sequence[str]) -> int:
    """Return the number of processes for a run with these arguments of pytest.

    It is one if they choose tests or processes, or if two of the servers cannot run together. If
    not even one can, that is refused.
    """
    count = min(len(os.sched_getaffinity(0)), MOST)
    if count == 1 or not all(map(_IS_NO_CHOICE.fullmatch, arguments)):
        return 1
    try:
        server = options.launched()
    except LaunchError as error:
        raise refuse(str(error)) from None
    with server:
        try:
            options.launched().end()
        except LaunchError:
            return 1
    return count
