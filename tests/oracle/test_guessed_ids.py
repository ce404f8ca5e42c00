"""Ids of jobs that nobody has told yet: a client that names one may mean any such job, or none."""

from __future__ import annotations

from conformance.oracle.states import State, new_model
from reference_server.profiles import NEWEST


def test_an_id_that_is_told_is_not_guessed_though_its_job_is_gone() -> None:
    state = State(new_model(NEWEST))
    state.model.next_id = 15
    state.guessed = {15, 16}
    for meant in state.meanings(16):
        assert 16 not in meant.guessed
        assert 15 in meant.guessed
        assert len(meant.guessed) == 2
        assert meant.model.next_id > max(meant.guessed)
