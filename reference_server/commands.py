"""The grammar of the protocol: each command, its arguments and replies, and since when it is there.

This is the one place that lists commands. The codec parses them by it, profiles take from it the
commands that they have, and whoever generates, mutates, classifies, probes or renames commands
asks it. A command that is added here is known to all of them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

U32 = 2**32 - 1
U64 = 2**64 - 1


class ArgumentKind(Enum):
    """The kind of an argument; most are decimal numbers."""

    JOB = "the id of a job, up to 2^64-1"
    PRIORITY = "a priority, up to 2^32-1"
    SECONDS = "a time in seconds, up to 2^32-1"
    SIZE = "a number of bytes, up to 2^32-1; so many follow the line"
    COUNT = "a number of jobs, read as C reads numbers"
    TIMEOUT = "a time in seconds, read as C reads numbers"
    TUBE = "the name of a tube"

    @property
    def limit(self) -> int:
        """The largest number of this kind."""
        return U64 if self is ArgumentKind.JOB else U32

    @property
    def is_number(self) -> bool:
        """Return whether it is a number that is read strictly."""
        return self not in (ArgumentKind.COUNT, ArgumentKind.TIMEOUT, ArgumentKind.TUBE)


class Grammar(NamedTuple):
    """A command: ``since`` names the first profile that has it, ``replies`` are words.

    Besides, any command may be answered BAD_FORMAT, OUT_OF_MEMORY or INTERNAL_ERROR. ``probe`` is
    a line that changes nothing, even where others use the server; None if there is none.
    ``waits``: the reply may come much later.
    """

    verb: str
    since: str
    kinds: tuple[ArgumentKind, ...]
    replies: tuple[str, ...]
    probe: bytes | None
    waits: bool = False

    @property
    def is_about_a_job(self) -> bool:
        """Return whether its first argument is the id of a job."""
        return self.kinds[:1] == (ArgumentKind.JOB,)


_JOB, _PRIORITY, _SECONDS, _TUBE = (
    ArgumentKind.JOB,
    ArgumentKind.PRIORITY,
    ArgumentKind.SECONDS,
    ArgumentKind.TUBE,
)
_PUT = (_PRIORITY, _SECONDS, _SECONDS, ArgumentKind.SIZE)
_RESERVES = ("RESERVED", "DEADLINE_SOON", "TIMED_OUT")
_FINDS = ("FOUND", "NOT_FOUND")
_TELLS = ("OK", "NOT_FOUND")

_TABLE = (
    # Producers.
    Grammar(
        "put",
        "0.6",
        _PUT,
        ("INSERTED", "BURIED", "EXPECTED_CRLF", "JOB_TOO_BIG", "DRAINING"),
        None,
    ),
    Grammar("use", "1.0", (_TUBE,), ("USING",), b"use default"),
    # Workers.
    Grammar("reserve", "0.6", (), _RESERVES, None, waits=True),
    Grammar("reserve-with-timeout", "1.2", (ArgumentKind.TIMEOUT,), _RESERVES, None, waits=True),
    Grammar("reserve-job", "1.12", (_JOB,), ("RESERVED", "NOT_FOUND"), b"reserve-job 0"),
    Grammar("delete", "0.6", (_JOB,), ("DELETED", "NOT_FOUND"), b"delete 0"),
    Grammar(
        "release",
        "0.6",
        (_JOB, _PRIORITY, _SECONDS),
        ("RELEASED", "BURIED", "NOT_FOUND"),
        b"release 0 0 0",
    ),
    Grammar("bury", "0.6", (_JOB, _PRIORITY), ("BURIED", "NOT_FOUND"), b"bury 0 0"),
    Grammar("touch", "1.2", (_JOB,), ("TOUCHED", "NOT_FOUND"), b"touch 0"),
    Grammar("watch", "1.0", (_TUBE,), ("WATCHING",), b"watch default"),
    Grammar("ignore", "1.0", (_TUBE,), ("WATCHING", "NOT_IGNORED"), b"ignore default"),
    # Others.
    Grammar("peek", "0.6", (_JOB,), _FINDS, b"peek 0"),
    Grammar("peek-ready", "1.0", (), _FINDS, b"peek-ready"),
    Grammar("peek-delayed", "1.0", (), _FINDS, b"peek-delayed"),
    Grammar("peek-buried", "1.0", (), _FINDS, b"peek-buried"),
    Grammar("kick", "0.6", (ArgumentKind.COUNT,), ("KICKED",), None),
    Grammar("kick-job", "1.8", (_JOB,), ("KICKED", "NOT_FOUND"), b"kick-job 0"),
    Grammar("stats-job", "1.0", (_JOB,), _TELLS, b"stats-job 0"),
    Grammar("stats-tube", "1.0", (_TUBE,), _TELLS, b"stats-tube default"),
    Grammar("stats", "0.6", (), ("OK",), b"stats"),
    Grammar("list-tubes", "1.0", (), ("OK",), b"list-tubes"),
    Grammar("list-tube-used", "1.0", (), ("USING",), b"list-tube-used"),
    Grammar("list-tubes-watched", "1.0", (), ("OK",), b"list-tubes-watched"),
    Grammar("quit", "1.4.3", (), (), None),
    Grammar("pause-tube", "1.4.3", (_TUBE, _SECONDS), ("PAUSED", "NOT_FOUND"), None),
)

COMMANDS = {grammar.verb: grammar for grammar in _TABLE}
"""All commands of the protocol by verb, in the order of its text."""

VERBS = tuple(sorted(COMMANDS))
"""Every command of the protocol, sorted."""


ABOUT_A_JOB = tuple(verb for verb, grammar in COMMANDS.items() if grammar.is_about_a_job)
"""The commands whose first argument is the id of a job."""
ABOUT_A_TUBE = tuple(verb for verb, grammar in COMMANDS.items() if grammar.kinds[:1] == (_TUBE,))
"""The commands whose first argument is the name of a tube."""
WAITING = tuple(verb for verb, grammar in COMMANDS.items() if grammar.waits)
"""The commands after which a client may wait."""


def any_of(*verbs: str) -> bytes:
    """Return a regular expression that matches one of these words."""
    return b"(?:%b)" % "|".join(verbs).encode()


def commands_of(profile: str) -> frozenset[str]:
    """Return the commands that came with a profile."""
    return frozenset(verb for verb, grammar in COMMANDS.items() if grammar.since == profile)
