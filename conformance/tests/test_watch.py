"""Section "Worker Commands", continued: watch."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import refuse
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import RESERVED, WATCHING


@requirement(
    "watch.watching",
    r"WATCHING <count>\r\n <count> is the integer number of tubes currently in the watch list.",
)
def test_watch_counts_the_watched_tubes(connect: Connect, new_tube: NewTube) -> None:
    client = connect()
    for count in range(2, 12):
        client.send(f"watch {new_tube()}").expect(WATCHING(count))


@requirement(
    "watch.many-tubes",
    "A reserve command will take a job from any of the tubes in the watch list.",
)
def test_a_client_may_watch_100_tubes(client: Connection, new_tube: NewTube) -> None:
    tubes = [new_tube() for _ in range(100)]
    client.go_to(*(f"watch {tube}" for tube in tubes))
    assert set(client.tubes_watched()) == {client.tube, *tubes}
    for tube in (tubes[0], tubes[49], tubes[99]):
        client.use(tube)
        job = client.put(b"a")
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "watch.many-tubes",
    "A reserve command will take a job from any of the tubes in the watch list.",
)
def test_a_client_that_waits_for_100_tubes_is_served_from_any(
    client: Connection, worker: Connection, new_tube: NewTube
) -> None:
    tubes = [new_tube() for _ in range(100)]
    worker.go_to(*(f"watch {tube}" for tube in tubes))
    for tube in (tubes[99], tubes[0], tubes[50]):
        waiting = worker.reserve_waiting()
        client.use(tube)
        client.linger()
        waiting.is_pending()
        job = client.put(b"a")
        waiting.expect(RESERVED(job, b"a"))


@requirement(
    "watch.own-connection-only",
    'The "watch" command adds the named tube to the watch list for the current connection.',
)
def test_watch_does_not_concern_other_clients(
    client: Connection, other: Connection, new_tube: NewTube
) -> None:
    tube = new_tube()
    client.watch(tube)
    other.use(tube)
    other.put(b"a")
    other.finds_no_job()
    assert other.tubes_watched() == [other.tube]


@requirement("watch.twice", "<count> is the integer number of tubes currently in the watch list.")
def test_watching_a_tube_twice_counts_once(client: Connection) -> None:
    client.send(f"watch {client.tube}").expect(WATCHING(1))
    assert client.tubes_watched() == [client.tube]


@requirement(
    "watch.name-limit",
    "<tube> is a name at most 200 bytes. It specifies a tube to add to the watch list.",
)
def test_watch_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(client.profile.max_name, "n")
    client.send(f"watch {name}").reply("WATCHING")
    assert set(client.tubes_watched()) == {client.tube, name}


@requirement("watch.creates-tube", "If the tube doesn't exist, it will be created.")
def test_watch_creates_a_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.watch(tube)
    client.observe(f"stats-tube {tube}").reply("OK")


@requirement("watch.bad-format", r"watch <tube>\r\n")
@pytest.mark.parametrize("argument", ["", "-a", "a b", "a!", "n" * 201])
def test_watch_of_what_is_no_name(client: Connection, argument: str) -> None:
    refuse(client, f"watch {argument}")
    assert client.tubes_watched() == [client.tube]
