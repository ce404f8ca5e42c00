"""Programs that are made up from a stream of choices, each reply judged by the oracle."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.exploration import Exploration
from conformance.target import Target
from conformance.transcript import Transcript
from fuzz.campaign import Campaign


@requirement("protocol.any-program")
def test_any_program(server: Target, transcript: Transcript, exploration: Exploration) -> str:
    exploration.again(server, transcript)
    finding = Campaign(exploration, server).run(exploration.examples)
    if finding is not None:
        raise exploration.deviation(finding, transcript) from finding.violation
    return exploration.told(exploration.examples, "programs")
