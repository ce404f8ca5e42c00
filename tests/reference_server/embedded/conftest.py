"""A server for tests of applications, and two clients of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import reference_server
from reference_server import BeanstalkServer
from tests.reference_server.embedded.client import Client


@pytest.fixture
def server() -> Iterator[BeanstalkServer]:
    with reference_server.running() as running:
        yield running


@pytest.fixture
def client(server: BeanstalkServer) -> Iterator[Client]:
    with contextlib.closing(Client(server)) as client:
        yield client


@pytest.fixture
def other(server: BeanstalkServer) -> Iterator[Client]:
    with contextlib.closing(Client(server)) as client:
        yield client
