"""Exhaustion: clients of a server that gets no more descriptors, or that cannot accept them."""

import contextlib
from collections.abc import Callable

import pytest
from _pytest.mark import ParameterSet

from conformance.catalogue import configured, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.dialogue.shortage import before_shortage, leaves_descriptors, let_calls_succeed
from conformance.target.resources import Resources
from conformance.target.resting import rests_at_first, share, unrest
from conformance.target.target import Target
from conformance.verdict import Deviation, OutcomeKind, TargetLost

SERVED, SPARE, TOO_MANY = 8, 2, 6
"""Clients that are connected before, that may come, and that come."""

Way = Callable[[Resources], object]
"""It keeps a server from accepting clients."""


def _fail(reason: str, *calls: str, step: int = 1) -> ParameterSet:
    """Return the way in which one in ``step`` of each of these calls fails for a reason."""

    def way(resources: Resources) -> None:
        resources.fail(reason, *calls, step=step)

    return pytest.param(way, id=f"{calls[0]}-{reason}{f'-{step}' if step > 1 else ''}")


# The errors that others than the server itself are to blame for.
REFUSED = [
    _fail(reason, "accept", "accept4") for reason in ("ECONNABORTED", "ENFILE", "ENOMEM", "EPERM")
]
UNPREPARED = [_fail("ENOMEM", "fcntl", "ioctl", step=step) for step in (1, 2)]
"""A client that was accepted cannot be prepared, or not to its end."""
UNWATCHED = _fail("ENOMEM", "epoll_ctl")
"""No client can be watched any more."""
UNALLOCATED = pytest.param(Resources.refuse_allocations, id="no-allocation")


def _exhaust(
    connect: Connect, resources: Resources, earlier: Connect | None = None
) -> tuple[list[Connection], list[Connection]]:
    """Let clients come until there are no descriptors left; return the earlier and the later."""
    served = _served(earlier or connect)
    return served, _exhausted(served, connect, resources)


def _served(connect: Connect) -> list[Connection]:
    """Return clients that have been answered."""
    with before_shortage():
        served = [connect() for _ in range(SERVED)]
        for client in served:
            client.linger()
    return served


def _exhausted(
    served: list[Connection], connect: Connect, resources: Resources
) -> list[Connection]:
    """Return the clients that come until there are no descriptors left."""
    resources.limit_descriptors(SPARE)
    late = _come(connect)
    for client in served:
        client.tested.linger()
    return late


def _come(connect: Connect) -> list[Connection]:
    """Return new clients that are not accepted, or some of them not."""
    late: list[Connection] = []
    for _ in range(TOO_MANY):
        try:
            late.append(connect())
        except TargetLost as lost:
            if lost.outage.kind is not OutcomeKind.HANGS:
                raise
            # It lets the system keep others away, until somebody leaves.
            break
    return late


@requirement(
    "exhaustion.descriptors-connected",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
def test_who_is_connected_is_served_without_descriptors(
    own_server: Target, new_client: Connect, connect: Connect, resources: Resources
) -> None:
    served, late = _exhaust(connect, resources, new_client)
    for client in served:
        job = client.tested.put_and_reserve()
        client.tested.delete(job)
    _close(late)


@requirement(
    "exhaustion.descriptors-no-spinning",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
def test_without_descriptors_a_server_rests_when_nobody_sends(
    own_server: Target, connect: Connect, resources: Resources
) -> None:
    rests_at_first(resources)
    served = _served(connect)
    late = _exhausted(served, connect, resources)
    needs = unrest(resources)
    _close(late)
    if needs:
        raise Deviation(
            "a server that waits while clients wait to be accepted",
            f"it needed a CPU for {share(needs)} of the time at least, and wrote"
            f" {sum(need.written for need in needs):,} bytes",
            conclusive=True,
        )


@requirement(
    "exhaustion.descriptors-serves-again",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
def test_new_clients_are_served_when_others_have_left(
    own_server: Target, connect: Connect, resources: Resources
) -> None:
    served, late = _exhaust(connect, resources)
    waiting = [(client, client.raw(client.ping)) for client in late if not client.stopped]
    _close(served)
    for client, ping in waiting:
        try:
            ping.any_reply()
        except Deviation:
            # It may have been hung up on when there was no descriptor for it.
            if not client.stopped:
                raise
    _close(late)
    client = connect()
    if not client.eventually(lambda: connect().is_served()):
        client.tested.linger()


@requirement(
    "exhaustion.descriptors-all-given-back",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
def test_who_could_not_be_accepted_leaves_no_descriptor(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    def come_and_go() -> None:
        served, late = _exhaust(connect, resources)
        _close(served + late)
        resources.lift()
        client.tested.linger()

    client.linger()
    leaves_descriptors(client, resources, come_and_go)


@requirement(
    "exhaustion.descriptors-all-given-back",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
@configured(allocations=True)
@pytest.mark.parametrize("way", [*UNPREPARED, UNALLOCATED])
def test_who_was_accepted_in_vain_leaves_no_descriptor(
    own_server: Target, client: Connection, connect: Connect, resources: Resources, way: Way
) -> None:
    def come_and_go() -> None:
        way(resources)
        late = _come(connect)
        client.tested.linger()
        let_calls_succeed(resources)
        _close(late)

    client.linger()
    leaves_descriptors(client, resources, come_and_go)


@requirement(
    "exhaustion.accept-connected",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
@pytest.mark.parametrize("way", [*REFUSED, *UNPREPARED])
def test_who_is_connected_is_served_while_nobody_can_be_accepted(
    own_server: Target, new_client: Connect, connect: Connect, resources: Resources, way: Way
) -> None:
    served = _served(new_client)
    way(resources)
    late = _come(connect)
    for client in served:
        job = client.tested.put_and_reserve()
        client.tested.delete(job)
    let_calls_succeed(resources)
    _close(late)


@requirement(
    "exhaustion.accept-serves-again",
    "Clients connect, send commands and data, wait for responses, and close the connection.",
)
@configured(allocations=True)
@pytest.mark.parametrize("way", [*REFUSED, *UNPREPARED, UNWATCHED, UNALLOCATED])
def test_new_clients_are_served_when_they_can_be_accepted_again(
    own_server: Target, connect: Connect, resources: Resources, way: Way
) -> None:
    served = _served(connect)
    way(resources)
    late = _come(connect)
    with contextlib.suppress(Deviation):
        # Whether that is served is another requirement.
        served[0].linger()
    let_calls_succeed(resources)
    _close(late)
    client = connect()
    if not client.eventually(lambda: connect().is_served()):
        client.tested.linger()


def _close(clients: list[Connection]) -> None:
    for client in clients:
        client.close()
