"""Parts of what takes long: one is always tested, the rest by ``pytest tests -m campaign``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")


def part_of(items: Sequence[T], text: str) -> Sequence[T]:
    """Return a part of the items: of ``K/N`` each N-th, from number K on."""
    part, _, parts = text.partition("/")
    return items[int(part) % int(parts) :: int(parts)]


def sample(items: Sequence[T], parts: int, name: Callable[[T], str] = str) -> list[ParameterSet]:
    """Return the items as parameters of a test, of which each N-th is always tested."""
    return [
        pytest.param(item, id=name(item), marks=pytest.mark.campaign if n % parts else ())
        for n, item in enumerate(items)
    ]
