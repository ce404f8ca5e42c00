"""The model beside the real beanstalkd, byte for byte, in random conversations."""

from __future__ import annotations

import pytest

from reference_server.profiles import PROFILES
from tests.differential import compare
from tests.parts import sample
from tests.servers import (
    BEANSTALKD_COMMAND,
    REFERENCE_COMMAND,
    needs_beanstalkd,
    needs_faketime,
)


@needs_beanstalkd
@needs_faketime
@pytest.mark.parametrize("seed", sample([1, 2], 2))
def test_the_model_answers_as_beanstalkd_does(seed: int) -> None:
    assert compare(BEANSTALKD_COMMAND, PROFILES["1.12"], seed, commands=15_000) >= 15_000


@needs_faketime
@pytest.mark.parametrize("profile", sample(list(PROFILES), 5))
def test_the_reference_server_answers_as_its_model_does(profile: str) -> None:
    command = f"{REFERENCE_COMMAND} --profile {profile}"
    assert compare(command, PROFILES[profile], 3, commands=5_000) >= 5_000
