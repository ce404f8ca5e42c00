"""Which profile a target speaks: by the version that it tells, and by what it knows."""

from __future__ import annotations

import socket

from conformance.address import ask
from reference_server.profiles import NEWEST, PROFILES, Profile, profile_of_version
from reference_server.wire import BAD_FORMAT, OK, UNKNOWN_COMMAND, Reply

LIMIT = 5.0
"""Seconds that a reply may take."""
_QUOTED = 'name: "default"'


def recognise(sock: socket.socket, version: str) -> tuple[Profile, str]:
    """The profile of a server, and why; raises what :func:`conformance.address.ask` raises.

    A server may say any version, or none; one that knows more than its version has is newer.
    """
    probed, missing = _probe(sock)
    told = profile_of_version(version)
    order = list(PROFILES.values())
    if told is not None and order.index(told) >= order.index(probed):
        return told, "as its stats say"
    why = "it knows all that is asked for" if probed is NEWEST else f"it does not know {missing}"
    return probed, f"as {why}"


def _probe(sock: socket.socket) -> tuple[Profile, str]:
    """The newest profile of which everything that is asked for is there, and what is not."""
    found, missing = next(iter(PROFILES.values())), ""
    for older, newer in zip(PROFILES.values(), list(PROFILES.values())[1:], strict=False):
        for verb in sorted(newer.commands - older.commands):
            # About a job that nobody has: nothing comes of it.
            if ask(sock, f"{verb} 0".encode(), LIMIT) in (UNKNOWN_COMMAND, BAD_FORMAT):
                return found, verb
        if newer.yaml_quotes and not older.yaml_quotes and not _quotes(sock):
            return found, "quoted strings in stats"
        found = newer
    return found, missing


def _quotes(sock: socket.socket) -> bool:
    reply: Reply = ask(sock, b"stats-tube default", LIMIT)
    return reply.word == OK(b"").word and _QUOTED in (reply.body or b"").decode("latin-1")
