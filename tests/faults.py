"""Runs the suite's tests on a reference server with a fault, in this process, without waiting."""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

from _pytest.mark import ParameterSet

import conformance
from conformance import connection, running, scenario, target
from conformance.builtin import BuiltIn
from reference_server.faults import FAULTS, NO_FAULT, Fault

# A server in this process answers at once, or not at all.
SILENCE = 0.25


@dataclass(frozen=True, eq=False)
class Case:
    """A test with the values of its parameters, and what it tests."""

    name: str
    test: Callable[..., object]
    arguments: Mapping[str, object]
    slugs: frozenset[str]


@cache
def cases() -> tuple[Case, ...]:
    """All tests of the suite, each with each of its parameters."""
    found: list[Case] = []
    for file in sorted(Path(conformance.__path__[0]).glob("test_*.py")):
        module = importlib.import_module(f"conformance.{file.stem}")
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


def seen(case: Case) -> str:
    """The variant of a quirk that the server without a fault has; empty if it is no quirk."""
    return _seen()[case] if any(slug.startswith("quirk.") for slug in case.slugs) else ""


@cache
def _seen() -> Mapping[Case, str]:
    server = BuiltIn()
    found = {
        case: running.run(case.test, case.arguments, server, 0.25).seen
        for case in cases()
        if any(slug.startswith("quirk.") for slug in case.slugs)
    }
    server.close()
    return found


def failures(fault: Fault, chosen: Callable[[Case], bool], at_most: int) -> list[str]:
    """The requirements broken by the first tests that fail, ``at_most`` of them."""
    found: list[str] = []
    server = BuiltIn(fault=fault)
    with (
        mock.patch.multiple(connection, REPLY_LIMIT=SILENCE),
        mock.patch.multiple(scenario, CLEAN_UP_LIMIT=SILENCE, ALIVE_LIMIT=SILENCE),
        mock.patch.multiple(target, ALIVE_LIMIT=SILENCE),
        mock.patch.multiple(running, PATIENCE=(0.0,)),
    ):
        for case in cases():
            if not chosen(case):
                continue
            outcome = running.run(case.test, case.arguments, server, 0.25)
            if outcome.error is not None or outcome.seen != seen(case):
                found.append(", ".join(sorted(case.slugs)))
                if len(found) >= at_most:
                    break
    server.close()
    return found


def caught(fault: Fault) -> bool:
    """Whether a test of the requirement that the fault breaks fails."""
    return bool(failures(fault, lambda case: fault.requirement in case.slugs, at_most=1))


def main() -> int:
    """``python -m tests.faults``: for each fault, which requirements' tests fail."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N parts")
    part, parts = map(int, parser.parse_args().part.split("/"))
    start, missed, broad = time.monotonic(), 0, 0
    assert not failures(NO_FAULT, lambda _: True, at_most=1)
    names = sorted(FAULTS)[part::parts]
    for name in names:
        fault = FAULTS[name]
        others = failures(fault, lambda case: "real_clock" not in case.arguments, at_most=2**30)
        own = caught(fault)
        strangers = sorted(
            {slugs for slugs in others if fault.requirement not in slugs.split(", ")}
        )
        missed += not own
        broad += len(strangers) > 5
        verdict = "caught" if own else "MISSED"
        print(
            f"{verdict} {name} ({fault.requirement}), others: {len(strangers)} {strangers[:6]}",
            flush=True,
        )
    took = time.monotonic() - start
    print(f"{len(names)} faults, {missed} missed, {broad} break more than 5 others, {took:.0f} s")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
