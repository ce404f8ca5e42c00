"""The steps of varied programs whose effect on a server is known, so that they can be judged."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.oracle.underspecification import Lines
from conformance.random_testing.steps import Ask, Program, Step
from fuzz.scout import begins_turn
from reference_server.commands import U64
from reference_server.profiles import Profile
from reference_server.wire import Command

_QUIT = Command("quit")
_AT_ONCE = 8
"""Commands, at most, that are on their way when another client asks for more in haste.

The orders in which they may be handled are more and more.
"""


def judgeable(program: Program, profile: Profile) -> list[Step]:
    """Return the steps of a program that can be judged, whatever the others are."""
    steps = [step for step in program if not isinstance(step, Ask) or _is_judgeable(step, profile)]
    return [*_with_little_haste(steps)]


def _with_little_haste(program: Program) -> Iterator[Step]:
    """Yield the steps, each in haste only if few commands are still to be answered."""
    asked, before = 0, None
    for step in program:
        if isinstance(step, Ask) and asked >= _AT_ONCE:
            step = step._replace(hasty=False)
        if before is None or begins_turn(step, before):
            asked = 0
        asked, before = asked + 1, step
        yield step


def _is_judgeable(ask: Ask, profile: Profile) -> bool:
    """Return whether a client says whole lines, with answers that a text or a decision defines.

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
