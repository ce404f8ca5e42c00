"""The set-up of worker processes: the traits of the target, and their share of the work."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from conformance.run.suite import Suite
from conformance.target.command_rate import COMMAND_RATE
from conformance.target.footprint import FOOTPRINT

_KNOWN, _FOOTPRINT = "conformance-known", "conformance-footprint"


class WorkerSetup:
    """Gives each worker process the traits of the target, and names for tubes of its own."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        number = int(node.workerinput["workerid"].removeprefix("gw")) + 1
        node.workerinput[_FOOTPRINT] = FOOTPRINT.run, number
        node.workerinput[_KNOWN] = pickle.dumps(self._suite.measured())


def set_up_worker(config: Any, suite: Suite) -> None:
    """Set up this process with what the first process has measured."""
    FOOTPRINT.join(*config.workerinput[_FOOTPRINT])
    suite.known = pickle.loads(config.workerinput[_KNOWN])
    suite.effort.left /= config.workerinput["workercount"]
    COMMAND_RATE.rate /= config.workerinput["workercount"]
