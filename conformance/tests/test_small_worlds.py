"""Any transition of small worlds: each is taken, and all of the state is looked at behind it."""

from __future__ import annotations

import time

from conformance.catalogue import requirement
from conformance.random_testing.exploration import Exploration
from conformance.small_worlds.recorded_tour import recorded_tour
from conformance.small_worlds.visit import SPARE, Visit, untimed, worlds_for
from conformance.small_worlds.world import WORLDS
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.verdict import NotTestable

SECONDS = 0.2
"""Seconds that all tours together may take for each example."""


@requirement(
    "protocol.any-transition",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_any_transition(server: Target, transcript: Transcript, exploration: Exploration) -> str:
    if not (server.exclusive or server.profile.has_tubes):
        raise NotTestable("needs --launch: a server of its own, for jobs of its own")
    tours = [recorded_tour(world, server.profile) for world in worlds_for(server, WORLDS)]
    tours.sort(key=lambda tour: tour.graph.transitions)

    def make_up() -> str:
        left = min(SECONDS * exploration.examples, exploration.budget.seconds)
        spare = SPARE
        exploration.worlds.clear()
        with untimed(server) as other:
            for tour in tours:
                target = server if tour.world.timed else other
                if left > 0:
                    exploration.restart(target)
                # A server that starts slowly does not shorten its tours.
                begun = time.monotonic()
                visit = Visit(tour, target, exploration, begun + left, spare)
                found = visit.run()
                left -= time.monotonic() - begun - visit.recording - visit.judging
                spare = visit.spare
                exploration.worlds.append(visit.seen())
                if found is not None:
                    raise visit.deviation(found, transcript) from found.violation
        # A tour that ran out of time leaves a pause of default.
        exploration.restart(server)
        return exploration.told_of_transitions()

    return exploration.judge(server, transcript, make_up)
