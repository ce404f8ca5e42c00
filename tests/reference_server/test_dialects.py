"""The dialects of forks: files that describe them, and servers that are judged by them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import jsonschema
import pytest
import yaml

from conformance.__main__ import main
from conformance.catalogue import catalogue
from conformance.oracle.underspecification import is_decided, is_free
from conformance.target.builtin import BuiltIn
from conformance.target.draft import DialectDraft
from conformance.verdict import Deviation, Inconclusive, NotTestable
from reference_server import dialect_file
from reference_server.commands import COMMANDS
from reference_server.dialect import DialectError
from reference_server.dialect_file import NEEDED, read_dialect
from reference_server.faults import NO_FAULT, Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.state import Client
from reference_server.wire import (
    UNKNOWN_COMMAND,
    Malformed,
    Reply,
    ReplyReader,
    Request,
    RequestReader,
)
from reports.results import read_results
from reports.verdicts import Verdict
from tests import ROOT
from tests.command_line import suite
from tests.faults import PATIENT, Case, cases, outcomes
from tests.parts import part_of, sample

DIALECTS = {path.stem: path for path in sorted((ROOT / "reports/gallery/dialects").glob("*.yaml"))}
OPAQUE = """
name: my-fork
extends: "1.13"
commands:
  reserve-mode: {reason: weighted tubes}
  count-jobs: {arguments: [tube], replies: [COUNTED <number>], changes: nothing, reason: quick}
without:
  pause-tube: not needed
  kick-job: not needed
  stats.draining: secret
  stats.current-tubes: slow
  stats-tube.current-jobs-ready: slow
  stats-job.age: not kept
limits: {max-name: {value: 300, reason: paths}, max-job-size: {value: 100, reason: small}}
replies: {NOT_FOUND: {text: NO SUCH JOB, reason: polite}}
yaml-quotes: {value: false, reason: old clients}
keys:
  stats-job.weight: {value: 1, reason: weighted}
  stats.mode: {value: fair, reason: weighted}
"""

BROKEN = {
    "": "a dialect is a dictionary, with name, extends, and more",
    "name: a\nname: b": "line 2: 'name' is there twice",
    "{": "is not YAML: while parsing a flow node",
    "name: !!python/object/apply:os.getcwd []": "is not YAML: could not determine a constructor",
    "name: a": "extends is missing",
    "name: a\nextends: 1.13": "extends: 1.13 is no text: put it in quotes",
    'name: a\nextends: "1.11"': "extends: '1.11' is none of 0.6, 1.0, 1.2",
    'name: "1.12"\nextends: "1.13"': "name: 1.12 is a profile of the protocol; give it another",
    'name: a\nextends: "1.13"\nlimit: {}': "limit: there is no such key",
    'name: a\nextends: "1.13"\nwithout: {pause-tube: ""}': "without.pause-tube: string should",
    'name: a\nextends: "1.13"\nwithout: {pause: x}': "without.pause: profile 1.13 has no such",
    'name: a\nextends: "1.13"\nwithout: {put: x}': "without.put: the suite needs put",
    'name: a\nextends: "1.13"\nwithout: {job.x: y}': "without.job.x: name a key as stats.KEY, ",
    'name: a\nextends: "1.13"\ncommands: {put: {reason: x}}': "commands.put: it is a command of",
    'name: a\nextends: "1.13"\ncommands: {get: {}}': "commands.get.reason is missing",
    'name: a\nextends: "1.13"\ncommands: {GET: {reason: x}}': "commands.GET: 'GET' does not have",
    'name: a\nextends: "1.13"\ncommands: {get: {reason: x, arguments: [tube]}}': "give both",
    'name: a\nextends: "1.13"\ncommands: {get: {reason: x, arguments: [name], replies: [A]}}': (
        "commands.get.arguments.0: input should be 'job', 'priority'"
    ),
    'name: a\nextends: "1.13"\ncommands: {get: {reason: x, changes: nothing}}': "changes is said",
    'name: a\nextends: "1.13"\nlimits: {max-name: {value: 2000, reason: x}}': (
        "limits.max-name.value: input should be less than or equal to 1000, not 2000"
    ),
    'name: a\nextends: "1.13"\nlimits: {max-name: 300}': "limits.max-name: input should be a valid",
    """name: a
extends: "1.13"
limits: {max-name: {value: 300, reason: x}, max-line: {value: 300, reason: x}}""": (
        "limits.max-line: no line of 300 bytes holds the longest name"
    ),
    'name: a\nextends: "1.13"\nreplies: {OK: {text: A, reason: x}}': "replies.OK: it is none of",
    'name: a\nextends: "1.13"\nreplies: {NOT_FOUND: {text: BURIED, reason: x}}': (
        "replies.NOT_FOUND: another reply has the text 'BURIED'"
    ),
}
"""Broken files, and the sentence that each of them gets."""


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Return a fork that differs in everything that a dialect can tell."""
    path = tmp_path / "my-fork.yaml"
    path.write_text(OPAQUE)
    return read_dialect(path)


def _tests(*parts: str) -> Callable[[Case], bool]:
    """Choose the tests with one of these in their names, or in those of their requirements."""
    return lambda case: any(part in name for name in (*case.slugs, case.name) for part in parts)


def _wrong(fault: Fault, name: str, *parts: str) -> set[str]:
    """Return the requirements of these that a server breaks, judged by a dialect of the gallery."""
    profile = read_dialect(DIALECTS[name])
    found = outcomes(fault, _tests(*parts), examples=3, profile=profile, silence=PATIENT)
    return {slug for case, outcome in found if outcome.error is not None for slug in case.slugs}


# ------------------------------------------------------------ the file


def test_the_schema_is_that_of_the_format() -> None:
    kept = (ROOT / "reference_server/dialect.schema.json").read_text(encoding="utf-8")
    assert json.loads(kept) == dialect_file.schema()


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_of_the_gallery_fit_the_schema(name: str) -> None:
    document = yaml.safe_load(DIALECTS[name].read_text(encoding="utf-8"))
    jsonschema.validate(document, dialect_file.schema())
    assert read_dialect(DIALECTS[name]).name == name


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_wrong_with_a_file_is_told_in_one_sentence(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    assert main(["profile", str(path)]) == 4
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert f"{path}" in said.err
    assert BROKEN[text] in said.err


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name, why in {"none.yaml": "No such file", ".": "Is a directory"}.items():
        with pytest.raises(DialectError, match=why):
            read_dialect(tmp_path / name)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DialectError, match="is not YAML"):
        read_dialect(tmp_path / "binary.yaml")


@pytest.mark.parametrize("wrong", ["1.11", "none.yaml"])
def test_a_run_refuses_a_profile_that_is_none(wrong: str) -> None:
    done = suite(f"--profile={wrong}")
    assert done.returncode == 4
    assert "there is no profile '1.11'" in done.stderr or "cannot read none.yaml" in done.stderr


def test_a_dialect_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my-fork.yaml"
    path.write_text(OPAQUE)
    assert main(["profile", str(path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == (
        "my-fork: 1.13 without pause-tube and kick-job, plus 2 commands, with 10 other differences"
    )
    assert told[1:4] == [
        "  no pause-tube: not needed",
        "  no kick-job: not needed",
        "  the command reserve-mode, which is not tested: weighted tubes",
    ]
    assert len(told) == 1 + 4 + 10


# ------------------------------------------------------------ the profile


def test_the_profile_has_all_that_the_file_says(profile: Profile) -> None:
    assert (profile.name, profile.stage) == ("my-fork", "1.13")
    assert NEWEST.commands - profile.commands == {"pause-tube", "kick-job"}
    assert {"stats.cmd-pause-tube", "stats-tube.cmd-pause-tube", "stats.draining"} <= profile.lacks
    # A line may be longer as a name may be.
    assert (profile.max_name, profile.max_line, profile.max_job_size) == (300, 324, 100)
    assert not profile.yaml_quotes


def test_requirements_of_what_is_left_out_are_not_offered(profile: Profile) -> None:
    def left_out(slug: str) -> str | None:
        return catalogue()[slug].left_out_of(profile)

    assert left_out("pause-tube.paused") == "profile my-fork has no pause-tube"
    assert left_out("stats-tube.cmd-pause-tube") == "profile my-fork has no pause-tube"
    assert left_out("stats.draining") == "profile my-fork has no stats.draining"
    assert left_out("kick.bad-format") is None
    assert not any(
        rule.left_out_of(old) for rule in catalogue().values() for old in PROFILES.values()
    )


@pytest.mark.parametrize(
    ("line", "free", "decided"),
    [
        (b"pause-tube a 0", True, True),
        # Nothing is known of an opaque command, nor of what begins like one.
        (b"reserve-mode fair", True, True),
        (b"reserve-modest", True, True),
        (b"count-jobs a", False, True),
        (b"count-jobs", True, True),
        (b"count-jobs a b", True, True),
        (b"kick 1", False, True),
        (b"use %b" % (b"n" * 300), False, True),
        (b"bogus", False, True),
    ],
)
def test_lines_that_a_dialect_decides(
    line: bytes, free: bool, decided: bool, profile: Profile
) -> None:
    assert is_free(line, profile) is free
    if not free:
        assert is_decided(line, profile) is decided


def test_replies_that_a_fork_has_or_words_otherwise(profile: Profile) -> None:
    reader = ReplyReader.of(profile)
    reader.receive(b"COUNTED 7\r\nNO SUCH JOB\r\nBURIED\r\nNOT_FOUND\r\n")
    assert reader.next_reply() == Reply("COUNTED", (7,))
    assert reader.next_reply() == Reply("NOT_FOUND")
    assert reader.next_reply() == Reply("BURIED")
    with pytest.raises(Exception, match="no reply of the protocol: NOT_FOUND"):
        reader.next_reply()


# ------------------------------------------------------------ servers


NAMES = ("name-limit", "name-too-long", "line-too-long", "long-line", "any-program")
SILENCE = 5.0
"""Seconds after which a reply is missing at a server that conforms."""
PAUSES = ("pause", "any-program", "stats-tube.", "name-too-long")


def _alarms(fork: Fault, profile: Profile, *more: str) -> list[tuple[str, object]]:
    """Return what is found wrong by a fifth of the tests that wait for nothing, and by others.

    Some bodies are too big for a server, and a slow machine decides less.
    """
    slow = {"real_clock", "exploration"}
    quick = [case.name for case in cases() if not case.arguments.keys() & slow]
    chosen = {*part_of(quick, "0/5"), *more}
    came = outcomes(
        fork, lambda case: case.name in chosen, examples=2, profile=profile, silence=SILENCE
    )
    wrong = [(case.name, outcome.error) for case, outcome in came if outcome.error is not None]
    return [told for told in wrong if not isinstance(told[1], NotTestable | Inconclusive)]


def _speaks(profile: Profile) -> Fault:
    """Return a server that speaks this profile, whatever it is judged by."""
    return Fault("", "another profile", profile=lambda _: profile)


def _lacks(verb: str) -> Fault:
    """Return a server of the newest profile that does not know a command."""

    class Lacks(RequestReader):
        def parse(self, line: bytes) -> Request:
            if line.partition(b" ")[0] == verb.encode():
                return Malformed(UNKNOWN_COMMAND)
            return super().parse(line)

    return Fault("", f"no {verb}", reader=Lacks, profile=lambda _: NEWEST)


class Miscounts(Model):
    """A model that answers a new command otherwise than the dialect says."""

    def _answer(self, _: Client, added: str) -> Reply:
        return Reply("DONE")


@pytest.mark.campaign
def test_a_server_that_differs_in_everything_conforms_to_its_dialect(profile: Profile) -> None:
    assert _alarms(NO_FAULT, profile, "test_any_program") == []


def test_what_is_left_out_is_no_alarm() -> None:
    fork = _lacks("pause-tube")
    assert _wrong(fork, "without-pause-tube", *PAUSES) == set()
    found = outcomes(fork, _tests("pause-tube.paused"), profile=NEWEST, silence=0.5)
    assert all(isinstance(outcome.error, Deviation) for _, outcome in found)


@pytest.mark.parametrize("verb", sample(sorted(COMMANDS.keys() - NEEDED), 10))
def test_a_server_without_a_command_conforms_to_its_dialect(verb: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f'name: a\nextends: "1.13"\nwithout: {{{verb}: not needed}}')
    profile = read_dialect(path)
    assert _alarms(_lacks(verb), profile) == []


def test_longer_names_must_be_as_long_as_the_dialect_says() -> None:
    fork = replace(NEWEST, max_name=500, max_line=524)
    assert _wrong(_speaks(fork), "longer-names", *NAMES) == set()
    for other in (NEWEST, replace(fork, max_name=499), replace(fork, max_name=501)):
        wrong = _wrong(_speaks(other), "longer-names", "name-limit", "name-too-long")
        assert wrong >= {"use.name-limit"} or wrong >= {"error.bad-format-name-too-long"}
    short = _speaks(replace(fork, max_line=523))
    assert _wrong(short, "longer-names", "line-too-long") == {"error.bad-format-line-too-long"}


def test_a_new_command_must_be_answered_as_the_dialect_says() -> None:
    other = Fault("", "other words", model=Miscounts)
    parts = ("any-program", "commands_of_a_fork")
    assert _wrong(other, "antikirra", *parts) == {"protocol.any-program", "protocol.any-bytes"}
    lacks = _wrong(_speaks(NEWEST), "antikirra", "commands_of_a_fork")
    assert lacks == {"protocol.any-bytes"}


def test_a_new_key_must_be_there() -> None:
    dialect = read_dialect(DIALECTS["antikirra"]).dialect
    lacks = replace(NEWEST, dialect=replace(dialect, keys=()))
    assert _wrong(_speaks(lacks), "antikirra", "any-program") == {"protocol.any-program"}


def test_generators_use_new_commands_that_change_nothing(profile: Profile) -> None:
    said: list[bytes] = []
    parse = RequestReader.parse

    def noted(reader: RequestReader, line: bytes) -> Request:
        said.append(line)
        return parse(reader, line)

    with mock.patch.object(RequestReader, "parse", noted):
        for name in (profile, read_dialect(DIALECTS["antikirra"])):
            list(outcomes(Fault("", ""), _tests("any-program"), 3, name))
    assert b"truncate conformance-nobodys" in said
    counted = {line for line in said if line.startswith(b"count-jobs")}
    assert len(counted) > 3
    assert not any(line.startswith(b"reserve-mode") for line in said)


def test_the_verdict_names_the_dialect(tmp_path: Path) -> None:
    done = suite(
        f"--profile={DIALECTS['without-pause-tube']}",
        *("-k", "pause-tube.paused or use.using or stats-tube.pause-time-left"),
        f"--report={tmp_path}",
    )
    assert done.returncode == 0, done.stdout
    results = read_results(tmp_path / "results.json")
    assert results.verdict.sentence.startswith("reference server 1.13: incomplete: no deviation")
    assert "from without-pause-tube (1.13 without pause-tube" in results.verdict.sentence
    assert results.verdict.not_offered > 0
    assert f"; {results.verdict.not_offered} not offered" in results.verdict.sentence
    assert "tests not offered: profile without-pause-tube has no pause-tube" in done.stdout
    verdicts = {requirement.slug: requirement.verdict for requirement in results.requirements}
    assert verdicts["pause-tube.paused"] is Verdict.NOT_OFFERED
    assert results.target.dialect is not None
    assert results.target.dialect.told == "1.13 without pause-tube, with 2 other differences"
    page, text = ((tmp_path / f"report.{end}").read_text() for end in ("html", "md"))
    for told in (page, text):
        assert "workers are told to pause by other means" in told


def test_the_draft_of_a_dialect(tmp_path: Path, profile: Profile) -> None:
    plain, fork = BuiltIn(NEWEST), BuiltIn(profile)
    for server in (plain, fork):
        server.profile = NEWEST
    with contextlib.closing(plain), contextlib.closing(fork):
        assert set(yaml.safe_load(DialectDraft(plain).text("a"))) == {"name", "extends"}
        (tmp_path / "draft.yaml").write_text(DialectDraft(fork).text("my-fork"))
    draft = read_dialect(tmp_path / "draft.yaml")
    assert set(draft.dialect.without) == {"pause-tube", "kick-job"}
    assert "stats.draining" in draft.lacks
    assert (draft.max_name, draft.max_line, draft.max_job_size) == (300, 324, 100)
    assert draft.dialect.texts == (("NOT_FOUND", "NO SUCH JOB"),)
    assert ("stats.mode", "fair") in draft.dialect.keys
    assert not draft.yaml_quotes
