"""Section "Job Lifecycle", continued: each command on a job in each state."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.usual_answers import answer_to_delete, usual_answer
from reference_server.lifecycle import BECOMES, REPLIES, STATES
from reference_server.profiles import Profile

ARGUMENTS = {"release": " 0 0", "bury": " 0"}


def _job(client: Connection, other: Connection, state: str) -> int:
    if state != "reserved by another":
        return client.job_in(state)
    job = client.put(b"a")
    other.hold(job)
    return job


def _owner(profile: Profile, verb: str, word: str, state: str) -> str:
    """Return the requirement of the reply to a command on a job in this state."""
    if word == "NOT_FOUND":
        return f"{verb}.not-found"
    return answer_to_delete(profile, state) if verb == "delete" else usual_answer(verb, profile)


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
    owner = _owner(profile, verb, word, state)
    client.confirm(f"{verb} {job}{ARGUMENTS.get(verb, '')}", word, owner)
    becomes = BECOMES.get(word, state.split()[0])
    if becomes == "gone":
        client.confirm(f"peek {job}", "NOT_FOUND", "delete.entirely")
    else:
        assert other.state_of(job) == becomes
