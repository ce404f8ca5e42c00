"""The judge of live traffic: nothing that is allowed is an alarm, and what is not is noticed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from conformance.oracle.underspecification import is_decided
from conformance.traffic.events import Event, EventReader, Kind, encoded
from conformance.traffic.job_table import MAX_DELETED
from conformance.traffic.judge import TrafficJudge
from conformance.traffic.requests import plain_lines
from reference_server.commands import VERBS
from reference_server.faults import FAULTS
from reference_server.profiles import PROFILES, Profile
from reference_server.state import SECOND
from tests.traffic.simulated_traffic import Simulation

SEEDS = range(8)
NOTICED = (
    "a-second-delete-succeeds",
    "delete-does-not-find-buried-jobs",
    "delete-does-not-find-delayed-jobs",
    "delete-takes-a-job-from-another-client",
    "release-finds-a-ready-job",
    "bury-finds-a-ready-job",
    "touch-finds-a-ready-job",
    "touch-lets-the-job-go",
    "a-job-whose-ttr-is-over-is-buried",
    "reserve-job-takes-jobs-of-watched-tubes-only",
    "reserve-job-takes-a-job-from-another-client",
    "peek-does-not-show-reserved-jobs",
    "peek-delayed-looks-into-all-tubes",
    "kick-job-of-a-ready-job-succeeds",
    "the-last-tube-is-not-listed",
    "put-tells-an-id-that-is-one-too-high",
    "every-seventh-job-is-not-kept",
    "two-clients-that-put-in-turn-are-told-the-same-id",
    "use-names-the-tube-used-before",
    "a-new-client-watches-nothing",
    "release-moves-a-job-into-the-tube-that-its-client-uses",
    "stats-lacks-uptime",
    "stats-job-lacks-age",
    "ignore-tells-the-count-of-before",
    "watching-a-tube-twice-counts-twice",
    "the-last-watched-tube-can-be-ignored",
)


def judged(
    events: Iterable[tuple[int, Kind, bytes]], judge: TrafficJudge | None = None
) -> TrafficJudge:
    """Return the judge of events that are 1 ms apart."""
    judge = judge or TrafficJudge()
    for number, (conn, kind, data) in enumerate(events):
        judge.take(Event(1_700_000_000 * SECOND + number * SECOND // 1000, conn, kind, data))
    return judge


def talk(conn: int, *said: bytes) -> list[tuple[int, Kind, bytes]]:
    """Return the events of a client that gets each of its replies before it goes on."""
    kinds = (Kind.SENT, Kind.RECEIVED)
    return [(conn, kinds[number % 2], data) for number, data in enumerate(said)]


def opened(*conns: int) -> list[tuple[int, Kind, bytes]]:
    return [(conn, Kind.OPENED, b"client-%d" % conn) for conn in conns]


def server_alarms(judge: TrafficJudge) -> list[str]:
    return [one.sentence for one in judge.known.alarms.kept if one.about == "server"]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_interleaving_of_a_right_server_is_an_alarm(seed: int) -> None:
    judge = TrafficJudge()
    simulation = Simulation(seed, judge.take, clients=2 + 2 * seed, prior=(seed % 3) * 5)
    simulation.run(600)
    assert judge.replies > 500
    assert judge.known.alarms.kept == []


@pytest.mark.parametrize("profile", [PROFILES[name] for name in ("1.12", "1.10", "1.5")])
def test_no_older_server_is_an_alarm(profile: Profile) -> None:
    judge = TrafficJudge(profile)
    Simulation(7, judge.take, clients=5, profile=profile).run(600)
    assert judge.known.alarms.kept == []


@pytest.mark.parametrize("name", NOTICED)
def test_faults_are_noticed(name: str) -> None:
    (fault,) = (one for one in FAULTS.values() if one.name == name)
    for seed in (1, 2, 3, 4):
        judge = TrafficJudge()
        simulation = Simulation(seed, judge.take, clients=3, fault=fault)
        while simulation.commands < 1000 and not judge.known.alarms.counts["server"]:
            simulation.run(simulation.commands + 20)
        if judge.known.alarms.counts["server"]:
            return
    pytest.fail("no alarm")


# ------------------------------------------------------------ what can be followed


def test_jobs_that_existed_before_are_not_guessed() -> None:
    said = talk(1, b"delete 5\r\n", b"DELETED\r\n", b"peek 6\r\n", b"FOUND 6 1\r\nx\r\n")
    more = talk(1, b"release 6 0 0\r\n", b"NOT_FOUND\r\n", b"delete 7\r\n", b"NOT_FOUND\r\n")
    assert server_alarms(judged(opened(1) + said + more)) == []


def test_once_an_earlier_job_is_shown_its_body_is_known() -> None:
    said = talk(1, b"peek 6\r\n", b"FOUND 6 1\r\nx\r\n", b"peek 6\r\n", b"FOUND 6 1\r\ny\r\n")
    (alarm,) = server_alarms(judged(opened(1) + said))
    assert "other bytes: y" in alarm


def test_a_client_that_bypasses_the_proxy_is_no_alarm() -> None:
    put = talk(1, b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
    other = talk(1, b"reserve\r\n", b"RESERVED 2 1\r\ny\r\n", b"delete 1\r\n", b"NOT_FOUND\r\n")
    judge = judged(opened(1) + put + other)
    assert server_alarms(judge) == []
    assert not judge.known.is_following
    assert "a client is not seen here" in judge.known.alarms.notices[-1][1]


def test_without_that_client_it_is_one() -> None:
    put = talk(1, b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
    other = talk(1, b"delete 1\r\n", b"NOT_FOUND\r\n")
    (alarm,) = server_alarms(judged(opened(1) + put + other))
    assert alarm.endswith("which is ready, observed NOT_FOUND\\r\\n to delete")
    strangers = judged(opened(1) + put + other, TrafficJudge(finds_strangers=lambda: True))
    assert server_alarms(strangers) == []
    assert server_alarms(judged(opened(1) + put + other, TrafficJudge(is_shared=True))) == []


def test_a_restart_that_nobody_was_connected_to_see_is_no_alarm() -> None:
    first = [*opened(1), *talk(1, b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")]
    idle = [(1, Kind.CLIENT_ENDED, b""), (1, Kind.CLOSED, b""), *opened(2)]
    again = talk(2, b"put 0 0 60 1\r\ny\r\n", b"INSERTED 1\r\n")
    missing = talk(2, b"delete 1\r\n", b"NOT_FOUND\r\n")
    assert server_alarms(judged([*first, *idle, *again])) == []
    assert server_alarms(judged([*first, *idle, *missing])) == []
    # With a client that stays, or a higher id, there was none.
    assert len(server_alarms(judged([*opened(3), *first, *idle, *again]))) == 1
    higher = talk(2, b"put 0 0 60 1\r\ny\r\n", b"INSERTED 2\r\n")
    assert len(server_alarms(judged([*first, *idle, *higher, *missing]))) == 1


@pytest.mark.parametrize("kind", [Kind.SERVER_ENDED, Kind.RESET])
def test_a_restart_that_ends_connections_is_no_alarm(kind: Kind) -> None:
    put = talk(1, b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
    again = talk(2, b"put 0 0 60 1\r\ny\r\n", b"INSERTED 1\r\n")
    events = [*opened(1), *put, (1, kind, b"server"), *opened(2), *again]
    assert server_alarms(judged(events)) == []


def test_a_reserve_in_flight_explains_that_a_job_cannot_be_deleted() -> None:
    put = talk(1, b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
    waits, gone = (2, Kind.SENT, b"reserve\r\n"), talk(1, b"delete 1\r\n", b"NOT_FOUND\r\n")
    got = (2, Kind.RECEIVED, b"RESERVED 1 1\r\nx\r\n")
    assert server_alarms(judged([*opened(1, 2), *put, waits, *gone, got])) == []
    # Without it, nobody can have the job.
    timed = (2, Kind.SENT, b"reserve-with-timeout 0\r\n"), (2, Kind.RECEIVED, b"TIMED_OUT\r\n")
    told = server_alarms(judged([*opened(1, 2), *put, timed[0], *gone, timed[1], *gone]))
    assert len(told) == 1


def test_a_conversation_that_is_dropped_makes_jobs_unknown_until_it_ends() -> None:
    put = talk(1, b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
    missing = talk(1, b"delete 1\r\n", b"NOT_FOUND\r\n")
    judge = judged([*opened(1, 2), *put, (2, Kind.DROPPED, b""), *missing])
    assert server_alarms(judge) == []
    assert judge.known.unjudged == 1
    assert not judge.known.is_following
    at = judge.known.now + 1
    judge.take(Event(at, 2, Kind.CLOSED))
    later = at + 2 * SECOND
    for conn, kind, data in talk(1, b"put 0 0 60 1\r\nx\r\n", b"INSERTED 2\r\n", b"delete 2\r\n"):
        judge.take(Event(later, conn, kind, data))
    judge.take(Event(later, 1, Kind.RECEIVED, b"NOT_FOUND\r\n"))
    assert len(server_alarms(judge)) == 1


def test_what_was_deleted_is_forgotten() -> None:
    judge = judged(opened(1))
    for id in range(1, MAX_DELETED + 2000):
        for conn, kind, data in talk(
            1,
            b"put 0 0 9 0\r\n\r\n",
            b"INSERTED %d\r\n" % id,
            b"delete %d\r\n" % id,
            b"DELETED\r\n",
        ):
            judge.take(Event(judge.known.now + 1, conn, kind, data))
    assert judge.known.alarms.kept == []
    assert judge.known.jobs.followed == {}
    assert len(judge.known.jobs.deleted) == MAX_DELETED


def test_a_job_that_is_passed_over() -> None:
    puts = talk(
        1, b"put 9 0 9 0\r\n\r\n", b"INSERTED 1\r\n", b"put 5 0 9 0\r\n\r\n", b"INSERTED 2\r\n"
    )
    wrong = talk(
        1, b"reserve\r\n", b"RESERVED 1 0\r\n\r\n", b"reserve\r\n", b"RESERVED 2 0\r\n\r\n"
    )
    (alarm,) = server_alarms(judged(opened(1) + puts + wrong))
    assert "expected job 2, which was ready in default, before others" in alarm


@pytest.mark.parametrize(
    ("sent", "received", "expected"),
    [
        (b"use mail\r\n", b"USING video\r\n", "USING mail"),
        (b"watch mail\r\n", b"WATCHING 3\r\n", "WATCHING 2"),
        (b"ignore default\r\n", b"WATCHING 1\r\n", "NOT_IGNORED"),
        (b"reserve-with-timeout 9\r\n", b"TIMED_OUT\r\n", "no reply before 9 s"),
        (b"reserve\r\n", b"TIMED_OUT\r\n", "RESERVED, or no reply yet"),
        (b"reserve\r\n", b"DEADLINE_SOON\r\n", "no DEADLINE_SOON"),
        (b"peek 7\r\n", b"FOUND 8 0\r\n\r\n", "FOUND 7"),
        (b"kick 2\r\n", b"KICKED 3\r\n", "KICKED with at most 2"),
        (b"put 0 0 9 1\r\nx\r\n", b"EXPECTED_CRLF\r\n", "INSERTED"),
        (b"list-tubes\r\n", b"OK 11\r\n---\n- mail\n\r\n", "OK with default"),
        (b"list-tube-used\r\n", b"nonsense\r\n", "a reply of the protocol"),
        (
            b"list-tube-used\r\n",
            b"USING default\r\nUSING default\r\n",
            "no reply without a request",
        ),
    ],
)
def test_replies_that_one_client_decides(sent: bytes, received: bytes, expected: str) -> None:
    (alarm,) = server_alarms(judged(opened(1) + talk(1, sent, received)))
    assert f"expected {expected}" in alarm


# ------------------------------------------------------------ what clients send


@pytest.mark.parametrize(
    ("sent", "what", "shown"),
    [
        (b"use a\r\nb\r\n", "CR LF in the name of a tube", r"use a⟦\r⟧\nb"),
        (b"use a b\r\n", "no tube may have this name", "use a⟦ ⟧b"),
        (b"use -a\r\n", "no tube may have this name", "use ⟦-⟧a"),
        (b"list-tubes\n", "a line ends with LF alone", r"list-tubes⟦\n⟧"),
        (b"put 0 0 9 2\r\nabc\r\n", "no CR LF after the 2 bytes of a body", "ab⟦c⟧"),
        (b"reserve-all\r\n", "no version of the protocol has this command", "⟦r⟧eserve-all"),
        (b"release 1 -5 0\r\n", "the arguments of release are malformed", "release 1 ⟦-⟧5 0"),
        (b"delete  5\r\n", "works only by accident", "delete ⟦ ⟧5"),
        (b"delete " + b"5" * 300 + b"\r\n", "a line of more than 224 bytes", ""),
    ],
)
def test_requests_that_mean_something_else(sent: bytes, what: str, shown: str) -> None:
    alarms = judged([*opened(1), (1, Kind.SENT, sent)]).known.alarms.kept
    assert all(one.about == "client" for one in alarms)
    assert any(what in one.kind and shown in one.shown for one in alarms)


def test_a_name_with_a_second_command_is_suspected_of_a_client_that_does_not_pipeline() -> None:
    lockstep = talk(1, *(b"list-tube-used\r\n", b"USING default\r\n") * 3)
    smuggled = [(1, Kind.SENT, b"use a\r\ndelete 1\r\n")]
    (alarm,) = judged(opened(1) + lockstep + smuggled).known.alarms.kept
    assert alarm.about == "suspicion"
    assert alarm.shown == r"use a⟦\r⟧\ndelete 1"
    assert judged(opened(1) + smuggled).known.alarms.kept == []


def test_lines_that_servers_read_in_different_ways_are_no_alarm_about_the_server() -> None:
    said = talk(1, b"put 0 0 9 x\r\n", b"BAD_FORMAT\r\n", b"abc\r\n", b"INSERTED 1\r\n")
    judge = judged(opened(1) + said)
    assert server_alarms(judge) == []
    assert judge.known.alarms.counts["client"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_what_is_plain_is_decided(profile: Profile) -> None:
    plain = plain_lines(profile)
    values = [b"0", b"7", b"123456789", b"mail", b"a-b", b"4294967295", b"-1", b"x" * 150]
    lines = [
        b" ".join((verb.encode(), *(value for _ in range(count))))
        for verb in VERBS
        for count in range(5)
        for value in values
    ]
    matching = [line for line in lines if plain.fullmatch(line)]
    assert matching or profile.id_is_optional
    assert [line for line in matching if not is_decided(line, profile)] == []


def test_frames_come_in_any_segmentation() -> None:
    events = [Event(5, 1, Kind.OPENED, b"a"), Event(6, 2**32 - 1, Kind.SENT, b"x" * 300)]
    data = b"".join(encoded(*event) for event in events)
    reader = EventReader()
    assert [one for byte in data for one in reader.read(bytes([byte]))] == events
    with pytest.raises(ValueError, match="a frame of"):
        list(reader.read(b"\xff" * 100))
