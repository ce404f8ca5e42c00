"""The tags of jobs in a program, and the ids that the target gave them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from reference_server.wire import Reply

MISSING = 2**62
"""Added to a tag, it is the id of a job that no server has."""


class JobTags:
    """The ids of tagged jobs, as far as they are known."""

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}
        self._tags: dict[int, int] = {}

    def __contains__(self, id: object) -> bool:
        return id in self._tags

    def name(self, tag: int, id: int) -> None:
        """Call a job by a tag from now on."""
        self._tags.pop(self.id(tag), None)
        self._ids[tag] = id
        self._tags[id] = tag

    def id(self, tag: int) -> int:
        """Return the id of a job; one that no job has, if it is not known."""
        return self._ids.get(tag, MISSING + tag)

    def tag(self, id: int) -> int | None:
        """Return the tag of a job."""
        return self._tags.get(id)

    def ids(self) -> Iterable[int]:
        """Return the ids that are known."""
        return self._ids.values()

    def clear(self) -> None:
        """Forget all jobs."""
        self._ids.clear()
        self._tags.clear()

    def learn(self, puts: deque[int], reply: Reply) -> None:
        """Take the reply to one of these puts, named by tags, if it is one.

        They are in order, and unanswered. The name of a job may be a guess until then.
        """
        if not puts:
            return
        if reply.word == "INSERTED":
            id = int(reply.args[0])
            if (known := self.tag(id)) is None:
                self.name(puts.popleft(), id)
            elif known in puts:
                puts.remove(known)
        elif reply.word in ("EXPECTED_CRLF", "JOB_TOO_BIG", "DRAINING"):
            puts.popleft()
