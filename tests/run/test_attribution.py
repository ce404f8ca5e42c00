"""The requirement that a failure breaks, beside what else has failed."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from conformance.oracle.diagnosis import Diagnosis
from conformance.run.attribution import Blame, blame_of, cause_of
from conformance.target.traits import Traits
from conformance.usual_answers import (
    CLOSES,
    DRAINING,
    DRAINS,
    IN_STEP,
    MAY_BE_SILENT,
    OVERLAP,
    SERIALLY,
    answer_to_malformed,
)
from conformance.verdict import Deviation, Outage, OutcomeKind, Step, TargetLost
from reference_server.commands import COMMANDS
from reference_server.profiles import NEWEST
from reports.verdicts import Verdict
from tests.attributed import SILENT, Found, attributed, fails
from tests.made import case

TOTAL = "stats.total-jobs"


@pytest.mark.skipif(not hasattr(signal, DRAINS), reason="Windows has no such signal")
def test_whoever_finds_a_server_that_the_signal_has_ended_blames_drain_mode() -> None:
    outage = Outage(OutcomeKind.CRASHED, f"ended by {DRAINS}", signal.SIGUSR1)
    for lost in (
        TargetLost("OK …", outage, command="stats"),
        Diagnosis("a reply", "nothing", outage=outage).deviation(0, ", as kept in a folder"),
    ):
        assert blame_of(lost, Traits()).owner == DRAINING
    crashed = TargetLost("OK …", replace(outage, signal=11), command="stats")
    assert blame_of(crashed, Traits()).owner == ""


def test_a_failing_step_of_the_set_up_blocks_the_test_and_breaks_its_owner() -> None:
    (found,) = attributed(fails("bury.fifo", owner="kick.kicked"))
    assert found.test.requirements == ["bury.fifo", "kick.kicked"]
    assert found.blocked == {"bury.fifo": "kick.kicked"}


def test_an_owner_that_its_own_tests_have_found_broken_is_not_broken_twice() -> None:
    own, other = attributed(fails("kick.kicked"), fails("bury.fifo", owner="kick.kicked"))
    assert (own.test.requirements, own.blocked) == (["kick.kicked"], {})
    assert (other.test.requirements, other.blocked) == (["bury.fifo"], {"bury.fifo": "kick.kicked"})


def test_what_a_requirement_presupposes_blocks_it_while_it_is_broken() -> None:
    ends, base = fails("pause-tube.ends"), fails("pause-tube.paused")
    (alone,) = attributed(ends)
    found, _ = attributed(ends, base)
    assert (alone.blocked, found.blocked) == ({}, {"pause-tube.ends": "pause-tube.paused"})
    together, _, _ = attributed(fails("pause-tube.equal-pauses"), ends, base)
    assert together.blocked == {"pause-tube.equal-pauses": "pause-tube.paused"}
    crash = fails("pause-tube.ends", "", Step(OutcomeKind.CRASHED, "reserve"))
    found, _ = attributed(crash, base)
    assert not found.blocked


def test_a_crash_without_memory_does_not_explain_one_with_memory() -> None:
    crash = Step(OutcomeKind.CRASHED, "put")
    starved = case("exhaustion.reserve-waits", Verdict.NON_STRICT), Blame(crash)
    in_set_up = fails("bury.fifo", "put.inserted", crash)
    _, found = attributed(starved, in_set_up)
    assert found.blocked == {"bury.fifo": "put.inserted"}
    also_starved = case("exhaustion.put-buried", Verdict.NON_STRICT), Blame(crash, "put.inserted")
    _, found = attributed(starved, also_starved)
    assert found.blocked == {"exhaustion.put-buried": "exhaustion.reserve-waits"}


def test_an_owner_of_level_de_facto_breaks_no_must() -> None:
    (found,) = attributed(fails("bury.fifo", owner="put.ids-increase"))
    assert found.test.verdict is Verdict.NON_STRICT


@pytest.mark.parametrize(
    ("directed", "suspects", "blocked_by"),
    [
        # The requirement that explains it is broken, as its own test shows.
        (
            fails("stats.total-jobs", "", Step(OutcomeKind.WRONG_VALUE)),
            ("put.inserted", "stats.total-jobs"),
            "stats.total-jobs",
        ),
        # A directed test has failed in the same way.
        (fails("kick.bound"), (), "kick.bound"),
        # Who drops what is sent behind something else gives no reply to it.
        (
            fails("protocol.serial-replies", "", Step(OutcomeKind.NO_REPLY, "use", ("USING",))),
            (),
            "protocol.serial-replies",
        ),
        # Only one requirement explains it.
        (None, (TOTAL,), TOTAL),
        # Nothing explains it.
        (fails("put.inserted", "", Step(OutcomeKind.NO_REPLY, "put", ("INSERTED",))), (), ""),
        (None, ("put.inserted", TOTAL), ""),
    ],
)
def test_a_random_test_fails_only_for_what_no_directed_test_explains(
    directed: Found | None, suspects: tuple[str, ...], blocked_by: str
) -> None:
    made_up = fails("protocol.any-conversation", "", SILENT, *suspects)
    *_, found = attributed(*([directed] if directed else []), made_up)
    assert found.blocked.get("protocol.any-conversation", "") == blocked_by


@pytest.mark.parametrize("kind", [OutcomeKind.WRONG_VALUE, OutcomeKind.CRASHED])
def test_failures_at_no_certain_command_do_not_explain_each_other(kind: OutcomeKind) -> None:
    directed = fails("exhaustion.disk-put", "", Step(kind))
    _, found, owned = attributed(
        directed,
        fails("protocol.any-overlap", "", Step(kind)),
        fails("bury.fifo", "kick.kicked", Step(kind)),
    )
    assert found.blocked == {}
    assert owned.blocked == {"bury.fifo": "kick.kicked"}


@pytest.mark.parametrize("kind", [OutcomeKind.WRONG_REPLY, OutcomeKind.TOO_EARLY])
def test_a_reply_that_other_commands_get_is_out_of_step_where_replies_are(
    kind: OutcomeKind,
) -> None:
    foreign = Step(kind, "reserve", ("RESERVED",), "INSERTED")
    (alone,) = attributed(fails("bury.fifo", "", foreign, IN_STEP))
    assert alone.blocked == {}
    for owner in ("", "reserve.reserved"):
        _, found = attributed(fails(IN_STEP), fails("bury.fifo", owner, foreign, IN_STEP))
        assert found.blocked == {"bury.fifo": IN_STEP}
        assert found.test.requirements == ["bury.fifo"]


def test_the_end_of_a_client_that_waits_is_that_of_a_silent_one_where_those_are_ended() -> None:
    ended = Step(OutcomeKind.DISCONNECTED, "reserve", ("RESERVED",))
    waits = "reserve.waits-for-job"
    (alone,) = attributed(fails(waits, "", ended, MAY_BE_SILENT))
    _, found = attributed(fails(MAY_BE_SILENT), fails(waits, "", ended, MAY_BE_SILENT))
    assert (alone.blocked, found.blocked) == ({}, {waits: MAY_BE_SILENT})


def test_a_malformed_line_that_gets_another_error_is_refused() -> None:
    other = Step(OutcomeKind.WRONG_REPLY, "put", ("BAD_FORMAT",), "INTERNAL_ERROR")
    refusal = "put.bad-format"
    for slug, blocked_by in (
        ("protocol.integers-are-nonnegative", refusal),
        ("error.bad-format-non-numeric", None),
    ):
        _, found = attributed(fails(refusal), fails(slug, "", other, refusal))
        assert found.blocked.get(slug) == blocked_by


def test_each_command_may_refuse_a_malformed_line_by_another_error() -> None:
    owners = {verb: answer_to_malformed(NEWEST, verb) for verb in COMMANDS}
    assert owners["put"] == "put.bad-format"
    # No sentence is about malformed lines of these.
    assert owners["quit"] == owners["peek-ready"] == ""


def test_a_loss_at_a_command_that_works_is_that_of_what_went_before() -> None:
    lost = Step(OutcomeKind.CRASHED, "stats-job")
    (own,) = attributed(fails("bury.fifo", "stats-job.ok", lost, ""))
    assert (own.test.requirements, own.blocked) == (["bury.fifo"], {})
    (left,) = attributed(fails("bury.fifo", "stats-job.ok", lost, CLOSES))
    assert left.blocked == {"bury.fifo": CLOSES}
    _, found = attributed(
        fails("stats-job.ok", "", lost), fails("bury.fifo", "stats-job.ok", lost, "")
    )
    assert found.blocked == {"bury.fifo": "stats-job.ok"}


@pytest.mark.parametrize("suspect", [CLOSES, "persistence.put"])
def test_a_loss_that_a_broken_requirement_explains_is_no_matter_of_the_test(suspect: str) -> None:
    lost = Step(OutcomeKind.CRASHED)
    (alone,) = attributed(fails("bury.fifo", "", lost, suspect))
    assert alone.blocked == {}
    own, found = attributed(
        fails(suspect, "", lost, suspect), fails("bury.fifo", "", lost, suspect)
    )
    assert (own.blocked, found.blocked) == ({}, {"bury.fifo": suspect})


def test_a_loss_that_needs_other_tests_is_not_that_of_a_single_command() -> None:
    lost = Step(OutcomeKind.CRASHED, "stats-job")
    _, found = attributed(
        fails("stats-job.bad-format", "", lost), fails("bury.fifo", OVERLAP, lost)
    )
    assert found.blocked == {"bury.fifo": OVERLAP}


def test_all_losses_at_one_command_have_one_cause() -> None:
    steps = [
        Step(kind, "kick", words)
        for kind in (OutcomeKind.CRASHED, OutcomeKind.CRASHED)
        for words in ((), ("KICKED",))
    ]
    assert len({Blame(step).key for step in steps}) == 1
    (one,) = {cause_of(Blame(step), Traits()) for step in steps}
    assert one is not None
    assert one.command == "kick"


def test_crashes_of_which_the_target_has_said_the_same_have_one_cause() -> None:
    """Whatever command came next."""
    put, kick = (Blame(Step(OutcomeKind.CRASHED, command)) for command in ("put", "kick"))
    said = (
        "Ready.\nRangeError [ERR]: {} is too large\n    at concat (node:buffer:{}:25)\n  code: 1\n"
    )
    causes = {
        cause_of(put, Traits(), said.format("4_921_316_689", 594)),
        cause_of(kick, Traits(), said.format(7, 594)),
    }
    (one,) = causes
    assert one is not None
    assert one.observed.startswith("crashed: RangeError [ERR]: ")
    assert cause_of(kick, Traits(), said.format(7, 95).replace("concat", "slice")) != one
    assert cause_of(kick, Traits(), "Ready.\n") != cause_of(put, Traits(), "Ready.\n")


def _crashes(slug: str, owner: str, command: str, *suspects: str) -> Found:
    """Return a test in which a server crashes at a command, always with the same words."""
    test, blame = fails(slug, owner, Step(OutcomeKind.CRASHED, command), *suspects)
    cause = cause_of(blame, Traits(), "RangeError: too large\n    at concat (buffer.js:25)\n")
    return test.model_copy(update={"cause": cause}), blame


CRASHES = (
    _crashes("bury.fifo", "put.inserted", "put"),
    _crashes("bury.fifo", "kick.kicked", "kick"),
)
"""A server crashes with the same words at several commands that are set-up."""


def test_a_crash_at_several_set_up_commands_is_that_of_the_conversation() -> None:
    assert [one.blocked for one in attributed(*CRASHES)] == [{"bury.fifo": SERIALLY}] * 2
    assert attributed(CRASHES[0])[0].blocked == {"bury.fifo": "put.inserted"}


@pytest.mark.parametrize(
    "crash",
    [
        pytest.param(_crashes("touch.touched", "", "touch"), id="under test"),
        pytest.param(_crashes("touch.touched", "touch.touched", "touch"), id="set-up, too"),
        pytest.param(_crashes("touch.touched", "", "reserve", ""), id="time has passed"),
    ],
)
def test_that_a_command_was_tested_there_by_chance_makes_no_difference(crash: Found) -> None:
    assert attributed(*CRASHES, crash)[-1].blocked == {"touch.touched": SERIALLY}
    assert attributed(CRASHES[0], crash)[-1].blocked == {}


def test_nor_does_another_failure_of_the_command_at_which_it_crashes() -> None:
    silent = fails("put.inserted")
    assert attributed(*CRASHES, silent)[0].blocked == {"bury.fifo": SERIALLY}


def test_a_crash_after_a_client_has_left_is_a_matter_of_that() -> None:
    after_the_end = _crashes("bury.fifo", "touch.touched", "touch", CLOSES)
    assert attributed(*CRASHES, after_the_end)[-1].blocked == {"bury.fifo": CLOSES}


def test_what_the_owner_of_a_step_presupposes_explains_it() -> None:
    base, kicked = "put.delay", "kick-job.kicked"
    wrong = Step(OutcomeKind.WRONG_REPLY, "kick-job", ("KICKED",), "NOT_FOUND")
    for slug in (kicked, "kick-job.same-tube"):
        _, own, found = attributed(
            fails(base), fails(kicked, "", wrong), fails(slug, kicked, wrong)
        )
        assert (own.blocked, found.blocked) == ({kicked: base}, {slug: base})


@pytest.mark.parametrize("base", ["put.ready-after-delay", "put.smaller-priority-first"])
def test_each_of_several_requirements_that_one_presupposes_blocks_it(base: str) -> None:
    _, found = attributed(fails(base), fails("put.delayed-jobs-in-order"))
    assert found.blocked == {"put.delayed-jobs-in-order": base}


def test_what_a_requirement_of_the_test_explains_is_its_own() -> None:
    foreign = Step(OutcomeKind.WRONG_REPLY, "reserve", ("TIMED_OUT",), "EXPECTED_CRLF")
    test, blame = fails(IN_STEP, "reserve.timeout-zero", foreign, IN_STEP)
    both = test.model_copy(update={"requirements": [IN_STEP, "bury.fifo"]})
    alone, found = attributed((test, blame), (both, blame))
    assert (alone.test.requirements, alone.blocked) == ([IN_STEP], {})
    assert (found.test.requirements, found.blocked) == (
        [IN_STEP, "bury.fifo"],
        {"bury.fifo": IN_STEP},
    )


def test_a_line_that_must_be_refused_presupposes_nothing() -> None:
    taken = Step(OutcomeKind.WRONG_REPLY, "put", ("BAD_FORMAT",), "INSERTED")
    *_, found = attributed(fails("put.delay"), fails("put.delay-limit", "", taken))
    assert found.blocked == {}


def test_what_explains_commands_in_sequence_may_explain_overlapping_ones() -> None:
    other = Step(OutcomeKind.WRONG_REPLY, "reserve", ("RESERVED",), "TIMED_OUT")
    overlap = fails(OVERLAP, "", other)
    (alone,) = attributed(overlap)
    assert alone.blocked == {}
    explained = fails("protocol.any-conversation", "", SILENT, "kick.bound")
    *_, unlike = attributed(explained, overlap)
    assert unlike.blocked == {}
    *_, found = attributed(fails("kick.bound"), explained, overlap)
    assert found.blocked == {OVERLAP: "kick.bound"}


def test_what_a_wrong_value_presupposes_explains_it() -> None:
    """A pause that does nothing is shown nowhere."""
    shown = Step(OutcomeKind.WRONG_VALUE, "stats-tube", subject="pause")
    paused = Step(OutcomeKind.WRONG_REPLY, "reserve-with-timeout", ("TIMED_OUT",), "RESERVED")
    name = fails("protocol.name-ends-at-white-space", "", shown, "stats-tube.pause")
    _, key, found = attributed(
        fails("pause-tube.paused", "", paused), fails("stats-tube.pause", "", shown), name
    )
    assert key.blocked == {"stats-tube.pause": "pause-tube.paused"}
    assert found.blocked == {"protocol.name-ends-at-white-space": "pause-tube.paused"}
    assert attributed(name)[0].blocked == {}


def test_a_wrong_value_that_its_own_tests_do_not_show_is_no_matter_of_its_key() -> None:
    """A touch that does nothing shows in the counts of states."""
    shown = Step(OutcomeKind.WRONG_VALUE, "stats", subject="current-jobs-urgent")
    blame = blame_of(Deviation("1", "2", step=shown), Traits())
    random = case("protocol.any-transition", Verdict.FAIL), blame
    assert attributed(random)[0].blocked == {}
    directed = fails("stats.current-jobs-urgent", "", Step(OutcomeKind.WRONG_VALUE))
    assert attributed(directed, random)[1].blocked == {
        "protocol.any-transition": "stats.current-jobs-urgent"
    }


@pytest.mark.parametrize(
    "step",
    [
        Step(OutcomeKind.WRONG_VALUE, "stats", subject="current-jobs-urgent"),
        Step(OutcomeKind.WRONG_VALUE, "stats-job", subject="state"),
        Step(OutcomeKind.WRONG_REPLY, "peek-ready", ("NOT_FOUND",), "FOUND"),
    ],
)
def test_a_delayed_job_that_is_seen_among_the_ready_ones_is_a_matter_of_its_delay(
    step: Step,
) -> None:
    *_, found = attributed(fails("put.delay"), fails("protocol.any-transition", "", step))
    assert found.blocked == {"protocol.any-transition": "put.delay"}


def test_a_deleted_job_that_is_seen_is_not_one_that_is_given() -> None:
    seen = Step(OutcomeKind.WRONG_REPLY, "peek", ("NOT_FOUND",), "FOUND")
    given = Step(OutcomeKind.WRONG_REPLY, "reserve-with-timeout", ("TIMED_OUT",), "RESERVED")
    _, shown, other = attributed(
        fails("delete.entirely", "", seen),
        fails("protocol.name-case-counts", "", seen),
        fails("pause-tube.paused", "", given),
    )
    assert shown.blocked == {"protocol.name-case-counts": "delete.entirely"}
    assert other.blocked == {}


def test_a_command_that_is_not_answered_presupposes_nothing() -> None:
    mute = Step(OutcomeKind.NO_REPLY, "peek-ready", ("FOUND",))
    shown = Step(OutcomeKind.WRONG_REPLY, "peek-ready", ("FOUND",), "NOT_FOUND")
    for step, broken in ((mute, "peek.ready"), (shown, "put.smaller-priority-first")):
        *_, found = attributed(
            fails("put.smaller-priority-first"),
            fails("peek.ready", "peek.ready", step),
            fails("reserve.id-unique", "peek.ready", step),
        )
        assert found.blocked == {"reserve.id-unique": broken}


@pytest.mark.parametrize("command", ["stats-job", "stats-tube"])
def test_statistics_of_what_is_not_there_are_a_matter_of_their_command(command: str) -> None:
    shown = Step(OutcomeKind.WRONG_REPLY, command, ("NOT_FOUND",), "OK")
    slug = f"{command}.not-found"
    _, found = attributed(fails(slug, "", shown), fails("lifecycle.tube-deleted", "", shown))
    assert found.blocked == {"lifecycle.tube-deleted": slug}
    (alone,) = attributed(fails("lifecycle.tube-deleted", "", shown))
    assert alone.blocked == {}


def test_a_job_that_is_in_another_tube_is_not_given() -> None:
    missing = Step(OutcomeKind.WRONG_REPLY, "reserve-with-timeout", ("RESERVED",), "TIMED_OUT")
    _, found = attributed(fails("lifecycle.tube-for-life"), fails("release.released", "", missing))
    assert found.blocked == {"release.released": "lifecycle.tube-for-life"}


def test_what_explains_the_set_up_of_a_test_of_errors_explains_its_failure() -> None:
    missing = Step(OutcomeKind.WRONG_REPLY, "reserve-with-timeout", ("RESERVED",), "TIMED_OUT")
    _, found = attributed(
        fails("lifecycle.starts-ready"), fails("bury.bad-format", "reserve.timeout-zero", missing)
    )
    assert found.blocked == {"bury.bad-format": "lifecycle.starts-ready"}


def test_a_wrong_value_is_a_matter_of_what_its_own_tests_show_of_the_key() -> None:
    shown = Step(OutcomeKind.WRONG_VALUE, "stats-job", subject="time-left")
    random = fails("protocol.any-program", "", shown, "stats-job.ok")
    directed = fails("stats-job.time-left-delayed", "", Step(OutcomeKind.WRONG_VALUE))
    assert attributed(directed, random)[1].blocked == {
        "protocol.any-program": "stats-job.time-left-delayed"
    }


def test_what_a_requirement_presupposes_explains_what_it_would_explain() -> None:
    *_, found = attributed(
        fails("kick.otherwise-delayed"),
        fails("kick.bound", "", Step(OutcomeKind.WRONG_VALUE)),
        fails("protocol.any-program"),
    )
    assert found.blocked == {"protocol.any-program": "kick.bound"}


def test_failures_about_nothing_that_has_a_name_have_no_cause_in_common() -> None:
    assert cause_of(Blame(), Traits()) is None
    assert cause_of(Blame(Step(OutcomeKind.WRONG_VALUE, subject="state")), Traits()) is not None


# ---------------------------------------------------------------- servers
