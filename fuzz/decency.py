"""The steps of varied programs that can be judged: it is known what a server does with them."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.oracle.underspecification import Lines
from conformance.random_testing.steps import Ask, Program, Step
from reference_server.commands import U64
from reference_server.profiles import Profile
from reference_server.wire import Command

_QUIT = Command("quit")
_AT_ONCE = 8
"""Commands, at most, that are on their way when another client asks for more in haste.

The orders in which they may be handled are more and more.
"""


def decent(program: Program, profile: Profile) -> list[Step]:
    """Return the steps of a program that can be judged, whatever the others are."""
    steps = [step for step in program if not isinstance(step, Ask) or _is_decent(step, profile)]
    return [*_with_little_haste(steps)]


def _with_little_haste(program: Program) -> Iterator[Step]:
    """Yield the steps, each in haste only if few commands are still to be answered."""
    asked, client = 0, None
    for step in program:
        if not isinstance(step, Ask):
            asked, client = 0, None
            yield step
            continue
        is_hasty = step.hasty and asked < _AT_ONCE
        if not is_hasty and (step.apart or step.client != client):
            asked = 0
        asked, client = asked + 1, step.client
        yield step._replace(hasty=is_hasty)


def _is_decent(ask: Ask, profile: Profile) -> bool:
    """Return whether a client says whole lines, with answers that a text or a decision tells.

    With what is sent at once with quit, replies to what came before it may get lost.
    """
    # Ids have up to 20 digits.
    texts = (ask.text,) if ask.job is None else (ask.text % 1, ask.text % U64)
    for text in texts:
        reader = Lines(profile)
        reader.read(text)
        if reader.is_quirk or not reader.is_complete:
            return False
        if None in reader.lines or _QUIT in reader.requests:
            return False
    return True
