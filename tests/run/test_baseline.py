"""Baselines: what they may hold, what they cover, and what is told of their changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.run.aggregation import Result, Tally
from conformance.run.baseline import (
    BaselineError,
    DeviationKind,
    KnownDeviation,
    changes,
    read_baseline,
    shipped,
    write_baseline,
)
from conformance.verdict import OutcomeKind, Step
from reports.verdicts import Verdict
from tests.command_line import FAST, suite
from tests.made import case
from tests.servers import BEANSTALKD_COMMAND, changed_server, needs_beanstalkd

WRONG, SILENT = DeviationKind("wrong reply", "kick"), DeviationKind("no reply", "kick")
SAYS_NOTHING = r"""
    from reference_server.wire import Reply

    plain = Reply.encode
    Reply.encode = lambda self: b"!\r\n" if self.word == "USING" else plain(self)
"""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[\n", "is not YAML: line 2, column 1: "),
        ("put.inserted: {verdict: fail\nreason x", "is not YAML: line "),
        ("put.inserted: {verdict: fail, reason: x, flaky: often}", "flaky is true or false"),
        ("- a", "is not a dictionary of requirements"),
        (
            "no.such-thing: {verdict: fail, reason: x}",
            "lists an unknown requirement: no.such-thing",
        ),
        ("put.inserted: {verdict: pass, reason: x}", "put.inserted needs a verdict"),
        ("put.inserted: {verdict: fail}", "put.inserted needs a reason"),
        (
            "put.inserted: {verdict: fail, reason: x, colour: red, size: 1}",
            "takes the keys flaky, kinds, link, observed, reason, verdict, not colour, size",
        ),
        (
            "put.inserted: {verdict: fail, reason: x, kinds: wrong reply at put}",
            "put.inserted: kinds is a list",
        ),
        *(
            (
                f'put.inserted: {{verdict: fail, reason: x, kinds: ["{kind}"]}}',
                f"put.inserted: {kind!r} is no kind of deviation, such as “wrong reply at put”",
            )
            for kind in ("wrong at put", "crashed", "wrong reply at ", "wrong reply at put 0")
        ),
        (
            "put.inserted: {verdict: fail, reason: x}\nput.inserted: {verdict: fail, reason: y}",
            "line 2: 'put.inserted' is there twice",
        ),
        (
            "put.inserted:\n  verdict: fail\n  reason: x\n  reason: y",
            "line 4: 'reason' is there twice",
        ),
    ],
)
def test_a_baseline_that_cannot_be_used(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "baseline.yaml"
    file.write_text(text)
    with pytest.raises(BaselineError) as caught:
        read_baseline(file)
    assert str(caught.value).startswith(f"the baseline {file}")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("verdict", "flaky", "covers"),
    [
        *(("fail", False, {"fail"}), ("fail", True, {"fail", "non-strict"})),
        *(("non-strict", False, {"non-strict"}), ("non-strict", True, {"non-strict"})),
    ],
)
def test_which_verdicts_a_known_deviation_covers(
    verdict: str, flaky: bool, covers: set[str]
) -> None:
    known = KnownDeviation(verdict, "it lies", flaky=flaky)
    assert {verdict for verdict in Verdict if known.covers(verdict, [WRONG])} == covers


@pytest.mark.parametrize(
    ("listed", "found", "covers"),
    [
        ((), {WRONG, SILENT}, True),
        ((WRONG,), {WRONG}, True),
        ((WRONG, SILENT), {SILENT}, True),
        ((WRONG,), {SILENT}, False),
        ((WRONG,), {WRONG, SILENT}, False),
        ((WRONG,), {DeviationKind("wrong reply", "put")}, False),
        ((WRONG,), {DeviationKind("wrong reply")}, False),
    ],
)
def test_which_kinds_a_known_deviation_covers(
    listed: tuple[DeviationKind, ...], found: set[DeviationKind], covers: bool
) -> None:
    assert KnownDeviation("fail", "it lies", kinds=listed).covers("fail", found) is covers


@pytest.mark.parametrize(
    ("step", "written"),
    [
        (Step(OutcomeKind.WRONG_REPLY, "kick", ("KICKED",), "NOT_FOUND"), "wrong reply at kick"),
        (Step(OutcomeKind.WRONG_VALUE, subject="'buries'"), "wrong value"),
        (Step(OutcomeKind.NO_REPLY, "\x00put"), "no reply"),
        *((Step(kind, "put"), "lost") for kind in OutcomeKind if kind.is_loss),
    ],
)
def test_how_the_kind_of_a_deviation_is_written(tmp_path: Path, step: Step, written: str) -> None:
    kind = DeviationKind.of(step)
    assert DeviationKind.parse(written) == kind
    file = tmp_path / "baseline.yaml"
    write_baseline(file, {"kick.kicked": KnownDeviation("fail", "it lies", kinds=(kind,))})
    assert f"  - {written}\n" in file.read_text()


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    known = {
        "kick.kicked": KnownDeviation("fail", "it lies", kinds=(SILENT, WRONG), flaky=True),
        "put.inserted": KnownDeviation("non-strict", "of an older version", "x", "https://x"),
    }
    file = tmp_path / "baseline.yaml"
    write_baseline(file, known)
    assert read_baseline(file) == known
    assert "kinds:\n  - no reply at kick\n" in file.read_text()


def _tally(baseline: dict[str, KnownDeviation], *kinds: DeviationKind) -> Tally:
    tally = Tally(catalogue(), baseline, "a server")
    tally.add(Result(case("kick.kicked", Verdict.FAIL), kind=kind) for kind in kinds)
    return tally


def test_an_updated_baseline_has_the_kinds_of_all_deviations() -> None:
    assert _tally({}, WRONG, SILENT, WRONG).updated_baseline()["kick.kicked"].kinds == (
        SILENT,
        WRONG,
    )
    old = {"kick.kicked": KnownDeviation("fail", "it lies", kinds=(SILENT,))}
    assert _tally(old, WRONG).updated_baseline()["kick.kicked"].kinds == (WRONG,)
    flaky = {"kick.kicked": KnownDeviation("fail", "it lies", kinds=(SILENT,), flaky=True)}
    assert _tally(flaky, WRONG).updated_baseline()["kick.kicked"].kinds == (SILENT, WRONG)


def test_an_updated_baseline_lists_no_kinds_of_random_tests() -> None:
    tally = Tally(catalogue(), {}, "a server")
    tally.add([Result(case("protocol.any-program", Verdict.FAIL), kind=WRONG)])
    assert tally.updated_baseline()["protocol.any-program"].kinds == ()


def test_another_deviation_of_a_known_requirement_fails_the_run(tmp_path: Path) -> None:
    lying = tmp_path / "lying"
    lying.mkdir()
    baseline = tmp_path / "known.yaml"
    chosen = [FAST, f"--baseline={baseline}", "--clock=real"]
    liar = changed_server(lying, SAYS_NOTHING.replace("!", "USING it"))
    made = suite(f"--launch={liar}", *chosen, "--update-baseline")
    assert made.returncode == 0, made.stdout
    assert "  - wrong reply at use\n" in baseline.read_text()
    same = suite(f"--launch={liar}", *chosen)
    assert same.returncode == 0, same.stdout
    assert "conforms, except for 1 known deviation\n" in same.stdout
    other = suite(f"--launch={changed_server(tmp_path, SAYS_NOTHING)}", *chosen)
    assert other.returncode == 1, other.stdout
    told = "use.using deviates in a way that the baseline does not list: not a reply at use\n"
    assert told in other.stdout
    assert "known deviation" not in other.stdout.splitlines()[-2]
    # As versions wrote it that knew no kinds.
    baseline.write_text("use.using: {verdict: fail, reason: issue 17}\n")
    assert suite(f"--launch={liar}", *chosen).returncode == 0


def test_what_has_changed_in_a_baseline_is_told() -> None:
    old = {slug: KnownDeviation("fail", "x") for slug in ("a", "b", "c")}
    many = {str(number): KnownDeviation("fail", "x") for number in range(7)}
    assert changes(
        old, {"b": KnownDeviation("non-strict", "x"), "c": KnownDeviation("fail", "y", "z"), **many}
    ) == ("9 known deviations; 7 added: 0, 1, 2, 3, 4, …; 1 removed: a; 1 with another verdict: b")
    moved = {"a": KnownDeviation("fail", "x", kinds=(WRONG,))}
    assert "; 1 with other kinds of deviations: a" in changes(old, {**old, **moved})
    assert changes(old, old) == "3 known deviations; none has changed"


def test_the_baselines_that_we_have_are_found_by_version() -> None:
    path = shipped("1.12")
    assert path is not None
    assert read_baseline(path)
    for version in ("", "unknown", "9.9", "../baselines/beanstalkd-1.12", "1.12\n"):
        assert shipped(version) is None


@needs_beanstalkd
def test_the_baseline_of_the_server_that_was_recognised_is_named_in_a_line(tmp_path: Path) -> None:
    # The kernel's name is in the stats, and YAML takes it for a comment.
    chosen = [f"--launch={BEANSTALKD_COMMAND}", "-k", "stats.yaml-values-parse"]
    done = suite(*chosen, cwd=tmp_path)
    version = re.findall(r"beanstalkd ([\d.]+) \(profile", done.stdout)[0]
    if path := shipped(version):
        line = f"the known deviations of beanstalkd {version} are a baseline: {path}\n"
        assert (line in done.stdout) == ("de-facto" in done.stdout.splitlines()[-2])
        assert line not in suite(*chosen, f"--baseline={path}", cwd=tmp_path).stdout
