"""The commands of a scene with their replies, as a reader is shown them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

from conformance.durability.scenes import CrashScene, Say
from reference_server.wire import escape
from reports.words import counted

_FOLD = 120
"""Characters of a message that a reader is shown."""


class Spoken(NamedTuple):
    """A command that was answered; ``said``: bytes of all replies up to this one.

    ``id`` is that of the job that it has put, or 0. ``time`` and ``took``: when it was said, and
    the seconds until it was answered.
    """

    step: Say
    id: int
    said: int
    time: float
    took: float
    reply: str


@dataclass(frozen=True)
class SceneTranscript:
    """The commands of a scene that were answered, in order."""

    spoken: Sequence[Spoken]

    @classmethod
    def of_json(cls, scene: CrashScene, answers: Iterable[Sequence[Any]]) -> SceneTranscript:
        """Return what was kept by :meth:`as_json`."""
        steps = (step for step in scene.steps if isinstance(step, Say))
        return cls([Spoken(step, *answer) for step, answer in zip(steps, answers, strict=True)])

    def as_json(self) -> list[tuple[Any, ...]]:
        """Return the answers as JSON has them: the scene has the commands."""
        return [one[1:] for one in self.spoken]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The ids that the server has given to jobs, by their names in the scene."""
        return {one.step.job: one.id for one in self.spoken if one.step.job}

    def until(self, count: int, job: str) -> list[str]:
        """Return the first commands and their replies, but of the last one only the command.

        ``job``: show those about the job of this name only, and the last.
        """
        *before, last = self.spoken[:count]
        return [*self._lines(before, job), self._command(last)]

    def whole(self, id: str) -> list[str]:
        """Return all commands and their replies; those about one job if a job has this id."""
        job = next((job for job, given in self.ids.items() if str(given) == id), "")
        return [*self._lines(self.spoken, job)]

    def _lines(self, spoken: Sequence[Spoken], job: str) -> Iterator[str]:
        for about, several in groupby(spoken, lambda one: not job or self._is_about(one, job)):
            commands = [*several]
            if not about:
                yield f"… {counted(len(commands), 'command')} …"
                continue
            for one in commands:
                yield self._command(one)
                yield f"{one.step.client} < {_folded(one.reply)}"

    def _command(self, one: Spoken) -> str:
        return f"{one.step.client} > {_folded(escape(one.step.encoded(self.ids)))}"

    def _is_about(self, one: Spoken, job: str) -> bool:
        prefix = f"RESERVED {self.ids[job]} " if job in self.ids else one.reply
        return one.step.job == job or f"{{{job}}}" in one.step.line or one.reply.startswith(prefix)


def _folded(text: str) -> str:
    return text if len(text) <= _FOLD else f"{text[: _FOLD - 40]} … {text[-30:]}"
