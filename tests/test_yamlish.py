"""The YAML of servers, of any length, and what is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance import yamlish

NAME = "n" * 190
READERS: list[Callable[[bytes], object]] = [
    yamlish.strictly,
    yamlish.names,
    yamlish.dictionary,
]


@pytest.mark.parametrize("item", [f"- {NAME}\n", f"- >-\n  {NAME}\n"])
def test_a_long_list_is_read_in_any_form(item: str) -> None:
    document = b"---\n" + item.encode() * 1000
    assert yamlish.names(document) == yamlish.strictly(document) == [NAME] * 1000


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("document", [b"[" * 90_000, b"{a: " * 90_000, b"? [a\n" * 2**18])
def test_what_is_deep_or_huge_is_an_error(read: Callable[[bytes], object], document: bytes) -> None:
    with pytest.raises(ValueError, match=r"not YAML|it has [\d,]+ bytes"):
        read(document)
