"""Detects the profile of a target from its version and its replies."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from conformance import yamlish
from conformance.target.address import Address, ask, visit
from reference_server.commands import COMMANDS
from reference_server.profiles import (
    NEUTRAL,
    NEWEST,
    PROFILES,
    Profile,
    number_of_version,
    profile_of_version,
)
from reference_server.wire import BAD_FORMAT, UNKNOWN_COMMAND, ProtocolError, Reply

_STATISTICS = {"stats": b"stats", "stats-tube": b"stats-tube default"}
_OF_THE_OLDEST = {b"peek": ("NOT_FOUND", "FOUND"), b"stats 0": ("NOT_FOUND",)}
"""Lines that only servers without tubes answer like this: peek without an id, stats with one."""
_STRING = re.compile(rb"(?m)^(?:name|hostname): *(\S)")


def recognise(address: Address, version: str, limit: float) -> tuple[Profile, str]:
    """Return the profile of a server, and why; each reply may take ``limit`` seconds.

    A server may say any version, or none; one that knows more than its version has is newer. What
    it knows counts more than what it does not know: one that lacks a command is no older server.
    """
    stated = profile_of_version(version)
    if stated is NEWEST:
        return stated, _why_stated(stated, version)
    known, missing, stats = _news(address, limit)
    order = list(PROFILES.values())
    oldest = order[0]
    latest = max(known, key=order.index, default=oldest)
    if stated is not None and stated is not oldest and order.index(stated) >= order.index(latest):
        return stated, _why_stated(stated, version)
    if latest is oldest:
        shown = sum(_answers(address, line, words, limit) for line, words in _OF_THE_OLDEST.items())
        if stated is oldest and shown:
            return stated, _why_stated(stated, version)
        if shown < len(_OF_THE_OLDEST):
            return NEWEST, "the newest, as no profile fits: it has no tubes, and is not like 0.6"
    gap = next((profile for profile in missing if order.index(profile) < order.index(latest)), None)
    if gap is not None:
        why = f"it has no {missing[gap]}, but {known[latest]}"
        return NEWEST, f"the newest, as no profile fits: {why}"
    if not missing and not _keys(stats):
        return NEWEST, "the newest, as its stats cannot be read"
    if not missing:
        return NEWEST, "as it has all that is asked for"
    first, name = next(iter(missing.items()))
    return order[order.index(first) - 1], f"as it has no {name}"


def _why_stated(profile: Profile, version: str) -> str:
    """Return why a server is judged by its version's profile, and whether that does it justice."""
    number = number_of_version(version)
    if number is None or number >= profile.written:
        return "as its stats say"
    older = f"but it is older than {profile.document}, so that what deviates may be due to that"
    return f"as its stats say, {older}"


class KnownLine(NamedTuple):
    """A line that a server answers; ``neutral``: the same, if the answer is that of a neutral."""

    line: bytes
    neutral: bytes | None


def known_line(address: Address, limit: float) -> KnownLine | None:
    """Return a line that a server answers as a beanstalk server does, if there is any.

    One that gets no second reply is preferred, and then one that changes nothing. All are sent at
    once, as each may take ``limit`` seconds.
    """
    asked = {one.probe: one.replies for one in COMMANDS.values() if one.probe is not None}
    probes = {line: asked[line] for line in (*NEUTRAL, *asked)}

    def is_answered(line: bytes) -> bool:
        return _answers(address, line, probes[line], limit)

    with ThreadPoolExecutor(len(probes)) as pool:
        answered = [*itertools.compress(probes, pool.map(is_answered, probes))]
    if not answered:
        return None
    once = (line for line in answered if _is_answered_once(address, line, limit))
    line = next(once, answered[0])
    is_neutral = line in NEUTRAL and _answers(address, line, ("NOT_FOUND",), limit)
    return KnownLine(line, line if is_neutral else None)


def answers(address: Address, line: bytes, limit: float) -> bool:
    """Tell whether a server answers a command with one of the replies that it has."""
    return _answers(address, line, COMMANDS[line.split()[0].decode()].replies, limit)


def _is_answered_once(address: Address, line: bytes, limit: float) -> bool:
    """Tell whether nothing follows the reply to a line within ``limit`` seconds."""
    with contextlib.suppress(OSError, EOFError, ProtocolError), visit(address, limit) as client:
        ask(client, line, limit, tells_priority=None)
        return not client.receive_within(limit)
    return False


def _news(address: Address, limit: float) -> tuple[dict[Profile, str], dict[Profile, str], bytes]:
    """Return the profiles with a novelty that is found, those with none, and the stats body.

    The oldest comes first. A profile is in neither list if its novelties cannot be probed. Stats
    are probed last.
    """
    replies = {name: _ask(address, line, limit) for name, line in _STATISTICS.items()}
    bodies = {name: reply.body or b"" for name, reply in replies.items() if reply is not None}
    known: dict[Profile, str] = {}
    missing: dict[Profile, str] = {}
    older, *newer = PROFILES.values()
    for profile in newer:
        absent = []
        for name, is_there in _new_things(address, bodies, older, profile, limit):
            if is_there:
                known[profile] = name
                break
            absent.append(name)
        else:
            if absent:
                missing[profile] = absent[0]
        older = profile
    return known, missing, bodies.get("stats", b"")


def _new_things(
    address: Address, bodies: dict[str, bytes], older: Profile, profile: Profile, limit: float
) -> Iterator[tuple[str, bool]]:
    """Yield the novelties of a profile that can be probed, and whether a server has them."""
    for verb, grammar in COMMANDS.items():
        if verb in profile.commands - older.commands and grammar.probe is not None:
            reply = _ask(address, grammar.probe, limit)
            yield verb, reply not in (None, UNKNOWN_COMMAND, BAD_FORMAT)
    for command, body in bodies.items():
        keys = _keys(body)
        for name in sorted(older.lacks - profile.lacks) if keys else ():
            if name.startswith(f"{command}."):
                key = name.removeprefix(f"{command}.")
                yield f"{key} in {command}", key in keys
    if set(profile.name_chars) - set(older.name_chars):
        reply = _ask(address, b"stats-tube conformance_name", limit)
        if reply is not None and reply.word in ("OK", "NOT_FOUND", "BAD_FORMAT"):
            yield "underscores in names", reply != BAD_FORMAT
    if profile.yaml_quotes and not older.yaml_quotes:
        quoted = quotes_strings(bodies.values())
        if quoted is not None:
            yield "quoted strings in stats", quoted


def quotes_strings(bodies: Iterable[bytes]) -> bool | None:
    """Return whether statistics have strings in quotes; None if none shows it."""
    # What cannot be read shows nothing of how it was meant.
    readable = [body for body in bodies if _keys(body)]
    begins = [match[1] for body in readable for match in _STRING.finditer(body)]
    return b'"' in begins if begins else None


def _keys(body: bytes) -> set[str]:
    """Return the keys of statistics; none if they cannot be read."""
    try:
        return set(yamlish.dictionary(body))
    except ValueError:
        return set()


def _answers(address: Address, line: bytes, words: tuple[str, ...], limit: float) -> bool:
    reply = _ask(address, line, limit)
    return reply is not None and reply.word in words


def _ask(address: Address, line: bytes, limit: float) -> Reply | None:
    """Return the answer, None if there is none: some servers hang up on what they do not know."""
    try:
        with visit(address, limit) as sock:
            return ask(sock, line, limit, tells_priority=None)
    except ProtocolError as error:
        # It knows the command, and answers wrongly.
        return Reply(str(error))
    except (OSError, EOFError):
        return None
