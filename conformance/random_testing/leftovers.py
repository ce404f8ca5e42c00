"""Jobs and tubes that were on a target before a conversation: they are left alone."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from reference_server.commands import ABOUT_A_JOB, any_of

# Anywhere: what is not taken for a body is taken for a command.
_ID = re.compile(rb"%b +([0-9]{1,20})" % any_of("stats", *ABOUT_A_JOB))


@dataclass(frozen=True, slots=True)
class Leftovers:
    """``tubes`` have jobs, whose ids are below ``first_id``; ``in_default``: how many are there."""

    tubes: frozenset[bytes]
    in_default: int
    first_id: int

    def are_meant(self, text: bytes, own: Container[int]) -> bool:
        """Return whether a message is about any of them; ``own`` are ids of one's own jobs."""
        if not self.tubes:
            return False
        ids = map(int, _ID.findall(text))
        return not self.tubes.isdisjoint(text.split()) or any(
            id < self.first_id and id not in own for id in ids
        )
