"""Which tests run: the same each day, and campaigns, which take long, only if asked for."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Leave campaigns out, unless tests are selected by their marks."""
    config.addinivalue_line("markers", "campaign: takes long; run by -m campaign")
    if not config.option.markexpr:
        config.option.markexpr = "not campaign"
