"""The knowledge that a process of ``pytest -n`` has from the one that starts it, and its share."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from conformance.run.suite import Suite
from conformance.target.footprint import FOOTPRINT

_LEARNT, _FOOTPRINT = "conformance-learnt", "conformance-footprint"


class HandingDown:
    """Tells each process what is known of the target, and how to name tubes of its own."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        number = int(node.workerinput["workerid"].removeprefix("gw")) + 1
        node.workerinput[_FOOTPRINT] = FOOTPRINT.run, number
        node.workerinput[_LEARNT] = pickle.dumps(self._suite.handed_down())


def take_over(config: Any, suite: Suite) -> None:
    """Take what a process was told."""
    FOOTPRINT.join(*config.workerinput[_FOOTPRINT])
    suite.learnt = learnt = pickle.loads(config.workerinput[_LEARNT])
    count = config.workerinput["workercount"]
    learnt.silences.enough /= count
    suite.effort.left /= count
