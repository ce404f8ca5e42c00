"""Clients at work at the same time: the crowd."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import count
from random import Random

import pytest

from conformance.dialogue.scenario import Scenario
from conformance.oracle.invariants import Ledger, NotReleased
from conformance.oracle.violation import Violation
from conformance.random_testing.concurrent_clients import ConcurrentClients, NotEnded
from conformance.random_testing.exploration import Exploration
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import Limits
from conformance.target.target import Remote, Target
from conformance.tests import test_overlap
from conformance.transcript import Transcript
from conformance.verdict import Deviation, Inconclusive
from reference_server.faults import FAULTS, Fault
from reference_server.faults.overlap import HandedToTwo
from reference_server.faults.worker import WaitsOn
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.wire import (
    TIMED_OUT,
    Command,
    Request,
    RequestReader,
)
from tests.proxy import proxy
from tests.servers import BEANSTALKD_COMMAND, REFERENCE_COMMAND, needs_beanstalkd

HASTY = Limits(reply=1.0)
"""So that a reply that never comes is not waited for so long."""


def _crowds(target: Target, sizes: Sequence[int], profile: Profile) -> int:
    """Return how many of some crowds were not decided."""
    ledger, chance, undecided = Ledger(), Random(1), 0
    for number, clients in enumerate(sizes):
        crowd = ConcurrentClients(
            target, [f"crowd-{number}", f"other-{number}"], chance, ledger, profile
        )
        try:
            crowd.run(clients, 60)
        except Inconclusive:
            undecided += 1
        finally:
            crowd.abandon()
    target.close()
    return undecided


@pytest.mark.parametrize("real_time", [False, True])
def test_crowds_on_the_reference_server(real_time: bool) -> None:
    assert _crowds(BuiltIn(real_time=real_time), (2, 3, 4, 8, 16) * 2, NEWEST) < 4


@needs_beanstalkd
@pytest.mark.parametrize("clock", ["auto", "real"])
def test_crowds_on_beanstalkd(clock: str) -> None:
    server = LaunchedTarget(BEANSTALKD_COMMAND, clock)
    assert _crowds(server, (2, 3, 4, 8, 16, 32) * 2, PROFILES["1.12"]) < 6


def test_a_crowd_names_the_cause_where_the_end_of_who_waits_is_not_seen() -> None:
    server = BuiltIn(fault=Fault("", "other", WaitsOn))
    with contextlib.closing(server), pytest.raises(NotEnded) as raised:
        # In most of them, nobody waits when all leave.
        _play(server, range(500), tidy=False)
    assert raised.value.expected == (str(TIMED_OUT),)
    assert raised.value.requirement == "reserve.half-closed"


def test_crowds_on_a_server_that_is_slow_and_sends_single_bytes() -> None:
    with Launched(REFERENCE_COMMAND) as server, proxy(server.address, 0.01) as (host, port):
        _crowds(Remote(f"{host}:{port}"), (2, 3, 8), NEWEST)


def test_jobs_that_are_not_given_back_are_no_must_and_hide_nothing() -> None:
    server = BuiltIn(
        fault=FAULTS["jobs-of-a-client-that-leaves-stay-reserved-until-their-ttr"], limits=HASTY
    )
    with pytest.raises(NotReleased):
        _play(server, range(500), tidy=False)
    _play(server, range(500, 520), tidy=True)
    server.close()


def _play(server: Target, numbers: Iterable[int], *, tidy: bool) -> None:
    for number in numbers:
        tube, chance = f"crowd-{number}", Random(number)
        crowd = ConcurrentClients(server, [tube], chance, Ledger(), tidy=tidy)
        try:
            crowd.run(4, 60)
        except Inconclusive:
            pass
        finally:
            crowd.abandon()


@pytest.mark.parametrize(
    "fault", [name for name, f in FAULTS.items() if f.requirement == "protocol.any-overlap"]
)
def test_what_a_crowd_shows_is_told_in_few_lines(fault: str) -> None:
    server = BuiltIn(fault=FAULTS[fault], limits=HASTY)
    ledger, chance = Ledger(), Random(2)
    for number, clients in enumerate((2, 3, 4, 8) * 100):
        crowd = ConcurrentClients(server, [f"crowd-{number}"], chance, ledger)
        try:
            crowd.run(clients, 100)
        except Violation as violation:
            transcript = Transcript()
            crowd.show(transcript, violation)
            # What several clients have done with one job; all have done some hundred things.
            assert len(transcript.entries) < 50
            break
        except Inconclusive:
            pass
        finally:
            crowd.abandon()
    else:
        raise AssertionError("no crowd has shown it")
    server.close()


class _Forgets(RequestReader):
    """Forgets what arrives together with a reserve."""

    def next_request(self) -> Request | None:
        request = super().next_request()
        if isinstance(request, Command) and request.verb.startswith("reserve-with"):
            self._buffer.clear()
        return request


def test_who_gets_no_reply_is_shown_with_what_it_has_asked() -> None:
    server = BuiltIn(fault=Fault("", "other", reader=_Forgets), limits=HASTY)
    transcript, chance = Transcript(), Random(1)
    with contextlib.closing(server):
        for number in range(100):
            crowd = ConcurrentClients(server, [f"crowd-{number}"], chance, Ledger())
            try:
                crowd.run(3, 60)
            except Violation as violation:
                marked = transcript.entries[crowd.show(transcript, violation)]
                said = violation.observed
                assert said.startswith(f"nothing for {marked.connection} within")
                assert marked is transcript.entries[-1]
                return
            finally:
                crowd.abandon()
    raise AssertionError("no crowd has shown it")


class _TwoFaults(WaitsOn, HandedToTwo):
    """A client that half-closes goes on waiting; and now and then a job is given to two."""


def _overlapped(model: type[Model], examples: int) -> Deviation:
    """What is told of a server."""
    server = BuiltIn(fault=Fault("", "other", model), limits=Limits(reply=0.5))
    tubes, exploration = map("tube-{}".format, count()), Exploration(examples)
    connect = Scenario(server, arrival=0.0).connect
    with contextlib.closing(server), pytest.raises(Deviation) as raised:
        test_overlap.test_any_overlap(server, connect, tubes.__next__, Transcript(), exploration)
    return raised.value


def test_what_half_closing_shows_hides_nothing_else() -> None:
    deviation = _overlapped(_TwoFaults, 200)
    assert deviation.suspects == ()


def test_what_half_closing_shows_is_told_if_nothing_else_is_wrong() -> None:
    # One crowd in some shows it, on a busy machine fewer.
    deviation = _overlapped(WaitsOn, 12)
    assert not deviation.de_facto
    assert str(deviation).endswith(
        "clients at work; not minimised, as what overlaps is not the same twice"
    )
    assert deviation.suspects == ("reserve.half-closed",)
