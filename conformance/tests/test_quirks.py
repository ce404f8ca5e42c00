"""Quirks of beanstalkd: each test reports the variant that it observes, and judges nothing."""

import re

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.scenario import Connect, NewTube
from reference_server.wire import escape


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=requirement(f"quirk.{name}", clause))
        for name, clause, line in (
            (
                "pause-tube-without-a-blank",
                r"pause-tube <tube-name> <delay>\r\n",
                "pause-tube{tube} 0",
            ),
            (
                "kick-with-letters-behind",
                "<bound> is an integer upper bound on the number of jobs to kick.",
                "kick 1x",
            ),
            (
                "kick-beyond-32-bits",
                "<bound> is an integer upper bound on the number of jobs to kick.",
                f"kick {2**32 + 1}",
            ),
            (
                "timeout-with-letters-behind",
                "A timeout value of 0 will cause the server to immediately return either a "
                "response or TIMED_OUT.",
                "reserve-with-timeout 0x",
            ),
            (
                "timeout-with-a-word-behind",
                "A timeout value of 0 will cause the server to immediately return either a "
                "response or TIMED_OUT.",
                "reserve-with-timeout 0 x",
            ),
            (
                "nul-in-a-line",
                "The beanstalk protocol runs over TCP using ASCII encoding.",
                "list-tube-used\0",
            ),
        )
    ],
)
def test_an_odd_line(client: Connection, line: str) -> str:
    reply = client.send(line.format(tube=client.tube)).any_reply()
    return f"“{escape(line.encode())}” is answered {reply}"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(data, marks=requirement(f"quirk.{name}", clause))
        for name, clause, data in (
            ("quit-with-letters-behind", r"quit\r\n", b"quitx\r\nlist-tube-used\r\n"),
            (
                "negative-timeout",
                "If a non-negative timeout was specified and the timeout exceeded before a job "
                "became available",
                b"reserve-with-timeout -1\r\n",
            ),
            (
                "replies-to-a-long-line",
                r'"BAD_FORMAT\r\n" The client sent a command line that was not well-formed.',
                b"%b\r\nlist-tube-used\r\n" % (b"x" * 300),
            ),
            (
                "line-of-225-bytes",
                r"This can happen if the line's length exceeds 224 bytes including \r\n",
                b"%b\r\nlist-tube-used\r\nstats-job 0\r\n" % (b"x" * 223),
            ),
            (
                "carriage-return-in-a-line",
                "The beanstalk protocol runs over TCP using ASCII encoding.",
                b"bogus\rbogus\r\nlist-tube-used\r\n",
            ),
        )
    ],
)
def test_odd_lines_and_a_half_close(client: Connection, data: bytes) -> str:
    client.raw(data, replies=0)
    client.half_close()
    words = [reply.word for reply in client.rest()]
    sent = re.sub("x{10,}", lambda run: f"x{{{len(run[0])}}}", escape(data))
    return f"“{sent}” is answered {', '.join(words) or 'nothing'}"


@requirement(
    "quirk.job-visible-while-it-arrives",
    "After sending the command line and body, the client waits for a reply",
)
def test_a_job_whose_body_has_not_come(client: Connection, other: Connection) -> str:
    job = client.put(b"a")
    client.raw(b"put 0 0 60 1\r\n", replies=0)
    other.linger()
    word = other.send(f"stats-job {job + 1}").any_reply().word
    client.raw(b"a\r\n").any_reply()
    return f"stats-job is answered {word}"


@requirement(
    "quirk.order-of-waiting-clients",
    "When a client reserves a job, it may come from any of the tubes in its watch list.",
)
def test_the_order_in_which_waiting_clients_are_served(
    producer: Connection, new_worker: Connect
) -> str:
    waiting = []
    for _ in range(4):
        waiting.append(new_worker().reserve_waiting())
        producer.linger()
    jobs = producer.put_many([b"a"] * 4)
    got = {exchange.reply("RESERVED").args[0]: n for n, exchange in enumerate(waiting, 1)}
    # What gives a job to several of them is judged elsewhere.
    return "of four who wait: " + ", ".join(str(got.get(job, "none")) for job in jobs)


@requirement(
    "quirk.order-of-list-tubes",
    "The list-tubes command returns a list of all existing tubes.",
)
def test_the_order_of_list_tubes(client: Connection, new_tube: NewTube) -> str:
    tubes = [new_tube() for _ in range(5)]
    for tube in reversed(tubes):
        client.watch(tube)
    names = [name for name in client.tubes() if name in tubes]
    orders = {
        "as created": tubes[::-1],
        "newest first": tubes,
        "by name": sorted(tubes),
    }
    return next((name for name, order in orders.items() if names == order), "another")


@requirement(
    "quirk.time-left-of-ready-jobs",
    "This number is only meaningful if the job is reserved or delayed.",
)
def test_the_time_left_of_a_ready_job(client: Connection) -> str:
    return f"time-left is {client.stats_job(client.put(b'a'))['time-left']}"


@requirement(
    "quirk.pause-of-zero-is-told",
    '"pause" is the number of seconds the tube has been paused for.',
)
def test_the_pause_of_a_tube_paused_for_no_time(client: Connection) -> str:
    client.pause(0)
    stats = client.stats_tube()
    return ", ".join(f"{key} is {stats[key]}" for key in ("pause", "pause-time-left"))
