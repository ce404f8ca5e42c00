"""The events that a server sees, and the outputs that they cause."""

from __future__ import annotations

from typing import NamedTuple

from reference_server.wire import Body, Command, Malformed, Put, Reply


class Connected(NamedTuple):
    """A client connected."""


class HalfClose(NamedTuple):
    """A client will send nothing more, but still reads."""


class Close(NamedTuple):
    """A connection is gone."""


class Tick(NamedTuple):
    """Time passed."""


class Drain(NamedTuple):
    """The server shall accept no more jobs (SIGUSR1)."""


class Hangup(NamedTuple):
    """Not a reply: the server closes the connection."""


Event = Connected | Command | Put | Body | Malformed | HalfClose | Close | Tick | Drain
Output = tuple[int, Reply | Hangup]
"""A connection and what it gets."""
