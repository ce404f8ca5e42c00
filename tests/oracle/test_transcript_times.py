"""Times in transcripts: written where time passes, read again, and judged."""

from __future__ import annotations

import itertools
import math

import pytest

from conformance.oracle.check import check, judgement
from conformance.oracle.reply_delays import LATENESS, PROMPT, ReplyDelays
from conformance.random_testing.replay import program_of
from conformance.random_testing.steps import Wait
from conformance.reading import parse
from conformance.run.runner import run
from conformance.target.builtin import BuiltIn
from conformance.target.clock import GRANULARITY
from conformance.target.limits import USUAL
from conformance.transcript import AT_ONCE, GRAIN, Entry, Transcript, rendered
from conformance.verdict import Inconclusive
from reference_server.state import SECOND
from tests.faults import cases

STATS = (
    "---\\nid: 1\\ntube: default\\nstate: {}\\npri: 0\\nage: 366\\ndelay: 0\\nttr: 60\\n"
    "time-left: {}\\nfile: 0\\nreserves: 1\\ntimeouts: {}\\nreleases: 0\\nburies: 0\\nkicks: 0\\n"
)
HELD = (
    "A > put 0 0 60 1\\r\\na\\r\\n\nA < INSERTED 1\\r\\n\n"
    "A > reserve\\r\\n\nA < RESERVED 1 1\\r\\na\\r\\n\n"
)


def _stats(state: str, left: int, timeouts: int) -> str:
    text = STATS.format(state, left, timeouts)
    size = len(text) - text.count("\\n")
    return f"A > stats-job 1\\r\\n\nA < OK {size}\\r\\n{text}\\r\\n\n"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (HELD + "+ 366s\n" + _stats("reserved", -306, 0), False),
        (HELD + "+ 366s\n" + _stats("ready", 0, 1), True),
        (HELD + "+ 20s\n" + _stats("reserved", 40, 0).replace("366", "20"), True),
        ("A > reserve-with-timeout 1\\r\\n\n+ 16s\nA < TIMED_OUT\\r\\n\n", False),
        ("A > reserve-with-timeout 1\\r\\n\n+ 3600s\nA < TIMED_OUT\\r\\n\n", False),
        ("A > reserve-with-timeout 1\\r\\n\n+ 1.9s\nA < TIMED_OUT\\r\\n\n", True),
        ("A > reserve-with-timeout 1\\r\\n\n+ 0.9s\nA < TIMED_OUT\\r\\n\n", False),
        ("A > reserve-with-timeout 1\\r\\n\n+ 3600s at once\nA < TIMED_OUT\\r\\n\n", True),
        ("A > reserve-with-timeout 1\\r\\n\n+ 3600s at once\n+ 7s\n", False),
        ("A > stats\\r\\n\n+ 6s\n", False),
        ("A > stats\\r\\n\n+ 4s\n", True),
        ("A > put 0 0 60 1\\r\\na\\r\\n\n+ 6s\nA < INSERTED 1\\r\\n\n", False),
        ("A > put 0 0 60 1\\r\\n\n+ 60s\nA > a\\r\\n\nA < INSERTED 1\\r\\n\n", True),
        ("A > quit\\r\\n\n+ 6s\n", False),
        ("A > quit\\r\\n\n+ 1s\nA ! closed by the target\n", True),
        ("A > reserve\\r\\n\n+ 6000s\n", True),
        # Another client goes on, and is answered meanwhile.
        ("A > stats\\r\\n\n" + "B > use a\\r\\n\nB < USING a\\r\\n\n+ 1s\n" * 7, False),
        # A stopped server does nothing.
        ("A > use a\\r\\n\n! SIGSTOP\n+ 9s\n! SIGCONT\nA < USING a\\r\\n\n", True),
    ],
)
def test_what_is_missing_or_late_is_a_violation(text: str, allowed: bool) -> None:
    finding = check(parse(text))
    assert (finding is None) == allowed, finding
    assert finding is None or finding.level == "must"


@pytest.mark.parametrize("slow", [0.3, 1.0, 4.0])
def test_a_server_that_is_slow_with_everything_is_allowed(slow: float) -> None:
    wait = f"+ {slow}s\n"
    text = (
        f"A > put 0 1 3 1\\r\\na\\r\\n\n{wait}A < INSERTED 1\\r\\n\n"
        f"A > reserve\\r\\n\n+ 1s\n{wait}A < RESERVED 1 1\\r\\na\\r\\n\n"
        f"+ 1.5s\nA > reserve-with-timeout 9\\r\\n\n+ 0.5s\n{wait}A < DEADLINE_SOON\\r\\n\n"
        f"A > delete 1\\r\\n\n{wait}A < DELETED\\r\\n\n"
        f"A > reserve-with-timeout 2\\r\\n\n+ 2s\n{wait}A < TIMED_OUT\\r\\n\n"
    )
    assert check(parse(text)) is None


def test_the_pace_is_that_of_the_slowest_reply_that_came_at_once() -> None:
    text = (
        "A > use a\\r\\n\n+ {}s\nA < USING a\\r\\n\nA > reserve\\r\\n\n+ 9s\nA < TIMED_OUT\\r\\n\n"
    )
    assert ReplyDelays.of(parse(text.format(2)).entries).lateness == LATENESS + 2 * SECOND
    # What is missing is no pace.
    assert ReplyDelays.of(parse(text.format(6)).entries) == ReplyDelays()
    assert (
        ReplyDelays.of(parse(text.format("3 ").replace("s\n", "s at once\n")).entries)
        == ReplyDelays()
    )


def test_check_grants_what_a_run_grants() -> None:
    assert pytest.approx((USUAL.reply - 2 * GRAIN) * SECOND) == PROMPT
    assert pytest.approx((USUAL.lateness - 2 * GRAIN) * SECOND) == LATENESS
    assert 2 * GRAIN <= GRANULARITY


def test_a_reply_that_a_run_has_waited_for_is_missing_however_the_wait_is_rounded() -> None:
    for begins, moves in itertools.product([7.0001, 7.0049], [0.5001, 0.5049]):
        transcript = Transcript()
        transcript.add("A", ">", b"use a\r\n", begins)
        transcript.add_time(begins + moves, moved_from=begins)
        transcript.add_time(begins + moves + USUAL.reply)
        assert check(parse(transcript.render(fold=False))) is not None


def test_times_are_written_where_they_pass_and_rounded_down() -> None:
    transcript = Transcript()
    transcript.add("A", ">", b"reserve-with-timeout 2\r\n", 7.0)
    transcript.add("B", ">", b"use a\r\n", 7.0049)
    transcript.add("B", "<", b"USING a\r\n", 7.0099)
    transcript.add_time(8.98, moved_from=7.011)
    transcript.add_time(9.013, moved_from=8.981)
    transcript.add("A", "<", b"TIMED_OUT\r\n", 9.014)
    transcript.add_time(14.0149)
    lines = [line.strip() for line in transcript.render(fold=False).split("\n")]
    assert lines == [
        r"A > reserve-with-timeout 2\r\n",
        r"B > use a\r\n",
        "+ 0.005s",
        r"B < USING a\r\n",
        "+ 0.005s",
        "+ 2s at once",
        r"A < TIMED_OUT\r\n",
        "+ 5s",
    ]
    read = parse("\n".join(lines))
    assert read.render(fold=False) == transcript.render(fold=False)
    assert [entry.data for entry in read.entries if entry.direction == "+"].count(AT_ONCE) == 1
    assert transcript.render(transcript.last).endswith("> + 5s")
    assert transcript.last_message == transcript.last - 1


def test_a_mark_on_no_time_is_shown() -> None:
    entries = [Entry("A", ">", b"stats\r\n", 1.0), Entry("", "+", b"", 1.0)]
    assert rendered(entries, 1).endswith("\n> + 0s")
    assert rendered([Entry("A", ">", b"stats\r\n", math.nan)]) == r"  A > stats\r\n"


def test_a_replay_waits_as_long_as_the_transcript_did() -> None:
    text = (
        "A > use a\\r\\n\n+ 1s\n+ 0.25s at once\nA < USING a\\r\\n\n+ 2s\nA > stats\\r\\n\n+ 5s\n"
    )
    waits = [step.seconds for step in program_of(parse(text)) if isinstance(step, Wait)]
    assert waits == [3.25, 5.0]


def test_what_a_failure_saw_that_its_messages_do_not_show_is_not_decided() -> None:
    text = (
        "REQUIREMENT exhaustion.memory (must; x, y)\n  “…”\nTRANSCRIPT\n  A > use a\\r\\n\n"
        "> A < USING a\\r\\n\nEXPECTED  a target that goes on\nOBSERVED  the target crashed\n"
        "TARGET SAID\n  OBSERVED  another\n"
    )
    claim = parse(text).claim
    assert claim is not None
    assert claim == ("the target crashed", "exhaustion.memory")
    assert judgement(parse(text)).finding is None
    assert parse("A > use a\\r\\n\n").claim is None


def test_what_is_awaited_at_the_end_is_told() -> None:
    assert judgement(parse("A > use a\\r\\n\n")).awaited == ("USING a\\r\\n",)
    assert judgement(parse("use a\nUSING a\nuse b\n")).awaited == ("USING b\\r\\n",)
    assert not judgement(parse("reserve\n")).awaited


OLD = (
    "---\\nid: 3\\ntube: {}\\nstate: {}\\npri: 7\\nage: 90\\ndelay: 0\\nttr: 60\\ntime-left: {}\\n"
)
OLD += "file: 0\\nreserves: {}\\ntimeouts: 0\\nreleases: 0\\nburies: {}\\nkicks: 0\\n"


def _old(state: str, reserves: int = 5, buries: int = 1, tube: str = "default") -> str:
    text = OLD.format(tube, state, 59 if state == "reserved" else 0, reserves, buries)
    size = len(text) - text.count("\\n")
    return f"A > stats-job 3\\r\\n\nA < OK {size}\\r\\n{text}\\r\\n\n"


RESERVED = "A > reserve\\r\\n\nA < RESERVED 3 1\\r\\na\\r\\n\n"
DELETED = "A > delete 3\\r\\n\nA < DELETED\\r\\n\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (_old("ready") + RESERVED + DELETED, "allowed"),
        (_old("buried") + "A > kick 9\\r\\n\nA < KICKED 1\\r\\n\n" + RESERVED, "allowed"),
        (RESERVED + _old("reserved"), "allowed"),
        (RESERVED + _old("reserved") + DELETED + DELETED, "must"),
        (_old("buried") + RESERVED, "must"),
        (_old("ready") + _old("ready", reserves=6), "must"),
        (_old("ready") + DELETED + "A > peek 3\\r\\n\nA < FOUND 3 1\\r\\na\\r\\n\n", "must"),
        (RESERVED + DELETED + DELETED, "unknown"),
        (_old("reserved") + "A > release 3 0 0\\r\\n\nA < RELEASED\\r\\n\n", "unknown"),
        ("A > kick 9\\r\\n\nA < KICKED 4\\r\\n\n", "unknown"),
    ],
)
def test_an_older_job_is_judged_as_far_as_replies_tell_of_it(text: str, verdict: str) -> None:
    if verdict == "unknown":
        with pytest.raises(Inconclusive, match="older than the transcript"):
            check(parse(text))
        return
    finding = check(parse(text))
    assert (finding is None) == (verdict == "allowed"), finding
    assert finding is None or finding.level == "must"


def _sizes(reply: str, size: int, then: str = "") -> str:
    return f"A > put 0 0 9 {size}\\r\\n{'x' * size}\\r\\n\nA < {reply}\\r\\n\n{then}"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        # Nobody knows with which limit it was started.
        (_sizes("INSERTED 1", 70_000), True),
        (_sizes("JOB_TOO_BIG", 100), True),
        (_sizes("JOB_TOO_BIG", 100, _sizes("INSERTED 1", 200)), False),
    ],
)
def test_the_limit_of_bodies_is_what_the_server_shows(text: str, allowed: bool) -> None:
    assert (check(parse(text)) is None) == allowed


@pytest.mark.parametrize("real_time", [False, True])
def test_what_a_test_has_sent_and_received_is_allowed_with_its_times(real_time: bool) -> None:
    chosen = {
        "test_a_pending_reserve_ends_at_the_safety_margin",
        "test_delete_of_an_expired_job_that_is_ready_again",
        "test_the_exchange_of_seed_001",
        "test_a_delay_ends",
    }
    found = 0
    server = BuiltIn(real_time=real_time)
    try:
        for case in cases():
            if case.name not in chosen or "exploration" in case.arguments:
                continue
            outcome = run(case.test, case.arguments, server)
            if outcome.error is None:
                found += 1
                shown = parse(outcome.transcript.render(fold=False))
                assert check(shown) is None, shown.render(fold=False)
                assert any(entry.direction == "+" for entry in shown.entries)
    finally:
        server.close()
    assert found
