"""The commands of a scene, or of a client at work, with their replies as a reader sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """A command and its reply, which is empty if none has come.

    ``id`` is that of the job that it has put, or 0; ``said``: bytes of all replies up to this one,
    where they are counted. ``time`` and ``took``: when it was said, and the seconds until it was
    answered.
    """

    step: Say
    id: int
    said: int
    time: float
    took: float
    reply: str


@dataclass(frozen=True)
class SceneTranscript:
    """The commands of clients, in order."""

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

    @property
    def slowest(self) -> float:
        """The seconds that a client has waited for a reply at most."""
        return max((one.took for one in self.spoken), default=0.0)

    def until(self, count: int, ids: Collection[int]) -> list[str]:
        """Return the messages about jobs up to this command, which has no reply yet."""
        *before, last = self.spoken[:count]
        return SceneTranscript([*before, last._replace(reply="")]).about(ids)

    def about(self, ids: Collection[int]) -> list[str]:
        """Return the messages about the jobs with these ids, or all if there are no ids.

        A command without a reply is always there.
        """
        jobs = {job: id for job, id in self.ids.items() if id in ids}
        lines = []
        for is_shown, several in groupby(
            self.spoken, lambda one: not (ids and one.reply) or _is_about(one, jobs)
        ):
            commands = [*several]
            if not is_shown:
                lines.append(f"… {counted(len(commands), 'command')} …")
                continue
            for one in commands:
                request = _folded(escape(one.step.encoded(self.ids)))
                lines.append(f"{one.step.client} > {request}")
                if one.reply:
                    lines.append(f"{one.step.client} < {_folded(one.reply)}")
        return lines


def _is_about(one: Spoken, jobs: Mapping[str, int]) -> bool:
    """Tell whether a command names one of these jobs, or its reply gives one."""
    return any(
        one.step.job == job
        or f"{{{job}}}" in one.step.line
        or one.reply.startswith(f"RESERVED {id} ")
        for job, id in jobs.items()
    )


def _folded(text: str) -> str:
    return text if len(text) <= _FOLD else f"{text[: _FOLD - 40]} … {text[-30:]}"
