"""Deletion of ready jobs, which old profiles do not have."""

from __future__ import annotations

from conformance.dialogue.connection import Connection
from reference_server.profiles import Profile


def delete_ready(client: Connection, job: int, tube: str, profile: Profile) -> None:
    """Delete a job, an "a", that is next in a tube; reserve it first where that must be."""
    if "ready" in profile.deletes:
        client.delete(job, "ready")
        return
    client.watch(tube)
    client.hold(job)
    # The last tube of a watch list stays.
    client.observe(f"ignore {tube}").any_reply()
    client.delete(job)
