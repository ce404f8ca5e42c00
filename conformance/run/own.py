"""``--requirements``: a fork's own requirements and tests, beside those of the suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.catalogue import CatalogueError, extend


def take_in(config: pytest.Config, folder: Path) -> None:
    """Let a run have the requirements of a folder, and its tests unless some of them are named."""
    try:
        extend(folder)
    except CatalogueError as error:
        raise pytest.UsageError(str(error)) from None
    except OSError as error:
        raise pytest.UsageError(f"cannot read {folder}: {error.strerror}") from None
    if not any(_is_in(config, argument, folder) for argument in config.args):
        config.args.append(str(folder))


def _is_in(config: pytest.Config, argument: str, folder: Path) -> bool:
    place = config.invocation_params.dir / argument.partition("::")[0]
    return place.resolve().is_relative_to(folder.resolve())
