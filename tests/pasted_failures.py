"""The failures that faults cause, pasted into ``check`` and ``replay``: do these find the same?"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from enum import StrEnum
from multiprocessing import get_context
from typing import NamedTuple

from conformance.catalogue import catalogue
from conformance.oracle.check import Finding, judgement
from conformance.random_testing.replay_verdict import replayed
from conformance.reading import parse
from conformance.run.evidence import describe, gather
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.runner import Outcome
from conformance.target.builtin import BuiltIn
from conformance.target.limits import USUAL
from conformance.transcript import RESTARTS, NotATranscript, Transcript
from conformance.verdict import Deviation, Inconclusive, NotTestable, TargetLost
from fuzz.undefined_input import is_wild, steps_of, survives
from reference_server.faults import FAULTS, NO_FAULT, Fault
from reference_server.profiles import Profile
from tests.faults import Case, found_by_tests, newest_with, outcomes
from tests.parts import part_of


class Agreement(StrEnum):
    """The comparison of a verdict with that of the run."""

    SAME = "same"
    OTHER_LEVEL = "other level"
    UNDECIDED = "not decided"
    ALLOWED = "allowed"


class Compared(NamedTuple):
    """A fault, its failure, and what ``check`` and ``replay`` say of it, each with a reason."""

    fault: str
    level: str
    observed: str
    check: Agreement
    why: str
    replay: Agreement
    why_replay: str


def failure(fault: Fault, profile: Profile) -> tuple[str, Case, Outcome] | None:
    """Return the level, the test and the outcome of the first failure of the fault's own tests."""
    level = catalogue()[fault.requirement].judged_by(profile.stage).level

    def is_own(case: Case) -> bool:
        return fault.requirement in case.slugs and "resources" not in case.arguments

    with contextlib.closing(outcomes(fault, is_own, 100, profile, USUAL.reply)) as came:
        for case, outcome in came:
            error = outcome.error
            if isinstance(error, Deviation) and error.owner in ("", fault.requirement):
                return "de-facto" if error.de_facto else level, case, outcome
    return None


def pasted(fault: Fault, profile: Profile, case: Case, outcome: Outcome) -> Transcript:
    """Return the transcript of a failure as it is read from the terminal.

    If that leaves out messages, from the file of the report.
    """
    error = outcome.error
    assert isinstance(error, Deviation)
    evidence = gather(error, outcome, ["true"], case.name, TranscriptKeeper(None, ""), profile)
    rule = catalogue()[fault.requirement].judged_by(profile.stage)
    try:
        return parse(describe([rule], evidence))
    except NotATranscript:
        outcome.transcript.begins = None
        whole = outcome.transcript.render(error.marked, fold=False)
        return parse(f"{whole}\nEXPECTED  {error.expected}\nOBSERVED  {error.observed}\n")


def checked(transcript: Transcript, profile: Profile, level: str) -> tuple[Agreement, str]:
    """Return whether ``check`` says the same as a run that has found a failure at this level."""
    try:
        judged = judgement(transcript, profile)
    except Inconclusive as error:
        return Agreement.UNDECIDED, str(error)
    if judged.finding is None:
        undecided = transcript.claim is not None
        return Agreement.UNDECIDED if undecided else Agreement.ALLOWED, "not in the messages"
    return _compared(judged.finding, level)


def _compared(finding: Finding, level: str) -> tuple[Agreement, str]:
    told = f"{finding.level}: expected {finding.expected[:80]}, observed {finding.observed[:80]}"
    same = (finding.level == "must") == (level == "must")
    return Agreement.SAME if same else Agreement.OTHER_LEVEL, told


def driven_again(
    fault: Fault, transcript: Transcript, profile: Profile, level: str
) -> tuple[Agreement, str]:
    """Return whether ``replay`` finds the same on a server with the fault."""
    binlog = any(entry.data == RESTARTS and not entry.connection for entry in transcript.entries)
    with contextlib.closing(BuiltIn(profile, fault=fault, binlog=binlog)) as server:
        try:
            if is_wild(transcript, profile):
                wrong = survives(server, steps_of(transcript)).wrong
                return (Agreement.SAME, str(wrong)) if wrong else (Agreement.ALLOWED, "it survives")
            finding = replayed(server, profile, transcript)[1]
        except (Inconclusive, NotTestable) as error:
            return Agreement.UNDECIDED, str(error)
    if finding is None:
        return Agreement.ALLOWED, ""
    return _compared(finding, level)


def compared(name: str) -> Compared | None:
    """Compare the verdicts on the failure of a fault; None if none of its tests fails here."""
    fault = FAULTS[name]
    profile = newest_with(fault.requirement)
    found = failure(fault, profile)
    if found is None:
        return None
    level, case, outcome = found
    assert isinstance(outcome.error, Deviation)
    transcript = pasted(fault, profile, case, outcome)
    check, why = checked(transcript, profile, level)
    if isinstance(outcome.error, TargetLost):
        replay, how = Agreement.UNDECIDED, "the target was lost"
    else:
        replay, how = driven_again(fault, transcript, profile, level)
    if replay is Agreement.ALLOWED and check is Agreement.UNDECIDED:
        replay = Agreement.UNDECIDED
    return Compared(name, level, outcome.error.observed, check, why, replay, how)


def allowed(profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the tests that a server without a fault passes, and what ``check`` says of them."""
    with contextlib.closing(outcomes(NO_FAULT, lambda _: True, 5, profile)) as came:
        for case, outcome in came:
            if outcome.error is not None or not outcome.transcript.entries:
                continue
            transcript = parse(outcome.transcript.render(fold=False))
            try:
                finding = judgement(transcript, profile).finding
            except Inconclusive as error:
                yield case.name, f"not decided: {error}"
                continue
            yield case.name, "" if finding is None else _compared(finding, "must")[1]


def main() -> int:
    """``python -m tests.pasted_failures``: compare the verdicts on the failures of all faults."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--part", default="0/1", help="K/N: each N-th, from K on")
    names = part_of(sorted(found_by_tests()), parser.parse_args().part)
    start, found = time.monotonic(), []
    with ProcessPoolExecutor(3 * (os.cpu_count() or 1), get_context("spawn")) as pool:
        for name, one in zip(names, pool.map(compared, names), strict=True):
            if one is None:
                print(f"no failure here: {name}", flush=True)
                continue
            found.append(one)
            if {one.check, one.replay} != {Agreement.SAME}:
                print(f"{name} ({FAULTS[name].requirement}, {one.level}): {one.observed[:100]}")
                print(f"  check: {one.check}: {one.why[:300]}")
                print(f"  replay: {one.replay}: {one.why_replay[:300]}", flush=True)
    for command in ("check", "replay"):
        counts = Counter(getattr(one, command) for one in found)
        print(command, *(f"{word}: {counts[word]}" for word in Agreement), sep=", ")
    print(f"{len(names)} faults, {time.monotonic() - start:.0f} s")
    return int(any(one.check is Agreement.ALLOWED for one in found))


if __name__ == "__main__":
    sys.exit(main())
