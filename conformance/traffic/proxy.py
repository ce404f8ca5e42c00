"""The proxy: a forwarder, and the process that judges what it forwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

from conformance.target.address import Address
from conformance.traffic.feed import BOUND, Feed
from conformance.traffic.forwarder import Forwarder, listening
from conformance.traffic.judging import FAILED, Setup

try:
    import resource
except ImportError:
    resource = None  # type: ignore[assignment]

ENDS_WITHIN = 60.0
"""Seconds that the judge has for what it has not judged when the proxy ends."""
_MOST_FILES = 1 << 20


def raise_descriptor_limit() -> None:
    """Let this process have as many connections as the system allows."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def forward(
    listen: tuple[str, int],
    target: Address,
    setup: Setup,
    ready: Callable[[int], object],
    bound: int = BOUND,
) -> int:
    """Forward until a signal ends it; return the exit code of the judge.

    ``ready`` gets the port once it listens. Raises OSError if it cannot.
    """
    raise_descriptor_limit()
    listener = listening(*listen)
    setup = replace(setup, proxy=os.getpid())
    command = [sys.executable, "-m", "conformance.traffic.judging", setup.encode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0) as judging:
        assert judging.stdin is not None
        feed = Feed(judging.stdin.fileno(), bound)
        forwarder = Forwarder(listener, target, feed)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: forwarder.stop())
        ready(listener.getsockname()[1])
        forwarder.run()
        if not feed.close(ENDS_WITHIN):
            print("not all was judged: the judge had ended, or was too slow", file=sys.stderr)
        judging.stdin = None
        code = judging.wait()
    return code if 0 <= code <= FAILED else FAILED
