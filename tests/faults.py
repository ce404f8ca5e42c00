"""Runs the suite's tests on a reference server with a fault, in this process, without waiting."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from _pytest.mark import ParameterSet

import fuzz
from conformance import tests
from conformance.catalogue import catalogue
from conformance.random_testing.exploration import Exploration
from conformance.run import runner as running
from conformance.target.builtin import BuiltIn
from conformance.target.limits import USUAL, Limits
from conformance.verdict import Deviation, Inconclusive, NotApplicable, NotTestable
from reference_server.faults import FAULTS, NO_FAULT, Fault
from reference_server.profiles import NEWEST, PROFILES, Profile
from tests.parts import part_of

SILENCE = 0.25
"""Seconds after which a reply is missing where one should be: on a busy machine, sometimes one that
was only late."""
PATIENT = 2.0
"""Seconds after which a reply is missing, even on a busy machine."""
PATIENCE = 1.0
"""Seconds that a reply may take in random conversations."""
EXAMPLES = 100
"""Random conversations of each kind."""
FILES = sorted(file.stem for file in Path(tests.__file__).parent.glob("test_*.py"))
"""The files of directed tests."""
MUCH = ("test_queues", "test_repetition", "test_crowds", "test_slow_clients")
"""The files of tests that have much of something."""
FEW = 5
"""Other requirements that a fault may break and still be called small."""


@dataclass(frozen=True, eq=False)
class Case:
    """A test with the values of its parameters, and what it tests."""

    name: str
    test: Callable[..., object]
    arguments: Mapping[str, object]
    slugs: frozenset[str]

    @property
    def file(self) -> str:
        """The name of the file that has it, without its ending."""
        return self.test.__module__.rpartition(".")[2]


@cache
def cases() -> tuple[Case, ...]:
    """Return all tests of the suite, each with each of its parameters."""
    found: list[Case] = []
    for package in (tests, fuzz):
        for file in sorted(Path(package.__path__[0]).glob("test_*.py")):
            module = importlib.import_module(f"{package.__name__}.{file.stem}")
            for name, test in vars(module).items():
                if name.startswith("test_"):
                    found += _cases(name, test)
    return tuple(found)


def _cases(name: str, test: Callable[..., object]) -> Iterator[Case]:
    marks = getattr(test, "pytestmark", [])
    slugs = {slug for mark in marks if mark.name == "requirement" for slug in mark.args}
    parameters = [mark.args for mark in marks if mark.name == "parametrize"]
    names = list(test.__code__.co_varnames[: test.__code__.co_argcount])
    for values in itertools.product(*(choices for _, choices in parameters)):
        arguments: dict[str, object] = dict.fromkeys(names)
        more: set[str] = set()
        for (argument, _), value in zip(parameters, values, strict=True):
            marked = isinstance(value, ParameterSet)
            plain = value.values if marked else value
            one = isinstance(argument, str)
            single = plain[0] if marked and one else plain
            arguments |= {argument: single} if one else dict(zip(argument, plain, strict=True))
            for mark in getattr(value, "marks", ()):
                more |= set(mark.args)
        yield Case(name, test, arguments, frozenset(slugs | more))


@cache
def _seen(profile: Profile) -> Mapping[Case, str]:
    """Return the variants of quirks that the server without a fault has."""
    server = BuiltIn(profile)
    found = {
        case: running.run(case.test, case.arguments, server).seen
        for case in cases()
        if any(slug.startswith("quirk.") for slug in case.slugs) and applies(case, profile)
    }
    server.close()
    return found


def applies(case: Case, profile: Profile) -> bool:
    """Return whether a profile has all that a test tests."""
    rules = [catalogue()[slug] for slug in case.slugs]
    return not any(rule.missing_in(profile.stage) or rule.left_out_of(profile) for rule in rules)


def newest_with(slug: str) -> Profile:
    """Return the newest profile that has a requirement."""
    have = [p for p in PROFILES.values() if not catalogue()[slug].missing_in(p.name)]
    return have[-1]


def outcomes(
    fault: Fault,
    chosen: Callable[[Case], bool],
    examples: int = EXAMPLES,
    profile: Profile = NEWEST,
    silence: float = USUAL.reply,
) -> Generator[tuple[Case, running.Outcome]]:
    """What comes of the tests, in their order, but of those that do not apply.

    A reply is missing after ``silence`` seconds.
    """
    directed = Limits(reply=silence, alive=silence, clean_up=silence, arrival=(0.0,))
    timeout = max(silence, PATIENCE)
    random = replace(directed, reply=timeout, clean_up=timeout)
    with contextlib.closing(BuiltIn(profile, fault=fault)) as server:
        server.launches = True
        for case in cases():
            if not (chosen(case) and applies(case, profile)):
                continue
            arguments = dict(case.arguments)
            server.limits = random if "exploration" in arguments else directed
            if "exploration" in arguments:
                fuzz_time = examples / 10
                arguments["exploration"] = Exploration(
                    examples, fuzz_time=fuzz_time, profile=profile
                )
            outcome = running.run(case.test, arguments, server)
            if isinstance(outcome.error, Inconclusive):
                # On a busy machine a short wait decides nothing; the usual one does.
                server.limits = USUAL
                outcome = running.run(case.test, arguments, server)
            # What a server does not show in its need, or only as a process, is not tested here.
            is_seen = "resources" not in arguments or not isinstance(outcome.error, NotTestable)
            if is_seen and not isinstance(outcome.error, NotApplicable):
                yield case, outcome


def failures(
    fault: Fault,
    chosen: Callable[[Case], bool],
    enough: int,
    examples: int = EXAMPLES,
    profile: Profile = NEWEST,
    silence: float = USUAL.reply,
) -> list[str]:
    """Return the requirements whose tests fail, in the order of the tests, until it is enough.

    A reply is missing after ``silence`` seconds.
    """
    found: list[str] = []
    with contextlib.closing(outcomes(fault, chosen, examples, profile, silence)) as came:
        for case, outcome in came:
            broken = _broken(case, outcome, profile)
            found += [broken] * (broken != "" and broken not in found)
            if len(found) >= enough:
                break
    return found


def _broken(case: Case, outcome: running.Outcome, profile: Profile) -> str:
    """Return the requirements that a test has found broken; empty if it has found none."""
    error = outcome.error
    if isinstance(error, Inconclusive):
        # A busy machine finds no fault.
        return ""
    if error is None and outcome.seen == _seen(profile).get(case, outcome.seen):
        return ""
    owner = error.owner if isinstance(error, Deviation) else ""
    return owner or ", ".join(sorted(case.slugs))


def caught(fault: Fault, silence: float = SILENCE) -> bool:
    """Return whether a test of the requirement that the fault breaks fails.

    A reply is missing after ``silence`` seconds.
    """
    profile = newest_with(fault.requirement)
    own = outcomes(
        fault, lambda case: fault.requirement in case.slugs, profile=profile, silence=silence
    )
    with contextlib.closing(own) as came:
        broken = (_broken(case, outcome, profile) for case, outcome in came)
        return any(fault.requirement in slugs.split(", ") for slugs in broken)


def strangers(fault: Fault) -> set[str]:
    """Return other requirements whose tests a fault breaks, counted to just above :data:`FEW`."""
    found = failures(
        fault,
        # Random conversations show almost any fault; and much of it takes long.
        lambda case: (
            fault.requirement not in case.slugs
            and case.file not in MUCH
            and not case.arguments.keys() & {"real_clock", "exploration", "resources"}
        ),
        enough=FEW + 1,
        profile=newest_with(fault.requirement),
        silence=SILENCE,
    )
    return {slug for slugs in found for slug in slugs.split(", ")}


def _examine(name: str) -> tuple[str, bool, set[str]]:
    return name, caught(FAULTS[name]), strangers(FAULTS[name])


def found_by_tests() -> dict[str, Fault]:
    """Return the faults that tests of the suite find; others show only when a server crashes."""
    return {name: fault for name, fault in FAULTS.items() if fault.requirement in catalogue()}


def main() -> int:
    """``python -m tests.faults``: whether each fault is caught, and which others' tests fail.

    Fails if one is not caught, or, of all faults, if more than one in ten breaks many other
    requirements. A part is too small for that: it may have several of them by chance.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--part", default="0/1", help="K/N: each N-th, from K on")
    names, start = part_of(sorted(found_by_tests()), parser.parse_args().part), time.monotonic()
    wrong = failures(NO_FAULT, lambda _: True, enough=1, examples=20)
    assert not wrong, f"without a fault: {wrong}"
    missed = broad = 0
    # More processes than processors: a server that does not answer costs time, but no work.
    with ProcessPoolExecutor(3 * (os.cpu_count() or 1), get_context("spawn")) as pool:
        for name, own, others in pool.map(_examine, names):
            missed += not own
            broad += len(others) > FEW
            verdict = "caught" if own else "MISSED"
            told = f"{len(others)} others {sorted(others)}" if others else "no others"
            print(f"{verdict} {name} ({FAULTS[name].requirement}), {told}", flush=True)
    took = time.monotonic() - start
    print(
        f"{len(names)} faults, {missed} missed, {broad} break more than {FEW} others, {took:.0f} s"
    )
    whole = len(names) == len(found_by_tests())
    return bool(missed or (whole and broad > len(names) / 10))


if __name__ == "__main__":
    sys.exit(main())
