"""Results for the tests of reports: made up, or of a run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from reports.results import (
    Bucket,
    Conclusion,
    Evidence,
    Measured,
    RequirementRecord,
    Results,
    Run,
    SuiteRecord,
    TargetRecord,
    Test,
    Timings,
)
from reports.verdicts import Verdict

TARGET = TargetRecord(
    label="beanstalkd",
    version="1.12",
    profile="1.12",
    profile_reason="as its stats say",
    clock="real",
    clock_reason="",
)
LATENCY = Measured(
    count=100,
    median=6e-5,
    p90=9e-5,
    p99=9.9e-5,
    longest=1e-4,
    buckets=[Bucket(upto=6.31e-5, count=60), Bucket(upto=1e-4, count=40)],
)


def requirement(slug: str, verdict: Verdict = Verdict.PASS, **changes: Any) -> RequirementRecord:
    values = {
        "slug": slug,
        "level": "must",
        "section": "Producer Commands",
        "source": "protocol-1.12",
        "clause": f"The clause of {slug}.",
        "profiles": "all profiles",
        "verdict": verdict,
        "reason": "" if verdict is Verdict.PASS else f"what {slug} shows",
        "tests": 1,
    }
    return RequirementRecord.model_validate(values | changes)


def evidence(**changes: Any) -> Evidence:
    values = {
        "transcript": ["  A > use a\\r\\n", "> A < USING b\\r\\n"],
        "expected": "USING a\\r\\n",
        "observed": "USING b\\r\\n",
        "said": "",
        "reproduce": "pytest --pyargs conformance.tests.test_use::test_use",
    }
    return Evidence.model_validate(values | changes)


def case(slug: str, verdict: Verdict = Verdict.PASS, **changes: Any) -> Test:
    values: dict[str, Any] = {
        "id": f"conformance.tests.test_use::test_{slug}",
        "requirements": [slug],
        "verdict": verdict,
        "reason": "" if verdict is Verdict.PASS else f"what {slug} shows",
        "seconds": 0.01,
        "known": False,
    }
    return Test.model_validate(values | changes)


def results(*requirements: RequirementRecord, **changes: Any) -> Results:
    """Return results in which each requirement has one test, with evidence if it deviates."""
    bad = (Verdict.FAIL, Verdict.NON_STRICT)
    broken = sum(r.verdict is Verdict.FAIL for r in requirements)
    values: dict[str, Any] = {
        "suite": SuiteRecord(version="0.1.0", python="3.11.7", platform="Linux x86_64"),
        "run": Run(
            date=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
            seconds=12.5,
            seed=0,
            examples=25,
            fuzz_time=10,
            lateness=0.25,
            strict=False,
            exit_code=int(bool(broken)),
            arguments=["--target=127.0.0.1:11300"],
        ),
        "target": TARGET,
        "verdict": Conclusion(
            word="does not conform" if broken else "conforms",
            sentence="beanstalkd 1.12: a sentence",
            must_broken=broken,
            non_strict=sum(r.verdict is Verdict.NON_STRICT for r in requirements),
            tested=len(requirements),
            applicable=len(requirements),
        ),
        "gone": [],
        "requirements": list(requirements),
        "tests": [
            case(
                r.slug,
                r.verdict,
                known=r.known is not None,
                evidence=evidence() if r.verdict in bad else None,
            )
            for r in requirements
        ],
        "timings": Timings(latency=LATENCY),
    }
    return Results.model_validate(values | changes)
