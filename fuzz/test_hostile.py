"""Hostile bytes: first known ones, then mutated conversations, judged by the oracle."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.oracle.underspecification import understood
from conformance.random_testing.exploration import Exploration
from conformance.reading import parse
from conformance.target.footprint import FOOTPRINT
from conformance.target.target import Target
from conformance.transcript import CLIENT_HALF_CLOSES, Transcript
from conformance.verdict import GOES_ON, Deviation, NotApplicable, TargetLost
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from fuzz.undefined_input import lines_of_fork, survives, transcript_of, undefined_program
from reference_server.wire import CRLF

CORPUS = Path(__file__).with_name("corpus")
"""Transcripts of what was got wrong by some server, and of what is easily got wrong."""
_TUBE = "conformance-00000000-00000"
"""The beginning of the names of their tubes; bodies that have one in them keep their length."""
MOST = 5
"""Findings after which a test ends, to report the most severe."""


@requirement(
    "protocol.any-bytes",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
@pytest.mark.parametrize(
    "known", [pytest.param(path, id=path.stem) for path in sorted(CORPUS.glob("*.transcript"))]
)
def test_known_bytes(
    server: Target, transcript: Transcript, exploration: Exploration, known: Path
) -> None:
    exploration.shared = True
    # Others may run the suite on the same server.
    text = known.read_text(encoding="utf-8").replace(_TUBE, FOOTPRINT.new_name())
    entries = parse(text).entries
    half_closed = any(entry.data == CLIENT_HALF_CLOSES for entry in entries)
    profile = exploration.profile
    is_quirk = any(reader.is_quirk for reader in understood(entries, profile))
    if is_quirk or (half_closed and not profile.half_close):
        raise NotApplicable(f"profile {profile.name} leaves open what comes of it")
    exploration.look_again(server, transcript, parse(text), f", as in {known.name}")


@requirement(
    "protocol.any-bytes",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_commands_of_a_fork(
    own_server: Target, client: Connection, transcript: Transcript, exploration: Exploration
) -> None:
    dialect = own_server.profile.dialect
    if not dialect.added:
        raise NotApplicable(f"profile {own_server.profile.name} adds no command")
    for added in dialect.added:
        if added.grammar is not None:
            reply = client.raw(added.line + CRLF).any_reply()
            if reply.word not in added.grammar.replies:
                raise Deviation(" or ".join(added.forms), str(reply), transcript.last)
            client.is_in_step()
    done = undefined_program(Random(exploration.seed), lines_of_fork(dialect))
    wrong = survives(own_server, done).wrong
    if wrong is not None:
        transcript.entries += transcript_of(done).entries
        raise TargetLost(GOES_ON, wrong)


@requirement(
    "protocol.any-bytes",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_any_bytes(server: Target, transcript: Transcript, exploration: Exploration) -> str:
    exploration.shared = True
    fuzzer = Fuzzer(exploration, server, Pool(), to_first_failure=True)
    report = fuzzer.run(exploration.fuzz_time, MOST)
    exploration.health += report.health.values()
    for filed in sorted(report.found, key=lambda filed: filed.diagnosis.de_facto):
        transcript.entries[:] = filed.transcript.entries
        raise filed.deviation()
    exploration.budget.begun = report.programs
    return exploration.shortfall(report.programs, "programs")
