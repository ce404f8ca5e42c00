"""Section "Other Commands": peek, kick, kick-job, lists, quit and pause-tube."""

import contextlib
import signal
from collections.abc import Iterator

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.target.target import Target
from conformance.verdict import NotTestable
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    BURIED,
    DELETED,
    FOUND,
    KICKED,
    KICKED_COUNT,
    NOT_FOUND,
    PAUSED,
    RELEASED,
    RESERVED,
    UNKNOWN_COMMAND,
    USING,
    WATCHING,
)

NO_ID = ["x", "-1", "+0", "0x", str(2**64), ""]


@requirement(
    "peek.found",
    r'"peek <id>\r\n" - return job <id>. […] FOUND <id> <bytes>\r\n <data>\r\n',
)
def test_peek_shows_a_job_of_any_tube(client: Connection, connect: Connect) -> None:
    job = client.put(b"hello")
    connect().send(f"peek {job}").expect(FOUND(job, b"hello"))


@requirement("peek.any-state", "The peek commands let the client inspect a job in the system.")
def test_peek_shows_a_job_in_any_state(client: Connection, other: Connection) -> None:
    reserved, buried = client.put_and_reserve(b"c"), client.put_and_bury(b"d")
    ready, delayed = client.put(b"a"), client.put(b"b", delay=3600)
    for job, body in ((ready, b"a"), (delayed, b"b"), (reserved, b"c"), (buried, b"d")):
        other.send(f"peek {job}").expect(FOUND(job, body))


@requirement(
    "peek.body",
    "<data> is the job body -- a sequence of bytes of length <bytes> from the previous line.",
)
def test_peek_shows_the_body_of_a_job_that_another_client_deletes_meanwhile(
    own_server: Target, client: Connection, other: Connection, producer: Connection
) -> None:
    for _ in range(5):
        job = other.put_and_reserve(b"a" * 3000)
        # Many servers look first at clients that they have just heard.
        client.is_in_step()
        with held_up(own_server):
            peek = client.send(f"peek {job}")
            delete = other.send(f"delete {job}")
            put = producer.send(b"put 9 0 60 3000\r\n" + b"b" * 3000)
        peek.expect(FOUND(job, b"a" * 3000), NOT_FOUND)
        delete.expect(DELETED)
        put.reply("INSERTED")


@contextlib.contextmanager
def held_up(server: Target) -> Iterator[None]:
    """Lets a server find all that is sent meanwhile at once, if it can be stopped."""
    with contextlib.suppress(NotTestable):
        server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(NotTestable):
            server.signal(signal.SIGCONT)


@requirement(
    "peek.changes-nothing",
    "The peek commands let the client inspect a job in the system.",
)
def test_peek_changes_nothing(client: Connection, profile: Profile) -> None:
    job = client.put(b"a")
    before = client.stats_job(job)
    client.send(f"peek {job}").expect(FOUND(job, b"a"))
    if "peek-ready" in profile.commands:
        client.send("peek-ready").expect(FOUND(job, b"a"))
    after = client.stats_job(job)
    for key in {"state", "reserves", "kicks", "pri", "buries"} & before.keys():
        assert before[key] == after[key]


@requirement(
    "peek.not-found",
    r'"NOT_FOUND\r\n" if the requested job '
    "doesn't exist or there are no jobs in the requested state.",
)
@pytest.mark.parametrize("job", [0, 2**63, 2**64 - 1])
def test_peek_of_a_job_that_does_not_exist(client: Connection, job: int) -> None:
    client.send(f"peek {job}").expect(NOT_FOUND)


@requirement(
    "peek.not-found",
    r'"NOT_FOUND\r\n" if the requested job '
    "doesn't exist or there are no jobs in the requested state.",
)
@pytest.mark.parametrize("command", ["peek-ready", "peek-delayed", "peek-buried"])
def test_peek_where_there_is_no_job_in_that_state(client: Connection, command: str) -> None:
    client.send(command).expect(NOT_FOUND)


@requirement("peek.ready", r'"peek-ready\r\n" - return the next ready job.')
def test_peek_ready_shows_the_job_that_reserve_would_give(client: Connection) -> None:
    client.put(b"a", pri=5)
    job = client.put(b"b", pri=3)
    client.put(b"c", pri=4)
    client.send("peek-ready").expect(FOUND(job, b"b"))
    client.reserve().expect(RESERVED(job, b"b"))


@requirement(
    "peek.delayed",
    r'"peek-delayed\r\n" - return the delayed job with the shortest delay left.',
)
def test_peek_delayed_shows_the_job_with_the_shortest_delay(client: Connection) -> None:
    client.put(b"a", delay=3000, pri=0)
    job = client.put(b"b", delay=1000, pri=9)
    client.put(b"c", delay=2000, pri=5)
    client.send("peek-delayed").expect(FOUND(job, b"b"))


@requirement("peek.buried", r'"peek-buried\r\n" - return the next job in the list of buried jobs.')
def test_peek_buried_shows_the_job_that_was_buried_first(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(3)]
    for job in (jobs[1], jobs[2], jobs[0]):
        client.send(f"bury {job} 0").expect(BURIED)
    client.send("peek-buried").expect(FOUND(jobs[1], b"a"))


@requirement("peek.used-tube-only", "All but the first operate only on the currently used tube.")
@pytest.mark.parametrize("command", ["peek-ready", "peek-delayed", "peek-buried"])
def test_peek_looks_into_the_used_tube_only(
    client: Connection, new_tube: NewTube, command: str
) -> None:
    client.put_and_bury()
    client.put(b"a")
    client.put(b"b", delay=3600)
    client.send(f"use {new_tube()}").reply("USING")
    client.send(command).expect(NOT_FOUND)


@requirement("peek.bad-format", r'"peek <id>\r\n" - return job <id>.')
@pytest.mark.parametrize("argument", NO_ID)
def test_a_malformed_peek(client: Connection, argument: str) -> None:
    client.send(f"peek {argument}").expect(BAD_FORMAT)


@requirement("peek.bad-format", r'"peek <id>\r\n" - return job <id>.')
@pytest.mark.parametrize("line", ["peek-ready 1", "peek-delayed 1", "peek-buried x"])
def test_a_malformed_peek_of_a_queue(client: Connection, line: str) -> None:
    client.send(line).expect(BAD_FORMAT)


@requirement(
    "kick.kicked",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
def test_kick_makes_buried_jobs_ready(client: Connection) -> None:
    jobs = [client.put_and_bury() for _ in range(3)]
    client.send("kick 10").expect(KICKED_COUNT(3))
    for job in jobs:
        assert client.state_of(job) == "ready"


@requirement(
    "kick.kicked",
    "The kick command applies only to the currently used tube. It moves jobs into the ready queue.",
)
def test_kick_of_nothing(client: Connection) -> None:
    client.send("kick 10").expect(KICKED_COUNT(0))
    job = client.put(b"a")
    client.send("kick 10").expect(KICKED_COUNT(0))
    assert client.stats_job(job)["kicks"] == "0"


@requirement("kick.used-tube-only", "The kick command applies only to the currently used tube.")
def test_kick_applies_to_the_used_tube_only(client: Connection, new_tube: NewTube) -> None:
    job = client.put_and_bury()
    client.send(f"use {new_tube()}").reply("USING")
    client.send("kick 1").expect(KICKED_COUNT(0))
    assert client.state_of(job) == "buried"


@requirement(
    "kick.buried-only-if-any",
    "If there are any buried jobs, it will only kick buried jobs.",
)
def test_kick_leaves_delayed_jobs_while_there_are_buried_ones(client: Connection) -> None:
    delayed, buried = client.put(b"a", delay=3600), client.put_and_bury()
    client.send("kick 10").expect(KICKED_COUNT(1))
    assert (client.state_of(delayed), client.state_of(buried)) == ("delayed", "ready")


@requirement("kick.otherwise-delayed", "Otherwise it will kick delayed jobs.")
def test_kick_takes_delayed_jobs_by_the_shortest_delay(client: Connection) -> None:
    late, soon = client.put(b"a", delay=3600), client.put(b"b", delay=1800)
    client.send("kick 1").expect(KICKED_COUNT(1))
    assert (client.state_of(late), client.state_of(soon)) == ("delayed", "ready")
    client.send("kick 1").expect(KICKED_COUNT(1))
    assert client.state_of(late) == "ready"


@requirement(
    "kick.bound",
    "<bound> is an integer upper bound on the number of jobs to kick. The server will kick no "
    "more than <bound> jobs.",
)
@pytest.mark.parametrize(("bound", "kicked"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3)])
def test_kick_moves_no_more_than_its_bound(client: Connection, bound: int, kicked: int) -> None:
    for _ in range(3):
        client.put_and_bury()
    client.send(f"kick {bound}").expect(KICKED_COUNT(kicked))
    assert client.stats_tube()["current-jobs-buried"] == str(3 - kicked)


@requirement(
    "kick.bound",
    "<bound> is an integer upper bound on the number of jobs to kick. The server will kick no "
    "more than <bound> jobs.",
)
def test_kick_takes_a_bound_of_32_bits(client: Connection) -> None:
    client.put_and_bury()
    client.send(f"kick {2**32 - 1}").expect(KICKED_COUNT(1))


@requirement("kick.bad-format", r"kick <bound>\r\n")
@pytest.mark.parametrize("line", ["kick x", "kick ,", "kick -"])
def test_a_malformed_kick(client: Connection, line: str) -> None:
    client.send(line).expect(BAD_FORMAT)


@requirement("kick.count", "<count> is an integer indicating the number of jobs actually kicked.")
def test_kick_tells_how_many_jobs_it_has_kicked(client: Connection) -> None:
    delayed = [client.put(b"a", delay=3600) for _ in range(5)]
    for _ in range(2):
        client.put_and_bury()
    client.send("kick 4").expect(KICKED_COUNT(2))
    client.send("kick 4").expect(KICKED_COUNT(4))
    client.send("kick 4").expect(KICKED_COUNT(1))
    client.send("kick 4").expect(KICKED_COUNT(0))
    assert [client.stats_job(job)["kicks"] for job in delayed] == ["1"] * 5


@requirement(
    "kick.buried-in-order",
    "Buried jobs are put into a FIFO linked list and will not be touched by the server again "
    'until a client kicks them with the "kick" command.',
)
def test_kick_takes_the_jobs_that_were_buried_first(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(30)]
    order = jobs[::2] + jobs[1::2][::-1]
    for n, job in enumerate(order):
        client.send(f"bury {job} {n * 7 % 30}").expect(BURIED)
    client.send("kick 20").expect(KICKED_COUNT(20))
    left = {job for job in jobs if client.state_of(job) == "buried"}
    assert left == set(order[20:])


@requirement("kick.otherwise-delayed", "Otherwise it will kick delayed jobs.")
def test_30_delayed_jobs_are_kicked_by_the_shortest_delay(client: Connection) -> None:
    jobs = {n * 7 % 30: client.put(b"a", delay=1000 + n * 7 % 30 * 50) for n in range(30)}
    for n in range(30):
        client.send("peek-delayed").expect(FOUND(jobs[n], b"a"))
        client.send("kick 1").expect(KICKED_COUNT(1))
        assert client.state_of(jobs[n]) == "ready"


@requirement(
    "kick.keeps-place",
    "Within each priority, it will choose the one that was received first.",
)
def test_a_kicked_job_returns_to_its_old_place(client: Connection) -> None:
    first = client.put_and_bury()
    delayed = client.put(b"a", delay=3600)
    last = client.put(b"a")
    for bound in (1, 1):
        client.send(f"kick {bound}").expect(KICKED_COUNT(1))
    for job in (first, delayed, last):
        client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "kick-job.same-tube",
    "it will be moved to the ready queue of the the same tube where it currently belongs.",
)
def test_kick_job_leaves_a_job_in_its_tube(client: Connection, new_tube: NewTube) -> None:
    job = client.put_and_bury()
    client.send(f"use {new_tube()}").reply("USING")
    client.send(f"kick-job {job}").expect(KICKED)
    assert client.stats_job(job)["tube"] == client.tube
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "kick-job.any-tube",
    "The kick-job command is a variant of kick that operates with a single job identified by "
    "its job id.",
)
def test_kick_job_does_not_ask_for_the_used_tube(client: Connection, connect: Connect) -> None:
    for job in (client.put_and_bury(), client.put(b"a", delay=3600)):
        connect().send(f"kick-job {job}").expect(KICKED)
        assert client.state_of(job) == "ready"


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
@pytest.mark.parametrize("state", ["buried", "delayed"])
def test_kick_job_makes_a_job_ready(client: Connection, state: str) -> None:
    job = client.job_in(state)
    client.send(f"kick-job {job}").expect(KICKED)
    assert client.state_of(job) == "ready"
    client.reserve().expect(RESERVED(job, b"a"))


@requirement(
    "kick-job.kicked",
    "If the given job id exists and is in a buried or delayed state, it will be moved to the "
    "ready queue of the the same tube where it currently belongs.",
)
def test_kick_job_takes_one_job_only(client: Connection) -> None:
    first, second = client.put(b"a", delay=3600), client.put(b"b", delay=3600)
    client.send(f"kick-job {second}").expect(KICKED)
    assert (client.state_of(first), client.state_of(second)) == ("delayed", "ready")


@requirement(
    "kick-job.not-found",
    r'"NOT_FOUND\r\n" if the job does not exist or is not in a kickable state.',
)
def test_kick_job_of_a_job_that_cannot_be_kicked(client: Connection, other: Connection) -> None:
    reserved = other.put_and_reserve()
    ready = client.put(b"a")
    for job in (ready, reserved, 0, 2**64 - 1):
        client.send(f"kick-job {job}").expect(NOT_FOUND)


@requirement("kick-job.bad-format", r"kick-job <id>\r\n")
@pytest.mark.parametrize("argument", NO_ID)
def test_a_malformed_kick_job(client: Connection, argument: str) -> None:
    client.send(f"kick-job {argument}").expect(BAD_FORMAT)


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
    client.becomes(lambda: tube not in client.send("list-tubes").names())
    assert tube not in client.send("list-tubes").names()


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
    "list-tubes-watched.own",
    "The list-tubes-watched command returns a list tubes currently being watched by the client.",
)
def test_list_tubes_watched_lists_ones_own(connect: Connect, new_tube: NewTube) -> None:
    clients = {new_tube(): connect() for _ in range(5)}
    for tube, client in clients.items():
        client.send(f"watch {tube}").expect(WATCHING(2))
    for tube, client in clients.items():
        assert sorted(client.send("list-tubes-watched").names()) == sorted(["default", tube])


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


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(verb, marks=requirement(f"{verb}.bad-format", clause))
        for verb, clause in (
            ("list-tubes", r"list-tubes\r\n"),
            ("list-tube-used", r"list-tube-used\r\n"),
            ("list-tubes-watched", r"list-tubes-watched\r\n"),
        )
    ],
)
@pytest.mark.parametrize("rest", [" a", " 1"])
def test_a_list_command_takes_no_argument(client: Connection, verb: str, rest: str) -> None:
    client.send(verb + rest).expect(BAD_FORMAT)


@requirement("quit.closes", "The quit command simply closes the connection.")
def test_quit_closes_the_connection(client: Connection, other: Connection) -> None:
    client.raw(b"quit\r\n", replies=0)
    client.is_closed_by_target()
    other.send("list-tube-used").expect(USING(other.tube))


@requirement("quit.lets-jobs-go", "The quit command simply closes the connection.")
def test_jobs_of_a_client_that_quits_are_ready_again(client: Connection, other: Connection) -> None:
    job = client.put(b"a")
    client.reserve().expect(RESERVED(job, b"a"))
    client.raw(b"quit\r\n", replies=0)
    client.is_closed_by_target()
    other.becomes(lambda: other.state_of(job) == "ready")
    other.reserve().expect(RESERVED(job, b"a"))


@requirement("quit.nothing-behind-it", "The quit command simply closes the connection.")
def test_what_comes_behind_quit_is_not_done(client: Connection, other: Connection) -> None:
    client.raw(b"quit\r\nput 0 0 60 1\r\na\r\nlist-tube-used\r\n", replies=0)
    client.is_closed_by_target()
    other.finds_no_job()


@requirement(
    "protocol.serial-replies",
    "For each connection, the server processes commands serially in the order in which they "
    "were received and sends responses in the same order.",
)
def test_commands_before_quit_are_answered(client: Connection) -> None:
    client.needs(b"quit")
    client.raw(b"bogus\r\nlist-tube-used\r\nquit\r\n", replies=2)
    client.receives(UNKNOWN_COMMAND, USING(client.tube))
    client.is_closed_by_target()


@requirement(
    "pause-tube.paused",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_paused_tube_gives_no_job(client: Connection) -> None:
    client.put(b"a")
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    client.finds_no_job()
    client.send("peek-ready").reply("FOUND")


@requirement(
    "pause-tube.paused",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_paused_tube_gives_no_job_to_a_client_that_waits(
    client: Connection, worker: Connection
) -> None:
    waiting = worker.send("reserve")
    client.linger()
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    client.put(b"a")
    client.linger()
    waiting.is_pending()


@requirement(
    "pause-tube.paused",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_other_tubes_go_on_while_one_is_paused(client: Connection, new_tube: NewTube) -> None:
    tube = new_tube()
    client.put(b"a", pri=0)
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    client.send(f"use {tube}").expect(USING(tube))
    client.send(f"watch {tube}").expect(WATCHING(2))
    job = client.put(b"b", pri=9)
    client.reserve().expect(RESERVED(job, b"b"))


@requirement(
    "pause-tube.only-reserve",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_a_pause_holds_back_nothing_but_reserve(client: Connection) -> None:
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    job = client.put(b"a")
    client.send("peek-ready").expect(FOUND(job, b"a"))
    client.send(f"delete {job}").expect(DELETED)
    client.put(b"a", delay=3600)
    client.send("kick 1").expect(KICKED_COUNT(1))


@requirement(
    "pause-tube.not-reserve-job",
    "The pause-tube command can delay any new job being reserved for a given time.",
)
def test_reserve_job_takes_a_job_of_a_paused_tube(client: Connection) -> None:
    client.send(f"pause-tube {client.tube} 3600").expect(PAUSED)
    job = client.put(b"a")
    client.send(f"reserve-job {job}").expect(RESERVED(job, b"a"))
    client.send(f"release {job} 0 0").expect(RELEASED)
    client.finds_no_job()


@requirement("pause-tube.not-found", r'"NOT_FOUND\r\n" if the tube does not exist.')
def test_pausing_a_tube_that_does_not_exist(client: Connection, new_tube: NewTube) -> None:
    client.send(f"pause-tube {new_tube()} 1").expect(NOT_FOUND)


@requirement("pause-tube.delay-limit", "<delay> is an integer number of seconds < 2**32")
@pytest.mark.parametrize("delay", [1, 2**31, 2**32 - 1])
def test_a_pause_of_32_bits(client: Connection, delay: int) -> None:
    client.send(f"pause-tube {client.tube} {delay}").expect(PAUSED)
    assert client.stats_tube()["pause"] == str(delay)


@requirement("pause-tube.delay-limit", "<delay> is an integer number of seconds < 2**32")
@pytest.mark.parametrize("delay", ["-1", str(2**32), str(2**64), "x", "1x", ""])
def test_a_pause_out_of_range(client: Connection, delay: str) -> None:
    client.send(f"pause-tube {client.tube} {delay}").expect(BAD_FORMAT)


@requirement("pause-tube.name-limit", "if the name of a tube exceeds 200 bytes")
def test_pause_tube_takes_a_name_of_200_bytes(client: Connection) -> None:
    name = client.tube.ljust(200, "n")
    client.send(f"use {name}").expect(USING(name))
    client.send(f"pause-tube {name} 1000").expect(PAUSED)
    assert client.stats_tube(name)["pause"] == "1000"


@requirement("pause-tube.bad-format", r"pause-tube <tube-name> <delay>\r\n")
@pytest.mark.parametrize("line", ["pause-tube", "pause-tube a", "pause-tube a,0"])
def test_a_malformed_pause(client: Connection, line: str) -> None:
    client.send(line).expect(BAD_FORMAT, UNKNOWN_COMMAND)


@requirement("pause-tube.bad-format", r"pause-tube <tube-name> <delay>\r\n")
@pytest.mark.parametrize("name", ["-a", "a!"])
def test_a_pause_of_what_names_no_tube(client: Connection, name: str) -> None:
    client.send(f"pause-tube {name} 0").expect(BAD_FORMAT, NOT_FOUND)
