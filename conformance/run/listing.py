"""``list``: the selected requirements and their tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from conformance.catalogue import catalogue
from conformance.run.suite import slugs, test_id
from reports.words import counted


class Listing:
    """Lists the requirements of the selected tests, instead of running them."""

    def __init__(self) -> None:
        self._tests: dict[str, list[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            for slug in slugs(item):
                self._tests.setdefault(slug, []).append(test_id(item))
        return True

    def lines(self) -> Iterator[str]:
        """Yield two lines for each requirement."""
        for slug, requirement in catalogue().items():
            if slug in self._tests:
                count = counted(len(self._tests[slug]), "test")
                details = f"{requirement.level_text}  {requirement.profiles}  {count}"
                yield f"{slug}  {details}"
                yield f"    “{requirement.clause}”"

    def encoded(self) -> str:
        """Return a JSON list of the requirements."""
        found = [
            {
                "slug": slug,
                "level": requirement.level_text,
                "profiles": requirement.profiles,
                "section": requirement.section,
                "source": requirement.document,
                "clause": requirement.clause,
                "tests": self._tests[slug],
            }
            for slug, requirement in catalogue().items()
            if slug in self._tests
        ]
        return json.dumps(found, indent=1, ensure_ascii=False)
