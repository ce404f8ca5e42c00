"""The load of a run on a shared server, printed before it begins.

``load.json`` has what was measured on beanstalkd; ``python -m tests.load`` writes it, and a test
compares it with real runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.target.command_rate import GENTLE

FILE = Path(__file__).with_name("load.json")
QUICK, WHOLE = "quick", "whole"
"""The runs that were measured."""


@dataclass(frozen=True, slots=True)
class Load:
    """The commands, connections and jobs of a run, and its duration in seconds."""

    commands: int
    connections: int
    jobs: int
    seconds: int

    def sentence(self, is_gentle: bool) -> str:
        """Return what to expect of a run of all tests, in a line."""
        seconds = max(self.seconds, self.commands // GENTLE) if is_gentle else self.seconds
        pace = (
            f"{GENTLE:,} commands a second on average" if is_gentle else "--gentle limits the rate"
        )
        return (
            f"load to expect, at most: about {_rounded(self.commands)} commands,"
            f" {_rounded(self.connections)} connections and {_rounded(self.jobs)} jobs"
            f" in {_rounded(seconds)} seconds; {pace}"
        )


def measured() -> Mapping[str, Load]:
    """Return what was measured, of a quick run and of a whole one."""
    read = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Load(**load) for name, load in read.items()}


def expected(quick: bool) -> Load:
    """Return the load of a run."""
    return measured()[QUICK if quick else WHOLE]


def _rounded(count: int) -> str:
    """Return a number with two digits that count."""
    return f"{int(float(f'{count:.1e}')):,}"
