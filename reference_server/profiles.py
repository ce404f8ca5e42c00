"""The versions of the protocol, as data, one beside the other.

A profile says what a client can see of a version of beanstalkd: commands, limits, keys of
statistics, and how strictly arguments are read. The wire codec and the model ask it; they never
compare versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Profile:
    """One version of the protocol.

    ``document`` is the text that it stands for, ``since`` the first version of beanstalkd that
    speaks it, ``version`` the one that a server of ours says it is. ``commands`` are all that it
    has, ``lacks`` the keys that its statistics do not have, as ``stats-job.file``. ``max_line`` is
    in bytes, CR LF included; ``max_name`` in bytes; ``max_job_size`` is the default limit of a
    body in bytes.

    ``timeout_argument`` says how reserve-with-timeout reads its number: ``"lenient"`` as C's strtol
    does, negative waits for ever; ``"strict"`` refuses what does not start with digits or exceeds
    2**31-1. ``yaml_quotes``: strings in stats are quoted. ``deletes_delayed``: delayed jobs may be
    deleted. ``first_in_first_out``: of equal priorities, the job received first is next; else any
    may be. ``half_close``: clients that send nothing more are answered on. ``skips_long_lines``: a
    line that is too long is refused once, up to its end; else it is open what becomes of it.
    """

    name: str
    document: str
    since: tuple[int, int]
    version: str
    commands: frozenset[str]
    lacks: frozenset[str]
    timeout_argument: Literal["lenient", "strict"]
    yaml_quotes: bool
    deletes_delayed: bool
    first_in_first_out: bool
    half_close: bool
    skips_long_lines: bool
    max_line: int = 224
    max_name: int = 200
    max_job_size: int = 65535


V1_4 = Profile(
    "1.4",
    document="the text of 1.4.4 to 1.4.6, in Chinese, and a part of it in English",
    since=(0, 8),
    version="1.4.6",
    commands=frozenset(
        (
            *("put", "reserve", "delete", "release", "bury", "peek", "kick", "stats"),
            *("use", "watch", "ignore", "list-tubes", "list-tube-used", "list-tubes-watched"),
            *("peek-ready", "peek-delayed", "peek-buried", "reserve-with-timeout", "touch"),
            *("stats-job", "stats-tube", "pause-tube", "quit"),
        )
    ),
    lacks=frozenset(
        (
            *("stats.id", "stats.hostname", "stats.draining", "stats.os", "stats.platform"),
            *("stats.binlog-records-written", "stats.binlog-records-migrated", "stats-job.file"),
            *("stats-tube.cmd-delete", "stats-tube.pause-time-left", "stats-tube.current-waiting"),
        )
    ),
    timeout_argument="lenient",
    yaml_quotes=False,
    deletes_delayed=False,
    first_in_first_out=False,
    half_close=False,
    skips_long_lines=False,
)
V1_10 = replace(
    V1_4,
    name="1.10",
    document="the Chinese text that came with 1.10 and later",
    since=(1, 5),
    version="1.10",
    commands=V1_4.commands | {"kick-job"},
    lacks=frozenset(("stats.draining", "stats.os", "stats.platform")),
    deletes_delayed=True,
    first_in_first_out=True,
    half_close=True,
)
V1_12 = replace(
    V1_10,
    name="1.12",
    document="the text of 1.12",
    since=(1, 12),
    version="1.12",
    commands=V1_10.commands | {"reserve-job"},
    lacks=frozenset(),
    skips_long_lines=True,
)
V1_13 = replace(
    V1_12,
    name="1.13",
    document="the text of 1.12, as 1.13 has it",
    since=(1, 13),
    version="1.13",
    timeout_argument="strict",
    yaml_quotes=True,
)

STAGES = ("0.6", "1.4", "1.10", "1.12", "1.13")
"""The stages of the protocol that the documents describe, oldest first."""

PROFILES: dict[str, Profile] = {p.name: p for p in (V1_4, V1_10, V1_12, V1_13)}
"""The profiles that there are, oldest first."""

NEWEST = V1_13
_VERSION = re.compile(r"(?:beanstalkd )?v?([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")


def profile_of_version(version: str) -> Profile | None:
    """The profile for the ``version`` that a server gives in stats; None if it is unknown."""
    match = _VERSION.match(version)
    if match is None:
        return None
    number = int(match[1]), int(match[2])
    spoken = [profile for profile in PROFILES.values() if profile.since <= number]
    return spoken[-1] if spoken else None
