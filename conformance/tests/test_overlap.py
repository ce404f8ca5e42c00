"""Any overlap: many clients at work at the same time on the same tubes."""

from __future__ import annotations

import time
from itertools import cycle
from random import Random

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.many_clients import gather
from conformance.dialogue.scenario import Connect, NewTube
from conformance.oracle.diagnosis import step_of
from conformance.oracle.invariants import Ledger, NotReleased
from conformance.oracle.linearizability import Misplaced
from conformance.oracle.violation import Violation
from conformance.random_testing.concurrent_clients import ConcurrentClients, NotEnded
from conformance.random_testing.exploration import Exploration
from conformance.target.target import Target
from conformance.transcript import Entry, Transcript
from conformance.verdict import Deviation, Inconclusive

SIZES = (2, 3, 4, 6, 8, 12, 16, 2, 3, 4, 6, 8, 12, 16, 32)
"""Clients of one crowd after the other: a finding of few clients is short, and judged fast."""
AS_SEEN = "not minimised, as what overlaps is not the same twice"


@requirement(
    "protocol.any-overlap",
    "This will return a newly-reserved job. If no job is available to be reserved, beanstalkd "
    "will wait to send a response until one becomes available.",
)
def test_any_overlap(
    server: Target,
    connect: Connect,
    new_tube: NewTube,
    transcript: Transcript,
    exploration: Exploration,
) -> str:
    largest = gather(iter(range(max(SIZES))), connect, Connection.synchronise)
    end = time.monotonic() + server.limits.clean_up
    for client in largest:
        client.finish(end)
    chance = Random(exploration.seed)
    ledger = Ledger(orders_tubes=exploration.profile.first_in_first_out)
    count = exploration.examples
    tidy, half_closes = False, server.traits.ends_connections
    # What would hide all else; it is looked for no more.
    found: list[tuple[Deviation, list[Entry]]] = []
    for _, clients in zip(exploration.budget.turns(count), cycle(SIZES), strict=False):
        count_of_tubes = chance.choice((1, 2, 3, 5)) if exploration.profile.has_tubes else 0
        tubes = [new_tube() for _ in range(count_of_tubes)]
        crowd = ConcurrentClients(
            server, tubes, chance, ledger, exploration.profile, tidy, half_closes
        )
        exploration.remember(crowd.transcript)
        try:
            crowd.run(clients, 40 + 4 * clients)
        except Inconclusive:
            exploration.undecided += 1
        except Violation as violation:
            mark = crowd.show(transcript, violation)
            expected = " or ".join(violation.expected)
            observed = f"{violation.observed}, {clients} clients at work; {AS_SEEN}"
            step = step_of(violation)
            deviation = Deviation(expected, observed, mark, conclusive=True, step=step)
            deviation.whole = crowd.whole(violation)
            deviation.suspects = (violation.requirement,) if violation.requirement else ()
            deviation.de_facto = isinstance(violation, (NotReleased, Misplaced))
            if not isinstance(violation, (NotReleased, Misplaced, NotEnded)):
                raise deviation from violation
            found.append((deviation, list(transcript.entries)))
            tidy |= isinstance(violation, NotReleased)
            half_closes &= not isinstance(violation, NotEnded)
        finally:
            crowd.abandon()
    if found:
        worst, transcript.entries[:] = min(found, key=lambda shown: shown[0].de_facto)
        raise worst
    return exploration.shortfall(count, "crowds")
