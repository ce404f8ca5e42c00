"""The difference between a reply and the model's, in what the text specifies."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from conformance import yamlish
from conformance.oracle.unspecified_model import ANY_TUBE, PartialReply
from conformance.transcript import OWN_TUBES
from reference_server.wire import Reply

TOLERANCE = 2
"""Seconds by which ages and times left may differ: both are rounded, at different times."""
_QUEUES = tuple(
    f"current-jobs-{state}" for state in ("urgent", "ready", "reserved", "delayed", "buried")
)
_FOR_A_WHILE = ("current-jobs-reserved", "current-jobs-delayed")
_CLIENTS = tuple(
    f"current-{kind}"
    for kind in ("connections", "producers", "workers", "waiting", "using", "watching")
)
_COUNTERS = {"total-jobs", "total-connections", "job-timeouts"}
"""Keys that count, besides those of commands."""
_GROWING = {
    *_COUNTERS,
    *("current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried", "current-tubes"),
    *("current-connections", "current-producers", "current-workers", "current-waiting"),
}
"""Keys whose values others can only make higher; somebody might take a job that is ready."""
CLOCKS = {"age", "time-left", "pause-time-left"}
_FREE = {
    **dict.fromkeys(("hostname", "os", "platform", "version"), ".+"),
    **dict.fromkeys(("file", "uptime", "binlog-oldest-index", "binlog-current-index"), "[0-9]+"),
    **dict.fromkeys(("binlog-records-migrated", "binlog-records-written"), "[0-9]+"),
    **dict.fromkeys(("rusage-utime", "rusage-stime"), "[0-9]+[.][0-9]+"),
    "pid": "[1-9][0-9]*",
    "binlog-max-size": "[0-9]+",
}
"""Keys that no two servers have in common, and the form of their values."""
UNNAMED = {"cmd-reserve-with-timeout", "cmd-touch"}
"""Keys that every beanstalkd has, and no text before 1.13 names."""


class Before(NamedTuple):
    """The leftovers on the target, which stay: tubes, jobs by their state, clients.

    ``leaving``: the number of clients of ours that are gone, and may be counted still.
    ``sync_command``: the command that the suite sends itself, to synchronise with the target.
    ``is_timed``: it is known how much time passes.
    """

    tubes: frozenset[str]
    jobs: Mapping[str, int]
    clients: int = 0
    leaving: int = 0
    sync_command: str = "list-tube-used"
    is_timed: bool = True
    floors: dict[tuple[str, str], int] | None = None
    """By how much counters must be higher, at least, as others had counted before; by the name of
    the tube, empty for the server, and the key. None if nobody has."""

    @classmethod
    def of(cls, stats: Mapping[str, str], tubes: Iterable[str], sync_command: str) -> Self:
        """Return the leftovers that statistics show while two clients of ours are connected."""
        jobs = {key: int(stats[key]) for key in _QUEUES if stats.get(key, "").isdecimal()}
        connections = stats.get("current-connections", "")
        clients = max(int(connections) - 2, 0) if connections.isdecimal() else 0
        left = {key: n for key, n in jobs.items() if n}
        return cls(frozenset(tubes), left, clients, sync_command=sync_command)

    def is_too_low(self, name: str, key: str, mine: str, theirs: str) -> bool:
        """Tell whether a counter, or the number of tubes, has not counted something."""
        if self.floors is None or not (key in _GROWING or key.startswith("cmd-")):
            return False
        if not (mine.isdecimal() and theirs.isdecimal()):
            return False
        return int(theirs) - int(mine) < self.floors.get((name, key), 0)

    def is_older(self, name: str, key: str, mine: str, theirs: str) -> bool:
        """Tell whether a value of a tube may be as it is because the tube is older."""
        if self.floors is None or name.startswith(OWN_TUBES):
            return False
        if key in ("pause", "pause-time-left"):
            return mine == "0" and theirs.isdecimal()
        if not (mine.isdecimal() and theirs.isdecimal()):
            return False
        return int(theirs) >= int(mine) and not self.is_too_low(name, key, mine, theirs)

    def learn(self, mine: Mapping[str, str], theirs: Mapping[str, str]) -> None:
        """Note by how much counters are higher than they would be if nobody had counted before."""
        if self.floors is None:
            return
        for key, value in mine.items():
            observed = theirs.get(key, "")
            counts = key in _COUNTERS or key.startswith("cmd-")
            if counts and value.isdecimal() and observed.isdecimal():
                self.floors[mine.get("name", ""), key] = int(observed) - int(value)

    def explains(self, key: str, mine: str, theirs: str, of_all: bool) -> bool:
        """Tell whether the leftovers explain that a value of statistics is higher.

        ``of_all``: those of the server, or of default; of another tube only we know.
        Delays and times to run may end meanwhile, and clients go, so that their jobs are ready.
        """
        if key == f"cmd-{self.sync_command}" or (key in CLOCKS and not self.is_timed):
            return True
        if not theirs.isdecimal():
            return False
        more = int(theirs) - int(mine)
        if key in _CLIENTS:
            return 0 <= more <= self.leaving + (self.clients if of_all else 0)
        if not of_all:
            return False
        if key == "current-tubes":
            return 0 <= more <= len(self.tubes)
        if key == "job-timeouts":
            return 0 <= more <= self.jobs.get("current-jobs-reserved", 0)
        count = self.jobs.get(key, 0)
        if key in _FOR_A_WHILE:
            return 0 <= more <= count
        if key == "current-jobs-buried":
            return more == count
        joining = sum(self.jobs.get(state, 0) for state in _FOR_A_WHILE)
        return key in _QUEUES and count <= more <= count + joining


NOTHING = Before(frozenset(), {})


def learn(given: Reply, observed: Reply, before: Before) -> None:
    """Record what matching statistics imply about the time before."""
    if before.floors is None or given.word != "OK" or observed.word != "OK":
        return
    # A reply that agrees but is not of statistics has no keys.
    with contextlib.suppress(ValueError):
        before.learn(
            yamlish.dictionary(given.body or b""), yamlish.dictionary(observed.body or b"")
        )


def difference(
    given: Reply,
    observed: Reply,
    alone: bool = False,
    fresh: bool = True,
    before: Before = NOTHING,
) -> tuple[str, str] | None:
    """Return what ``given``, the model's reply, says and ``observed`` does not, and its own words.

    None if they agree. ``alone``: nobody else uses the target, so that its counters are compared.
    ``fresh``: values of statistics are those of now, and not just those of a while ago.
    """
    free = given.free if isinstance(given, PartialReply) else frozenset()
    if given == observed or observed.word in free:
        return None
    if given.word != "OK" or observed.word != "OK":
        return str(given), str(observed)
    mine, theirs = given.body or b"", observed.body or b""
    try:
        if mine.startswith(b"---\n- "):
            expected, listed = sorted(yamlish.names(mine)), sorted(yamlish.names(theirs))
            known = (before.tubes | free) - {*expected}
            # Others may have tubes as well.
            exact = alone or (before.floors is not None and ANY_TUBE not in free)
            if exact and expected != [name for name in listed if name not in known]:
                return f"OK with {', '.join(expected)}", f"OK with {', '.join(listed)}"
            missing = set(expected) - set(listed)
            return (f"OK with {min(missing)}", str(observed)) if missing else None
        if not free and before.floors is None and _is_alike(mine, theirs, alone, fresh):
            return None
        expects = yamlish.dictionary(mine)
        return _other(expects, yamlish.dictionary(theirs), alone, fresh, before, free)
    except ValueError as error:
        return str(given), f"{observed}: {error}"


def _is_alike(mine: bytes, theirs: bytes, alone: bool, fresh: bool) -> bool:
    """Tell whether the lines that differ say the same; faster than to compare all."""
    expected, actual = mine.split(b"\n"), theirs.split(b"\n")
    if len(expected) != len(actual):
        return False
    different = [pair for pair in zip(expected, actual, strict=True) if pair[0] != pair[1]]
    try:
        few, others = (
            yamlish.dictionary(b"\n".join(lines)) for lines in zip(*different, strict=True)
        )
    except ValueError:
        return False
    return _other(few, others, alone, fresh) is None


def _other(
    mine: dict[str, str],
    theirs: dict[str, str],
    alone: bool,
    fresh: bool,
    before: Before = NOTHING,
    free: frozenset[str] = frozenset(),
) -> tuple[str, str] | None:
    of_server = "pid" in mine
    # Others may be there, or have been, in the tube in which all begin, too.
    of_all = of_server or mine.get("name") == "default"
    of_others = not alone and of_all
    idle = mine.get("state") in ("ready", "buried")
    for key, value in mine.items():
        if key in free and key in theirs and (theirs[key].isdecimal() or not value.isdecimal()):
            continue
        if key not in theirs and key in UNNAMED:
            continue
        if key not in theirs:
            return f"OK with the key {key}", f"OK with only {', '.join(theirs)}"[:300]
        if key in _FREE and not re.fullmatch(_FREE[key], theirs[key]):
            return f"OK with a value of {key} like {_FREE[key]}", f"OK with {key}: {theirs[key]}"
        if not fresh or value == theirs[key] or key in _FREE:
            continue
        if of_server and key == "id":
            continue
        name = mine.get("name", "")
        if of_others:
            if before.is_too_low(name, key, value, theirs[key]):
                return f"OK with {key}: {value}", f"OK with {key}: {theirs[key]}"[:300]
            continue
        if "name" in mine and before.is_older(name, key, value, theirs[key]):
            continue
        if before.explains(key, value, theirs[key], of_all):
            continue
        if key in CLOCKS and _is_near(value, theirs[key], idle and key == "time-left"):
            continue
        return f"OK with {key}: {value}", f"OK with {key}: {theirs[key]}"[:300]
    return None


def _is_near(mine: str, theirs: str, free: bool) -> bool:
    try:
        return free or abs(int(mine) - int(theirs)) <= TOLERANCE
    except ValueError:
        return False
