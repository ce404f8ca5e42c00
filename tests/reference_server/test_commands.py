"""The table of commands: all that generates, probes, classifies, mutates or renames follows it."""

from __future__ import annotations

from functools import cache
from random import Random
from unittest import mock

import pytest

from conformance.oracle.underspecification import is_decided, is_free
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import program_of
from conformance.random_testing.steps import Ask
from conformance.reading import parse
from conformance.target.builtin import BuiltIn
from fuzz.campaign import ProgramCampaign
from fuzz.mutate import Mutator
from reference_server.commands import ABOUT_A_JOB, COMMANDS, ArgumentKind, Grammar
from reference_server.events import Connected
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.state import Client
from reference_server.wire import Body, Command, Put, Reply, parse_line
from tests.parts import sample

EXAMPLES = {ArgumentKind.TUBE: "default", ArgumentKind.COUNT: "1", ArgumentKind.TIMEOUT: "0"}
WITHOUT_PROBE = {
    "put": "it makes a job",
    "reserve": "it takes a job, or waits",
    "reserve-with-timeout": "it takes a job",
    "kick": "it changes jobs",
    "quit": "it ends the connection",
    "pause-tube": "it holds back others",
}
PROGRAMS = 30


def _line(grammar: Grammar, job: int = 1) -> str:
    """Return a well-formed line of a command."""
    arguments = [
        str(job) if kind is ArgumentKind.JOB else EXAMPLES.get(kind, "1") for kind in grammar.kinds
    ]
    return " ".join((grammar.verb, *arguments))


@cache
def _said(profile: Profile) -> dict[str, set[str]]:
    """Return the commands that random programs have asked, and the words of the replies."""
    said: dict[str, set[str]] = {}
    step = Model._command

    def noted(model: Model, conn: Client, command: Command) -> None:
        before = len(model._outputs)
        step(model, conn, command)
        words = said.setdefault(command.verb, set())
        for receiver, reply in model._outputs[before:]:
            if receiver == conn.id and isinstance(reply, Reply):
                words.add(reply.word)

    with mock.patch.object(Model, "_command", noted):
        target = BuiltIn(profile)
        assert ProgramCampaign(Exploration(1, profile=profile), target).run(PROGRAMS) is None
        target.close()
    return said


@pytest.mark.parametrize(
    "profile", sample([*reversed(PROFILES.values())], len(PROFILES), lambda it: it.name)
)
def test_every_command_is_generated_and_answered_as_the_table_says(profile: Profile) -> None:
    said = _said(profile)
    # A put is no command to the model, but two events.
    assert said.keys() | {"put"} == profile.commands
    for verb, words in said.items():
        # In 0.6, stats and peek may be about a job, or not.
        allowed = {*COMMANDS[verb].replies, *({"NOT_FOUND"} if profile.id_is_optional else ())}
        assert words <= allowed, verb


@pytest.mark.parametrize("grammar", COMMANDS.values(), ids=lambda grammar: grammar.verb)
@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_command_is_classified(profile: Profile, grammar: Grammar) -> None:
    line = _line(grammar).encode()
    assert is_free(line + b"\r\n", profile) is (grammar.verb not in profile.commands)
    if grammar.verb in profile.commands:
        assert is_decided(line, profile)


@pytest.mark.parametrize("grammar", COMMANDS.values(), ids=lambda grammar: grammar.verb)
def test_every_command_has_a_probe_that_changes_nothing_or_a_reason(grammar: Grammar) -> None:
    if grammar.probe is None:
        assert grammar.verb in WITHOUT_PROBE
        return
    profile = NEWEST
    command = parse_line(grammar.probe, profile)
    assert isinstance(command, Command)
    assert command.verb == grammar.verb
    model = Model(profile)
    for conn in (1, 2):
        model.step(Connected(), 0, conn)
    for delay in (0, 0, 60):
        model.step(Put(0, delay, 60, 1), 0, 1)
        model.step(Body(b"a"), 0, 1)
    model.step(Command("reserve"), 0, 1)
    before = str(model.step(Command("stats-tube", ("default",)), 0, 1))
    ((conn, reply),) = model.step(command, 0, 2)
    assert conn == 2
    assert isinstance(reply, Reply)
    assert reply.word in grammar.replies
    assert str(model.step(Command("stats-tube", ("default",)), 0, 1)) == before


def test_every_command_comes_out_of_mutation() -> None:
    mutated = {Mutator(Random(seed))(b"use a\r\n").partition(b" ")[0] for seed in range(20_000)}
    assert {verb.encode() for verb in COMMANDS} <= {word.strip() for word in mutated}


@pytest.mark.parametrize("verb", ABOUT_A_JOB)
def test_every_command_about_a_job_is_renamed_in_replays(verb: str) -> None:
    text = rf"""
        A > put 0 0 60 1\r\na\r\n
        A < INSERTED 7\r\n
        A > {_line(COMMANDS[verb], 7)}\r\n
    """
    *_, last = program_of(parse("\n".join(map(str.strip, text.splitlines()))))
    assert isinstance(last, Ask)
    assert last.job is not None
    assert last.text.startswith(f"{verb} %d".encode())


def test_a_replay_stops_no_server_but_waits_for_no_reply_meanwhile() -> None:
    text = "! SIGSTOP\nA > peek 1\\r\\n\nB > delete 1\\r\\n\n! SIGCONT\nA > peek 2\\r\\n"
    steps = program_of(parse(text))
    assert [step.hasty for step in steps if isinstance(step, Ask)] == [True, True, False]
    assert len(steps) == 3
