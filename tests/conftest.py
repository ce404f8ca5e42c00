"""Which tests run: campaigns, which take long, only where they are asked for."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Leave campaigns out, unless tests are selected by their marks."""
    config.addinivalue_line("markers", "campaign: takes long; run by -m campaign")
    if not config.option.markexpr:
        config.option.markexpr = "not campaign"
