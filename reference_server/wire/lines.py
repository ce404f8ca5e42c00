"""The grammar of a command line: its bytes, without CR LF, and the request that they mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import le

from reference_server.commands import COMMANDS, U32, U64, ArgumentKind, Grammar
from reference_server.dialect import Added
from reference_server.profiles import NAME_CHARS, Profile
from reference_server.wire.messages import (
    BAD_FORMAT,
    JOB_TOO_BIG,
    UNKNOWN_COMMAND,
    Command,
    Malformed,
    Put,
    Request,
)

_BAD = Malformed(BAD_FORMAT)
_UNKNOWN = Malformed(UNKNOWN_COMMAND)


def _numbers(count: int) -> re.Pattern[bytes]:
    return re.compile(b" *([0-9]+)" + b" +([0-9]+)" * (count - 1))


_FOUR = _numbers(4)
_ONE = _numbers(1)
_NAME_AND_NUMBER = re.compile(b" *([" + re.escape(NAME_CHARS) + b"]+) +([0-9]+)")
_C_INTEGER = re.compile(rb"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_ABOVE_ALL = len(str(U64)) + 1
"""So many digits are above all limits, unless they begin with zeros."""


def integer(text: bytes) -> int:
    """Return the number that digits mean; of too many, one that is beyond all limits, too.

    Python's own conversion refuses more than 4,300 digits.
    """
    if len(text) <= _ABOVE_ALL:
        return int(text)
    sign = b"-" if text.startswith(b"-") else b""
    return int(sign + (text.lstrip(b"+-0")[:_ABOVE_ALL] or b"0"))


def _name(text: bytes, profile: Profile) -> str | None:
    # translate() drops all name characters: what is left over does not belong into a name.
    if not 0 < len(text) <= profile.max_name or text[0] == 0x2D:
        return None
    if text.translate(None, profile.name_chars):
        return None
    return text.decode()


def _parse_put(text: bytes, profile: Profile) -> Request:
    match = _FOUR.match(text)
    if match is None:
        return _BAD
    pri, delay, ttr, size = values = list(map(integer, match.groups()))
    if max(values) > U32:
        return _BAD
    # A body that is too big is skipped, whatever else is wrong with the line.
    if match.end() != len(text) and size <= profile.max_job_size:
        return Malformed(BAD_FORMAT, counts="put")
    if size > profile.max_job_size and not profile.skips_big_bodies:
        return Malformed(JOB_TOO_BIG, counts="put")
    return Put(pri, delay, ttr, size)


_Parse = Callable[[bytes, Profile], Request]


def _numeric(verb: str, kinds: Sequence[ArgumentKind]) -> _Parse:
    pattern, limits = _numbers(len(kinds)), [kind.limit for kind in kinds]

    def parse(text: bytes, _: Profile) -> Request:
        match = pattern.fullmatch(text)
        if match is None:
            return _BAD
        values = tuple(map(integer, match.groups()))
        return Command(verb, values) if all(map(le, values, limits)) else _BAD

    return parse


def _named(verb: str) -> _Parse:
    def parse(text: bytes, profile: Profile) -> Request:
        name = _name(text, profile)
        return _BAD if name is None else Command(verb, (name,))

    return parse


def _counted(verb: str) -> _Parse:
    # A C library's strtoul, cut to 32 bits: signs, and garbage behind the digits, are accepted.
    def parse(text: bytes, _: Profile) -> Request:
        match = _C_INTEGER.match(text)
        if match is None or abs(integer(match[1])) > U64:
            return _BAD
        return Command(verb, (integer(match[1]) & U32,))

    return parse


def _timed(verb: str) -> _Parse:
    # A C library's strtol, cut to 32 bits: without digits it is 0, and below 0 waits for ever.
    def parse(text: bytes, profile: Profile) -> Request:
        if profile.timeout_argument == "strict":
            match = _ONE.match(text)
            if match is None or integer(match[1]) > 2**31 - 1:
                return _BAD
            return Command(verb, (integer(match[1]),))
        match = _C_INTEGER.match(text)
        value = integer(match[1]) if match else 0
        if not -(2**63) <= value < 2**63:
            return _BAD
        value = (value + 2**31) % 2**32 - 2**31
        return Command(verb, (value if value >= 0 else None,))

    return parse


def _named_and_numeric(verb: str) -> _Parse:
    def parse(text: bytes, profile: Profile) -> Request:
        match = _NAME_AND_NUMBER.fullmatch(text)
        if match is None or integer(match[2]) > U32:
            return _BAD
        name = _name(match[1], profile)
        if name is None:
            return Malformed(BAD_FORMAT, counts=verb)
        return Command(verb, (name, integer(match[2])))

    return parse


def _added(added: Added) -> _Parse:
    # What it does is not known: only whether it is well-formed.
    command = Command(added.verb, (added.verb,))

    def parse(text: bytes, _: Profile) -> Request:
        return command if added.takes(text.split(b" ")) else _BAD

    return parse


def _parser(grammar: Grammar) -> _Parse:
    """Return the parser of what follows a command's word; raise ValueError if there is none."""
    if grammar.verb == "put":
        return _parse_put
    if all(kind.is_number for kind in grammar.kinds):
        return _numeric(grammar.verb, grammar.kinds)
    match grammar.kinds:
        case (ArgumentKind.TUBE,):
            return _named(grammar.verb)
        case (ArgumentKind.TUBE, ArgumentKind.SECONDS):
            return _named_and_numeric(grammar.verb)
        case (ArgumentKind.COUNT,):
            return _counted(grammar.verb)
        case (ArgumentKind.TIMEOUT,):
            return _timed(grammar.verb)
    raise ValueError(f"no parser for the arguments of {grammar.verb}")


OPTIONAL_ID = ("peek", "stats")
"""Commands that take an id or none, in profiles where it is optional."""


@cache
def _words(
    commands: frozenset[str], id_is_optional: bool, added: tuple[Added, ...]
) -> tuple[dict[bytes, Command], dict[bytes, _Parse]]:
    """Return the commands of a profile: whole lines, and words that arguments follow."""
    bare, words = {}, {}
    for grammar in map(COMMANDS.__getitem__, commands):
        word = grammar.verb.encode()
        optional = id_is_optional and grammar.verb in OPTIONAL_ID
        if optional or not grammar.kinds:
            bare[word] = Command(grammar.verb)
        if optional:
            words[word] = _numeric(grammar.verb, [ArgumentKind.JOB])
        elif grammar.kinds:
            words[word] = _parser(grammar)
    for one in added:
        if one.grammar is not None and one.grammar.kinds:
            words[one.verb.encode()] = _added(one)
        elif one.grammar is not None:
            bare[one.verb.encode()] = Command(one.verb, (one.verb,))
    return bare, words


def parse_line(line: bytes, profile: Profile) -> Request:
    """Return the request that a command line (without CR LF) means."""
    bare, words = _words(profile.commands, profile.id_is_optional, profile.dialect.added)
    command = bare.get(line)
    if command is not None:
        return command
    if 0 in line:
        return _BAD
    word, blank, rest = line.partition(b" ")
    parse = words.get(word)
    if parse is not None and blank:
        return parse(rest, profile)
    # A command word is recognised as a prefix of the line.
    if line.startswith(b"pause-tube") and b"pause-tube" in words:
        return words[b"pause-tube"](line[len(b"pause-tube") :], profile)
    if line.startswith(b"quit") and b"quit" in bare:
        return bare[b"quit"]
    if line.startswith(tuple(bare)):
        return _BAD
    return _UNKNOWN
