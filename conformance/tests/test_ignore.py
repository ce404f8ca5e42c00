"""Section "Worker Commands", continued: ignore."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Role
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import NOT_FOUND, NOT_IGNORED, WATCHING


@requirement(
    "ignore.watching",
    'It removes the named tube from the watch list for the current connection. […] "WATCHING '
    r'<count>\r\n" to indicate success.',
)
def test_ignore_counts_the_tubes_that_are_left(client: Connection, new_tube: NewTube) -> None:
    tubes = [new_tube(), new_tube()]
    for tube in tubes:
        client.watch(tube)
    client.send(f"ignore {tubes[0]}").expect(WATCHING(2))
    client.send(f"ignore {tubes[1]}").expect(WATCHING(1))


@requirement(
    "ignore.takes-effect",
    "It removes the named tube from the watch list for the current connection.",
)
def test_jobs_of_an_ignored_tube_are_not_given(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.put(b"a")
    client.watch(tube)
    client.ignore(client.tube)
    client.finds_no_job()
    assert client.tubes_watched() == [tube]


@requirement(
    "ignore.default",
    "It removes the named tube from the watch list for the current connection.",
)
def test_default_can_be_ignored(connect: Connect, tube: str) -> None:
    client = connect()
    client.watch(tube)
    client.send("ignore default").reply("WATCHING")
    assert client.tubes_watched() == [tube]


@requirement("ignore.name-limit", "if the name of a tube exceeds 200 bytes")
def test_ignore_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(client.profile.max_name, "n")
    client.send(f"watch {name}", Role("watch.name-limit")).reply("WATCHING")
    client.send(f"ignore {name}").reply("WATCHING")


@requirement(
    "ignore.creates-no-tube",
    "It removes the named tube from the watch list for the current connection.",
)
def test_ignore_creates_no_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.observe(f"ignore {tube}").any_reply()
    client.observe(f"stats-tube {tube}").expect(NOT_FOUND)


@requirement(
    "ignore.not-ignored",
    r'"NOT_IGNORED\r\n" if the client attempts to ignore the only tube in its watch list.',
)
def test_the_only_watched_tube_cannot_be_ignored(client: Connection) -> None:
    client.send(f"ignore {client.tube}").expect(NOT_IGNORED)
    assert client.tubes_watched() == [client.tube]


@requirement(
    "ignore.unwatched-tube",
    "<count> is the integer number of tubes currently in the watch list.",
)
def test_ignoring_a_tube_that_is_not_watched_changes_nothing(
    client: Connection, new_tube: NewTube
) -> None:
    client.send(f"ignore {new_tube()}").expect(WATCHING(1))
    assert client.tubes_watched() == [client.tube]
