"""Which profile a target speaks: by the version that it tells, and by what it knows."""

from __future__ import annotations

from conformance.address import Address, ask, visit
from reference_server.profiles import NEWEST, PROFILES, Profile, profile_of_version
from reference_server.wire import BAD_FORMAT, UNKNOWN_COMMAND, ProtocolError, Reply

LIMIT = 2.0
"""Seconds that a reply may take."""
_HARMLESS = {"use": b"use default", "kick-job": b"kick-job 0", "reserve-job": b"reserve-job 0"}
"""Of commands that not all profiles have, a line of which nothing comes: nobody has such a job."""
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
        for verb, line in _HARMLESS.items():
            if verb in profile.commands - older.commands:
                reply = _ask(address, line)
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
    except ProtocolError as error:
        # It knows the command, and answers wrongly.
        return Reply(str(error))
    except (OSError, EOFError):
        return None
