"""JUnit XML for CI servers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from xml.etree import ElementTree as ET

from reports.results import RequirementRecord, Results, Test
from reports.verdicts import Verdict

_KINDS = {
    Verdict.FAIL: "failure",
    Verdict.NON_STRICT: "failure",
    Verdict.ERROR: "error",
    Verdict.PASS: "",
    Verdict.SEEN: "",
}
"""All others are skipped."""
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Results) -> str:
    """Return the results as JUnit: a suite for each section, a case for each test by its slug."""
    requirements = {requirement.slug: requirement for requirement in results.requirements}
    sections: defaultdict[str, list[ET.Element]] = defaultdict(list)
    for test in results.tests:
        requirement = requirements[test.requirements[0]]
        case = _case(requirement, test.id.rpartition("::")[2], test.seconds)
        kind = _kind(test, results.run.strict)
        if kind:
            said = ET.SubElement(case, kind, message=_clean(_message(test, requirement, kind)))
            said.text = _clean(_evidence(test))
        sections[requirement.section].append(case)
    for slug in results.gone:
        case = _case(requirements[slug], "baseline", 0.0)
        message = "known deviation not found any more, take it out of the baseline"
        ET.SubElement(case, "failure", message=message)
        sections[requirements[slug].section].append(case)
    root = ET.Element("testsuites", name=_clean(results.target.name))
    for section, cases in sections.items():
        found = Counter(child.tag for case in cases for child in case)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_clean(section),
            tests=str(len(cases)),
            failures=str(found["failure"]),
            errors=str(found["error"]),
            skipped=str(found["skipped"]),
            timestamp=results.run.date.isoformat(),
        )
        suite.extend(cases)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(requirement: RequirementRecord, test: str, seconds: float) -> ET.Element:
    name = f"{requirement.slug} ({test})"
    return ET.Element(
        "testcase", classname=requirement.section, name=_clean(name), time=f"{seconds:.3f}"
    )


def _kind(test: Test, strict: bool) -> str:
    kind = _KINDS.get(test.verdict, "skipped")
    loose = test.verdict is Verdict.NON_STRICT and not strict
    return "skipped" if kind == "failure" and (test.known or loose) else kind


def _message(test: Test, requirement: RequirementRecord, kind: str) -> str:
    if kind == "skipped":
        return f"{'known ' if test.known else ''}{test.verdict.words}: {test.reason}"
    return f"{requirement.clause} [{test.reason}]"


def _evidence(test: Test) -> str:
    evidence = test.evidence
    if evidence is None:
        return ""
    return "\n".join(
        [
            *evidence.transcript,
            f"EXPECTED  {evidence.expected}",
            f"OBSERVED  {evidence.observed}",
            f"REPRODUCE {evidence.reproduce}",
        ]
    )


def _clean(text: str) -> str:
    """Leave out what XML cannot hold."""
    return _FORBIDDEN.sub("�", text)
