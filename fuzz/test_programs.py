"""Random programs from a stream of choices, each reply judged by the oracle."""

from __future__ import annotations

import time
from functools import partial

from conformance.catalogue import requirement
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.replay import Counterexample
from conformance.small_worlds.visit import untimed
from conformance.target.target import Target
from conformance.transcript import Transcript
from fuzz.campaign import ProgramCampaign
from fuzz.player import COMMANDS, second_gear
from fuzz.recorded_program import Recital, recorded_programs

SECONDS = 0.08
"""Seconds that recorded programs may take for each example."""
ROUND_TRIPS = 1
"""Round trips that a command costs on average: many are sent in one go."""


@requirement(
    "protocol.any-program",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_any_program(server: Target, transcript: Transcript, exploration: Exploration) -> str:
    commands = exploration.budget.length(COMMANDS, exploration.examples, ROUND_TRIPS)
    makes_up = partial(second_gear, commands=commands)

    def make_up() -> str:
        finding = _recorded(server, exploration)
        if finding is None:
            finding = ProgramCampaign(exploration, server, makes_up).run(exploration.examples)
        if finding is not None:
            raise exploration.deviation(finding, transcript) from finding.violation
        return exploration.shortfall(exploration.examples, "programs")

    return exploration.judge(server, transcript, make_up)


def _recorded(server: Target, exploration: Exploration) -> Counterexample | None:
    """Return what recorded programs find, on a server of its own, where nothing is left out."""
    ends_empty = server.profile.deletes >= {"ready", "delayed"}
    if not server.exclusive or exploration.plain or not ends_empty:
        return None
    programs = recorded_programs(server.profile)
    with untimed(server) as target:
        exploration.restart(target)
        end = time.monotonic() + min(SECONDS * exploration.examples, exploration.budget.seconds)
        return Recital(target, exploration, end).run(programs)
