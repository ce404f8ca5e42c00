"""A digest of the code that a recorded tour depends on: other code may record another tour."""

from __future__ import annotations

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

from conformance.small_worlds.world import HOME

MODULES = (
    "conformance/random_testing/steps.py",
    "conformance/small_worlds/alphabet.py",
    "conformance/small_worlds/graph.py",
    "conformance/small_worlds/observation.py",
    "conformance/small_worlds/packing.py",
    "conformance/small_worlds/recorded_tour.py",
    "conformance/small_worlds/recording.py",
    "conformance/small_worlds/route.py",
    "conformance/small_worlds/scene.py",
    "conformance/small_worlds/tour.py",
    "conformance/small_worlds/view.py",
    "conformance/small_worlds/world.py",
    "reference_server/commands.py",
    "reference_server/dialect.py",
    "reference_server/engine.py",
    "reference_server/events.py",
    "reference_server/lifecycle.py",
    "reference_server/model.py",
    "reference_server/partner.py",
    "reference_server/profiles.py",
    "reference_server/reserve.py",
    "reference_server/state.py",
    "reference_server/stats.py",
    "reference_server/store.py",
    "reference_server/wire/__init__.py",
    "reference_server/wire/lines.py",
    "reference_server/wire/messages.py",
    "reference_server/wire/replies.py",
    "reference_server/wire/requests.py",
)
"""All modules of ours that say what is recorded."""
_ROOT = Path(__file__).parents[2]
_PROSE = re.compile(r"Expr\(value=Constant\(value=(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)\)")
_EMPTY = re.compile(r"(?:, )?[a-z_]+=\[\]")


@cache
def digest() -> str:
    """Return the same as long as the code is the same, whatever its comments and docstrings."""
    found = hashlib.sha256(HOME.encode())
    for module in MODULES:
        code = (_ROOT / module).read_bytes()
        found.update(module.encode() + canonical(code).encode())
    return found.hexdigest()[:32]


def canonical(code: bytes) -> str:
    """Return code without comments, docstrings and layout, the same in each version of Python."""
    # Newer versions have more lists in their nodes, or do not show empty ones.
    return _EMPTY.sub("", _PROSE.sub("", ast.dump(ast.parse(code))))
