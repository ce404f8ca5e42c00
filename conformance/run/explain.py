"""The two sides of a test's own ``assert``, in a line each: expected and observed."""

from __future__ import annotations

import ast
import threading
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from conformance.verdict import Deviation, Kind, Step


def as_deviation(error: AssertionError) -> Deviation:
    """Return the failure of an ``assert`` of a test, told as other failures are."""
    if isinstance(error, Deviation):
        return error
    said = (str(error).splitlines() or ["it is not so"])[0].removeprefix("assert ")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for line, statement in _asserts(frame.filename):
            if line == frame.lineno:
                step = Step(Kind.WRONG_VALUE, subject=statement)
                return Deviation(statement, said, step=step)
    return Deviation("the test's assertion", said)


_parsing = threading.Lock()
"""Python 3.11 counts the depth of all parsers together: two at once may be a SystemError."""


@cache
def _asserts(filename: str) -> list[tuple[int, str]]:
    if not Path(filename).name.startswith("test_"):
        return []
    with _parsing:
        return list(_read(filename))


def _read(filename: str) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(Path(filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.lineno, ast.unparse(node.test)
