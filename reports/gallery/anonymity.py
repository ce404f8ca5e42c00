"""Results without the machine that they were made on."""

from __future__ import annotations

import re

from reports.results import Results
from reports.results import Test as Result

_BEGIN = r"(?:(?<![\w/.:-])|(?<=\\x[0-9a-f]{2}))"
"""The place where a path may begin: after a character of no path, also if that is escaped."""
_FOLDERS = re.compile(_BEGIN + r"/(?:[\w.+@~-]+/)+(?=[\w.+@~-])")
"""The folders of an absolute path, as in what compilers and interpreters call a place."""


def anonymous(results: Results) -> Results:
    """Return results that name no folder of the machine."""
    return results.model_copy(
        update={
            "health": [_without_folders(line) for line in results.health],
            "tests": [_anonymous_test(test) for test in results.tests],
        }
    )


def _anonymous_test(test: Result) -> Result:
    changes: dict[str, object] = {}
    if test.evidence is not None:
        said = _without_folders(test.evidence.said)
        changes["evidence"] = test.evidence.model_copy(update={"said": said})
    if test.cause is not None:
        # The last words of a server that has crashed.
        observed = _without_folders(test.cause.observed)
        changes["cause"] = test.cause.model_copy(update={"observed": observed})
    return test.model_copy(update=changes)


def _without_folders(text: str) -> str:
    return _FOLDERS.sub("", text)
