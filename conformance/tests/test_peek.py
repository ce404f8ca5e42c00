"""Section "Other Commands": peek, peek-ready, peek-delayed and peek-buried."""

import contextlib
from collections.abc import Iterator

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from conformance.dialogue.schedule import Timeline
from conformance.target.signals import named
from conformance.target.target import Target
from conformance.verdict import NotTestable
from reference_server.profiles import Profile
from reference_server.wire import (
    DELETED,
    FOUND,
    NOT_FOUND,
    RESERVED,
)


@requirement(
    "peek.found",
    r'"peek <id>\r\n" - return job <id>. […] FOUND <id> <bytes>\r\n <data>\r\n',
)
def test_peek_shows_a_job_of_any_tube(client: Connection, connect: Connect) -> None:
    job = client.put(b"hello")
    connect().peek(job).expect(FOUND(job, b"hello"))


@requirement("peek.any-state", "The peek commands let the client inspect a job in the system.")
def test_peek_shows_a_job_in_any_state(client: Connection, other: Connection) -> None:
    reserved, buried = client.put_and_reserve(b"c"), client.put_and_bury(b"d")
    ready, delayed = client.put(b"a"), client.put(b"b", delay=3600)
    for job, body in ((ready, b"a"), (delayed, b"b"), (reserved, b"c"), (buried, b"d")):
        other.peek(job).expect(FOUND(job, body))


@contextlib.contextmanager
def held_up(server: Target) -> Iterator[None]:
    """Stop a server, if possible: then it finds at once all that is sent meanwhile."""
    with contextlib.suppress(NotTestable):
        server.signal(named("SIGSTOP"))
    try:
        yield
    finally:
        with contextlib.suppress(NotTestable):
            server.signal(named("SIGCONT"))


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
        client.synchronise()
        with held_up(own_server):
            peek = client.send(f"peek {job}")
            delete = other.prepare(f"delete {job}")
            put = producer.prepare(f"put 9 0 60 3000\r\n{'b' * 3000}")
        peek.expect(FOUND(job, b"a" * 3000), NOT_FOUND)
        delete.expect(DELETED)
        put.reply("INSERTED")


@requirement(
    "peek.changes-nothing",
    "The peek commands let the client inspect a job in the system.",
)
def test_peek_changes_nothing(client: Connection, profile: Profile) -> None:
    job = client.put(b"a")
    before = client.stats_job(job)
    client.peek(job).expect(FOUND(job, b"a"))
    if "peek-ready" in profile.commands:
        client.peek_ready().expect(FOUND(job, b"a"))
    after = client.stats_job(job)
    for key in {"state", "reserves", "kicks", "pri", "buries"} & before.keys():
        assert before[key] == after[key]


@requirement(
    "peek.not-found",
    r'"NOT_FOUND\r\n" if the requested job '
    "doesn't exist or there are no jobs in the requested state.",
)
@pytest.mark.parametrize("command", ["peek-ready", "peek-delayed", "peek-buried"])
def test_peek_where_there_is_no_job_in_that_state(client: Connection, command: str) -> None:
    client.observe(command).expect(NOT_FOUND)


@requirement("peek.ready", r'"peek-ready\r\n" - return the next ready job.')
def test_peek_ready_shows_the_job_that_reserve_would_give(client: Connection) -> None:
    for body, pri in ((b"a", 5), (b"b", 3), (b"c", 4)):
        client.put(body, pri=pri)
    shown = client.peek_ready().reply("FOUND")
    client.reserve().expect(RESERVED(int(shown.args[0]), shown.body or b""))


@requirement(
    "peek.delayed",
    r'"peek-delayed\r\n" - return the delayed job with the shortest delay left.',
)
def test_peek_delayed_shows_the_job_with_the_shortest_delay(client: Connection) -> None:
    client.put(b"a", delay=3000, pri=0)
    job = client.put(b"b", delay=1000, pri=9)
    client.put(b"c", delay=2000, pri=5)
    client.peek_delayed().expect(FOUND(job, b"b"))


@requirement(
    "peek.delayed",
    r'"peek-delayed\r\n" - return the delayed job with the shortest delay left.',
)
def test_peek_delayed_does_not_show_a_job_whose_delay_is_over(
    client: Connection, clock: Timeline
) -> None:
    soon, late = client.put(b"a", delay=1), client.put(b"b", delay=3600)
    client.peek_delayed().expect(FOUND(soon, b"a"))
    clock.advance(1)
    client.delay_ends(soon)
    client.peek_delayed().expect(FOUND(late, b"b"))
    client.peek_ready().expect(FOUND(soon, b"a"))


@requirement("peek.buried", r'"peek-buried\r\n" - return the next job in the list of buried jobs.')
def test_peek_buried_shows_the_job_that_was_buried_first(client: Connection) -> None:
    jobs = [client.put_and_reserve() for _ in range(3)]
    for job in (jobs[1], jobs[2], jobs[0]):
        client.bury(job)
    client.peek_buried().expect(FOUND(jobs[1], b"a"))


@requirement("peek.used-tube-only", "All but the first operate only on the currently used tube.")
@pytest.mark.parametrize("command", ["peek-ready", "peek-delayed", "peek-buried"])
def test_peek_looks_into_the_used_tube_only(
    client: Connection, new_tube: NewTube, command: str
) -> None:
    client.put_and_bury()
    client.put(b"a")
    client.put(b"b", delay=3600)
    client.use(new_tube())
    client.observe(command).expect(NOT_FOUND)
