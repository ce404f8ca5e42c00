"""``python -m tests.clients.loaded_runs``: looks for false alarms, with the correct client.

Each run plays all cases and random programs with the timeouts of users, and sends the replies of
all cases in segments and with delays of its own. Run number N is always the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from conformance.clients.campaign import ClientCampaign
from conformance.clients.cases import ClientCase, all_cases
from conformance.clients.driver import Driver
from conformance.clients.program_search import PROGRAM_CASES, ProgramSearch
from conformance.clients.server import PLAIN, Change
from reports.verdicts import Verdict
from tests.clients.faults import RECONNECTING

CORRECT = Path(__file__).parent / "driver.py"
CHUNKS = (0, 1, 2, 3, 5, 8, 13, 100)
"""Bytes of a segment; 0: the reply is one."""
DELAYS = (0.0, 0.0, 0.001, 0.005, 0.02, 0.1)
"""Seconds between two segments."""
LONGEST = 0.6
"""Seconds that a reply takes at most: longer replies get larger segments."""
PIECES = 500
"""Segments of a reply at most."""
PROGRAMS = 20
"""Random programs of each requirement, for each of two clients."""


def cut(case: ClientCase, chunk: int, delay: float) -> ClientCase:
    """Return a case whose replies come in such segments, unless it has its own."""
    size = max(64, *(len(change.says or b"") for change in case.changes), *map(len, case.jobs))
    if chunk:
        chunk = max(chunk, int(size * delay / LONGEST), size // PIECES)
    changes = tuple(
        replace(one, chunk=chunk, delay=delay, every=True) if is_free(one) else one
        for one in case.changes
    )
    return replace(case, changes=changes)


def is_free(change: Change) -> bool:
    """Return whether a change leaves open how the bytes of replies are cut, and when they come."""
    return replace(change, says=None) == PLAIN


def run(number: int) -> str:
    """Return the segments of a run, the load of the machine, and the alarms."""
    random, begun = Random(number), time.monotonic()
    chunk, delay = random.choice(CHUNKS), random.choice(DELAYS)
    cases = [cut(case, chunk, delay) for case in all_cases()]
    random.shuffle(cases)
    campaign = ClientCampaign(lambda: Driver([sys.executable, str(CORRECT)]))
    supported = campaign.self_test()
    outcomes = campaign.run(cases)
    for program in (CORRECT.read_text(encoding="utf-8"), RECONNECTING.source()):
        start = partial(Driver, [sys.executable, "-c", program])
        search = ProgramSearch(start, supported, seed=number * PROGRAMS, limit=PROGRAMS)
        outcomes += search.run(PROGRAM_CASES)
    starved = sum(one.verdict is Verdict.INCONCLUSIVE for one in outcomes)
    alarms = [
        f"\n  {one.case.id}: {one.verdict} {one.reason} {one.mismatch}"
        for one in outcomes
        if one.verdict not in (Verdict.PASS, Verdict.INCONCLUSIVE)
    ]
    took, load = time.monotonic() - begun, os.getloadavg()[0]
    how = f"{chunk or 'all'} bytes, {delay * 1000:g} ms, load {load:.1f}, {took:.0f} s"
    inconclusive = f"{starved} of {len(outcomes)} inconclusive"
    return f"run {number}: {how}, {inconclusive}, {len(alarms)} alarms{''.join(alarms)}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.loaded_runs")
    parser.add_argument("--first", type=int, default=1, help="the number of the first run")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=4, help="runs at a time, as load")
    options = parser.parse_args(arguments)
    alarms = 0
    with ProcessPoolExecutor(options.at_once) as pool:
        for said in pool.map(run, range(options.first, options.first + options.runs)):
            print(said, flush=True)
            alarms += "\n" in said
    print(f"{options.runs} runs, {alarms} with alarms")
    return int(bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
