"""How tests are distributed to processes."""

from __future__ import annotations

import pytest

from conformance.run.distribution import waits


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("conformance/tests/test_release.py::test_a_released_job_is_ready_after_its_delay", True),
    ],
)
def test_tests_that_wait_are_known_by_their_names(test: str, expected: bool) -> None:
    assert waits(test) is expected
