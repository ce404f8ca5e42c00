"""``--requirements``: a fork's own requirements and tests, run with those of the suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.catalogue import CatalogueError, extend
from conformance.run.suite import slugs


def add_requirements(config: pytest.Config, folder: Path) -> None:
    """Let a run have the requirements of a folder, and its tests unless some of them are named."""
    try:
        extend(folder)
    except CatalogueError as error:
        raise pytest.UsageError(str(error)) from None
    except OSError as error:
        raise pytest.UsageError(f"cannot read {folder}: {error.strerror}") from None
    if not any(_is_in(config, argument, folder) for argument in config.args):
        config.args.append(str(folder))


def check_named(config: pytest.Config, folder: Path, items: Sequence[pytest.Item]) -> None:
    """Raise UsageError if a test of a folder names no requirement: it would not be judged."""
    for item in items:
        if not slugs(item) and _is_in(config, str(item.path), folder):
            raise pytest.UsageError(f"{item.nodeid} names no requirement")


def _is_in(config: pytest.Config, argument: str, folder: Path) -> bool:
    place = config.invocation_params.dir / argument.partition("::")[0]
    return place.resolve().is_relative_to(folder.resolve())
