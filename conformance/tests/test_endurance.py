"""Endurance: a server that many clients have used and left rests."""

import time
from collections.abc import Sequence

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.departures import Departing, DepartingClient, departures
from conformance.dialogue.scenario import Connect
from conformance.target.resources import Resources
from conformance.target.resting import Need, lasting_unrest, restless, rests_at_first
from conformance.target.target import Target
from conformance.verdict import Deviation

SECONDS, STEPS, LINGERS = 2.0, 3, 5
"""Seconds in which all depart from a slow server, and the round trips of each and of linger."""
WINDOWS = 2
"""Windows in which a server must not rest after the departure that is to blame."""


@requirement(
    "endurance.idle-cpu-unused",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
def test_a_server_that_nobody_has_used_rests(
    own_server: Target, client: Connection, resources: Resources
) -> None:
    client.linger()
    rests_at_first(resources)


@requirement(
    "endurance.idle-cpu",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
def test_a_server_rests_however_its_clients_have_left(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> str:
    rests_at_first(resources)
    every = departures(own_server)
    chosen = every[: max(int(SECONDS / (STEPS * _round_trip(client))), 1)]
    for free in (None, 0):
        if _unrest_after(chosen, client, connect, resources, free, windows=1):
            own_server.restart()
            client = connect()
            if deviation := _deviation(chosen, client, connect, resources, free):
                raise deviation
        if len(chosen) < len(every):
            return f"{len(chosen)} of {len(every)} departures"
    return ""


def _round_trip(client: Connection) -> float:
    """Return the seconds of a round trip."""
    begun = time.monotonic()
    client.linger()
    return (time.monotonic() - begun) / LINGERS


def _unrest_after(
    chosen: Sequence[DepartingClient],
    client: Connection,
    connect: Connect,
    resources: Resources,
    free: int | None,
    windows: int = WINDOWS,
) -> list[Need]:
    """Return the windows in which a server worked though all had left, if it never rested.

    ``free``: how many descriptors it has left when they begin to leave, if these are limited.
    """
    leaving = Departing(chosen, connect)
    if free is not None:
        resources.limit_descriptors(free)
    leaving.leave()
    client.linger()
    needs = lasting_unrest(resources, windows)
    resources.lift()
    leaving.close()
    return needs


def _deviation(
    chosen: Sequence[DepartingClient],
    client: Connection,
    connect: Connect,
    resources: Resources,
    free: int | None,
) -> Deviation | None:
    """Return the deviation of a server that does not rest, with the departure that started it."""
    for some in (*([one] for one in chosen), chosen):
        if needs := _unrest_after(some, client, connect, resources, free):
            blamed = str(some[0]) if len(some) == 1 else "all its clients have left"
            without = "" if free is None else ", without free descriptors"
            return restless(needs, f"after {blamed}{without}")
    return None
