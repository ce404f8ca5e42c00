"""Markdown that is short enough for a comment or a README."""

from __future__ import annotations

import re

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports.comparison import ResultsComparison, ResultsDifference
from reports.crashes import tried
from reports.grouping import Group, grouped
from reports.results import RequirementRecord, Results
from reports.source import totals
from reports.template_cache import TemplateCache
from reports.verdicts import Verdict

MOST = 25
"""Causes of a kind that are listed; the others are counted."""
LONGEST = 160
"""Characters of a reason."""
_SIGNS = {
    Verdict.ERROR: "⚠️",
    Verdict.FAIL: "❌",
    Verdict.NON_STRICT: "🔶",
    Verdict.PASS: "✅",
    Verdict.SEEN: "✅",
}


def _code(text: str) -> str:
    """Return text as a span of code: nothing in it is markup, wherever it came from."""
    line = " ".join(text.split())
    line = line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
    if not line:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if fence != "`" else ""
    # A pipe would end a cell of a table even here.
    return f"{fence}{space}{line.replace('|', '¦')}{space}{fence}"


def _sign(judged: RequirementRecord | Group | None) -> str:
    return _SIGNS.get(judged.verdict, f"{judged.verdict.words}") if judged else ""


_TEXTS = Environment(
    loader=PackageLoader("reports", "templates"),
    # Nothing is HTML here; what the target said goes through `code`.
    autoescape=False,
    undefined=StrictUndefined,
    bytecode_cache=TemplateCache(),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEXTS.filters |= {"code": _code, "sign": _sign, "totals": totals, "tried": tried}
_TEXTS.globals["most"] = MOST


def report_text(results: Results, linked: bool = True) -> str:
    """Return the report of a run; ``linked``: the page is beside it."""
    found = grouped(results.requirements, results.tests)
    return _TEXTS.get_template("report.md").render(
        results=results,
        page=results.file("report.html") if linked else "",
        known=[group for group in found if group.known],
        new=[group for group in found if not group.known],
    )


def comparison_text(comparison: ResultsComparison) -> str:
    """Return the matrix of many results: totals, and the requirements in which they differ."""
    return _TEXTS.get_template("comparison.md").render(comparison=comparison)


def difference_text(difference: ResultsDifference) -> str:
    """Return the difference of two runs."""
    return _TEXTS.get_template("difference.md").render(difference=difference)
