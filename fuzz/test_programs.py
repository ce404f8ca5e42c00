"""Programs that are made up from a stream of choices, each reply judged by the oracle."""

from __future__ import annotations

from functools import partial

from conformance.catalogue import requirement
from conformance.random_testing.exploration import Exploration
from conformance.target.target import Target
from conformance.transcript import Transcript
from fuzz.campaign import Campaign
from fuzz.player import COMMANDS, second_gear

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
        finding = Campaign(exploration, server, makes_up).run(exploration.examples)
        if finding is not None:
            raise exploration.deviation(finding, transcript) from finding.violation
        return exploration.told(exploration.examples, "programs")

    return exploration.judge(server, transcript, make_up)
