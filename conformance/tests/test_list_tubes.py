"""Section "Other Commands", continued: list-tubes, list-tube-used and list-tubes-watched."""

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import USING, WATCHING


@requirement("list-tubes.all", "The list-tubes command returns a list of all existing tubes.")
def test_list_tubes_lists_all_tubes_once(client: Connection, new_tube: NewTube) -> None:
    tubes = [new_tube() for _ in range(5)]
    for tube in tubes:
        client.send(f"watch {tube}").reply("WATCHING")
    names = client.send("list-tubes").names()
    for tube in [client.tube, *tubes]:
        assert names.count(tube) == 1


@requirement("list-tubes.yaml", "It is a YAML file containing all tube names as a list of strings.")
def test_list_tubes_is_a_list_of_names(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    assert tube not in client.send("list-tubes").names()
    client.send(f"watch {tube}").expect(WATCHING(2))
    assert {client.tube, tube} <= set(client.send("list-tubes").names())
    client.send(f"ignore {tube}").expect(WATCHING(1))
    client.becomes(lambda: _is_told_alike(client, tube))
    assert _is_told_alike(client, tube)


def _is_told_alike(client: Connection, tube: str) -> bool:
    """Return whether a tube is listed just if it is there; whether it must be, is not asked."""
    listed = tube in client.send("list-tubes").names()
    return listed == (client.send(f"stats-tube {tube}").any_reply().word == "OK")


@requirement(
    "list-tube-used.using",
    "The list-tube-used command returns the tube currently being used by the client. […] USING "
    r"<tube>\r\n",
)
def test_list_tube_used_names_the_used_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send("list-tube-used").expect(USING(client.tube))
    client.send(f"use {tube}").expect(USING(tube))
    client.send("list-tube-used").expect(USING(tube))


@requirement(
    "list-tube-used.own",
    "The list-tube-used command returns the tube currently being used by the client.",
)
def test_list_tube_used_names_ones_own(connect: Connect, new_tube: NewTube) -> None:
    clients = {new_tube(): connect() for _ in range(5)}
    for tube, client in clients.items():
        client.send(f"use {tube}").expect(USING(tube))
    for tube, client in clients.items():
        client.send("list-tube-used").expect(USING(tube))


@requirement(
    "list-tubes-watched.list",
    "The list-tubes-watched command returns a list tubes currently being watched by the client.",
)
def test_list_tubes_watched_lists_the_watch_list(client: Connection, new_tube: NewTube) -> None:
    tubes = {client.tube, new_tube(), new_tube()}
    for tube in tubes:
        client.send(f"watch {tube}").reply("WATCHING")
    names = client.send("list-tubes-watched").names()
    assert sorted(names) == sorted(tubes)
    client.send(f"ignore {client.tube}").expect(WATCHING(2))
    assert set(client.send("list-tubes-watched").names()) == tubes - {client.tube}


@requirement(
    "list-tubes-watched.own",
    "The list-tubes-watched command returns a list tubes currently being watched by the client.",
)
def test_list_tubes_watched_lists_ones_own(connect: Connect, new_tube: NewTube) -> None:
    clients = {new_tube(): connect() for _ in range(5)}
    for tube, client in clients.items():
        client.send(f"watch {tube}").expect(WATCHING(2))
    for tube, client in clients.items():
        assert sorted(client.send("list-tubes-watched").names()) == sorted(["default", tube])
