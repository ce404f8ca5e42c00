"""Any transition of small worlds: each is taken, and all of the state is compared after it."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.random_testing.exploration import Exploration
from conformance.small_worlds.tour_time import Allowance
from conformance.small_worlds.tours import tour_of
from conformance.small_worlds.visit import Visit, untimed, worlds_for
from conformance.small_worlds.world import WORLDS
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.verdict import NotTestable

SECONDS, WHOLE = 0.2, 0.8
"""Seconds of each example that all tours together may take, and in which all of them must fit."""


@requirement(
    "protocol.any-transition",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_any_transition(server: Target, transcript: Transcript, exploration: Exploration) -> str:
    if not (server.exclusive or server.profile.has_tubes):
        raise NotTestable("needs --launch: a server of its own, for jobs of its own")
    tours = [tour_of(world, server.profile) for world in worlds_for(server, WORLDS)]
    tours.sort(key=lambda tour: tour.graph.transitions)

    def make_up() -> str:
        seconds, whole = (
            min(each * exploration.examples, exploration.budget.seconds)
            for each in (SECONDS, WHOLE)
        )
        allowance = Allowance(seconds, whole, sum(tour.graph.transitions for tour in tours))
        exploration.worlds.clear()
        with untimed(server) as other:
            for tour in tours:
                target = server if tour.world.timed else other
                with allowance.uncounted():
                    # A server that starts slowly does not shorten its tours.
                    if not allowance.is_over:
                        exploration.restart(target)
                visit = Visit(tour, target, exploration, allowance)
                found = visit.run()
                exploration.worlds.append(visit.seen())
                if found is not None:
                    raise visit.deviation(found, transcript) from found.violation
        # A tour that ran out of time leaves a pause of default.
        exploration.restart(server)
        return exploration.transition_shortfall()

    return exploration.judge(server, transcript, make_up)
