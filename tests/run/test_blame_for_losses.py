"""The blame for a lost target: what was tested, a client that left, or the last command."""

from __future__ import annotations

import pytest

from conformance.reading import parse
from conformance.run.blame_for_losses import owner_of_loss, suspects_of_loss
from conformance.usual_answers import CLOSES

SET_UP = "A > use a\\r\\n\nA < USING a\\r\\n\n"


@pytest.mark.parametrize(
    ("messages", "owner"),
    [
        # It is lost at the last command.
        ("B > kick 1\\r\\n\nB ! closed by the target\n", None),
        # It was lost when another client left.
        ("B ! resets\nA ! closed by the target\nA > stats\\r\\n\n", CLOSES),
        # It was lost after a command under test, and the next one shows it.
        ("A > kick 1\\r\\n\nA ! closed by the target\nB > stats\\r\\n\n", ""),
        # Nothing was tested on the connection that it has closed.
        ("B > kick 1\\r\\n\nB ! closed by the target\nA > stats\\r\\n\n", None),
        # A client that has half-closed is hung up on, as it should be.
        ("A ! half-closes\nA ! closed by the target\nB > stats\\r\\n\n", None),
    ],
)
def test_who_has_lost_a_target_before_the_last_command(messages: str, owner: str | None) -> None:
    assert owner_of_loss(parse(SET_UP + messages).entries, {"A"}) == owner


@pytest.mark.parametrize(
    ("messages", "suspects"),
    [
        ("A > stats\\r\\n\n", ()),
        ("+ 2s\nA > stats\\r\\n\n", ("",)),
        # It was waited for.
        ("A > stats\\r\\n\n+ 5s\n", ()),
        ("B ! closes\n+ 2s\nA > stats\\r\\n\n", (CLOSES,)),
        ("B ! closes\n! restarts\n", ("persistence.put",)),
        # It has answered since.
        ("B ! closes\nA > use a\\r\\n\nA < USING a\\r\\n\nA > stats\\r\\n\n", ()),
    ],
)
def test_who_may_have_lost_a_target_since_its_last_reply(
    messages: str, suspects: tuple[str, ...]
) -> None:
    assert suspects_of_loss(parse(SET_UP + messages).entries) == suspects
