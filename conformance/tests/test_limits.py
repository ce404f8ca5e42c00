"""Section "Protocol", continued: the largest numbers that commands take, as tables."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from reference_server.wire import BURIED, RELEASED, Reply

PRIORITIES = (0, 1, 1023, 1024, 2**31 - 1, 2**31, 2**32 - 1)
DELAYS = (1, 2**31 - 1, 2**31, 2**32 - 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(key, value, marks=requirement(slug, clause))
        for slug, clause, key, values in (
            (
                "put.priority-limit",
                "<pri> is an integer < 2**32. […] The most urgent priority is 0; the least urgent "
                "priority is 4,294,967,295.",
                "pri",
                PRIORITIES,
            ),
            ("put.delay-limit", "Maximum delay is 2**32-1.", "delay", DELAYS),
            (
                "put.ttr-limit",
                "Maximum ttr is 2**32-1.",
                "ttr",
                (1, 2, 2**31 - 1, 2**31, 2**32 - 1),
            ),
        )
        for value in values
    ],
)
def test_a_number_of_put(client: Connection, key: str, value: int) -> None:
    job = client.put(b"a", **{key: value})
    client.job_is(job, **{key: value})


@pytest.mark.parametrize(
    ("command", "reply", "state", "key", "value"),
    [
        pytest.param(
            *(command, reply, state, key, value),
            marks=requirement(slug, clause),
            id=f"{slug}: {value}",
        )
        for slug, clause, command, reply, state, key, values in (
            (
                "release.priority-limit",
                "All integers in the protocol are formatted in decimal and (unless otherwise "
                "indicated) nonnegative.",
                "release {} {} 0",
                RELEASED,
                "ready",
                "pri",
                PRIORITIES,
            ),
            (
                "release.delay-limit",
                "All integers in the protocol are formatted in decimal and (unless otherwise "
                "indicated) nonnegative.",
                "release {} 0 {}",
                RELEASED,
                "delayed",
                "delay",
                DELAYS[1:],
            ),
            (
                "bury.priority-limit",
                "All integers in the protocol are formatted in decimal and (unless otherwise "
                "indicated) nonnegative.",
                "bury {} {}",
                BURIED,
                "buried",
                "pri",
                PRIORITIES,
            ),
        )
        for value in values
    ],
)
def test_a_new_number_of_a_reserved_job(
    client: Connection, command: str, reply: Reply, state: str, key: str, value: int
) -> None:
    job = client.put_and_reserve()
    client.send(command.format(job, value)).expect(reply)
    assert client.state_of(job) == state
    client.job_is(job, **{key: value})
