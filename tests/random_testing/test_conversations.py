"""Conversations that are made up: of any bytes, minimised, seen again, and ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis.errors import Flaky

from conformance import yamlish
from conformance.oracle.violation import Violation
from conformance.random_testing import rules
from conformance.random_testing.delta_debugging import OutOfTime, minimise
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.rules import AnyConversation
from conformance.random_testing.steps import Ask, Happen, Program
from conformance.reading import parse
from conformance.target.address import ask, visit
from conformance.target.builtin import BuiltIn
from conformance.target.limits import USUAL
from conformance.tests.test_stateful import test_any_conversation as any_conversation
from conformance.transcript import Transcript
from conformance.verdict import Deviation, Inconclusive
from fuzz.player import ProgramAuthor
from fuzz.program import MOVED, Choices
from reference_server.faults import FAULTS, NO_FAULT


def test_a_program_can_be_made_of_any_bytes() -> None:
    server = BuiltIn()
    session = Exploration(1).session(server)
    for step in ProgramAuthor(session, Choices(bytes(range(256)) * 8), MOVED).steps(50):
        session.take(step)
    session.finish()
    session.abandon()
    server.close()


def test_a_program_is_made_small() -> None:
    steps = [Ask(1, b"list-tubes\r\n") for _ in range(50)]
    steps[17] = Ask(2, b"use a\r\n")
    steps[40] = Ask(3, b"put 7 0 60 5\r\nhello\r\n", tag=1)
    tried = []

    def shows(program: Program) -> bool:
        tried.append(program)
        asked = [step for step in program if isinstance(step, Ask)]
        uses = any(ask == Ask(2, b"use a\r\n", apart=ask.apart) for ask in asked)
        return uses and any(ask.text.startswith(b"put 7") for ask in asked)

    assert minimise(steps, shows) == [
        Ask(2, b"use a\r\n", apart=True),
        Ask(3, b"put 7 0 60 1\r\na\r\n", tag=1, apart=True),
    ]
    assert len(tried) < 60


@pytest.mark.parametrize("anew", [False, True])
def test_a_server_that_was_told_to_drain_is_not_asked_any_more(anew: bool) -> None:
    server = BuiltIn()
    drained: Program = [Happen(b"SIGUSR1"), Ask(1, b"put 0 0 60 1\r\na\r\n", tag=1)]
    assert Exploration(1).replayed(server, drained, anew=anew) is None
    with server.connect() as client:
        client.send(b"put 0 0 60 1\r\na\r\n")
        assert client.receive_within(USUAL.reply) == b"INSERTED 1\r\n"
    server.close()


def _flaky(machine: Callable[[], AnyConversation], **_: object) -> None:
    """Find a violation that it does not see again."""
    conversation = machine()
    conversation.about_a_tube(1, "use", "a", apart=True)
    with pytest.raises(Violation):
        conversation.teardown()
    raise Flaky("inconsistent results")


@pytest.mark.parametrize(("is_gone", "verdict"), [(False, Deviation), (True, Inconclusive)])
def test_what_hypothesis_does_not_see_again_is_looked_at_once_more(
    is_gone: bool, verdict: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "run_state_machine_as_test", _flaky)
    target, shown = BuiltIn(fault=FAULTS["use-names-the-tube-used-before"]), Transcript()
    if is_gone:
        # The one that it is restarted as.
        target._fault = NO_FAULT
    with pytest.raises(verdict, match=r"expected USING a.*, observed USING default"):
        any_conversation(target, shown, Exploration(1))
    assert shown.entries
    target.close()


def test_a_conversation_that_goes_wrong_at_its_end_leaves_nothing_behind() -> None:
    def connections() -> str:
        with visit(target.address, 5) as sock:
            return yamlish.dictionary(ask(sock, b"stats", 5).body or b"")["current-connections"]

    target = BuiltIn(fault=FAULTS["list-tubes-lists-the-tube-that-was-deleted-last"])
    before = connections()
    conversation = AnyConversation(Exploration(1), target)
    conversation.about_a_tube(1, "use", "a", apart=True)
    conversation.about_a_tube(2, "use", "b", apart=True)
    try:
        with pytest.raises(Violation):
            conversation.teardown()
        assert connections() == before
    finally:
        target.close()


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_pause_that_ends_late_does_not_last_into_the_next_conversation(is_kept: bool) -> None:
    def id_of_its_start() -> str:
        with visit(target.address, 5) as sock:
            return yamlish.dictionary(ask(sock, b"stats", 5).body or b"")["id"]

    target = BuiltIn()
    before = id_of_its_start()
    exploration = Exploration(1)
    try:
        if is_kept:
            found = parse("A > pause-tube default 1000\\r\\n\nA < PAUSED\\r\\n\n")
            exploration.look_again(target, Transcript(), found)
        else:
            conversation = AnyConversation(exploration, target)
            conversation.pause(1, "default", 1000, apart=True)
            conversation.teardown()
        assert id_of_its_start() != before
    finally:
        target.close()


def test_a_random_test_tries_kept_findings_only_if_it_is_given_them(tmp_path: Path) -> None:
    folder = tmp_path / "found"
    folder.mkdir()
    target = BuiltIn(fault=next(f for f in FAULTS.values() if f.requirement == "use.using"))
    (folder / "transcript").write_text("A > use b\\r\\n\nA < USING b\\r\\n\n")
    try:
        exploration = Exploration(1, folder=tmp_path)
        assert exploration.judge(target, Transcript(), lambda: "all taken") == "all taken"
        with pytest.raises(Deviation, match="as kept in"):
            exploration.judge(target, Transcript(), str, exploration.earlier())
    finally:
        target.close()


@pytest.mark.parametrize(
    ("turns", "wait", "is_played"), [(1, "0.1s", True), (1, "1000s", False), (1001, "0.1s", False)]
)
def test_a_kept_finding_that_takes_long_is_left_out(
    turns: int, wait: str, is_played: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "found"
    folder.mkdir()
    turn = "A > list-tube-used\\r\\n\nA < USING default\\r\\n\n"
    (folder / "transcript").write_text(f"{turn * turns}+ {wait}\n")
    told = "" if is_played else "1 kept finding not played again, as that takes too long"
    target = BuiltIn(real_time=True)
    try:
        exploration = Exploration(1, folder=tmp_path)
        assert exploration.judge(target, Transcript(), str, exploration.earlier()) == told
    finally:
        target.close()


def test_nothing_more_is_tried_when_the_time_is_over() -> None:
    tries = iter(range(20))

    def shows(program: Program) -> bool:
        if next(tries, None) is None:
            raise OutOfTime
        return True

    large = Ask(1, b"put 0 0 60 70000\r\n" + b"x" * 70000 + b"\r\n")
    assert len(minimise([large] * 4, shows)) == 1
