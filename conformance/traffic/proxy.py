"""The proxy: a forwarder, and the process that judges what it forwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

from conformance.target.address import Address
from conformance.target.watchdog import ENDINGS
from conformance.traffic.feed import BOUND, Feed
from conformance.traffic.forwarder import Forwarder, listening
from conformance.traffic.judging import FAILED, Setup
from reference_server.system import allow_many_connections

ENDS_WITHIN = 60.0
"""Seconds that the judge has for what it has not judged when the proxy ends."""


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
    allow_many_connections()
    listener = listening(*listen)
    setup = replace(setup, proxy=os.getpid())
    command = [sys.executable, "-m", "conformance.traffic.judging", setup.encode()]
    # The judge ends when the events end, not by the signals of a terminal.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True
    ) as judging:
        assert judging.stdin is not None
        feed = Feed(judging.stdin.fileno(), bound)
        forwarder = Forwarder(listener, target, feed)
        for number in ENDINGS:
            # nohup ignores SIGHUP; a shell ignores SIGINT for all that it runs in the background.
            if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: forwarder.stop())
        ready(listener.getsockname()[1])
        forwarder.run()
        if not feed.close(ENDS_WITHIN):
            print("not all was judged: the judge had ended, or was too slow", file=sys.stderr)
        judging.stdin = None
        code = judging.wait()
    return code if 0 <= code <= FAILED else FAILED
