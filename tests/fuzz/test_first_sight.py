"""Findings are reported at first sight, and minimised later; those that take longest come last."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from conformance.oracle.diagnosis import Diagnosis
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.shrink_budget import ShrinkBudget
from conformance.random_testing.steps import Ask, Program, Step
from conformance.target.builtin import BuiltIn
from conformance.verdict import Outage, OutcomeKind
from fuzz import campaign
from fuzz import undefined_input as wild
from fuzz.campaign import MakesUp
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from fuzz.greybox import GreyBox
from fuzz.undefined_input import message
from reference_server.faults import Fault
from tests.fuzz.test_findings_seen_once import wrong_once
from tests.fuzz.test_fuzz import Lenient
from tests.servers import silent_at

SILENT = silent_at("peek-delayed")


class Scouts:
    """The scouts of a grey box who hand on some programs once, and then no more."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lost, self.reported = list[list[Step]](), ()
        self._programs: list[Program] = [[Ask(1, line + b"\r\n", apart=True)] for line in lines]

    def watch(self, makes_up: MakesUp) -> MakesUp:
        return makes_up

    def second_gear(self, *_: object) -> Iterator[Ask]:
        return iter([Ask(1, b"list-tube-used\r\n")])

    def explore(self, _: float) -> Iterator[Program]:
        programs, self._programs = self._programs, []
        return iter(programs)

    def without_known(self, program: Program) -> Program:
        return program

    def exchange(self) -> None:
        pass

    close = exchange


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is told, in its order: that something was seen, and behind what it was filed."""
    told = list[str]()
    add = Fuzzer._add

    def filed(self: Fuzzer, diagnosis: Diagnosis, *more: Any, **named: Any) -> None:
        told.append(diagnosis.name.partition("-behind-")[2])
        add(self, diagnosis, *more, **named)

    monkeypatch.setattr(Fuzzer, "_add", filed)
    return told


def fuzz(scouts: Scouts, most: int, folder: Path, told: list[str], fault: Fault = SILENT) -> int:
    """Return the number of programs that are undecided."""
    with contextlib.closing(BuiltIn(fault=replace(fault, reader=Lenient))) as target:
        exploration = Exploration(1, effort=ShrinkBudget(each=0.5), folder=folder)
        grey = cast(GreyBox, scouts)
        fuzzer = Fuzzer(exploration, target, Pool(None), grey, lambda _: told.append("seen"))
        fuzzer.run(0.01, most)
    return exploration.undecided


@pytest.mark.parametrize("most", [1, 3])
def test_all_are_told_before_the_first_is_made_small_and_silences_come_last(
    most: int, tmp_path: Path, told: list[str]
) -> None:
    fuzz(Scouts([b"peek-delayed", b"delete 1 x", b"touch 1 x"]), most, tmp_path, told)
    assert told == ["seen"] * 3 + ["delete", "touch", "peek-delayed"][:most]
    # What is not minimised stays where it was kept at first sight.
    assert len(list(tmp_path.glob("unreduced-*"))) == 3 - most


@pytest.mark.parametrize("most", [1, 2])
def test_a_crash_that_needs_many_messages_comes_last(
    most: int, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = {True: Outage(OutcomeKind.CRASHED, "ended by SIGSEGV"), False: None}

    def survives(_: object, done: list[Step], every: int = 1) -> wild.Survival:
        return wild.Survival(dies[len(done) > 5], 0.0, len(done))

    monkeypatch.setattr(wild, "survives", survives)
    scouts = Scouts([b"delete 1 x"])
    scouts.lost = [[message(1, b"kick 1\r\n")] * 9]
    fuzz(scouts, most, tmp_path, told)
    assert told == ["seen", "delete", "kick"][: most + 1]
    assert len(list(tmp_path.glob("unreduced-*"))) == 2 - most


def test_what_was_seen_on_a_busy_machine_is_so_when_it_is_made_small_later(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = itertools.chain([0, 1], itertools.repeat(1))
    monkeypatch.setattr(campaign, "pressure", waited.__next__)
    scouts = Scouts([b"kick 1", b"delete 1 x"])
    assert fuzz(scouts, 1, tmp_path, told, Fault("", "wrong once", wrong_once())) == 1
    assert told == ["seen", "seen", "delete"]
