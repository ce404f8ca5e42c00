"""The distribution of tests to the processes of ``pytest -n``."""

from __future__ import annotations

import importlib
import inspect
from pathlib import PurePosixPath
from typing import Any

import pytest

_WAITING = frozenset(("clock", "real_clock"))
"""The parts of a scenario with which a test waits."""


def waits(test: str) -> bool:
    """Tell whether a test that pytest names so waits in real time, where no clock is moved."""
    path, _, name = test.partition("::")
    package, module = PurePosixPath(path).with_suffix("").parts[-2:]
    place = f"conformance.tests.{module}" if package == "tests" else f"{package}.{module}"
    function = getattr(importlib.import_module(place), name.partition("[")[0])
    return not _WAITING.isdisjoint(inspect.signature(function).parameters)


def wait_together(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler by which one process gets all tests that wait, so that they overlap."""
    from xdist.scheduler import LoadScopeScheduling

    class WaitTogether(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "timed" if waits(nodeid) else nodeid

    return WaitTogether(config, log)
