"""How tests are distributed to processes."""

from __future__ import annotations

import pytest

from conformance.run.distribution import waits


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("conformance/tests/test_deadline_soon.py::test_reserve_in_the_safety_margin[a]", True),
        ("conformance/tests/test_reserve.py::test_reserve_gives_a_ready_job[reserve]", False),
        ("fuzz/test_hostile.py::test_known_bytes", False),
    ],
)
def test_tests_that_wait_are_known_by_their_names(test: str, expected: bool) -> None:
    assert waits(test) is expected
