"""The badge, as an image and as data for shields.io."""

from __future__ import annotations

import json

import anybadge

from reports.results import Results

_COLOURS = {
    "conforms": "#2e7d32",
    "does not conform": "#b3261e",
    "incomplete": "#6b6b6b",
    "no verdict": "#6b6b6b",
}
_NON_STRICT = "#7a6a00"


def _said(results: Results) -> tuple[str, str, str]:
    verdict = results.verdict
    colour = _COLOURS[verdict.word]
    if verdict.word == "conforms" and verdict.non_strict:
        colour = _NON_STRICT
    passed = verdict.tested - verdict.must_broken
    message = f"{passed} of {verdict.applicable}"
    if verdict.word == "incomplete":
        message = f"incomplete, {message}"
    title = f"{results.target.title}: " if results.target.title else ""
    return f"{title}beanstalk {results.target.profile}", message, colour


def svg(results: Results) -> str:
    """Return the badge as an image."""
    label, message, colour = _said(results)
    badge = anybadge.Badge(label, message, default_color=colour)
    # By default it is another one each time.
    badge.mask_str = "beanstalk"
    return str(badge.badge_svg_text)


def endpoint(results: Results) -> str:
    """Return the data with which shields.io draws the badge."""
    label, message, colour = _said(results)
    content = {"schemaVersion": 1, "label": label, "message": message, "color": colour}
    return json.dumps(content) + "\n"
