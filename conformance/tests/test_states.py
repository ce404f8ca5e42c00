"""Section "Job Lifecycle", continued: each command on a job in each state."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from reference_server.lifecycle import BECOMES, REPLIES, STATES
from reference_server.profiles import Profile

ARGUMENTS = {"release": " 0 0", "bury": " 0"}


def _job(client: Connection, other: Connection, state: str) -> int:
    if state != "reserved by another":
        return client.job_in(state)
    job = client.put(b"a")
    other.hold(job)
    return job


@requirement(
    "lifecycle.commands-by-state",
    'During its life it can be in one of four states: "ready", "reserved", "delayed", or "buried".',
)
@pytest.mark.parametrize("row", REPLIES.strip().splitlines(), ids=lambda row: row.split()[0])
@pytest.mark.parametrize("state", STATES)
def test_each_command_on_a_job_in_each_state(
    client: Connection, other: Connection, profile: Profile, row: str, state: str
) -> None:
    verb, *replies = row.split()
    word = replies[STATES.index(state)]
    if verb == "delete" and state.split()[0] not in profile.deletes:
        word = "NOT_FOUND"
    job = _job(client, other, state)
    client.send(f"{verb} {job}{ARGUMENTS.get(verb, '')}").reply(word)
    becomes = BECOMES.get(word, state.split()[0])
    if becomes == "gone":
        client.peek(job).reply("NOT_FOUND")
    else:
        assert other.state_of(job) == becomes
