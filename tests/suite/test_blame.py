"""Failures are told of the requirement that is broken: servers that are wrong in one thing only."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from conformance.random_testing.exploration import Exploration
from conformance.run import runner as running
from conformance.target.builtin import BuiltIn
from conformance.target.limits import USUAL
from conformance.tests.test_deadline_soon import (
    test_the_exchange_of_seed_001 as the_exchange_of_seed_001,
)
from conformance.usual_answers import IN_STEP
from conformance.verdict import Deviation
from fuzz.test_hostile import CORPUS
from fuzz.test_hostile import test_known_bytes as any_bytes
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.state import Client, KeptJob
from reference_server.wire import (
    NOT_FOUND,
    PAUSED,
    UNKNOWN_COMMAND,
    Malformed,
    Reply,
    Request,
    RequestReader,
)
from tests.faults import cases
from tests.servers import OneAtATime


def _failing(fault: Fault, *slugs: str) -> set[str]:
    """Return which of these requirements have tests that fail on a server with a fault."""
    server, found = BuiltIn(fault=fault), set[str]()
    with contextlib.closing(server):
        server.probe()
        for case in cases():
            if concerned := case.slugs & {*slugs}:
                error = running.run(case.test, case.arguments, server).error
                if isinstance(error, Deviation) and not error.de_facto:
                    found |= concerned
    return found


def test_who_takes_one_command_at_a_time_fails_where_several_are_the_matter() -> None:
    fine = {
        *("use.using", "release.released", "kick.bound", "watch.many-tubes", "quit.closes"),
        *("reserve.several-jobs-on-a-connection", "reserve.second-reserve-waits"),
    }
    wrong = "reserve.pipelined-behind-wait"
    assert _failing(Fault("", "other", reader=OneAtATime), wrong, *fine) == {wrong}


class _TakesAllForUnknown(RequestReader):
    """Does not know a command with an argument that it does not take."""

    def parse(self, line: bytes) -> Request:
        if re.match(rb"(stats|list-[a-z-]+) |peek x", line):
            return Malformed(UNKNOWN_COMMAND)
        return super().parse(line)


def test_how_a_line_is_refused_is_no_matter_of_what_is_counted() -> None:
    wrong, fine = "stats.bad-format", "stats.malformed-commands-do-not-count"
    assert _failing(Fault("", "other", reader=_TakesAllForUnknown), wrong, fine) == {wrong}


class _KeepsThePause(Model):
    """A tube that is paused cannot be paused for another time."""

    def _pause_tube(self, conn: Client, name: str, delay: int) -> Reply:
        return PAUSED if self.is_paused(name) else super()._pause_tube(conn, name, delay)


def test_the_statistics_of_a_pause_are_not_to_blame_for_a_second_one() -> None:
    wrong, fine = "pause-tube.again-replaces", "stats-tube.pause"
    assert _failing(Fault("", "other", _KeepsThePause), wrong, fine) == {wrong}


class _RemembersNothing(Model):
    """No job outlives the server."""

    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        super().remember((), next_id)


def test_where_no_job_is_remembered_nothing_is_wrong_with_how_often_it_was_buried() -> None:
    wrong, fine = "persistence.put", "persistence.buries"
    assert _failing(Fault("", "other", _RemembersNothing), wrong, fine) == {wrong}


def _deviation_of_seed_001(fault: Fault) -> Deviation:
    one = next(case for case in cases() if case.test is the_exchange_of_seed_001)
    with contextlib.closing(BuiltIn(fault=fault, limits=replace(USUAL, reply=0.5))) as server:
        server.probe()
        error = running.run(one.test, one.arguments, server).error
    assert isinstance(error, Deviation)
    return error


def test_a_reply_to_another_command_is_out_of_step_and_not_too_early() -> None:
    error = _deviation_of_seed_001(Fault("", "other", reader=OneAtATime))
    assert (error.step.came, error.suspects) == ("DELETED", (IN_STEP,))


def test_what_is_answered_before_a_pending_reserve_is_no_matter_of_its_deadline() -> None:
    fault = FAULTS["commands-behind-a-pending-reserve-are-answered-at-once"]
    error = _deviation_of_seed_001(fault)
    assert (error.step.came, error.owner) == ("DELETED", "reserve.pipelined-behind-wait")


class _FindsNoTubes(Model):
    """Answers list-tubes as only other commands are answered."""

    def _list_tubes(self, conn: Client) -> Reply:
        return NOT_FOUND


class _ListsATube(Model):
    """Answers list-tubes as stats-tube is answered."""

    def _list_tubes(self, conn: Client) -> Reply:
        return self._stats_tube(conn, "default")


@pytest.mark.parametrize(("model", "came"), [(_FindsNoTubes, "NOT_FOUND"), (_ListsATube, "")])
def test_the_reply_to_another_command_is_out_of_step(model: type[Model], came: str) -> None:
    one = next(case for case in cases() if "list-tubes.all" in case.slugs)
    with contextlib.closing(BuiltIn(fault=Fault("", "other", model))) as server:
        error = running.run(one.test, one.arguments, server).error
    assert isinstance(error, Deviation)
    assert (error.step.came, error.suspects) == (came, (IN_STEP,))


def test_known_bytes_that_are_dropped_are_explained_by_what_is_known_of_pipelines() -> None:
    (known,) = (path for path in CORPUS.glob("*.transcript") if path.stem == "body-too-big")
    limits = replace(USUAL, reply=0.5, alive=0.5)
    for reader, expected in ((OneAtATime, (IN_STEP,)), (RequestReader, None)):
        fault = Fault("", "other", reader=reader)
        with contextlib.closing(BuiltIn(fault=fault, limits=limits)) as server:
            server.probe()
            arguments: dict[str, object] = dict.fromkeys(("server", "transcript"))
            arguments |= {"known": known, "exploration": Exploration(1)}
            error = running.run(any_bytes, arguments, server).error
        assert (error.suspects[:1] if isinstance(error, Deviation) else None) == expected
