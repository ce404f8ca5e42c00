"""The choices of the model: the oracle follows each of them, whichever command has asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from conformance.oracle.check import check
from conformance.oracle.states import Undecided
from conformance.random_testing.exploration import Exploration
from conformance.reading import parse
from conformance.target.builtin import BuiltIn
from fuzz.campaign import ProgramCampaign
from fuzz.player import second_gear
from reference_server import model
from reference_server.commands import COMMANDS
from reference_server.events import Connected
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.wire import Body, Command, Put, Reply, escape, lines
from tests.parts import sample

ALIASES = {"peek-soonest": "peek-delayed", "wake": "kick", "wake-job": "kick-job"}
"""Commands that no table of the oracle names, and those whose methods they call."""
TWO_DELAYS = r"""
A > put 0 1 60 1\r\na\r\nput 0 1 60 1\r\nb\r\n
A < INSERTED 1\r\n
A < INSERTED 2\r\n
"""
TWO_WAIT = r"""
A > put 0 9 60 1\r\na\r\n
A < INSERTED 1\r\n
B > reserve\r\n
C > reserve\r\n
D > list-tubes\r\n
D < OK 14\r\n---\n- default\n\r\n
"""


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> Iterator[Profile]:
    """Yield the newest profile, and the aliases."""
    for alias, verb in ALIASES.items():
        monkeypatch.setitem(model._METHODS, alias, model._METHODS[verb])
        monkeypatch.setitem(COMMANDS, alias, COMMANDS[verb]._replace(verb=alias))
    yield replace(NEWEST, commands=NEWEST.commands.union(ALIASES))
    lines._words.cache_clear()


@pytest.mark.parametrize("command", ["peek-delayed", "peek-soonest"])
@pytest.mark.parametrize("told", [r"FOUND 1 1\r\na", r"FOUND 2 1\r\nb"])
def test_of_delays_that_end_together_any_may_be_first(
    extended: Profile, command: str, told: str
) -> None:
    text = rf"{TWO_DELAYS}A > {command}\r\n" + "\n" + rf"A < {told}\r\n"
    assert check(parse(text), extended) is None


@pytest.mark.parametrize("command", ["kick", "wake"])
@pytest.mark.parametrize(("told", "allowed"), [(1, True), (2, True), (3, False)])
def test_what_was_chosen_may_show_later(
    extended: Profile, command: str, told: int, allowed: bool
) -> None:
    text = rf"""{TWO_DELAYS}
A > {command} 1\r\n
A < KICKED 1\r\n
A > peek-ready\r\n
A < FOUND {told} 1\r\n{"ab"[told % 2 == 0]}\r\n
"""
    assert (check(parse(text), extended) is None) is allowed


@pytest.mark.parametrize("command", ["kick-job", "wake-job"])
@pytest.mark.parametrize("served", "BC")
def test_any_client_that_waits_may_be_served(extended: Profile, command: str, served: str) -> None:
    text = rf"""{TWO_WAIT}
A > {command} 1\r\n
A < KICKED\r\n
{served} < RESERVED 1 1\r\na\r\n
"""
    assert check(parse(text), extended) is None


@pytest.mark.parametrize(
    "profile", sample([*reversed(PROFILES.values())], len(PROFILES), lambda it: it.name)
)
def test_the_hints_name_every_command_that_asks(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Undecided, "__init__", lambda _: pytest.fail("a hint is missing"))
    exploration = Exploration(10, profile=profile)
    target = BuiltIn(profile)
    # Where any of equal priority may be next, hundreds of jobs leave too much open.
    for brisk in {False, profile.first_in_first_out}:
        assert (
            ProgramCampaign(exploration, target, partial(second_gear, brisk=brisk)).run(10) is None
        )
    target.close()


FAILED_PUTS = r"""
A > put 0 0 60 1\r\nabc
A < EXPECTED_CRLF\r\n
A > put 0 0 60 1\r\na\r\n
A < INSERTED {id}\r\n
A > stats\r\n
A < {stats}
"""


@pytest.mark.parametrize(
    ("profile", "counted", "is_allowed"),
    [("1.5", 0, False), ("1.5", 1, True), ("1.5", 2, True), ("1.8", 1, False), ("1.8", 2, True)],
)
def test_before_1_8_it_is_open_whether_puts_that_fail_are_counted(
    profile: str, counted: int, is_allowed: bool
) -> None:
    known = PROFILES[profile]
    server = model.Model(known)
    server.step(Connected(), 0, 1)
    server.step(Put(0, 0, 60, 1), 0, 1)
    server.step(Body(None), 0, 1)
    server.step(Put(0, 0, 60, 1), 0, 1)
    ((_, inserted),) = server.step(Body(b"a"), 0, 1)
    assert isinstance(inserted, Reply)
    server.commands["put"] = counted
    ((_, stats),) = server.step(Command("stats", ()), 0, 1)
    assert isinstance(stats, Reply)
    body = stats.encode().replace(b"pid: 0", b"pid: 7")
    text = FAILED_PUTS.format(id=inserted.args[0], stats=escape(body))
    assert (check(parse(text), known) is None) is is_allowed
