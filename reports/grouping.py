"""Failures grouped by cause: each cause once, with what it blocks, the most urgent first."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reports.results import CauseRecord, RequirementRecord, Test
from reports.verdicts import DEVIATIONS, Level, Verdict

RANDOM = frozenset(
    f"protocol.any-{word}" for word in ("program", "transition", "bytes", "overlap", "conversation")
)
"""The requirements of random tests: whatever these find is theirs."""
_RARE = re.compile(r"(endurance|exhaustion|persistence)\.|[a-z-]+\.(equal-|.*-after-clock-change$)")
"""The slugs of requirements that are about rare conditions, see :func:`is_rare`."""
CRASHED = "crashed"
"""The beginning of an observation of a cause that has ended the target's process."""
_MUCH = re.compile(r"\btest_(?:queues|repetition|crowds|slow_clients|circumstances)::")
"""The tests that go beyond normal use: they have much of something."""
_LEVELS: dict[Verdict, Level] = {Verdict.FAIL: "must", Verdict.NON_STRICT: "de-facto"}
"""The level that a verdict is about."""
_BODY = re.compile(r"\b(RESERVED|FOUND|OK)((?: [^ \\]+)*)\\r\\n.*?(?:\\r\\n(?=$|, | or [A-Z])|…|$)")
"""A reply with a body, of which no more than the beginning may be there."""
_KEY = re.compile(r"'[\w-]*'$")
"""A quoted name, as that of a statistic."""
_VARYING: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_BODY, r"\1\2 …"),
    (re.compile(r"\bb([\"']).*?(?:\1|…|$)"), "BODY"),
    (re.compile(r"'[^']*(?:'|…|$)"), lambda quoted: quoted[0] if _KEY.match(quoted[0]) else "TEXT"),
    (re.compile(r"; .*|, as (?:kept )?in \S.*"), ""),
    (re.compile(r"^nothing(?: for [A-Z]+)?(?: within [\d.N]+ (?:s|seconds)\b)?"), "nothing"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\bconformance-[\w-]+"), "TUBE"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "N"),
    (re.compile(r"-?(?:\d|\bN\b)(?:[\d.,]|N\b)*(?<![.,])(?:e[+-]\d+)?"), "N"),
)
"""The parts that differ between failures of one cause, and what is in their place."""


@dataclass(slots=True)
class Group:
    """Failures of one cause; the first one is that of the requirement in the heading.

    ``broken`` are the requirements that it breaks, that of the heading first, ``blocked`` those
    that were not tested for it.
    """

    tests: list[Test] = field(default_factory=list)
    broken: list[RequirementRecord] = field(default_factory=list)
    blocked: list[RequirementRecord] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its tests: what it breaks may fail for another cause."""
        return min((test.verdict for test in self.tests), key=DEVIATIONS.index)

    @property
    def known(self) -> bool:
        """Return whether the baseline lists all of it."""
        return self.tests[0].known

    @property
    def title(self) -> str:
        """Its first requirement, and how many others it breaks and blocks."""
        more = len(self.broken) - 1
        blocks = f"; blocks {len(self.blocked)}" if self.blocked else ""
        return self.broken[0].slug + (f" and {more} more" if more else "") + blocks


def grouped(requirements: Sequence[RequirementRecord], tests: Sequence[Test]) -> list[Group]:
    """Return the failures of a run by cause: known ones last, then the worst first.

    Of causes with one verdict, a crash is the first, then what blocks most, then what breaks normal
    use in a directed test, then what random tests find, then exhaustion and persistence. One of
    which no byte is shown is never the first, if there is another.
    """
    named = {requirement.slug: requirement for requirement in requirements}
    places = {slug: place for place, slug in enumerate(named)}

    def order_of_tests(test: Test) -> tuple[int, int]:
        return _length(test) or sys.maxsize, min(places[slug] for slug in test.requirements)

    found: dict[object, list[Test]] = {}
    for test in sorted(tests, key=order_of_tests):
        if test.verdict in DEVIATIONS and any(named[slug].deviates for slug in _broken_by(test)):
            found.setdefault((_kind(test), test.known), []).append(test)
    groups = [_group(failed, named, places) for failed in found.values()]
    # What is blocked ranks its cause, and belongs to the first of several causes.
    groups.sort(key=lambda group: _rank(group, places))
    behind = first_causes(groups)
    for requirement in requirements:
        for first in requirement.blocked_by[:1]:
            if first in behind:
                behind[first].blocked.append(requirement)
    groups.sort(key=lambda group: _rank(group, places))
    shown = [group for group in groups if group.known == groups[0].known and _shows_bytes(group)]
    if shown:
        groups.remove(shown[0])
        groups.insert(0, shown[0])
    return groups


def _kind(test: Test) -> object:
    """Return what failures of one cause have in common."""
    cause = test.cause
    if cause is None:
        return tuple(test.requirements)
    return CauseRecord(
        command=cause.command, expected=_form(cause.expected), observed=_form(cause.observed)
    )


def _form(text: str) -> str:
    """Return a text without numbers, names and bodies; each alternative in it once."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return " or ".join(sorted({*text.split(" or ")}))


def _group(
    tests: Sequence[Test], named: dict[str, RequirementRecord], places: dict[str, int]
) -> Group:
    """Return the group of these failures; shown first is one of the requirement in the heading."""

    def order(requirement: RequirementRecord) -> tuple[int, bool, bool, int, int]:
        worst, is_empty, use = min(
            (DEVIATIONS.index(test.verdict), not _length(test), _use(requirement, test))
            for test in tests
            if requirement.slug in _broken_by(test)
        )
        is_of_other_level = requirement.level != _LEVELS.get(DEVIATIONS[worst], requirement.level)
        return worst, is_of_other_level, is_empty, use, places[requirement.slug]

    slugs = dict.fromkeys(slug for test in tests for slug in _broken_by(test))
    broken = sorted((named[slug] for slug in slugs if named[slug].deviates), key=order)
    first = broken[0].slug
    shown = sorted(
        tests,
        key=lambda test: (DEVIATIONS.index(test.verdict), first not in _broken_by(test)),
    )
    return Group(shown, broken)


def _broken_by(test: Test) -> list[str]:
    """Return the requirements that a failed test breaks: where it blocks some, the blocker."""
    return [slug for slug in test.requirements if slug in test.blocked_by] or test.requirements


def _rank(group: Group, places: dict[str, int]) -> tuple[bool, int, bool, bool, int, int, int, int]:
    first, cause = group.broken[0], group.tests[0].cause
    return (
        group.known,
        DEVIATIONS.index(group.verdict),
        not _shows_bytes(group),
        cause is None or not cause.observed.startswith(CRASHED),
        -len(group.blocked),
        _use(first, group.tests[0]),
        places[first.slug],
        _length(group.tests[0]),
    )


def is_rare(slug: str) -> bool:
    """Tell whether a requirement is about rare conditions.

    These are need, long use, restarts, clock changes, and timers that are due in the same instant.
    """
    return _RARE.match(slug) is not None


def _use(requirement: RequirementRecord, test: Test) -> int:
    """Return how far from normal use a failure is: 0 if it is just that."""
    if is_rare(requirement.slug):
        return 3
    if requirement.slug in RANDOM:
        return 2
    return 1 if _MUCH.search(test.id) else 0


def _length(test: Test) -> int:
    return len(test.evidence.transcript) if test.evidence else 0


def _shows_bytes(group: Group) -> bool:
    return _length(group.tests[0]) > 0


def first_causes(groups: Sequence[Group]) -> dict[str, Group]:
    """Return the first cause that each requirement is broken for: there, links lead to it."""
    found: dict[str, Group] = {}
    for group in groups:
        for requirement in group.broken:
            found.setdefault(requirement.slug, group)
    return found
