"""A variant as a server of its own, with the command line of the reference server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_server import serve as reference
from reference_server.serve import Server
from tests.variants.gallery import SERVED


def serve(name: str, argv: Sequence[str]) -> int:
    """Run a variant until SIGTERM; ``name`` is what ``SERVED`` calls it."""
    profile, variant = SERVED[name]

    def server(*args: Any, **options: Any) -> Server:
        return variant.server(*args, **{**options, "fault": variant})

    # The process ends with it.
    vars(reference)["Server"] = server
    return reference.main(["--profile", profile, *argv])
