"""Signals by name, as not every system has those of POSIX."""

from __future__ import annotations

import signal

from conformance.verdict import NotTestable


def named(name: str) -> signal.Signals:
    """Return the signal of a name; raises NotTestable if this system has none."""
    try:
        return signal.Signals[name]
    except KeyError:
        raise NotTestable(f"needs a system with the signal {name}") from None
