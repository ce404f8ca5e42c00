"""Section "Other Commands", continued: list-tubes, list-tube-used and list-tubes-watched."""

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import USING


@requirement("list-tubes.all", "The list-tubes command returns a list of all existing tubes.")
def test_list_tubes_lists_all_tubes_once(client: Connection, new_tube: NewTube) -> None:
    tubes = [new_tube() for _ in range(5)]
    for tube in tubes:
        client.watch(tube)
        client.confirm(f"stats-tube {tube}", "OK", "watch.creates-tube")
    names = client.tested.tubes()
    for tube in [client.tube, *tubes]:
        assert names.count(tube) == 1


@requirement("list-tubes.yaml", "It is a YAML file containing all tube names as a list of strings.")
def test_list_tubes_is_a_list_of_names(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    assert tube not in client.tested.tubes()
    client.watch(tube)
    client.confirm(f"stats-tube {tube}", "OK", "watch.creates-tube")
    assert {client.tube, tube} <= set(client.tested.tubes())
    client.ignore(tube)
    client.becomes(lambda: listed_alike(tube, client))
    assert listed_alike(tube, client)


@requirement("list-tubes.yaml", "It is a YAML file containing all tube names as a list of strings.")
@pytest.mark.parametrize("name", ["null", "1.0", "0x10", "true", "1e3", "a.b", "n" * 190])
def test_list_tubes_lists_a_name_that_yaml_takes_for_something_else(
    connect: Connect, name: str
) -> None:
    client = connect()
    client.use(name)
    client.confirm(f"stats-tube {name}", "OK", "use.creates-tube")
    assert name in client.tested.tubes()


@requirement("list-tubes.yaml", "It is a YAML file containing all tube names as a list of strings.")
def test_list_tubes_is_yaml(client: Connection) -> None:
    client.send("list-tubes").is_yaml()


@requirement(
    "list-tubes-watched.list",
    "The list-tubes-watched command returns a list tubes currently being watched by the client.",
)
def test_list_tubes_watched_is_yaml(client: Connection) -> None:
    client.send("list-tubes-watched").is_yaml()


def listed_alike(tube: str, client: Connection) -> bool:
    """Return whether a tube is listed just if it is there; whether it must be, is not asked."""
    listed = tube in client.tubes()
    return listed == (client.observe(f"stats-tube {tube}").any_reply().word == "OK")


@requirement(
    "list-tube-used.using",
    "The list-tube-used command returns the tube currently being used by the client. […] USING "
    r"<tube>\r\n",
)
def test_list_tube_used_names_the_used_tube(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.send("list-tube-used").expect(USING(client.tube))
    client.use(tube)
    client.send("list-tube-used").expect(USING(tube))


@requirement(
    "list-tube-used.own",
    "The list-tube-used command returns the tube currently being used by the client.",
)
def test_list_tube_used_names_ones_own(connect: Connect, new_tube: NewTube) -> None:
    clients = {new_tube(): connect() for _ in range(5)}
    for tube, client in clients.items():
        client.use(tube)
    for tube, client in clients.items():
        client.send("list-tube-used").expect(USING(tube))


@requirement(
    "list-tubes-watched.list",
    "The list-tubes-watched command returns a list tubes currently being watched by the client.",
)
def test_list_tubes_watched_lists_the_watch_list(client: Connection, new_tube: NewTube) -> None:
    tubes = {client.tube, new_tube(), new_tube()}
    for tube in tubes:
        client.watch(tube)
    names = client.tested.tubes_watched()
    assert sorted(names) == sorted(tubes)
    client.ignore(client.tube)
    assert set(client.tested.tubes_watched()) == tubes - {client.tube}


@requirement(
    "list-tubes-watched.own",
    "The list-tubes-watched command returns a list tubes currently being watched by the client.",
)
def test_list_tubes_watched_lists_ones_own(connect: Connect, new_tube: NewTube) -> None:
    clients = {new_tube(): connect() for _ in range(5)}
    for tube, client in clients.items():
        client.watch(tube)
    for tube, client in clients.items():
        assert sorted(client.tubes_watched()) == sorted(["default", tube])
