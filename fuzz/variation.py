"""Varies programs: adds and removes steps, changes arguments and jobs, splices programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from conformance.oracle.underspecification import KINDS
from conformance.random_testing.steps import Ask, Program, Step
from fuzz.mutate import EDGES, Mutator
from fuzz.program import PRIORITIES, TUBES
from reference_server.commands import ABOUT_A_JOB
from reference_server.wire import CRLF

_T = TypeVar("_T")

MOST = 400
"""Steps of a program that is varied, at most."""
_VOLLEY = 64
"""Lines of a volley."""
_CLIENTS = (1, 2, 3)
_WAYS = (1, 1, 1, 2, 2, 3, 4, 8)
_APART = 10**6
"""Added to the tags of jobs of another program, for each program that is put in."""
_VERBS = tuple(verb for verb in KINDS if verb != "quit")
_SMALL = (0, 0, 0, 1000, 2000)
"""Numbers that start no timer which ends soon."""
_NUMBER = re.compile(rb"(?<![^ ])[0-9]+(?=[ \r])")


class Variation:
    """Makes variations by the choices of ``chance``; ``stock`` are steps to put in."""

    def __init__(self, chance: Random, stock: Sequence[Ask]) -> None:
        self._chance = chance
        self._stock = stock
        self._mutate = Mutator(chance)
        self._spliced = 0
        self._ways: Sequence[Callable[[list[Step], Program], None]] = (
            *(self._put_in,) * 8,
            *(self._number,) * 5,
            *(self._splice,) * 2,
            self._leave_out,
            self._again,
            self._elsewhere,
            *(self._job,) * 2,
            self._client,
            self._apart,
            self._hasty,
            *(self._bytes,) * 2,
        )

    def __call__(self, program: Program, other: Program) -> list[Step]:
        """Return a program that is like the first one, with something of the other perhaps."""
        steps, before = list(program), list(program)
        left = self._pick(_WAYS)
        while left > 0 or steps == before:
            self._pick(self._ways)(steps, other)
            left -= 1
        return steps[:MOST]

    def volley(self) -> list[Step]:
        """Return hostile lines one by one, after a job that some of them are about."""
        lines = (self._any_command() for _ in range(_VOLLEY))
        return [
            Ask(1, b"put 0 0 120 1\r\na\r\n", tag=0),
            *(_rewritten(ask, self._mutate(ask.text))._replace(apart=True) for ask in lines),
        ]

    def _pick(self, options: Sequence[_T]) -> _T:
        return options[int(self._chance.random() * len(options))]

    def _at(self, steps: Sequence[Step]) -> int:
        return self._chance.randrange(len(steps) + 1)

    def _some(self, steps: Sequence[Step]) -> slice:
        """Return where a few of the steps are, or many."""
        start = self._at(steps)
        return slice(start, start + self._pick((1, 1, 2, 4, 16, 64)))

    # ------------------------------------------------------------ the ways

    def _put_in(self, steps: list[Step], other: Program) -> None:
        """Put in a command more, of another program or of any that was judged."""
        kind = self._chance.random()
        known = self._stock if kind < 0.2 else other if kind < 0.4 else ()
        step = self._pick(known) if known else self._any_command()
        if isinstance(step, Ask):
            step = step._replace(client=self._pick((step.client, *_CLIENTS)))
            if step.job is not None:
                step = step._replace(job=self._any_tag(steps))
            if step.tag is not None:
                step = step._replace(tag=self._new_tag())
        at = len(steps) if self._chance.random() < 0.5 else self._at(steps)
        steps.insert(at, step)

    def _any_command(self) -> Ask:
        """Return a command of any kind, each as often as any other."""
        verb = self._pick(_VERBS)
        if verb == "put":
            return Ask(1, b"put %d 0 120 1\r\na\r\n" % self._pick(PRIORITIES), tag=0)
        kinds = KINDS[verb]
        about = verb in ABOUT_A_JOB and kinds.startswith("n")
        arguments = [
            self._pick(TUBES).encode() if kind == "t" else b"%d" % self._pick(_SMALL)
            for kind in kinds[about:]
        ]
        words = [verb.encode(), *([b"%d"] if about else ()), *arguments]
        return Ask(1, b" ".join(words) + CRLF, job=0 if about else None)

    def _splice(self, steps: list[Step], other: Program) -> None:
        part = other[self._some(other)] if self._chance.random() < 0.7 else other
        at, apart = self._at(steps), self._new_tag()
        steps[at:at] = [_renamed(step, apart) for step in part]

    def _leave_out(self, steps: list[Step], _: Program) -> None:
        del steps[self._some(steps)]

    def _again(self, steps: list[Step], _: Program) -> None:
        part, apart = steps[self._some(steps)] * self._pick((1, 1, 2, 5)), self._new_tag()
        at = self._at(steps)
        steps[at:at] = [
            step._replace(tag=apart + number)
            if isinstance(step, Ask) and step.tag is not None
            else step
            for number, step in enumerate(part)
        ]

    def _elsewhere(self, steps: list[Step], _: Program) -> None:
        place = self._some(steps)
        part = steps[place]
        del steps[place]
        at = self._at(steps)
        steps[at:at] = part

    def _number(self, steps: list[Step], _: Program) -> None:
        """Change one number of a command."""
        self._change(steps, self._with_number)

    def _bytes(self, steps: list[Step], _: Program) -> None:
        """Spoil the bytes of a command."""
        self._change(steps, lambda ask: _rewritten(ask, self._mutate(ask.text)))

    def _job(self, steps: list[Step], _: Program) -> None:
        """Let a command be about another job."""
        job = self._any_tag(steps)
        self._change(steps, lambda ask: ask if ask.job is None else ask._replace(job=job))

    def _client(self, steps: list[Step], _: Program) -> None:
        self._change(steps, lambda ask: ask._replace(client=self._pick(_CLIENTS)))

    def _apart(self, steps: list[Step], _: Program) -> None:
        self._change(steps, lambda ask: ask._replace(apart=not ask.apart))

    def _hasty(self, steps: list[Step], _: Program) -> None:
        """Let a command not wait for the replies to the one before."""
        self._change(steps, lambda ask: ask._replace(apart=True, hasty=not ask.hasty))

    # ------------------------------------------------------------ steps

    def _change(self, steps: list[Step], changed: Callable[[Ask], Ask]) -> None:
        if not steps:
            return
        number = self._chance.randrange(len(steps))
        step = steps[number]
        if isinstance(step, Ask):
            steps[number] = changed(step)

    def _with_number(self, ask: Ask) -> Ask:
        found = list(_NUMBER.finditer(ask.text.partition(b"\r\n")[0] + b"\r"))
        if not found:
            return ask
        match = self._pick(found)
        new = b"%d" % self._like(int(match[0]))
        return ask._replace(text=ask.text[: match.start()] + new + ask.text[match.end() :])

    def _like(self, number: int) -> int:
        """Return a number that is like another in most of its bytes, or one that is known."""
        kind = self._chance.random()
        if kind < 0.2:
            return max(number + self._pick((-1, 1)), 0)
        if kind < 0.4:
            known: Sequence[int] = PRIORITIES if kind < 0.3 else EDGES
            return self._pick(known)
        if kind < 0.5:
            return self._chance.randrange(1000)
        shift = 8 * self._chance.randrange(4)
        return number & ~(0xFF << shift) | self._chance.randrange(256) << shift

    def _any_tag(self, steps: Sequence[Step]) -> int:
        tags = [step.tag for step in steps if isinstance(step, Ask) and step.tag is not None]
        return self._pick(tags) if tags else 0

    def _new_tag(self) -> int:
        self._spliced += 1
        return self._spliced * _APART + self._chance.randrange(_APART // 2)


def _renamed(step: Step, apart: int) -> Step:
    """Return a step with other tags."""
    if not isinstance(step, Ask):
        return step
    job, tag = (None if name is None else name + apart for name in (step.job, step.tag))
    return step._replace(job=job, tag=tag)


def _rewritten(ask: Ask, text: bytes) -> Ask:
    """Return a command with another text, and its job where that is still named."""
    if ask.job is None:
        return ask._replace(text=text, cuts=())
    head, id, tail = text.partition(b"%d")
    if not id:
        return ask._replace(text=text, job=None, cuts=())
    escaped = b"%d".join(part.replace(b"%", b"%%") for part in (head, tail.replace(b"%d", b"1")))
    return ask._replace(text=escaped, cuts=())
