"""Which profile a target speaks: by the version that it tells, and by what it knows."""

from __future__ import annotations

from conformance.address import Address, ask, visit
from reference_server.profiles import NEWEST, PROFILES, Profile, profile_of_version
from reference_server.wire import BAD_FORMAT, UNKNOWN_COMMAND, ProtocolError, Reply

LIMIT = 2.0
"""Seconds that a reply may take."""
_QUOTED = b'name: "default"'


def recognise(address: Address, version: str) -> tuple[Profile, str]:
    """The profile of a server, and why.

    A server may say any version, or none; one that knows more than its version has is newer.
    """
    told = profile_of_version(version)
    if told is NEWEST:
        return told, "as its stats say"
    probed, missing = _probe(address)
    order = list(PROFILES.values())
    if told is not None and order.index(told) >= order.index(probed):
        return told, "as its stats say"
    why = f"it does not know {missing}" if missing else "it knows all that is asked for"
    return probed, f"as {why}"


def _probe(address: Address) -> tuple[Profile, str]:
    """The newest profile of which everything that is asked for is there, and what is not."""
    older, *newer = PROFILES.values()
    for profile in newer:
        for verb in sorted(profile.commands - older.commands):
            # About a job that nobody has: nothing comes of it.
            reply = _ask(address, f"{verb} 0".encode())
            if reply in (None, UNKNOWN_COMMAND, BAD_FORMAT):
                return older, verb
        if profile.yaml_quotes and not older.yaml_quotes:
            reply = _ask(address, b"stats-tube default")
            if reply is None or _QUOTED not in (reply.body or b""):
                return older, "quoted strings in stats"
        older = profile
    return older, ""


def _ask(address: Address, line: bytes) -> Reply | None:
    """The answer, None if there is none: some servers hang up on what they do not know."""
    try:
        with visit(address, LIMIT) as sock:
            return ask(sock, line, LIMIT)
    except (OSError, EOFError, ProtocolError):
        return None
