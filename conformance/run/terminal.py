"""The end of a run on a terminal: each cause once, then the verdict, on two screens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from conformance.catalogue import catalogue
from conformance.run.aggregation import Tally, grounds
from conformance.run.baseline import shipped
from conformance.run.evidence import describe
from conformance.run.next_step import next_step
from conformance.run.progress import dots
from conformance.run.result_records import requirement_record, test_records
from conformance.run.summary import Summary
from reports.grouping import Group, grouped
from reports.results import RequirementRecord
from reports.source import coverage_lines
from reports.verdicts import Verdict
from reports.words import by_numbers, counted

LINES = 50
"""Lines that are shown, with those of dots, more or less, unless -vv asks for all."""
SHOWN = 3
"""Causes that are shown with their bytes, however many lines there are."""
FIRST, LAST = 16, 6
"""Lines that each of them may have, and how many of its last are shown in any case."""
CAUSES = range(5, 21)
"""The number of causes that have a line each, as far as there is room."""
LONGEST = 150
"""Characters of such a line."""
CONFORMS = "conforms"
COLOURS = {
    CONFORMS: "green",
    "does not conform": "red",
    "incomplete": "yellow",
    "no verdict": "yellow",
}
"""The colours of verdicts; what is not strict takes the green from one that conforms."""
SOURCES = 8
"""Files of source that are shown, unless -v asks for all."""
NAMES = 8
"""Requirements of a cause that are named."""


def print_summary(summary: Summary, reporter: Any) -> None:
    """Write what a run has found."""
    verbosity = reporter.config.get_verbosity()
    tally = summary.tally()
    groups = grouped(
        [requirement_record(entry) for entry in tally.entries.values()], list(test_records(summary))
    )
    health = list(_health(summary))
    most = LINES - dots(reporter, len(summary.reports))
    aside = list(_aside(summary, tally, verbosity))
    source = list(coverage_lines(summary.source(), SOURCES if verbosity < 1 else None))
    left = most - len(aside) - len(health) - len(source) - 3
    causes = list(_causes(groups, verbosity, max(min(left - FIRST, CAUSES[-1]), CAUSES[0])))
    room = left - len(causes) if verbosity < 2 else None
    for number, group in enumerate(groups):
        if group.known and verbosity < 2:
            continue
        lines = _shown(group, tally.profile)
        if room is not None and len(lines) > room:
            if number >= SHOWN:
                break
            lines = cut(lines, max(room, FIRST))
        room = None if room is None else room - len(lines) - 1
        reporter.section(f"{group.verdict.words.upper()} {group.title}", sep="_")
        for line in lines:
            reporter.write_line(line)
    if health and (groups or summary.health()):
        reporter.section("health, which is no part of the verdict", sep="_")
    for line in health:
        reporter.write_line(line)
    for line in source:
        reporter.write_line(line)
    if groups or summary.health():
        reporter.section("verdict", sep="_")
    for line in aside:
        reporter.write_line(line)
    conclusion = tally.conclusion()
    colour = "yellow" if conclusion.word == CONFORMS and conclusion.non_strict else ""
    reporter.write_line(
        conclusion.sentence, bold=True, **{colour or COLOURS[conclusion.word]: True}
    )
    for line in causes:
        reporter.write_line(line)
    step = ""
    if traits := summary.traits:
        step = next_step(traits.unusable, traits.profile, tally.entries.values())
    for line in filter(None, (step, summary.not_kept, summary.kept)):
        reporter.write_line(line)
    known, new = (tally.deviations(known=is_known) for is_known in (True, False))
    if new and not tally.baseline and (path := shipped(summary.version)) is not None:
        version = f"beanstalkd {summary.version}"
        reporter.write_line(f"the known deviations of {version} are a baseline: {path}")
    if known and not (new or tally.gone()):
        passed = f"conforms, except for {counted(len(known), 'known deviation')}"
        reporter.write_line(f"{tally.target}: {passed}", bold=True, green=True)


def cut(lines: list[str], most: int) -> list[str]:
    """Return so many lines at most, the last of them included."""
    if len(lines) <= most:
        return lines
    left_out = counted(len(lines) - most + 1, "line")
    return [*lines[: most - LAST - 1], f"  … {left_out} …", *lines[-LAST:]]


def _shown(group: Group, profile: str) -> list[str]:
    """Return the lines about a cause: its first failure, and what it breaks and blocks."""
    test, first = group.tests[0], group.broken[0]
    lines = [test.reason]
    if test.evidence is not None:
        lines = describe([catalogue()[first.slug].judged_by(profile)], test.evidence).split("\n")
    for word, requirements in (("BREAKS", group.broken[1:]), ("BLOCKS", group.blocked)):
        if requirements:
            names = ", ".join(_named(requirement, first) for requirement in requirements[:NAMES])
            more = f" and {len(requirements) - NAMES} more" if len(requirements) > NAMES else ""
            lines.append(f"{word}    {names}{more}")
    return lines


def _named(requirement: RequirementRecord, first: RequirementRecord) -> str:
    """Return the slug of a requirement, with its level if that of the heading has another."""
    other = requirement.level != first.level
    return f"{requirement.slug} ({requirement.level})" if other else requirement.slug


def _causes(groups: Sequence[Group], verbosity: int, most: int) -> Iterator[str]:
    """Yield a line for each of the first causes, those of the baseline last."""
    most = most if verbosity < 2 else len(groups)
    for group in groups[:most]:
        word = f"known {group.verdict.words}" if group.known else group.verdict.words
        line = f"  {word}: {group.title}: {group.tests[0].reason}"
        yield line if len(line) <= LONGEST or verbosity else f"{line[:LONGEST]}…"
    if left := groups[most:]:
        count = len({requirement.slug for group in left for requirement in group.broken})
        which = "which breaks" if len(left) == 1 else "which break"
        more, broken = counted(len(left), "more cause"), counted(count, "requirement")
        yield f"  and {more}, {which} {broken}: -vv shows all"


def _aside(summary: Summary, tally: Tally, verbosity: int) -> Iterator[str]:
    """Yield what was not tested, how long it took, and what else was remarked."""
    yield from _not_tested(summary, tally, verbosity)
    yield from _waited(summary)
    for entry in tally.entries.values():
        if verbosity > 0 and (
            entry.verdict is Verdict.SEEN or (entry.verdict is Verdict.PASS and entry.reason)
        ):
            yield f"{entry.requirement.slug}: {entry.reason}"
    for slug in tally.gone():
        yield f"known deviation not found any more, take it out of the baseline: {slug}"
    for slug, kinds in tally.new_kinds().items():
        new = ", ".join(map(str, kinds))
        yield f"{slug} deviates in a way that the baseline does not list: {new}"


def _health(summary: Summary) -> Iterator[str]:
    """Yield what the server took, and what was remarked on that."""
    if vitals := summary.vitals():
        yield (
            f"health: {vitals.memory / 1e6:.0f} MB of memory and"
            f" {counted(vitals.descriptors, 'descriptor')} at most, {vitals.cpu:.1f} s of CPU"
        )
    for line in summary.health():
        yield f"health: {line}"


def _not_tested(summary: Summary, tally: Tally, verbosity: int) -> Iterator[str]:
    reasons = by_numbers(
        f"{test.verdict.words}: {grounds(test.reason)}"
        for test in (observation.test for observation in summary.observations)
        if test.verdict in (Verdict.NOT_TESTABLE, Verdict.NOT_OFFERED, Verdict.INCONCLUSIVE)
        or (test.verdict is Verdict.NOT_APPLICABLE and verbosity > 0)
    )
    for reason, count in sorted(reasons.items()):
        yield f"{counted(count, 'test')} {reason}"
    others = [
        entry
        for entry in tally.entries.values()
        if entry.verdict is Verdict.NOT_APPLICABLE and entry.tests
    ]
    if others:
        belong = "belongs" if len(others) == 1 else "belong"
        yield f"{counted(len(others), 'requirement')} {belong} to other profiles"


def _waited(summary: Summary) -> Iterator[str]:
    observations = summary.observations
    for reason in sorted({observation.target.clock_reason for observation in observations} - {""}):
        yield f"real clock, as {reason}"
    if longest := max(observation.longest_wait for observation in observations):
        waited = sum(o.waited for o in observations if o.longest_wait)
        yield (
            f"real clock: the longest single wait was {longest:g} s, {waited:g} s of waiting in all"
        )
