"""Random programs: correct clients pass, and mistakes that no directed case shows are found."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from conformance.__main__ import main
from conformance.clients.cases import ClientCase, all_cases
from conformance.clients.driver import Driver
from conformance.clients.judging import CaseOutcome
from conformance.clients.program_features import explanations, features_of_program
from conformance.clients.program_player import command
from conformance.clients.program_search import ANY_PROGRAM, PROGRAM_CASES, ProgramSearch
from conformance.clients.programs import (
    ALWAYS,
    DISCONNECTS,
    ERRORS,
    FEATURES,
    PIECES,
    SEGMENTS,
    VERBS,
    limited,
    write_program,
)
from reports.results import read_results
from reports.verdicts import Verdict
from tests.clients.faults import FAULTS, PROGRAM_FAULTS, RECONNECTING, SENT, Faulty
from tests.clients.test_judging import CORRECT
from tests.parts import sample

MANY = 400
"""Programs in which a mistake is found, at most."""
LONG = 600.0
"""Seconds after which a search would end."""
FOUND_IN = {fault.slug: fault for fault in FAULTS}


def search(
    program: Path,
    limit: int,
    directed: Sequence[CaseOutcome] = (),
    seed: int = 1,
    supported: Sequence[str] = VERBS,
    cases: Sequence[ClientCase] = PROGRAM_CASES,
) -> list[CaseOutcome]:
    """Return what programs show; no machine is so slow that time ends the search."""
    start = lambda: Driver([sys.executable, str(program)])  # noqa: E731
    found = ProgramSearch(start, supported, directed, 20.0, seed, LONG, LONG, limit)
    return found.run(cases)


def failed(slug: str) -> CaseOutcome:
    """Return the outcome of a broken case."""
    case = next(case for case in all_cases() if case.slug == slug)
    return CaseOutcome(case, Verdict.FAIL)


def written(fault: Faulty, folder: Path) -> Path:
    program = folder / "driver.py"
    program.write_text(fault.source())
    return program


def verdicts(outcomes: Sequence[CaseOutcome]) -> list[Verdict]:
    slugs = [outcome.case.slug for outcome in outcomes]
    assert slugs == [case.slug for case in PROGRAM_CASES]
    return [outcome.verdict for outcome in outcomes]


def test_the_correct_client_passes() -> None:
    outcomes = search(CORRECT, limit=60)
    assert [(one.mismatch, one.transcript) for one in outcomes if one.mismatch] == []
    assert verdicts(outcomes) == [Verdict.PASS, Verdict.PASS]


def test_a_correct_client_that_connects_again_by_itself_passes(tmp_path: Path) -> None:
    outcomes = search(written(RECONNECTING, tmp_path), limit=40, seed=1000, cases=PROGRAM_CASES[1:])
    assert [(one.mismatch, one.transcript) for one in outcomes if one.mismatch] == []


def test_a_client_with_few_operations_passes() -> None:
    assert verdicts(search(CORRECT, limit=10, supported=("put", "delete"))) == [Verdict.PASS] * 2


@pytest.mark.parametrize("mistake", sample([*PROGRAM_FAULTS], 2))
def test_a_mistake_that_no_directed_case_shows_is_found(mistake: str, tmp_path: Path) -> None:
    fault = PROGRAM_FAULTS[mistake]
    cases = [case for case in PROGRAM_CASES if case.slug == fault.slug]
    [broken] = search(written(fault, tmp_path), limit=MANY, cases=cases)
    assert broken.verdict is Verdict.FAIL
    asked = [line for line in broken.transcript if line.startswith("  asked: ")]
    assert len(asked) <= 12, "it is shrunk"
    assert any(line.startswith("  client: ") for line in broken.transcript)
    assert any(line.startswith("  answered: ") for line in broken.transcript)


def test_what_a_directed_case_explains_is_not_found_again(tmp_path: Path) -> None:
    program = written(FOUND_IN["send.body-crlf"], tmp_path)
    assert verdicts(search(program, limit=30)) == [Verdict.FAIL, Verdict.BLOCKED]
    explained = search(program, limit=30, directed=[failed("send.body-crlf")])
    assert verdicts(explained) == [Verdict.PASS, Verdict.PASS]
    assert explained[0].reason == "left out: body-crlf (send.body-crlf)"


def test_without_disconnects_there_is_nothing_to_reconnect(tmp_path: Path) -> None:
    program = written(FOUND_IN["gone.put-is-incomplete"], tmp_path)
    directed = [failed("gone.put-is-incomplete")]
    [outcome] = search(program, MANY, directed, cases=PROGRAM_CASES[1:])
    assert (outcome.verdict, outcome.blocked_by) == (Verdict.BLOCKED, "gone.put-is-incomplete")


def test_no_program_is_left_if_no_put_works(tmp_path: Path) -> None:
    wrong = Faulty("send.put", SENT, "        command = command.replace(b' 60 ', b' 61 ')\n" + SENT)
    outcomes = search(written(wrong, tmp_path), limit=30, directed=[failed("send.put")])
    assert verdicts(outcomes) == [Verdict.BLOCKED, Verdict.BLOCKED]
    assert {outcome.blocked_by for outcome in outcomes} == {"send.put"}


def test_a_driver_that_breaks_its_protocol_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text("for q in open(0): print('@beanstalk 0 ok', flush=True)")
    outcomes = search(program, limit=1)
    assert outcomes[0].verdict is Verdict.ERROR
    assert "has another number" in outcomes[0].reason


def test_a_finding_is_found_again_by_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = written(PROGRAM_FAULTS["releases no job twice"], tmp_path)
    reported = ["--report", str(tmp_path / "report"), "--name", "faulty"]
    driver = ["--", sys.executable, str(program)]
    assert main(["client", "--only", "client.*", "--seed", "40", *reported, *driver]) == 1
    said = capsys.readouterr().out
    assert "random programs:" in said
    assert "from seed 40 on" in said
    found = read_results(tmp_path / "report" / "faulty-results.json")
    assert found.run.seed == 40
    [test] = [one for one in found.tests if one.verdict is Verdict.FAIL]
    assert test.requirements == [ANY_PROGRAM.slug]
    assert test.cause is not None
    assert test.cause.command == "release"
    assert test.evidence is not None
    name, again, *options = shlex.split(test.evidence.reproduce)
    assert (name, again) == ("beanstalk-conformance", "client")
    assert options[:3] == ["--only", ANY_PROGRAM.slug, "--seed"]
    repeated = search(program, limit=1, seed=int(options[3]))
    assert repeated[0].verdict is Verdict.FAIL


def test_programs_have_all_features_and_segments() -> None:
    programs = [write_program(Random(seed)) for seed in range(300)]
    calls = [call for program in programs for call in program]
    assert {call.verb for call in calls} == {*VERBS, *ALWAYS}
    assert {call.change for call in calls} > {*PIECES}
    errors = {call.change.says for call in calls} - {None}
    assert errors == {f"{error}\r\n".encode() for error in ERRORS}
    assert write_program(Random(7)) == write_program(Random(7))


def test_a_limited_program_does_without_features() -> None:
    for seed in range(100):
        program = write_program(Random(seed))
        assert limited(program, FEATURES) == program
        few = limited(program, {"put", "reserve-job"})
        assert {call.verb for call in few} <= {"put", "reserve-job", *ALWAYS}
        used = features_of_program(few, ())
        assert used <= {"put", "reserve-job", *ALWAYS}
        assert not used & {DISCONNECTS, SEGMENTS}
        assert all(call.change.says is None for call in few)


def test_a_question_becomes_the_command_of_its_name() -> None:
    assert command("put 1 2 3 x610d0a") == b"put 1 2 3 3\r\na\r\n\r\n"
    assert command("use x7562") == b"use ub\r\n"
    assert command("release 7 1 0") == b"release 7 1 0\r\n"
    assert command("stats") == b"stats\r\n"


EXPLAINED = {
    "refuse.name-crlf": [],
    "lies.wrong-end": [],
    "send.largest-id": [],
    "step.late-reply": [],
    "segments.pairs": [{SEGMENTS}],
    "gone.close-returns": [{DISCONNECTS}],
    "step.watch-restored": [{DISCONNECTS}],
    "reply.body-crlf": [{"body-crlf"}],
    "step.after-not-found": [{"NOT_FOUND"}],
    "reply.touch-not-found": [{"touch", "NOT_FOUND"}],
    "send.peek": [{"peek"}],
    "send.use": [{"use", "put"}],
}


@pytest.mark.parametrize("slug", EXPLAINED)
def test_a_broken_case_explains_what_has_its_features(slug: str) -> None:
    case: ClientCase = failed(slug).case
    assert [*explanations(case)] == EXPLAINED[slug]
