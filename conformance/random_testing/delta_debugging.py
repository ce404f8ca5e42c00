"""Delta debugging over the steps of a program that shows a violation."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from conformance.random_testing.steps import Ask, Program, Step, Wait

T = TypeVar("T")

ENDS = (1, 2, 4, 16, 64, 256, 1024)
"""Items, the last ones, by which it is often shown alone."""
_PUT = re.compile(rb"put +(\S+) +(\S+) +(\S+) ")
"""A put of which something may be malformed."""
Shows = Callable[[Program], bool]
"""The check that a program still shows the deviation; raises OutOfTime if the time is over."""


class OutOfTime(Exception):
    """The time for making a program small is over."""


def minimise(program: Program, shows: Shows) -> list[Step]:
    """Return the steps that are needed to show it, each as plain as possible."""
    # Each command sent by itself, each put as plain as possible, where that still shows it.
    steps = with_plainer(without_steps(program, shows), _plainer, shows)
    steps = _with_longer_waits(steps, shows)
    for number, step in enumerate(steps):
        if isinstance(step, Ask) and step.tag is None:
            steps[number] = _with_fewer_bytes(steps, number, step, shows)
    return steps


def without_steps(program: Program, shows: Shows) -> list[Step]:
    """Return the steps that are needed to show it."""

    def some(steps: list[Step]) -> bool:
        return bool(steps) and shows(steps)

    return needed(list(program), some)


def ends(items: list[T]) -> Iterator[list[T]]:
    """Yield the last items, of which it often comes; fewest first."""
    return (items[-count:] for count in ENDS if count < len(items))


def needed(items: list[T], shown: Callable[[list[T]], bool]) -> list[T]:
    """Return the items that are needed to show it; the last few alone are tried first."""
    with contextlib.suppress(OutOfTime):
        items = next(filter(shown, ends(items)), items)
    return without_chunks(items, shown)


def _with_longer_waits(steps: list[Step], shows: Shows) -> list[Step]:
    """Let time that passes in several steps pass in one, where that still shows it."""
    number = 1
    with contextlib.suppress(OutOfTime):
        while number < len(steps):
            before, step = steps[number - 1 : number + 1]
            if isinstance(before, Wait) and isinstance(step, Wait):
                longer = Wait(round(before.seconds + step.seconds, 3))
                candidate = [*steps[: number - 1], longer, *steps[number + 1 :]]
                if shows(candidate):
                    steps = candidate
                    continue
            number += 1
    return steps


def _with_fewer_bytes(steps: list[Step], number: int, step: Ask, shows: Shows) -> Ask:
    """Return a command without the bytes, or the id, that make no difference."""
    head, id, tail = step.text.partition(b"%d") if step.job is not None else (step.text, b"", b"")

    def asking(atoms: list[bytes]) -> Ask:
        return step.asking(b"".join(atoms))

    def shown(atoms: list[bytes]) -> bool:
        return bool(atoms) and shows([*steps[:number], asking(atoms), *steps[number + 1 :]])

    before, after = (_atoms(part, bool(id)) for part in (head, tail))
    atoms: list[bytes] = [*before, *([id] if id else []), *after]
    return asking(without_chunks(atoms, shown))


def _atoms(text: bytes, escaped: bool) -> list[bytes]:
    """Return its bytes; the end of a line is one, and so is an escaped %, or what it stands for."""
    pattern = rb"\r\n|%%|[^%]" if escaped else rb"\r\n|[^\r]|\r"
    return [match.group() for match in re.finditer(pattern, text, re.DOTALL)]


def without_chunks(items: list[T], shown: Callable[[list[T]], bool]) -> list[T]:
    """Return the items that are needed to show it; larger chunks are left out first."""
    size = max(len(items) // 2, 1)
    while True:
        smaller = _without_chunks_of(items, size, shown)
        if size == 1 and len(smaller) == len(items):
            return smaller
        items = smaller
        size = max(min(size // 2, len(items) // 2), 1)


def _without_chunks_of(items: list[T], size: int, shown: Callable[[list[T]], bool]) -> list[T]:
    # From the end, where it is most often shown.
    end = len(items)
    while end > 0:
        start = max(end - size, 0)
        candidate = items[:start] + items[end:]
        try:
            if shown(candidate):
                items = candidate
        except OutOfTime:
            break
        end = start
    return items


def with_plainer(
    items: list[T], plainer: Callable[[T], Iterable[T]], shows: Callable[[list[T]], bool]
) -> list[T]:
    """Return each in the first of its plainer forms that still shows it."""
    with contextlib.suppress(OutOfTime):
        for number, item in enumerate(items):
            for plain in plainer(item):
                candidate = [*items[:number], plain, *items[number + 1 :]]
                if plain != item and shows(candidate):
                    items = candidate
                    break
    return items


def _plainer(step: Step) -> Sequence[Step]:
    if not isinstance(step, Ask):
        return ()
    alone = step._replace(apart=True, hasty=False, cuts=())
    put = _PUT.match(step.text) if step.tag is not None else None
    if put is None:
        return (alone,)
    pri, delay, ttr = put.groups()
    heads = (b"put 0 0 60", b"put %b 0 60" % pri, b"put %b %b %b" % (pri, delay, ttr))
    plain = (alone._replace(text=head + b" 1\r\na\r\n") for head in dict.fromkeys(heads))
    return (*plain, alone)
