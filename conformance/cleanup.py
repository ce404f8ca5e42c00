"""What the suite has put on a target is taken away again."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable

from conformance import yamlish
from conformance.address import ask, visit
from conformance.target import Target
from reference_server.wire import ProtocolError

KICKS = 1000
"""Jobs of a tube that are kicked to get at one of them."""


def delete_jobs(target: Target, jobs: Iterable[int], limit: float) -> None:
    """Deletes jobs of ours, in whatever state; gives up ``limit`` seconds after a reply."""
    with (
        contextlib.suppress(OSError, EOFError, ProtocolError, ValueError),
        visit(target.address, limit) as sock,
    ):
        for job in jobs:
            found = ask(sock, b"delete %d" % job, limit)
            if found.word == "NOT_FOUND" and not target.profile.deletes_delayed:
                _kick_and_delete(target, sock, job, limit)


def _kick_and_delete(target: Target, sock: socket.socket, job: int, limit: float) -> None:
    stats = yamlish.dictionary(ask(sock, b"stats-job %d" % job, limit).body or b"")
    shared = stats.get("tube") == "default" and not target.exclusive
    if stats.get("state") != "delayed" or shared:
        # Where it is shared, jobs of others might be kicked.
        return
    ask(sock, f"use {stats['tube']}".encode(), limit)
    for _ in range(KICKS):
        ask(sock, b"kick 1", limit)
        if ask(sock, b"delete %d" % job, limit).word == "DELETED":
            return
