"""The blame for a lost target, as far as the messages of the test that lost it show."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence

from conformance.transcript import CLIENT_ENDS, RESTARTS, TARGET_CLOSES, Entry
from conformance.usual_answers import CLOSES, COMES_BACK
from conformance.verdict import Deviation, OutcomeKind


def owner_of_loss(entries: Sequence[Entry], tested: Container[str]) -> str | None:
    """Return the requirement that was broken before the last command; None if none is seen to be.

    The target has closed a connection then: right after the end of another client, or after a
    command under test on one of the connections ``tested`` (empty).
    """
    messages = [one for one in entries if one.direction != "+"]
    last = max((place for place, one in enumerate(messages) if one.direction == ">"), default=0)
    left = {one.connection for one in messages if one.data in CLIENT_ENDS}
    lost = [
        place
        for place, one in enumerate(messages[:last])
        if one.data == TARGET_CLOSES and one.connection not in left
    ]
    if lost and lost[0] > 0 and messages[lost[0] - 1].data in CLIENT_ENDS:
        return CLOSES
    return "" if any(messages[place].connection in tested for place in lost) else None


def suspects_of_loss(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the requirements that a loss may break, besides that of the last command.

    Since its last reply, the target was restarted, or a client left, or time passed before the next
    command: that is a matter of the requirement under test (empty).
    """
    if entries and (entries[-1].direction, entries[-1].data) == ("!", RESTARTS):
        return (COMES_BACK,)
    replied = max((place for place, one in enumerate(entries) if one.direction == "<"), default=0)
    since = entries[replied:]
    if any(one.data in CLIENT_ENDS for one in since):
        return (CLOSES,)
    before = itertools.takewhile(lambda one: one.direction != ">", since)
    return ("",) if any(one.direction == "+" for one in before) else ()


def owner_after(seen: BaseException | None, entries: Sequence[Entry], exhausts: bool) -> str:
    """Return the requirement that a target breaks which ends after a test; empty: the test's own.

    ``seen``: the failure of the test, if it has failed. ``exhausts``: the target got less than it
    needs, which is what the test is about.
    """
    if exhausts:
        return ""
    if isinstance(seen, Deviation) and seen.step.kind is OutcomeKind.NO_REPLY:
        # The command that was not answered may have ended it.
        return seen.owner
    # All else was answered: a restart was the last event, or clients have left.
    return COMES_BACK if COMES_BACK in suspects_of_loss(entries) else CLOSES
