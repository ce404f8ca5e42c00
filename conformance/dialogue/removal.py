"""Deletion of jobs that are ready, which old profiles do not have."""

from __future__ import annotations

from conformance.dialogue.connection import Connection
from reference_server.profiles import Profile
from reference_server.wire import RESERVED


def delete_ready(client: Connection, job: int, tube: str, profile: Profile) -> None:
    """Delete a job, an "a", that is next in a tube; reserve it first where that must be."""
    if "ready" not in profile.deletes:
        client.watch(tube)
        client.reserve().expect(RESERVED(job, b"a"))
        # The last tube of a watch list stays.
        client.prepare(f"ignore {tube}").any_reply()
    client.delete(job)
