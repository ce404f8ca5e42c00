"""From outcomes of tests to verdicts of requirements and of the target."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from conformance.catalogue import Requirement
from conformance.run.baseline import DeviationKind, KnownDeviation, is_known
from reference_server.profiles import NEWEST
from reports.crashes import tried
from reports.grouping import RANDOM
from reports.results import Conclusion, Crashes, Test, Word, WorldRecord
from reports.verdicts import DEVIATIONS, OF_OTHERS, Verdict
from reports.words import by_numbers, counted
from reports.worlds import transitions

HARDENING = "hardening deviation"
"""The name of a deviation from a requirement of the level ``hardening``."""
REASONS = 4
"""Reasons for untested requirements that a sentence names, the most frequent first."""
_ORDER = list(Verdict)
_TESTED = (Verdict.FAIL, Verdict.NON_STRICT, Verdict.PASS)


@dataclass(slots=True)
class RequirementVerdict:
    """The verdict of one requirement, with a reason where it is not a pass.

    ``known`` is what the baseline says of it, if that covers this verdict and all ``kinds`` of its
    deviations. ``blocked_by``: the requirements that are broken where its tests had not come to it.
    """

    requirement: Requirement
    verdict: Verdict = Verdict.NOT_RUN
    reason: str = ""
    tests: int = 0
    known: KnownDeviation | None = None
    blocked_by: list[str] = field(default_factory=list)
    kinds: tuple[DeviationKind, ...] = ()

    @property
    def words(self) -> str:
        """The verdict as people read it; a deviation of hardening is not called de-facto."""
        is_hardening = self.requirement.level == "hardening"
        return (
            HARDENING if is_hardening and self.verdict is Verdict.NON_STRICT else self.verdict.words
        )


class Result(NamedTuple):
    """A test; ``blocked`` maps each of its blocked requirements to the one that blocks it.

    ``kind`` is that of its deviation, if it has one.
    """

    test: Test
    blocked: Mapping[str, str] = {}
    kind: DeviationKind | None = None

    def verdict_on(self, slug: str) -> Verdict:
        """Return the verdict of this test on one of its requirements."""
        return Verdict.BLOCKED if slug in self.blocked else self.test.verdict


@dataclass
class Tally:
    """The verdicts of all requirements of a run, in a profile.

    ``baseline`` holds known deviations by slug; ``selected``: not all tests were meant to be run,
    or they were not, as the run has ended before. ``worlds``: the small worlds that were visited.
    ``dialect``: the name of the protocol that is tested, if it is a fork's own.
    ``crashes``: those that were tried, if any.
    """

    catalogue: Mapping[str, Requirement]
    baseline: Mapping[str, KnownDeviation]
    target: str = ""
    profile: str = NEWEST.name
    selected: bool = False
    worlds: Sequence[WorldRecord] = ()
    dialect: str = ""
    crashes: Crashes | None = None
    entries: dict[str, RequirementVerdict] = field(default_factory=dict)

    def add(self, results: Iterable[Result]) -> None:
        """Add test outcomes."""
        found: defaultdict[str, list[Result]] = defaultdict(list)
        for result in results:
            for slug in result.test.requirements:
                found[slug].append(result)
        for slug, requirement in self.catalogue.items():
            entry = RequirementVerdict(requirement.judged_by(self.profile), tests=len(found[slug]))
            self.entries[slug] = entry
            if found[slug]:
                entry.verdict, worst = min(
                    ((result.verdict_on(slug), result) for result in found[slug]),
                    key=lambda judged: _ORDER.index(judged[0]),
                )
                entry.reason = worst.test.reason
                if entry.verdict is Verdict.BLOCKED:
                    by = (r.blocked[slug] for r in found[slug] if slug in r.blocked)
                    entry.blocked_by = list(dict.fromkeys(by))
                    if entry.blocked_by:
                        entry.reason = f"blocked by {' and '.join(entry.blocked_by)}"
            elif missing := requirement.missing_in(self.profile):
                entry.verdict, entry.reason = Verdict.NOT_APPLICABLE, missing
            entry.kinds = tuple(sorted({*_kinds(found[slug], slug)}))
            if is_known(self.baseline, slug, entry.verdict, entry.kinds):
                entry.known = self.baseline[slug]

    def deviations(self, *, known: bool) -> list[RequirementVerdict]:
        """Return the requirements that are not met, those of the baseline or the others."""
        found = (e for e in self.entries.values() if e.verdict in DEVIATIONS)
        return [entry for entry in found if (entry.known is not None) is known]

    def new_kinds(self) -> dict[str, list[DeviationKind]]:
        """Return the kinds of deviations that the baseline does not have where it lists others."""
        listed = {slug: known.kinds for slug, known in self.baseline.items() if known.kinds}
        new = {
            slug: [kind for kind in self.entries[slug].kinds if kind not in kinds]
            for slug, kinds in listed.items()
        }
        return {slug: kinds for slug, kinds in new.items() if kinds}

    def gone(self) -> list[str]:
        """Return known deviations that were looked for and not found: the baseline is outdated."""
        return [
            slug
            for slug, known in self.baseline.items()
            if not known.flaky and self.entries[slug].verdict is Verdict.PASS
        ]

    def is_complete(self) -> bool:
        """Return whether a baseline can hold all deviations: our errors do not belong there."""
        return not any(entry.verdict is Verdict.ERROR for entry in self.entries.values())

    def updated_baseline(self) -> dict[str, KnownDeviation]:
        """Return the baseline as this run would have it; what was not tested stays as it is."""
        tested = (Verdict.PASS, Verdict.FAIL, Verdict.NON_STRICT)
        kept = {
            slug: known
            for slug, known in self.baseline.items()
            if known.flaky or self.entries[slug].verdict not in tested
        }
        for slug, entry in self.entries.items():
            if entry.verdict in (Verdict.FAIL, Verdict.NON_STRICT):
                old = self.baseline.get(slug)
                reason = old.reason if old else "not looked into yet"
                link, flaky = (old.link, old.flaky) if old else ("", False)
                # A run need not show all that is flaky.
                more = old.kinds if old and flaky else ()
                # What a random test finds first varies.
                found = () if slug in RANDOM else entry.kinds
                kinds = tuple(sorted({*found, *more}))
                kept[slug] = KnownDeviation(
                    str(entry.verdict), reason, entry.reason, link, flaky, kinds
                )
        return kept

    def conclusion(self) -> Conclusion:
        """Return the verdict of the target."""
        must = [e for e in self.entries.values() if e.requirement.level == "must"]
        left_out = sum(e.verdict is Verdict.NOT_OFFERED for e in must)
        applicable = [e for e in must if e.verdict not in OF_OTHERS]
        broken = sum(e.verdict is Verdict.FAIL for e in must)
        # Others fail only by the end of the target.
        lost = sum(e.verdict is Verdict.FAIL for e in self.entries.values()) - broken
        kinds = Counter(e.words for e in self.entries.values() if e.verdict is Verdict.NON_STRICT)
        loose, hard = kinds.total(), kinds[HARDENING]
        deviations = counted(loose - hard, Verdict.NON_STRICT.words)
        if hard:
            deviations += f" and {counted(hard, HARDENING)}"
        tested = sum(e.verdict in _TESTED for e in applicable)
        to = f" to {self.dialect}" if self.dialect else ""
        count, missing = f"{tested} of {len(applicable)} must requirements", _missing(applicable)
        if self.worlds:
            count += f" and {transitions(self.worlds)}"
        if self.crashes is not None:
            count += f" and {tried(self.crashes)}"
        if left_out:
            count += f"; {left_out} not offered"
        if not any(e.verdict in _TESTED for e in self.entries.values()):
            word: Word = "no verdict"
            statement = f"{word}; tested {count}"
        elif broken or lost:
            word = "does not conform"
            said = f"{counted(broken, 'must requirement')} broken, {deviations}"
            if lost:
                said += f", {lost} more at which the target was lost"
            statement = f"{word}{to}, {said}; tested {count}"
        elif self.is_partial():
            word, found = "incomplete", f"{deviations}, else no" if loose else "no"
            of = f" from {self.dialect}" if self.dialect else ""
            statement = f"{word}: {found} deviation{of} in the {count} that were tested"
        else:
            word = "conforms"
            statement = f"{word}{to} with {deviations}" if loose else f"{word}{to}"
            statement += f"; tested {count}"
        sentence = f"{self.target}: {statement}" + (f" ({missing})" if missing else "")
        return Conclusion(
            word=word,
            sentence=sentence,
            must_broken=broken,
            non_strict=loose,
            tested=tested,
            applicable=len(applicable),
            not_offered=left_out,
        )

    def is_partial(self) -> bool:
        """Return whether something was not tested though this run has the means for it."""
        return self.selected or any(
            entry.verdict in (Verdict.NOT_RUN, Verdict.ERROR) for entry in self.entries.values()
        )


def _kinds(results: Iterable[Result], slug: str) -> Iterator[DeviationKind]:
    """Yield the kinds of deviations of a requirement."""
    for result in results:
        if result.kind is not None and result.verdict_on(slug) in DEVIATIONS:
            yield result.kind


def grounds(reason: str) -> str:
    """Return a reason without its observation, so that many tests share it."""
    return reason.partition(": expected ")[0]


def _missing(entries: Iterable[RequirementVerdict]) -> str:
    """Return why requirements were not tested, counted."""
    reasons = by_numbers(
        _why(entry) for entry in entries if entry.verdict not in (*_TESTED, Verdict.SEEN)
    )
    frequent = reasons.most_common(REASONS)
    left = reasons.total() - sum(count for _, count in frequent)
    others = [f"{left} for other reasons"] if left else []
    return "; ".join([*(f"{count} {reason}" for reason, count in frequent), *others])


def _why(entry: RequirementVerdict) -> str:
    """Return why a requirement was not tested."""
    if entry.blocked_by:
        return f"blocked by {entry.blocked_by[0]}"
    if entry.verdict is Verdict.ERROR:
        return f"error of the suite: {entry.reason}"
    ground = grounds(entry.reason)
    return f"{entry.verdict}: {ground}" if ground else str(entry.verdict)
