"""Exhaustion: many peers that do not read, do not finish, or do not stay."""

import time
from collections.abc import Callable

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.growth import LONG
from conformance.dialogue.scenario import Connect
from conformance.dialogue.shortage import before_shortage, leaves_descriptors
from conformance.target.resources import Resources
from conformance.target.target import Target
from conformance.verdict import Deviation, NotTestable
from reference_server.system import allow_many_connections

LARGE = 60_000
"""Bytes of a body that is owed again and again."""
OWED = 128
"""Times that it is owed to each peer: more than systems keep for a connection."""
ALLOWED = 16
"""Of the largest bodies, what a peer may cost a server: one that comes, one that goes, and copies.

An interpreter may need some more of everything.
"""
PAGE = 4096
"""Bytes of memory that a server takes at least."""
REFUSED = 2**21
"""Bytes of a body that is too big which a peer sends."""
SERVED_WITHIN = 1.0
"""Seconds in which another client is served."""
SETTLES = 5.0
"""Seconds after which it is no longer waited for that it takes no more."""
QUIET = 0.05
"""Seconds after which it is looked again whether a server still works."""
RESTS = 0.01
"""Seconds for which it then needs a CPU at most that has nothing more to do."""


def _largest(server: Target) -> int:
    usual = server.profile.max_job_size
    return min(server.traits.max_body or usual, usual)


def _connected(server: Target, connect: Connect) -> list[Connection]:
    allow_many_connections()
    return [connect() for _ in range(server.limits.peers)]


def _slow_readers(server: Target, client: Connection, connect: Connect) -> list[Connection]:
    """Let peers be owed megabytes, of which they read nothing."""
    server.needs_body(LARGE)
    if not server.traits.pipelines:
        raise NotTestable("needs a target that takes several commands at once")
    with before_shortage():
        job = client.put(b"0123456789" * (LARGE // 10), ttr=LONG)
    peers = _connected(server, connect)
    for peer in peers:
        peer.transport.keep_little()
        peer.transport.send(b"peek %d\r\n" % job * OWED)
    return peers


def _half_senders(server: Target, connect: Connect) -> list[Connection]:
    """Let peers send the whole of the largest body, except its last byte."""
    size = _largest(server)
    peers = _connected(server, connect)
    for peer in peers:
        peer.transport.send(b"put 0 0 60 %d\r\n" % size + b"x" * (size - 1))
    return peers


def _refused(server: Target, connect: Connect) -> list[Connection]:
    """Let peers send much of a body that is too big."""
    size = (server.traits.max_body or server.profile.max_job_size) + 2 * REFUSED
    peers = _connected(server, connect)
    for peer in peers:
        peer.transport.send(b"put 0 0 60 %d\r\n" % size + b"x" * REFUSED)
    return peers


def _is_bounded(
    server: Target, client: Connection, resources: Resources, begin: Callable[[], list[Connection]]
) -> None:
    """Expect that peers cost a server no more memory than the limits of the text imply."""
    client.linger()
    before = resources.memory
    peers = begin()
    took = _settled(client, resources, peers) - before
    _close(peers)
    # Memory comes in pages.
    most = len(peers) * ALLOWED * max(_largest(server), PAGE)
    if took > most:
        if resources.keeps_freed_memory:
            raise NotTestable("needs a server without a sanitizer, which keeps what was freed")
        raise Deviation(
            f"{most // 2**20} MB of memory at most for {len(peers)} peers",
            f"{took // 2**20} MB more than before",
            conclusive=True,
        )


def _settled(client: Connection, resources: Resources, peers: list[Connection]) -> int:
    """Return the memory of a server when it takes no more, and has taken in what peers send."""
    end, most, works = time.monotonic() + SETTLES, resources.memory, True
    while (works or any(peer.transport.unsent for peer in peers)) and time.monotonic() < end:
        needed = resources.cpu_time().wanted
        for peer in peers:
            peer.transport.send_on()
        client.tested.linger()
        time.sleep(QUIET)
        works = resources.cpu_time().wanted - needed > RESTS
        most = max(most, resources.memory)
    return most


def _are_served(*others: Connection) -> None:
    """Expect that others are served soon, those that are connected and new ones."""
    others[0].tested.linger()
    for other in others:
        for _ in range(5):
            begun = time.monotonic()
            other.raw(other.ping).any_reply()
            if (took := time.monotonic() - begun) > SERVED_WITHIN:
                raise Deviation(
                    f"a reply within {SERVED_WITHIN:g} s", f"it took {took:.1f} s", waited=took
                )


def _close(peers: list[Connection]) -> None:
    for peer in peers:
        peer.close()


@requirement(
    "exhaustion.slow-readers-memory",
    "beanstalkd performs very well with a large number of open connections",
)
def test_what_nobody_reads_takes_bounded_memory(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    _is_bounded(own_server, client, resources, lambda: _slow_readers(own_server, client, connect))


@requirement(
    "exhaustion.slow-readers-others",
    "beanstalkd performs very well with a large number of open connections",
)
def test_others_are_served_while_many_do_not_read(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    peers = _slow_readers(own_server, client, connect)
    _settled(client, resources, peers)
    _are_served(client, connect())
    _close(peers)


@requirement(
    "exhaustion.half-sent-memory",
    "beanstalkd performs very well with a large number of open connections",
)
def test_bodies_that_do_not_end_take_bounded_memory(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    _is_bounded(own_server, client, resources, lambda: _half_senders(own_server, connect))


@requirement(
    "exhaustion.half-sent-others",
    "beanstalkd performs very well with a large number of open connections",
)
def test_others_are_served_while_many_bodies_do_not_end(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    peers = _half_senders(own_server, connect)
    _settled(client, resources, peers)
    _are_served(client, connect())
    _close(peers)


@requirement(
    "exhaustion.refused-bodies-memory",
    "beanstalkd performs very well with a large number of open connections",
)
def test_bodies_that_are_too_big_take_no_memory(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    _is_bounded(own_server, client, resources, lambda: _refused(own_server, connect))


@requirement(
    "exhaustion.short-connections",
    "beanstalkd performs very well with a large number of open connections",
)
def test_many_short_connections_leave_nothing(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    def come_and_go() -> None:
        for _ in range(own_server.limits.peers):
            connect().close()
            connect().reset()
            begun = connect()
            begun.transport.send(b"put 0 0 60 10\r\nabc")
            begun.reset()
        other = connect()
        _are_served(client, other)
        other.close()

    client.linger()
    leaves_descriptors(client, resources, come_and_go)


@requirement(
    "exhaustion.vanished-peers",
    "beanstalkd performs very well with a large number of open connections",
)
def test_the_system_looks_for_peers_that_are_idle(
    own_server: Target, client: Connection, connect: Connect, resources: Resources
) -> None:
    waiting = connect()
    # It may be busy with others, and says nothing of a client that it has not come to.
    waiting.linger()
    waiting.send("reserve")
    client.linger()
    if (ports := waiting.transport.ports) is None:
        raise NotTestable("needs TCP: the end of a UNIX socket is always reported")
    if resources.keeps_alive(*ports) is None:
        raise NotTestable("the connection cannot be seen in /proc")
    if not client.eventually(lambda: bool(resources.keeps_alive(*ports))):
        raise Deviation(
            "a server that lets the system look whether idle peers are still there (SO_KEEPALIVE)",
            "peers that vanish without a word are kept for ever",
            conclusive=True,
        )
