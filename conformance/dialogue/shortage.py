"""Puts to a server that runs out of memory, and the jobs that it must have afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import UNDER_TEST, Exchange, Role
from conformance.dialogue.growth import LONG
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.verdict import Deviation, NotTestable, OutcomeKind, TargetLost
from reference_server.wire import FOUND, Reply

ROOM = 2**25
"""Bytes of bodies after which a server that still takes them has memory of its own."""
SIZES = ((60_000, ROOM // 60_000), (4_000, 100), (100, 500))
"""The sizes of bodies, and how many are put at most until one is refused."""
LARGE_SIZES = SIZES[:1]
"""The sizes that leave room for small allocations."""
ERRORS = ("OUT_OF_MEMORY", "INTERNAL_ERROR")
"""The replies to whatever a server has no memory for."""
_FILLS = Role("exhaustion.put-out-of-memory")
"""The role of a put that takes the last memory."""


def reply_in_need(client: Connection, exchange: Exchange, *words: str) -> Reply:
    """Return the reply of a server that may have no memory for it; raises Deviation."""
    try:
        return exchange.reply(*words, *ERRORS)
    except Deviation as deviation:
        # The text does not say that a connection outlives exhaustion.
        deviation.de_facto |= client.stopped
        # No timer is near that might explain another word.
        deviation.conclusive |= deviation.step.kind is OutcomeKind.WRONG_REPLY
        raise


@dataclass
class Shortage:
    """The answers to puts: ``jobs`` with their bodies, and how many were refused.

    ``buried``: the jobs of which it said that it has buried them. ``unclear``: how many jobs there
    may be of which it said nothing.
    """

    jobs: dict[int, bytes] = field(default_factory=dict)
    buried: set[int] = field(default_factory=set)
    refused: int = 0
    unclear: int = 0

    def put(self, client: Connection, body: bytes, role: Role = UNDER_TEST) -> bool:
        """Put a job; return whether the server has taken it as it should."""
        return self.is_taken(client, self.sent(client, body, role), body)

    def sent(self, client: Connection, body: bytes, role: Role = UNDER_TEST) -> Exchange:
        """Send a put, which may be answered later."""
        line = f"put 9 0 {LONG} {len(body)}\r\n".encode()
        return client.raw(line + body + b"\r\n", role=role)

    def is_taken(self, client: Connection, put: Exchange, body: bytes) -> bool:
        """Return whether the server has taken a job that was sent, when it says so."""
        reply = reply_in_need(client, put, "INSERTED", "BURIED")
        if reply.args:
            self.jobs[int(reply.args[0])] = body
            self.buried |= {int(reply.args[0])} if reply.word == "BURIED" else set()
        elif reply.word == "OUT_OF_MEMORY":
            self.refused += 1
        else:
            self.unclear += 1
        return reply.word == "INSERTED"

    def are_there(self, client: Connection) -> None:
        """Expect all jobs, whole."""
        client.says([(f"peek {job}", FOUND(job, body)) for job, body in self.jobs.items()])


def leaves_descriptors(
    client: Connection, resources: Resources, come_and_go: Callable[[], None]
) -> None:
    """Expect that clients who come and go leave no descriptor open, if they do so twice.

    With the first clients, a server may open descriptors of its own.
    """
    for _ in range(2):
        left = _left_open(client, resources, come_and_go)
        if left is None:
            return
    raise Deviation("no descriptor of clients that are gone", f"{left} more are open")


def _left_open(
    client: Connection, resources: Resources, come_and_go: Callable[[], None]
) -> int | None:
    """Return how many descriptors more stay open; None if soon there are none."""
    most = resources.descriptors
    come_and_go()
    if client.eventually(lambda: resources.descriptors <= most, with_ends=True):
        return None
    return resources.descriptors - most


@contextlib.contextmanager
def before_shortage() -> Iterator[None]:
    """Raise NotTestable for a failure before the shortage: it is not due to exhaustion.

    The requirement that it breaks has a test of its own.
    """
    try:
        yield
    except TargetLost:
        raise
    except Deviation as deviation:
        if deviation.owner:
            raise
        raise NotTestable(f"it fails without a shortage, too: {deviation}") from deviation


Lack = Callable[[Resources], object]
"""It takes memory from a server."""


def within(spare: int) -> Lack:
    """Let the address space of a server grow by so many bytes at most."""
    return lambda resources: resources.limit_memory(spare)


@contextlib.contextmanager
def short_of_memory(
    server: Target,
    client: Connection,
    resources: Resources,
    lack: Lack,
    kinds: Sequence[tuple[int, int]] = SIZES,
) -> Iterator[Shortage]:
    """Put jobs of these sizes until a server has no room for more; give it room again at the end.

    It lacks memory from when it has taken one job of each size. Raises NotTestable if it takes them
    all.
    """
    shortage = Shortage()
    sizes = [(size, most) for size, most in kinds if server.takes(size)]
    for size, _ in sizes:
        with before_shortage():
            if not shortage.put(client, _body(size)):
                raise Deviation("INSERTED", "a put that was refused")
    lack(resources)
    for size, most in sizes:
        for number in range(most):
            if not shortage.put(client, _body(size, number), _FILLS):
                break
    if not (shortage.refused or shortage.unclear or shortage.buried):
        raise NotTestable(
            f"the server had room for {sum(map(len, shortage.jobs.values())):,} bytes more though"
            " it could get none"
        )
    yield shortage
    resources.lift()
    if not client.stopped:
        # That there is memory again, a server may notice only when something happens.
        client.raw(client.ping).any_reply()


def let_calls_succeed(resources: Resources) -> None:
    """Lift all limits; raises NotTestable if system calls were to fail, and none was made."""
    if resources.lift() == 0:
        raise NotTestable("the server made none of the system calls that were to fail")


def _body(size: int, number: int = 0) -> bytes:
    """Return a body of so many bytes: read as commands, it would be answered again and again."""
    return (b"\r\n%d\r\n" % number * size)[:size]
