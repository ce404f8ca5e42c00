"""The report and the comparison as self-contained HTML pages."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports.comparison import ResultsComparison
from reports.crashes import rate, tried
from reports.diagrams import drawing
from reports.grouping import first_causes, grouped
from reports.overview import CELL, MARGIN, WIDTH, overview
from reports.plots import BOX, FEW, duration, histogram, in_words
from reports.results import Diagram, Measured, RequirementRecord, Results, Test
from reports.shares import by_section, share
from reports.slugs import shortened, slug
from reports.source import by_need, lost, percent, stretch, totals
from reports.template_cache import TemplateCache
from reports.verdicts import CLIENT_LEVELS, SERVER_LEVELS, Verdict
from reports.words import by_numbers, counted
from reports.worlds import stretches, transitions

STYLES = ("colours.css", "page.css", "diagram.css")
SHOWN = 3
"""Tests of a requirement whose evidence is shown; the others are named."""

FIRST = 6
"""Causes that have a line on the first screen; the others are folded."""

LISTED = 12
"""Requirements whose verdict changed that are named; the others are counted."""

GLYPHS = {
    Verdict.ERROR: "!",
    Verdict.FAIL: "✕",
    Verdict.NON_STRICT: "≈",
    Verdict.FLAKY: "↯",
    Verdict.BLOCKED: "⊘",
    Verdict.INCONCLUSIVE: "?",
    Verdict.PASS: "✓",
    Verdict.SEEN: "•",
    Verdict.NOT_TESTABLE: "∅",
    Verdict.NOT_OFFERED: "⊖",
    Verdict.NOT_APPLICABLE: "·",
    Verdict.NOT_RUN: "○",
}
MEANINGS = {
    Verdict.ERROR: "an error of the suite, not of the target",
    Verdict.FAIL: "the text is broken",
    Verdict.NON_STRICT: "not as every beanstalkd does it",
    Verdict.FLAKY: "seen in some of several tries",
    Verdict.BLOCKED: "not reached, as something else is broken",
    Verdict.INCONCLUSIVE: "could not be decided",
    Verdict.PASS: "met",
    Verdict.SEEN: "a quirk: reported, not judged",
    Verdict.NOT_TESTABLE: "this run lacked the means",
    Verdict.NOT_OFFERED: "left out on purpose, as the profile says",
    Verdict.NOT_APPLICABLE: "not in this profile",
    Verdict.NOT_RUN: "not selected",
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        bytecode_cache=TemplateCache(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "glyphs": GLYPHS,
        "meanings": MEANINGS,
        "box": BOX,
        "listed": LISTED,
    }
    environment.filters |= {
        "duration": duration,
        "kind": _kind,
        "counted": counted,
        "stretches": stretches,
        "share": share,
        "by_section": by_section,
        "slug": slug,
        "shortened": shortened,
        "percent": percent,
        "stretch": stretch,
        "totals": totals,
        "lost": lost,
        "tried": tried,
        "rate": rate,
        "drawing": drawing,
    }
    return environment


def _kind(words: str) -> str:
    """Return a verdict as a class of CSS."""
    return words.replace(" ", "-")


def report_page(results: Results, kept: Collection[str] = ()) -> str:
    """Return the report of a run; ``kept`` are the files beside it with whole transcripts."""
    return page("report.html", ["url.js", "report.js"], **report_values(results, kept))


def report_values(results: Results, kept: Collection[str] = ()) -> dict[str, Any]:
    """Return all that the template of a report shows."""
    applicable = [r for r in results.requirements if r.verdict is not Verdict.NOT_APPLICABLE]
    others = [r for r in results.requirements if r.verdict is Verdict.NOT_APPLICABLE]
    quirks = [r for r in applicable if r.level == "quirk"]
    rest = [("quirk", "", quirks), ("requirement", " of other profiles", others)]
    timings = _timings(results)
    groups, counts = grouped(results.requirements, results.tests), _counts(results)
    return {
        "results": results,
        "kept": kept,
        "sections": _by_section(results.requirements),
        "judged": _by_section(r for r in applicable if r.level != "quirk"),
        "rest": rest,
        "groups": groups,
        "fresh": [group for group in groups if not group.known],
        "known": [group for group in groups if group.known],
        "first": FIRST,
        "shown_in": first_causes(groups),
        "counts": counts,
        "words": [word for word in GLYPHS if any(found[word] for found in counts.values())],
        "untested": _untested(results.tests),
        "others": [test.verdict is Verdict.NOT_APPLICABLE for test in results.tests],
        "plots": [histogram(*timing) for timing in timings if timing[2].count >= FEW],
        "few": [
            f"{title}: {in_words(unit, measured)}"
            for title, unit, measured in timings
            if measured.count < FEW
        ],
        "transitions": transitions(results.worlds),
        "files": by_need(results.source) if results.source else [],
        "shown": SHOWN,
        "elsewhere": (),
    }


def _by_section(requirements: Iterable[RequirementRecord]) -> dict[str, list[RequirementRecord]]:
    sections: dict[str, list[RequirementRecord]] = {}
    for requirement in requirements:
        sections.setdefault(requirement.section, []).append(requirement)
    return sections


def comparison_page(comparison: ResultsComparison) -> str:
    """Return the matrix of many results."""
    return page("comparison.html", ["comparison.js"], comparison=comparison)


def page(
    template: str,
    scripts: Sequence[str],
    styles: Sequence[str] = STYLES,
    policy: str = "",
    **values: Any,
) -> str:
    """Return a page with its scripts and styles in it; ``policy``: what else it may show."""
    style, script = ("".join(map(_static, names)) for names in (styles, scripts))
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),
            script=Markup(script),
            # Whatever might get into the page: only these two are obeyed.
            policy=f"default-src 'none'; base-uri 'none'; form-action 'none';"
            f" style-src '{_digest(style)}'; script-src '{_digest(script)}'{policy}",
            **values,
        )
    )


def picture(diagram: Diagram) -> str:
    """Return a diagram as an SVG file, which has its own style and needs nothing else."""
    style = Markup("".join(map(_static, ("colours.css", "diagram.css"))))
    template = _environment().get_template("diagram.svg")
    return template.render(drawing=drawing(diagram), style=style)


def overview_image(results: Results) -> str:
    """Return the requirements of a run at a glance as an SVG file, which needs nothing else."""
    style = Markup("".join(map(_static, ("colours.css", "overview.css"))))
    template = _environment().get_template("overview.svg")
    return template.render(
        image=overview(results), style=style, width=WIDTH, margin=MARGIN, size=CELL
    )


@cache
def _static(name: str) -> str:
    return (files("reports") / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _counts(results: Results) -> dict[str, Counter[Verdict]]:
    """Return how many requirements of each level have which verdict."""
    is_of_client = any(requirement.level == "hardening" for requirement in results.requirements)
    levels = CLIENT_LEVELS if is_of_client else SERVER_LEVELS
    counts: dict[str, Counter[Verdict]] = {level: Counter() for level in levels}
    for requirement in results.requirements:
        counts[requirement.level][requirement.verdict] += 1
    return counts


def _untested(tests: list[Test]) -> list[tuple[Verdict, str, int]]:
    """Return why tests were left out or did not decide, and how many."""
    verdicts = (Verdict.NOT_TESTABLE, Verdict.NOT_OFFERED, Verdict.INCONCLUSIVE)
    found = [
        (verdict, reason, count)
        for verdict in verdicts
        for reason, count in by_numbers(t.reason for t in tests if t.verdict is verdict).items()
    ]
    return sorted(found, key=lambda row: -row[2])


def _timings(results: Results) -> list[tuple[str, str, Measured]]:
    """Return what was measured: a title, the unit, and the distribution."""
    latency, lateness = results.timings.latency, results.timings.lateness
    named = [
        ("Latency of replies", "replies", latency),
        ("Lateness of timers", "timers", lateness),
    ]
    return [(title, unit, measured) for title, unit, measured in named if measured]
