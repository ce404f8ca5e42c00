"""The process that serves is told by who listens, unless that may only forward."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from conformance.dialogue.crowd import gather
from conformance.random_testing.budget import Budget
from conformance.target.serving import serving
from conformance.verdict import Deviation, Inconclusive, NotTestable

OWN = [Path("/proc", str(os.getpid()))]


def test_the_process_that_listens_serves() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (process,) = serving(OWN, server.getsockname())
        assert os.getpid() in process.numbers
        assert process.cpu["rusage-utime"] > 0
        assert process.system["hostname"] == (os.uname().nodename,)


def test_the_process_of_a_unix_socket_serves(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        assert len(serving(OWN, str(tmp_path / "socket"))) == 1


def test_a_process_that_is_connected_to_another_server_may_only_forward() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_connection(other.getsockname()),
        pytest.raises(NotTestable, match="behind the one that listens"),
    ):
        serving(OWN, server.getsockname())


def test_a_server_whose_process_is_elsewhere_is_not_seen() -> None:
    with pytest.raises(NotTestable, match="can be seen"):
        serving([], ("127.0.0.1", 1))


class _Client:
    """A client of a server that serves three of them."""

    count = 0

    def __init__(self) -> None:
        _Client.count += 1
        self.is_third = _Client.count > 3

    def is_served(self) -> bool:
        return True

    def close(self) -> None: ...


def _ask(client: object) -> None:
    assert isinstance(client, _Client)
    if client.is_third:
        raise Deviation("a reply", "nothing within 5 seconds")


def test_a_server_may_serve_few_clients_at_a_time() -> None:
    with pytest.raises(NotTestable, match="serves 3 clients"):
        gather(iter(range(9)), _Client, _ask)  # type: ignore[arg-type]


def test_what_did_not_fit_in_is_told_or_says_nothing() -> None:
    budget = Budget(60.0)
    next(budget.turns(10))
    with pytest.raises(Inconclusive, match="reached only 1 of 10 steps"):
        budget.reached(10, "steps")
    list(zip(budget.turns(10), range(4), strict=False))
    assert budget.reached(10, "steps").startswith("6 of 10 steps")
