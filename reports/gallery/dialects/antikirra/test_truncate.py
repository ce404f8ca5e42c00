"""The command truncate of antikirra's fork."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import NewTube
from reference_server.wire import NOT_FOUND, Reply


@requirement("truncate.count", r"truncate <tube>\r\n […] TRUNCATED <count>\r\n")
def test_it_tells_how_many_jobs_it_has_deleted(client: Connection) -> None:
    client.put(b"ready")
    client.put(b"delayed", delay=1000)
    client.send(f"truncate {client.tube}").expect(Reply("TRUNCATED", (2,)))
    client.send(f"truncate {client.tube}").expect(Reply("TRUNCATED", (0,)))


@requirement("truncate.deletes-jobs", r"truncate <tube>\r\n […] TRUNCATED <count>\r\n")
def test_the_jobs_are_gone(client: Connection, new_tube: NewTube) -> None:
    job = client.put(b"a")
    client.send(f"use {new_tube()}").reply("USING")
    other = client.put(b"b")
    client.send(f"truncate {client.tube}").expect(Reply("TRUNCATED", (1,)))
    client.finds_no_job()
    client.send(f"peek {job}").expect(NOT_FOUND)
    client.send(f"peek {other}").reply("FOUND")


@requirement(
    "truncate.touch",
    "touch <id> on a job whose tube was truncated since it was reserved […] NOT_FOUND",
)
def test_a_reserved_job_cannot_be_touched_any_more(client: Connection) -> None:
    job = client.put(b"a")
    client.reserve().reply("RESERVED")
    client.send(f"truncate {client.tube}").reply("TRUNCATED")
    client.send(f"touch {job}").expect(NOT_FOUND)


@requirement("truncate.unknown-tube", r"truncate <tube>\r\n […] TRUNCATED <count>\r\n")
def test_a_tube_that_does_not_exist(client: Connection, new_tube: NewTube) -> None:
    client.send(f"truncate {new_tube()}").expect(NOT_FOUND)
