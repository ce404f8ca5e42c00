"""Section "Other Commands", continued: names of tubes, as a client's YAML library reads them."""

from __future__ import annotations

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect
from conformance.target.target import Target
from conformance.verdict import Deviation

MISREAD = ("null", "12145", "1e5", "0x1F", "1.10", "yes", "2001-01-01")
"""Names that YAML takes for something else, unless they are in quotes."""


def _expect_strings(client: Connection, line: str) -> None:
    """Expect a list in which YAML finds all these names as strings."""
    parsed = client.observe(line).parsed()
    found = parsed if isinstance(parsed, list) else []
    if missing := [name for name in MISREAD if name not in found]:
        expected = f"a list in which YAML finds the string {missing[0]!r}"
        raise Deviation(expected, f"what YAML takes for {parsed}"[:200])


def _expect_string(client: Connection, line: str, key: str, name: str) -> None:
    """Expect a dictionary in which YAML finds a name as a string."""
    parsed = client.observe(line).parsed()
    found = parsed.get(key) if isinstance(parsed, dict) else parsed
    if found != name:
        expected = f"{key} with a value that YAML takes for the string {name!r}"
        raise Deviation(expected, f"one that YAML takes for {found!r}"[:200])


def _watch_all(client: Connection) -> Connection:
    client.go_to(*(f"watch {name}" for name in MISREAD))
    return client


@requirement(
    "list-tubes.names-are-strings",
    "It is a YAML file containing all tube names as a list of strings.",
)
def test_list_tubes_is_a_list_of_strings(connect: Connect) -> None:
    _expect_strings(_watch_all(connect()), "list-tubes")


@requirement(
    "list-tubes-watched.names-are-strings",
    "It is a YAML file containing watched tube names as a list of strings.",
)
def test_list_tubes_watched_is_a_list_of_strings(connect: Connect) -> None:
    _expect_strings(_watch_all(connect()), "list-tubes-watched")


@requirement("stats-tube.name-is-a-string", '"name" is the tube\'s name.')
@pytest.mark.parametrize("name", MISREAD)
def test_the_name_in_stats_tube_is_a_string(connect: Connect, name: str) -> None:
    client = connect()
    client.use(name)
    client.confirm(f"stats-tube {name}", "OK", "use.creates-tube")
    _expect_string(client, f"stats-tube {name}", "name", name)


@requirement("stats-job.tube-is-a-string", '"tube" is the name of the tube that contains this job')
def test_the_tube_in_stats_job_is_a_string(own_server: Target, connect: Connect) -> None:
    client = connect()
    for name in MISREAD:
        client.use(name)
        _expect_string(client, f"stats-job {client.put(b'a')}", "tube", name)
