"""Section "Producer Commands", continued: use."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import refuse
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import NOT_FOUND, USING


@requirement(
    "use.using",
    r"The only reply is: USING <tube>\r\n <tube> is the name of the tube now being used.",
)
def test_use_names_the_tube_now_used(connect: Connect, tube: str) -> None:
    client = connect()
    client.send(f"use {tube}").expect(USING(tube))
    assert client.tube_used() == tube


@requirement(
    "use.subsequent-puts",
    "Subsequent put commands will put jobs into the tube specified by this command.",
)
def test_use_holds_for_all_puts_until_the_next_use(client: Connection, new_tube: NewTube) -> None:
    for tube in (new_tube(), "default", new_tube()):
        client.use(tube)
        for _ in range(3):
            job = client.put(b"a", delay=3600)
            assert client.stats_job(job)["tube"] == tube


@requirement(
    "use.subsequent-puts",
    "Subsequent put commands will put jobs into the tube specified by this command.",
)
def test_use_does_not_move_jobs_that_are_there(client: Connection, new_tube: NewTube) -> None:
    job = client.put(b"a")
    client.use(new_tube())
    assert client.stats_job(job)["tube"] == client.tube


@requirement(
    "use.subsequent-puts",
    "Subsequent put commands will put jobs into the tube specified by this command.",
)
def test_use_does_not_concern_other_clients(
    client: Connection, other: Connection, new_tube: NewTube
) -> None:
    client.use(new_tube())
    assert client.stats_job(other.put(b"a"))["tube"] == other.tube


@requirement(
    "use.does-not-watch",
    'When a client connects, its watch list is initially just the tube named "default".',
)
def test_use_does_not_watch(client: Connection, new_tube: NewTube) -> None:
    client.use(new_tube())
    assert client.tubes_watched() == [client.tube]
    client.put(b"a")
    client.finds_no_job()


@requirement("use.name-limit", "<tube> is a name at most 200 bytes. It specifies the tube to use.")
def test_use_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(client.profile.max_name, "n")
    client.send(f"use {name}").expect(USING(name))
    assert client.tube_used() == name


@requirement("use.name-limit", "<tube> is a name at most 200 bytes. It specifies the tube to use.")
def test_names_are_told_apart_by_their_200th_byte(client: Connection) -> None:
    most = client.tube.ljust(client.profile.max_name - 1, "n")
    first, second = f"{most}1", f"{most}2"
    client.send(f"use {first}").reply("USING")
    job = client.put(b"a")
    client.send(f"use {second}").reply("USING")
    client.peek_ready().expect(NOT_FOUND)
    assert client.stats_job(job)["tube"] == first


@requirement("use.creates-tube", "If the tube does not exist, it will be created.")
def test_use_creates_a_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.use(tube)
    client.finds_tube(tube)
    assert client.stats_tube(tube)["current-using"] == "1"


@requirement("use.bad-format", r"use <tube>\r\n")
@pytest.mark.parametrize("argument", ["", "-a", "a b", "a!", "n" * 201])
def test_use_of_what_is_no_name_changes_nothing(client: Connection, argument: str) -> None:
    refuse(client, f"use {argument}")
    assert client.tube_used() == client.tube
