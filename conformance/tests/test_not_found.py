"""Sections "Worker Commands" and "Other Commands": the reply NOT_FOUND."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from reference_server.wire import NOT_FOUND, RESERVED

OF_THE_HOLDER = [
    pytest.param(
        "release {} 0 0",
        marks=requirement(
            "release.not-found",
            r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
        ),
    ),
    pytest.param(
        "bury {} 0",
        marks=requirement(
            "bury.not-found",
            r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
        ),
    ),
    pytest.param(
        "touch {}",
        marks=requirement(
            "touch.not-found",
            r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
        ),
    ),
]
"""Commands for the client alone that has reserved the job."""


@pytest.mark.parametrize(
    "command",
    [
        *OF_THE_HOLDER,
        pytest.param(
            "reserve-job {}",
            marks=requirement(
                "reserve-job.not-found",
                r'"NOT_FOUND\r\n" if the job does not exist or reserved by a client or is not '
                "either ready, buried or delayed.",
            ),
        ),
        pytest.param(
            "delete {}",
            marks=requirement(
                "delete.not-found",
                r'"NOT_FOUND\r\n" if the job does not exist or is not either reserved by the '
                "client, ready, or buried.",
            ),
        ),
        pytest.param(
            "peek {}",
            marks=requirement(
                "peek.not-found",
                r'"NOT_FOUND\r\n" if the requested job '
                "doesn't exist or there are no jobs in the requested state.",
            ),
        ),
        pytest.param(
            "kick-job {}",
            marks=requirement(
                "kick-job.not-found",
                r'"NOT_FOUND\r\n" if the job does not exist or is not in a kickable state.',
            ),
        ),
        pytest.param(
            "stats-job {}",
            marks=requirement("stats-job.not-found", r'"NOT_FOUND\r\n" if the job does not exist.'),
        ),
        pytest.param(
            "stats {}",
            marks=requirement(
                "stats.of-a-job-not-found",
                r'If a job id is given, the response may be: - "NOT_FOUND\r\n" if the job does '
                "not exist.",
            ),
        ),
    ],
)
@pytest.mark.parametrize("job", [0, 2**32, 2**63, 2**64 - 1])
def test_a_job_that_does_not_exist(client: Connection, command: str, job: int) -> None:
    client.send(command.format(job)).expect(NOT_FOUND)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            "stats-tube {}",
            marks=requirement(
                "stats-tube.not-found", r'"NOT_FOUND\r\n" if the tube does not exist.'
            ),
        ),
        pytest.param(
            "pause-tube {} 1",
            marks=requirement(
                "pause-tube.not-found", r'"NOT_FOUND\r\n" if the tube does not exist.'
            ),
        ),
    ],
)
def test_a_tube_that_does_not_exist(client: Connection, new_tube: NewTube, command: str) -> None:
    client.send(command.format(new_tube())).expect(NOT_FOUND)


@pytest.mark.parametrize("command", OF_THE_HOLDER)
def test_a_job_that_the_client_has_not_reserved(
    client: Connection, other: Connection, command: str
) -> None:
    ready, delayed = client.put(b"a", pri=9), client.put(b"b", delay=3600)
    for job in (ready, delayed, client.put_and_bury(), other.put_and_reserve()):
        client.send(command.format(job)).expect(NOT_FOUND)


@pytest.mark.parametrize("command", OF_THE_HOLDER)
def test_a_job_that_the_client_has_released(
    client: Connection, new_client: Connect, command: str
) -> None:
    job = client.put_and_reserve()
    client.release(job)
    client.send(command.format(job)).expect(NOT_FOUND)
    new_client().reserve().expect(RESERVED(job, b"a"))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            "release {} 0 0",
            marks=requirement(
                "release.after-expiry",
                r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
            ),
        ),
        pytest.param(
            "bury {} 0",
            marks=requirement(
                "bury.after-expiry",
                r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
            ),
        ),
        pytest.param(
            "touch {}",
            marks=requirement(
                "touch.after-expiry",
                r'"NOT_FOUND\r\n" if the job does not exist or is not reserved by the client.',
            ),
        ),
    ],
)
def test_a_job_whose_ttr_is_over(
    client: Connection, other: Connection, clock: Timeline, command: str
) -> None:
    job = client.put_and_reserve(ttr=1)
    clock.advance(1)
    other.comes_back(job)
    client.send(command.format(job)).expect(NOT_FOUND)
    assert other.state_of(job) == "ready"
