"""The distribution of tests to the processes of ``pytest -n``.

One process gets all tests that wait, so that they overlap. Where clocks can be moved, these are
few, and no process gets two tests at a time that take long. Where all processes share a server,
tests that must be alone with it come first, in one process, and those that wait: what others send
would make a slow server late. The other processes begin when they are over. The test that takes
longest comes next, so that nobody is left to wait for its process.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Collection, Sequence
from itertools import takewhile, zip_longest
from pathlib import PurePosixPath
from typing import Any

import pytest

from conformance.run.options import Options
from conformance.target.launch import Launched, LaunchError
from conformance.target.target import Target

_WAITING = frozenset(("clock", "real_clock"))
"""The parts of a scenario with which a test waits, unless it can move the clock."""
_OWN_CLOCK = frozenset(("clock", "own_server"))
"""The parts of a test that moves a clock which no other test looks at."""
_TIMED = "timed"
"""The scope of the tests that wait."""
_LONGEST = "::test_any_program"
"""The end of the name of the test that waits all by itself."""
_LONG = (_LONGEST, "::test_any_transition")
"""The same for the tests that take longest where clocks can be moved."""
_ALONE = "alone"
"""The part of a scenario in which nobody else may be connected, and the scope of such tests."""


def parts_of(test: str) -> frozenset[str]:
    """Return the parts of a scenario that a test uses, by the name that pytest has for it.

    That of a test outside of the suite is not known: it may need to wait, and to be alone.
    """
    path, _, name = test.partition("::")
    module = PurePosixPath(path).stem
    for package in ("conformance.tests", "fuzz"):
        # Where pytest is started elsewhere, its name for a test begins in the package.
        if importlib.util.find_spec(f"{package}.{module}") is not None:
            found = importlib.import_module(f"{package}.{module}")
            if (function := getattr(found, name.partition("[")[0], None)) is not None:
                return frozenset(inspect.signature(function).parameters)
    return frozenset((_ALONE, *_WAITING))


def waits(parts: Collection[str], clock_moves: bool) -> bool:
    """Tell from its parts whether a test waits, so that others may run at the same time."""
    if clock_moves:
        return _ALONE not in parts and ("real_clock" in parts or _OWN_CLOCK.issubset(parts))
    return not _WAITING.isdisjoint(parts)


def check_processes(config: pytest.Config, options: Options, target: Target) -> None:
    """Refuse several processes if a server does not start beside another one.

    One is left if they share a server that serves one client at a time, or if the server uses a
    CPU all the time: several of its kind would keep each other from it.
    """
    if not config.getoption("numprocesses", None):
        return
    command, traits = options.command, target.traits
    if not traits.rests or (command is None and traits.one_client is not None):
        del config.option.tx[1:]
    if command is None:
        return
    try:
        Launched(command, options.environment, limits=target.limits).end()
    except LaunchError as error:
        reason = "each process starts a server, and a second one does not start beside the first"
        raise pytest.UsageError(f"{reason}; -n 0 has one process: {error}") from None


def takes_long(test: str) -> bool:
    """Tell from its name whether a test generates input as long as there is time."""
    return "::test_any_" in test


def spread(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return tests so that those that take long come last, the longest first.

    A short one follows each, if there are any: a process begins a test when it knows the next.
    """
    long = [item for item in items if takes_long(item.nodeid)]
    long.sort(key=lambda item: not item.nodeid.endswith(_LONG))
    short = [item for item in items if not takes_long(item.nodeid)]
    first = max(len(short) - len(long), 0)
    pairs = zip_longest(long, short[first:])
    return short[:first] + [item for pair in pairs for item in pair if item is not None]


def scheduler(config: pytest.Config, log: Any, target: Target) -> Any:
    """Return a scheduler for tests of a target."""
    return _balancing(config, log) if target.clock.movable else _overlapping(config, log, target)


def _balancing(config: pytest.Config, log: Any) -> Any:
    """Return one that gives no process two tests that take long, and one all tests that wait."""
    from xdist.scheduler import LoadScheduling

    class Scheduler(LoadScheduling):  # type: ignore[misc]
        def _send_tests(self, node: Any, num: int) -> None:
            if len(self.pending) == len(self.collection):
                # Those that wait come first, so that the first process gets them.
                waiting = takewhile(lambda name: waits(parts_of(name), True), self.collection)
                num = max(num, sum(1 for _ in waiting))
            known = self.node2pending[node]
            has_long = any(takes_long(self.collection[index]) for index in known)
            for count, index in enumerate(self.pending[:num]):
                if takes_long(self.collection[index]):
                    # A process begins a test when it knows the next one, too.
                    num = min(num, max(count + (not has_long), 2 - len(known)))
                    break
            super()._send_tests(node, num)

    return Scheduler(config, log)


def _overlapping(config: pytest.Config, log: Any, target: Target) -> Any:
    """Return one that lets tests that wait overlap, and those that must be alone come first."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            parts = parts_of(nodeid)
            is_waiting = waits(parts, clock_moves=False)
            is_alone = is_waiting or _ALONE in parts or not target.profile.has_tubes
            if not target.exclusive and is_alone:
                return _ALONE
            return _TIMED if is_waiting else nodeid

        def _assign_work_unit(self, node: Any) -> None:
            if _ALONE in self.workqueue:
                self.workqueue.move_to_end(_ALONE, last=False)
            elif self._must_wait(node):
                return
            elif _TIMED not in self.workqueue:
                for scope in [name for name in self.workqueue if name.endswith(_LONGEST)]:
                    self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            waited = [other for other in self.nodes if self._must_wait(other)]
            super().mark_test_complete(node, item_index, duration)
            for other in waited:
                # A process begins a test when it knows the next one, too.
                for _ in range(0 if self._must_wait(other) else 2):
                    self._reschedule(other)

        def _must_wait(self, node: Any) -> bool:
            """Return whether tests that must be alone go on in another process."""
            return any(
                not all(work.get(_ALONE, {}).values())
                for other, work in self.assigned_work.items()
                if other is not node
            )

    return Scheduler(config, log)
