"""Old dialects: which one a version speaks, and that each conforms to itself and to no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.oracle.underspecification import is_free
from reference_server.profiles import PROFILES, Profile, profile_of_version
from reports.results import RequirementRecord, read_results
from reports.verdicts import Verdict
from tests import ROOT
from tests.command_line import suite
from tests.servers import REFERENCE_COMMAND

TRIES = 3
"""A busy machine may leave something undecided."""
MET = (Verdict.PASS, Verdict.SEEN, Verdict.NOT_APPLICABLE)
"""The verdicts on requirements that a server meets, or that do not concern it."""
PROCESS = "needs --launch: a server whose process can be "
"""The beginning of the reason why a requirement is not tested by a server in this process."""


@pytest.mark.parametrize(
    ("version", "name"),
    [
        *(("1.13", "1.13"), ("1.13+2.gabc", "1.13"), ("v1.14", "1.13"), ("2.0", "1.13")),
        *(("1.12", "1.12"), ("1.11", "1.10"), ("beanstalkd 1.10", "1.10"), ("1.9", "1.9")),
        *(("1.8", "1.8"), ("1.7", "1.5"), ("1.6", "1.5"), ("1.5", "1.5")),
        *(("1.4.6", "1.4"), ("1.4.4", "1.4"), ("1.4.3", "1.4.3"), ("1.4.2", "1.2"), ("1.4", "1.2")),
        *(("1.3", "1.2"), ("1.2", "1.2"), ("1.1", "1.0"), ("1.0", "1.0"), ("0.8", "1.0")),
        *(("0.7", "0.6"), ("0.1", "0.6")),
        ("dev", None),
        *(("", None), ("unknown", None), ("1", None), ("9" * 5000 + ".1", None)),
    ],
)
def test_the_profile_of_a_version(version: str, name: str | None) -> None:
    found = profile_of_version(version)
    assert (found and found.name) == name


OLDEST = ("0.6", "1.0")
"""The profiles that lack most: tubes, and deletes of jobs that are not reserved."""


@pytest.mark.parametrize(
    "profile",
    [pytest.param(name, marks=() if name in OLDEST else pytest.mark.campaign) for name in PROFILES],
)
def test_every_requirement_of_a_profile_is_tested_and_met(profile: str, tmp_path: Path) -> None:
    left: list[RequirementRecord] = []
    for _ in range(TRIES):
        done = suite(f"--profile={profile}", "--examples=2", f"--report={tmp_path}")
        assert done.returncode == 0, done.stdout[-3000:]
        # Faults of those that need a process are looked for where one is started.
        left = [
            one
            for one in read_results(tmp_path / "results.json").requirements
            if one.verdict not in MET and not one.reason.startswith(PROCESS)
        ]
        if not left:
            return
    assert left == []


@pytest.mark.parametrize(
    ("profile", "new"),
    [
        *(("1.0", "list-tubes.all"), ("1.2", "touch.touched"), ("1.4.3", "pause-tube.paused")),
        ("1.4", "protocol.name-characters"),
        *(("1.5", "delete.delayed"), ("1.8", "kick-job.kicked")),
        # Nothing that a server of ours could lack came with 1.10.
        *(("1.9", "stats.hostname"), ("1.12", "reserve-job.reserved")),
        ("1.13", "reserve.timeout-argument-strict"),
    ],
)
def test_a_server_of_an_older_profile_does_not_conform(
    profile: str, new: str, tmp_path: Path
) -> None:
    older = list(PROFILES)[list(PROFILES).index(profile) - 1]
    done = suite(
        *(f"--launch={REFERENCE_COMMAND} --profile {older}", f"--profile={profile}"),
        *("-k", new, f"--report={tmp_path}"),
    )
    assert done.returncode == 1
    assert read_results(tmp_path / "results.json").verdict.must_broken > 0


@pytest.mark.parametrize(
    ("line", "profile", "free"),
    [
        *((b"kick-job 1", "1.4", True), (b"kick-job 1", "1.8", False), (b"kick 1", "1.4", False)),
        *((b"touch 1", "1.0", True), (b"touch 1", "1.2", False)),
        *((b"reserve-job 1", "1.10", True), (b"reserve-job 1", "1.12", False)),
        (b"reserve-with-timeout -1\r\n", "1.12", True),
        (b"reserve-with-timeout -1\r\n", "1.13", False),
        (b"reserve-with-timeout 2147483647\r\n", "1.13", False),
        (b"reserve-with-timeout 2147483648\r\n", "1.13", True),
        (b"reserve-with-timeout  0%d\r\n" % 2**64, "1.13", True),
        (b"delete %s" % b"1".rjust(202, b"0"), "1.10", True),
        (b"delete %s" % b"1".rjust(202, b"0"), "1.12", False),
        (b"reserve-with-timeout 4294967296", "1.12", True),
        (b"reserve-with-timeout 1000\r\n", "1.4", False),
        *((b"put 0 0 0 1\r\na\r\n", "0.6", True), (b"put 0 0 0 1\r\na\r\n", "1.4", False)),
    ],
)
def test_lines_of_which_nothing_is_said(line: bytes, profile: str, free: bool) -> None:
    assert is_free(line, PROFILES[profile]) is free


def test_the_documentation_tells_what_each_profile_has() -> None:
    page = (ROOT / "docs/profiles.md").read_text(encoding="utf-8")
    assert table() in page, f"docs/profiles.md needs this table:\n{table()}"


def table() -> str:
    """What each profile has that the one before had not."""
    lines = ["| profile | since | document | new |", "| --- | --- | --- | --- |"]
    before: Profile | None = None
    for profile in PROFILES.values():
        new = ", ".join(_new(before, profile)) if before else f"{len(profile.commands)} commands"
        version = f"beanstalkd {'.'.join(map(str, profile.since))}"
        lines.append(f"| `{profile.name}` | {version} | {profile.document} | {new} |")
        before = profile
    return "\n".join(lines)


def _new(before: Profile, profile: Profile) -> Iterator[str]:
    yield from (f"`{verb}`" for verb in sorted(profile.commands - before.commands))
    keys: dict[str, list[str]] = {}
    for name in sorted(before.lacks - profile.lacks):
        command, _, key = name.partition(".")
        keys.setdefault(command, []).append(key)
    yield from (f"{', '.join(names)} in `{command}`" for command, names in keys.items())
    yield from (f"`delete` of {state} jobs" for state in sorted(profile.deletes - before.deletes))
    for name, words in WORDS.items():
        if getattr(profile, name) != getattr(before, name):
            yield words
    for slug, requirement in catalogue().items():
        if (
            requirement.missing_in(before.name) is None
            and requirement.missing_in(profile.name) is None
        ):
            levels = [requirement.judged_by(name).level for name in (before.name, profile.name)]
            if levels[0] != levels[1]:
                yield f"`{slug}` is {levels[1]}"


WORDS = {
    "tells_priority": "no priority in `RESERVED` and `FOUND`",
    "id_is_optional": "no `peek` without an id, no `stats` with one",
    "name_chars": "underscores in names",
    "max_jobs_ready": "no limit of ready jobs",
    "skips_big_bodies": "a body that is too big is skipped",
    "raises_ttr": "a ttr of 0 becomes 1",
    "deadline_soon": "`DEADLINE_SOON`",
    "first_in_first_out": "order of tubes, and within a priority",
    "counts_failed_puts": "puts that fail are counted",
    "half_close": "answers to half-closed clients",
    "skips_long_lines": "lines that are too long are refused as a whole",
    "limits_arguments": "limits of delays, of times to run and of names",
    "timeout_argument": "strict argument of `reserve-with-timeout`",
    "yaml_quotes": "quoted strings in YAML",
}
