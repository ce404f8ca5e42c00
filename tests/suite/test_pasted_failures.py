"""Failures of runs, pasted from the terminal: ``check`` and ``replay`` find what the run found."""

from __future__ import annotations

import pytest

from tests.pasted_failures import Agreement, compared

TRIES = 4
"""A busy machine may leave something undecided."""


@pytest.mark.parametrize(
    "fault",
    [
        "a-pause-of-zero-lasts-for-ever",
        "a-ttr-of-zero-becomes-two-seconds",
        "a-job-with-a-delay-is-ready-at-once",
        "a-job-whose-ttr-is-over-is-buried",
        "a-second-delete-succeeds",
        "a-kicked-job-goes-to-the-end",
        "an-ignored-tube-is-still-served",
        "bury-is-not-counted",
        "current-jobs-buried-is-told-as-0",
        "ignore-leaves-default-in-the-list-of-watched-tubes",
        "kick-tells-one-too-many",
        "inside-the-margin-a-timeout-of-zero-is-timed-out",
    ],
)
def test_check_and_replay_find_what_the_run_found(fault: str) -> None:
    found = next(filter(None, (compared(fault) for _ in range(TRIES))), None)
    assert found is not None
    assert (found.check, found.replay) == (Agreement.SAME, Agreement.SAME), found


@pytest.mark.parametrize(
    "fault", ["all-servers-have-one-id", "max-job-size-is-told-as-65535-whatever-it-is"]
)
def test_what_no_message_shows_is_not_decided(fault: str) -> None:
    found = next(filter(None, (compared(fault) for _ in range(TRIES))), None)
    assert found is not None
    assert found.check is Agreement.UNDECIDED, found
