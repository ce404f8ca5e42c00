"""Whether a reply of the target is the one that the model gives, as far as the text decides it."""

from __future__ import annotations

from conformance import yamlish
from reference_server.wire import Reply

TOLERANCE = 2
"""Seconds by which ages and times left may differ: they are told in whole seconds, at some time."""
_CLOCKS = {"age", "time-left", "pause-time-left"}
_FREE = {"file"}


def agrees(given: Reply, observed: Reply) -> bool:
    """Whether ``observed`` says what ``given``, the model's reply, says."""
    if given == observed:
        return True
    if given.word != "OK" or observed.word != "OK":
        return False
    mine, theirs = given.body or b"", observed.body or b""
    try:
        if mine.startswith(b"---\n- "):
            return set(yamlish.names(mine)) <= set(yamlish.names(theirs))
        return _same_statistics(yamlish.dictionary(mine), yamlish.dictionary(theirs))
    except ValueError:
        return False


def _same_statistics(mine: dict[str, str], theirs: dict[str, str]) -> bool:
    if not set(mine) <= set(theirs):
        return False
    if "pid" in mine:
        # Those of the server count what other clients do, too.
        return True
    idle = mine.get("state") in ("ready", "buried")
    return all(
        _is_near(value, theirs[key], idle and key == "time-left")
        if key in _CLOCKS
        else value == theirs[key] or key in _FREE
        for key, value in mine.items()
    )


def _is_near(mine: str, theirs: str, free: bool) -> bool:
    try:
        return free or abs(int(mine) - int(theirs)) <= TOLERANCE
    except ValueError:
        return False
