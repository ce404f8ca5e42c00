"""The timeouts and sizes that a target must respect, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The seconds of real time that a target may take, and the bytes that it must read.

    :attr:`Target.limits` is where every client of a target finds it. A caller with less time makes
    another value of it by :func:`dataclasses.replace`. How often it is looked meanwhile is no
    matter of the target, and is not here.
    """

    start: float = 8.0
    """Seconds until a launched server listens, while it needs no CPU."""
    probe: float = 5.0
    """Seconds until it has answered for the first time, and until a connection is open."""
    detection: float = 2.0
    """Seconds until it has answered the commands that reveal its profile."""
    reply: float = 5.0
    """Seconds after which a reply that is due is taken to be missing."""
    raced: float = 1.0
    """Seconds after which a reply is missing in an attempt that is then repeated anyway."""
    arrival: tuple[float, ...] = (0.0, 0.05, 0.5)
    """For each attempt at a test, the seconds in which a pending command reaches it."""
    alive: float = 2.0
    """Seconds within which a server that is alive answers a new connection."""
    starved: float = 60.0
    """Seconds that a server gets at most because others need the CPU."""
    exit: float = 1.0
    """Seconds within which a process has ended whose connections have."""
    lateness: float = 0.25
    """Seconds by which a timer may be late."""
    soon: float = 0.5
    """Seconds, at least, for what must happen though no text says when."""
    renewal: float = 3.0
    """Seconds for which statistics may be kept."""
    grace: float = 0.01
    """Seconds for a server that answers each client in a thread, under a real clock."""
    clean_up: float = 5.0
    """Seconds until it has ended a test's connections and deleted its jobs."""
    farewell: float = 2.0
    """Seconds until it has deleted all that a run has left, as somebody may wait for that."""
    goodbye: float = 0.5
    """Seconds until it has noticed that a client has gone."""
    peers: int = 50
    """Peers that misbehave at a time."""
    behind: int = 2**15
    """Bytes that a client may send while it waits: a target need not read more, nor see its end."""


USUAL = Limits()
"""The limits of a target unless an option changes them."""
