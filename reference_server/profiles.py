"""The versions of the protocol, as data, one beside the other.

A profile says what a client can see of a version of beanstalkd: commands, limits, keys of
statistics, and how strictly arguments are read. The wire codec and the model ask it; they never
compare versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, SupportsIndex

from reference_server.commands import commands_of
from reference_server.dialect import PLAIN, Dialect

NAME_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
"""The characters of the names of tubes."""
LIST_TUBE_USED = b"list-tube-used"
NEUTRAL = (LIST_TUBE_USED, b"peek 0", b"delete 0")
"""Commands that change nothing and are answered at once, whatever a client has done before."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One version of the protocol.

    ``document`` is the text that it stands for, ``written`` the first version of beanstalkd that
    it was written for, and ``since`` the first that is judged by it, ``version`` the one that a
    server of ours says it is. ``commands`` are all that it has, ``lacks`` the keys that its
    statistics do not have, as ``stats-job.file``. ``max_line`` is in bytes, CR LF included;
    ``max_name`` in bytes, of ``name_chars``; ``max_job_size`` is the default limit of a body in
    bytes. ``neutral`` is a command that changes nothing and is answered at once.

    ``timeout_argument`` says how reserve-with-timeout reads its number: ``"lenient"`` as C's strtol
    does, negative waits for ever; ``"strict"`` refuses what does not start with digits or exceeds
    2**31-1. ``yaml_quotes``: strings in stats are quoted. ``deletes``: the states of jobs that may
    be deleted. ``first_in_first_out``: of all watched tubes the smallest priority is next, and
    of equal ones the job received first; else any tube's may be, and any of equal priority.
    ``half_close``: clients that send nothing more are answered on. ``skips_long_lines``: a line
    that is longer than ``max_line`` is refused once, up to its end; else no text sets a limit, all
    servers of the profile take lines of that length, and it is open what becomes of a longer one.

    ``limits_arguments``: the text says how large delays and times to run may be, and that longer
    names are refused; else it is open what becomes of more than 2**32-1 seconds, and of such names.

    ``keeps_places``: a job that comes back has its old place among those of its priority, as every
    beanstalkd has it; else it is open which place it has.

    ``tells_priority``: RESERVED and FOUND tell a job's priority, too. ``id_is_optional``: peek and
    stats are about a job if they name one. ``deadline_soon``: who holds a job that is about to
    time out is not made to wait. ``skips_big_bodies``: a put that is too big is answered after its
    body, which is skipped; else at once. ``raises_ttr``: a ttr of 0 becomes 1; else it is open
    whether there is any time to run. ``counts_failed_puts``: stats count each put as soon as its
    line has arrived; else those that succeed, and it is open whether they count others.
    ``max_jobs_ready``: so many jobs fit into the ready queue, None if there is no limit.
    ``dialect``: what a fork has otherwise.
    """

    name: str
    document: str
    since: tuple[int, ...]
    written: tuple[int, ...]
    version: str
    commands: frozenset[str]
    neutral: bytes
    lacks: frozenset[str]
    max_line: int
    timeout_argument: Literal["lenient", "strict"]
    yaml_quotes: bool
    deletes: frozenset[str]
    first_in_first_out: bool
    half_close: bool
    skips_long_lines: bool
    limits_arguments: bool
    keeps_places: bool = True
    tells_priority: bool = False
    id_is_optional: bool = False
    deadline_soon: bool = True
    skips_big_bodies: bool = True
    raises_ttr: bool = True
    counts_failed_puts: bool = True
    max_jobs_ready: int | None = None
    max_name: int = 200
    name_chars: bytes = NAME_CHARS
    max_job_size: int = 65535
    dialect: Dialect = PLAIN

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Let all copies of a model, of which the oracle makes thousands, share a known profile."""
        if PROFILES.get(self.name) is self:
            return _known, (self.name,)
        return object.__reduce_ex__(self, protocol)

    def asking(self, line: bytes | None) -> Profile:
        """Return this profile with another neutral command, if ``line`` is one of its own."""
        if line is None or line not in NEUTRAL or line == self.neutral:
            return self
        is_own = line.split()[0].decode() in self.commands
        return replace(self, neutral=line) if is_own else self

    @property
    def stage(self) -> str:
        """The name of the profile of the protocol: of a dialect, the one that it extends."""
        return self.dialect.extends or self.name

    def left_out(self, command: str) -> frozenset[str]:
        """Return the keys that a command's statistics do not have, if this is a fork's dialect.

        Else whatever is about such a key belongs to other profiles.
        """
        prefix = f"{command}."
        told = (key for key in self.lacks if self.dialect.extends and key.startswith(prefix))
        return frozenset(key.removeprefix(prefix) for key in told)

    @property
    def has_tubes(self) -> bool:
        """Return whether there are tubes, which keep jobs of some clients apart from others."""
        return "use" in self.commands

    @property
    def has_timeouts(self) -> bool:
        """Return whether a client can wait for a job for a limited time."""
        return "reserve-with-timeout" in self.commands

    @property
    def stats_of_job(self) -> str:
        """The command that tells the statistics of a job."""
        return "stats" if self.id_is_optional else "stats-job"


V0_6 = Profile(
    "0.6",
    document="the text of 0.6",
    since=(0, 1),
    written=(0, 6),
    version="0.6",
    commands=commands_of("0.6"),
    neutral=b"peek 0",
    lacks=frozenset(
        (
            *("stats.max-job-size", "stats.current-tubes", "stats.draining", "stats.id"),
            *("stats.hostname", "stats.os", "stats.platform", "stats.binlog-oldest-index"),
            *("stats.binlog-current-index", "stats.binlog-records-written"),
            *("stats.binlog-records-migrated", "stats.binlog-max-size", "stats-job.tube"),
            *("stats-job.pri", "stats-job.delay", "stats-job.ttr", "stats-job.file"),
            "stats-job.reserves",
        )
    ),
    timeout_argument="lenient",
    yaml_quotes=False,
    deletes=frozenset(("reserved", "buried")),
    first_in_first_out=False,
    half_close=False,
    skips_long_lines=False,
    limits_arguments=False,
    tells_priority=True,
    id_is_optional=True,
    deadline_soon=False,
    skips_big_bodies=False,
    raises_ttr=False,
    counts_failed_puts=False,
    max_jobs_ready=2**24,
    # What is longer than any well-formed line: beanstalkd 0.6 takes no more either.
    max_line=54,
    name_chars=NAME_CHARS.replace(b"_", b""),
)
V1_0 = replace(
    V0_6,
    name="1.0",
    document="the text of 0.11 to 1.1",
    since=(0, 8),
    written=(0, 11),
    version="1.0",
    commands=V0_6.commands | commands_of("1.0"),
    neutral=b"list-tube-used",
    lacks=frozenset(
        (
            *("stats.id", "stats.hostname", "stats.draining", "stats.os", "stats.platform"),
            *("stats.binlog-records-written", "stats.binlog-records-migrated"),
            *("stats.binlog-oldest-index", "stats.binlog-current-index", "stats.binlog-max-size"),
            *("stats-tube.cmd-delete", "stats-tube.cmd-pause-tube", "stats-tube.pause"),
            *("stats-tube.pause-time-left", "stats-job.file", "stats-job.reserves"),
        )
    ),
    tells_priority=False,
    id_is_optional=False,
    deadline_soon=True,
    raises_ttr=True,
    max_jobs_ready=None,
    # The room for a line in beanstalkd before 1.11.
    max_line=208,
)
V1_2 = replace(
    V1_0,
    name="1.2",
    document="the text of 1.2 to 1.4.2",
    since=(1, 2),
    written=(1, 2),
    version="1.3",
    commands=V1_0.commands | commands_of("1.2"),
    lacks=V1_0.lacks
    - {"stats.binlog-oldest-index", "stats.binlog-current-index", "stats.binlog-max-size"},
    deletes=V1_0.deletes | {"ready"},
)
V1_4_3 = replace(
    V1_2,
    name="1.4.3",
    document="the text of 1.4.3",
    since=(1, 4, 3),
    written=(1, 4, 3),
    version="1.4.3",
    commands=V1_2.commands | commands_of("1.4.3"),
    lacks=frozenset(
        (
            *("stats.id", "stats.hostname", "stats.draining", "stats.os", "stats.platform"),
            *("stats.binlog-records-written", "stats.binlog-records-migrated", "stats-job.file"),
            "stats-tube.cmd-delete",
        )
    ),
)
V1_4 = replace(
    V1_4_3,
    name="1.4",
    document="the text of 1.4.4 to 1.4.6, and the Chinese one",
    since=(1, 4, 4),
    written=(1, 4, 4),
    version="1.4.6",
    skips_big_bodies=True,
    name_chars=NAME_CHARS,
)
V1_5 = replace(
    V1_4,
    name="1.5",
    document="the text of 1.5 to 1.7",
    since=(1, 5),
    written=(1, 5),
    version="1.5",
    lacks=frozenset(("stats.id", "stats.hostname", "stats.draining", "stats.os", "stats.platform")),
    deletes=V1_4.deletes | {"delayed"},
)
V1_8 = replace(
    V1_5,
    name="1.8",
    document="the text of 1.8",
    since=(1, 8),
    written=(1, 8),
    version="1.8",
    commands=V1_5.commands | commands_of("1.8"),
    half_close=True,
    counts_failed_puts=True,
)
V1_9 = replace(
    V1_8,
    name="1.9",
    document="the text of 1.9",
    since=(1, 9),
    written=(1, 9),
    version="1.9",
    lacks=V1_8.lacks - {"stats.id", "stats.hostname"},
    first_in_first_out=True,
)
V1_10 = replace(
    V1_9,
    name="1.10",
    document="the text of 1.10, and the Chinese one that came later",
    since=(1, 10),
    written=(1, 10),
    version="1.10",
)
V1_12 = replace(
    V1_10,
    name="1.12",
    document="the text of 1.12",
    since=(1, 12),
    written=(1, 12),
    version="1.12",
    commands=V1_10.commands | commands_of("1.12"),
    lacks=frozenset(),
    max_line=224,
    skips_long_lines=True,
    limits_arguments=True,
)
V1_13 = replace(
    V1_12,
    name="1.13",
    document="the text of 1.13",
    since=(1, 13),
    written=(1, 13),
    version="1.13",
    timeout_argument="strict",
    yaml_quotes=True,
)

PROFILES: dict[str, Profile] = {
    p.name: p for p in (V0_6, V1_0, V1_2, V1_4_3, V1_4, V1_5, V1_8, V1_9, V1_10, V1_12, V1_13)
}
"""The stages of the protocol that the documents describe, oldest first."""

NEWEST = V1_13
_VERSION = re.compile(r"(?:beanstalkd )?v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?(?![0-9])")


def number_of_version(version: str) -> tuple[int, ...] | None:
    """Return the numbers of the ``version`` that a server gives in stats; None if it has none."""
    match = _VERSION.match(version)
    return match and tuple(int(part) for part in match.groups() if part is not None)


def profile_of_version(version: str) -> Profile | None:
    """Return the profile for the ``version`` that stats tells; None if it is unknown."""
    number = number_of_version(version)
    if number is None:
        return None
    spoken = [profile for profile in PROFILES.values() if profile.since <= number]
    return spoken[-1] if spoken else None


def _known(name: str) -> Profile:
    """Return a profile that is known, for copies."""
    return PROFILES[name]
