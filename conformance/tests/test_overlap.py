"""Any overlap: many clients at work at the same time on the same tubes."""

from __future__ import annotations

from itertools import cycle
from random import Random

from conformance.catalogue import requirement
from conformance.dialogue.scenario import NewTube
from conformance.oracle.invariants import Ledger, NotReleased
from conformance.oracle.oracle import Violation
from conformance.random_testing.concurrent_clients import Crowd
from conformance.random_testing.exploration import Exploration
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.verdict import Deviation, Inconclusive

SIZES = (2, 3, 4, 6, 8, 12, 16, 2, 3, 4, 6, 8, 12, 16, 32)
"""Clients of one crowd after the other: what few of them show is told best, and judged fastest."""
CROWDS = 2
"""Crowds that take about as long as one other conversation."""


@requirement("protocol.any-overlap")
def test_any_overlap(
    server: Target, new_tube: NewTube, transcript: Transcript, exploration: Exploration
) -> str:
    chance, ledger = Random(exploration.seed), Ledger()
    count = CROWDS * exploration.examples
    not_released: Deviation | None = None
    for _, clients in zip(exploration.budget.turns(count), cycle(SIZES), strict=False):
        count_of_tubes = chance.choice((1, 2, 3, 5)) if exploration.profile.has_tubes else 0
        tubes = [new_tube() for _ in range(count_of_tubes)]
        patience, tidy = exploration.patience, not_released is not None
        crowd = Crowd(server, tubes, chance, ledger, exploration.profile, patience, tidy)
        exploration.remember(crowd.transcript)
        try:
            crowd.run(clients, 40 + 4 * clients)
        except Inconclusive:
            exploration.undecided += 1
        except Violation as violation:
            mark = crowd.show(transcript, violation)
            expected = " or ".join(violation.expected)
            observed = f"{violation.observed}, {clients} clients at work"
            deviation = Deviation(expected, observed, mark, conclusive=True)
            if not isinstance(violation, NotReleased):
                raise deviation from violation
            not_released = deviation
            not_released.de_facto = True
        finally:
            crowd.abandon()
    if not_released is not None:
        raise not_released
    return exploration.told(count, "crowds")
