"""Makes a program that shows a violation small: delta debugging over its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzz.program import Ask, Program, Step

Shows = Callable[[Program], bool]
"""Whether a program still shows what is wrong."""


def minimise(program: Program, shows: Shows) -> list[Step]:
    """The steps without which it is not shown any more, each as plain as it may be."""
    steps = list(program)
    size = max(len(steps) // 2, 1)
    while True:
        smaller = _without_chunks(steps, size, shows)
        if size == 1 and len(smaller) == len(steps):
            return _plain(smaller, shows)
        steps = smaller
        size = max(min(size // 2, len(steps) // 2), 1)


def _without_chunks(steps: list[Step], size: int, shows: Shows) -> list[Step]:
    # From the end, where it is most often shown.
    end = len(steps)
    while end > 0:
        start = max(end - size, 0)
        candidate = steps[:start] + steps[end:]
        if candidate and shows(candidate):
            steps = candidate
        end = start
    return steps


def _plain(steps: list[Step], shows: Shows) -> list[Step]:
    """Each command sent by itself, each put as plain as possible, where that still shows it."""
    for number, step in enumerate(steps):
        for plainer in _plainer(step):
            candidate = [*steps[:number], plainer, *steps[number + 1 :]]
            if plainer != step and shows(candidate):
                steps = candidate
                break
    return steps


def _plainer(step: Step) -> Sequence[Step]:
    if not isinstance(step, Ask):
        return ()
    alone = step._replace(apart=True, hasty=False)
    if step.tag is None:
        return (alone,)
    line, _, _ = step.text.partition(b"\r\n")
    pri, delay, ttr = line.split()[1:4]
    heads = (b"put 0 0 60", b"put %b 0 60" % pri, b"put %b %b %b" % (pri, delay, ttr))
    plain = (alone._replace(text=head + b" 1\r\na\r\n") for head in dict.fromkeys(heads))
    return (*plain, alone)
