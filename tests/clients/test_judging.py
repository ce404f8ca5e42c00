"""The judging of clients: the correct one passes, each faulty one breaks its own requirement."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.clients.campaign import ClientCampaign
from conformance.clients.cases import ClientCase, all_cases
from conformance.clients.catalogue import requirements
from conformance.clients.checks import gives, succeeds
from conformance.clients.driver import Driver
from conformance.clients.judging import PLAYS, CaseOutcome, CasePlayer
from conformance.clients.program_search import PROGRAM_CASES
from conformance.clients.protocol import DriverError, parse_answer
from conformance.clients.results import judged
from conformance.clients.results import tests as recorded
from conformance.target.starvation import Starvation, Starved
from reports.results import read_results
from reports.verdicts import Verdict
from tests.clients.faults import FAULTS, PROGRAM_FAULTS, Faulty
from tests.parts import sample

CORRECT = Path(__file__).parent / "driver.py"


def campaign(program: Path, timeout: float = 20.0, workers: int = 4) -> ClientCampaign:
    return ClientCampaign(lambda: Driver([sys.executable, str(program)]), timeout, workers)


def test_the_correct_client_passes() -> None:
    outcomes = campaign(CORRECT).run()
    assert [(o.case.id, o.reason, o.mismatch) for o in outcomes if o.verdict != "pass"] == []


def test_every_requirement_has_a_case() -> None:
    assert {case.slug for case in (*all_cases(), *PROGRAM_CASES)} == {*requirements()}
    assert len(requirements()) >= 90


def test_every_must_and_de_facto_requirement_has_a_faulty_client() -> None:
    faults = {fault.slug for fault in (*FAULTS, *PROGRAM_FAULTS.values())}
    judged = {slug for slug, one in requirements().items() if one.level != "hardening"}
    assert judged - faults == set()


@pytest.mark.parametrize("fault", sample(FAULTS, 40, lambda fault: fault.slug))
def test_a_faulty_client_breaks_its_own_requirement(fault: Faulty, tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text(fault.source())
    # Those that hang do so for the whole time.
    outcomes = campaign(program, timeout=10.0).run()
    broken = {o.case.slug for o in outcomes if o.verdict not in (Verdict.PASS, Verdict.BLOCKED)}
    assert broken == {fault.slug, *fault.also}


_EASY = """
import socket
def a(said): print("@beanstalk", n, said, flush=True)
def s(line):
    peer.sendall(line.encode() + b"\\r\\n")
    a("ok " + peer.recv(99).decode().partition(" ")[2])
for q in open(0):
    n, o, *w = q.split()
    if o == "connect":
        peer = socket.create_connection((w[0], int(w[1])))
        a("ok")
    elif o == "put":
        s(f"put {w[0]} {w[1]} {w[2]} 1\\r\\na")
    elif o == "delete":
        s("delete " + w[0])
    elif o != "use":
        a("unsupported")
    else:
"""
"""A driver of few operations; what it does for ``use`` follows."""
BAD = {
    "import time; time.sleep(60)": "does the driver flush its output",
    "for q in open(0): print('@beanstalk 77 ok', flush=True)": "has another number",
    "for q in open(0): print('@beanstalk', q.split()[0], flush=True)": "has no word",
    "for q in open(0): print('@beanstalk', q.split()[0], 'ok abc', flush=True)": "the values ID",
    f"{_EASY}        s('use ' + w[0])\n": "use sends the text x7562, not the bytes it stands for",
    f"{_EASY}        a('not supported')\n": "the answer is 'not supported': an operation that",
    "import os; os.close(0); os.close(1); os._exit(3)": "exit code 3",
    "import os; os.abort()": "Aborted",
    "while True: print('x' * 9999)": "does the driver flush its output",
    "while True: print('x' * 9999, end='')": "a line of more than",
}


@pytest.mark.parametrize("program", BAD)
def test_a_bug_of_a_driver_is_reported_as_such(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Only those that are to time out may do so, however slow the machine is.
    timeout = "0.5" if "flush" in BAD[program] else "60"
    command = ["client", "--answer-timeout", timeout, "--", sys.executable, "-c", program]
    assert main(command) == 4
    said = capsys.readouterr().err
    assert BAD[program] in said
    assert said.count("\n") == 1


def test_what_a_library_prints_before_an_answer_is_skipped() -> None:
    answer = parse_answer("debug: @beanstalk 7 ok 12", 7)
    assert answer is not None
    assert answer.values == ("12",)
    assert parse_answer("debug", 7) is None
    with pytest.raises(DriverError, match="another number"):
        parse_answer("@beanstalk 6 ok 12", 7)


def test_no_process_is_left(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = tmp_path / "driver.py"
    child = f"import os; open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
    program.write_text(child + "if os.fork() == 0:\n    import time; time.sleep(60)\n"
                       + CORRECT.read_text())  # fmt: skip
    campaign(program).run([ClientCase("send.use", "use x61", succeeds)])
    for pid in pids.read_text().split():
        # A group that is gone, or has nothing but what nobody has waited for yet.
        limit = time.monotonic() + 20
        while _has_group(int(pid)) and time.monotonic() < limit:
            time.sleep(0.01)
        assert not _has_group(int(pid))


def _has_group(group: int) -> bool:
    found = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    for entry in found:
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def test_a_program_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["client", "--", "/nowhere/driver"]) == 4
    assert "cannot start the driver /nowhere/driver" in capsys.readouterr().err


def test_the_report_has_the_verdicts(tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text(FAULTS[0].source())
    folder, base = tmp_path / "report", tmp_path / "known.yaml"
    only = ["client", "--only", "send.*", "--report", str(folder), "--name", "faulty"]
    driver = ["--", sys.executable, str(program)]
    assert main([*only, *driver]) == 1
    found = read_results(folder / "faulty-results.json")
    assert [one.slug for one in found.deviations] == [FAULTS[0].slug]
    assert found.verdict.word == "does not conform"
    assert json.loads((folder / "faulty-badge.json").read_text())
    assert FAULTS[0].slug in (folder / "faulty-report.html").read_text()
    assert main([*only, "--baseline", str(base), "--update-baseline", *driver]) == 0
    assert main([*only, "--baseline", str(base), *driver]) == 0


def answering(answers: str) -> str:
    """Return a driver that prints the value of an expression for the operation ``o``."""
    program = "import time\nfor q in open(0):\n n, o, *w = q.split()\n"
    return program + f" print('@beanstalk', n, {answers}, flush=True)\n"


def test_what_blocks_a_requirement_is_named() -> None:
    hanging = answering("'ok' if o == 'connect' else time.sleep(60)")
    failing = answering("'ok' if o == 'connect' else 'error'")
    for program, slug, blocked_by in (
        (hanging, "reply.pause-tube-paused", "send.pause-tube"),
        (failing, "reply.touch-touched", "reply.reserve-reserved"),
    ):
        start = partial(Driver, [sys.executable, "-c", program])
        cases = [case for case in all_cases() if case.slug == slug]
        outcomes = ClientCampaign(start, 1.0, 1).run(cases)
        tally = judged(outcomes, "faulty", {}, is_whole=False)
        assert tally.entries[slug].verdict is Verdict.BLOCKED
        assert tally.entries[slug].blocked_by == [blocked_by]
        assert f"1 blocked by {blocked_by})" in tally.conclusion().sentence
        [test] = recorded(outcomes, {}, ())
        assert test.blocked_by == [blocked_by]


def test_a_blocked_case_without_an_owner_has_its_reason() -> None:
    [case] = [case for case in all_cases() if case.slug == "send.put"]
    tally = judged([CaseOutcome(case, Verdict.BLOCKED, "connect failed")], "x", {}, is_whole=False)
    assert "1 blocked: connect failed)" in tally.conclusion().sentence


KEEPING = """
import socket, time
for question in open(0):
    number, name, *words = question.split()
    if name == "connect":
        made, kept = socket.create_connection((words[0], int(words[1]))), []
    elif name == "use" and FREES:
        print(len(b"x" * (64 << 20)), flush=True)
    elif name == "delete":
        made.sendall(b"delete 9\\r\\n")
    while name == "delete" and made.recv(1 << 16):
        time.sleep(0.4)
        kept.append(b"x" * (4 << 20))
    print("@beanstalk", number, "ok 1", flush=True)
"""
"""A client that reads an endless line slowly, and keeps more than that."""


@pytest.mark.parametrize("frees", [True, False])
def test_the_memory_of_a_slow_client_is_measured_to_the_end(frees: bool) -> None:
    """Neither the speed of a client nor what it did before decides what it is found to keep."""
    program = KEEPING.replace("FREES", str(frees))
    player = CasePlayer(lambda: Driver([sys.executable, "-c", program]), timeout=6.0)
    [case] = [case for case in all_cases() if case.slug == "lies.endless-line-memory"]
    try:
        player.play(ClientCase("send.use", "use x61", succeeds))
        outcome = player.play(case)
    finally:
        player.close()
    assert outcome.mismatch is not None, outcome.reason
    assert "the process grows by at most 24 MiB" in outcome.mismatch.expected


def test_an_undecided_case_is_played_again_while_no_other_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starved = iter([Starved(40.0, 40.0, 0.0, 40.0)] * PLAYS)
    idle = Starved(0.0, 2.0, 0.0, 2.0)
    monkeypatch.setattr(Starvation, "since", lambda self: next(starved, idle))
    program = answering("'error' if o == 'kick' else 'ok'")
    start = partial(Driver, [sys.executable, "-c", program])
    reported: list[CaseOutcome] = []
    case = ClientCase("reply.kick-kicked", "kick 9", gives("7"))
    outcomes = ClientCampaign(start, timeout=60, workers=2).run([case], reported.append)
    assert [one.verdict for one in outcomes] == [Verdict.FAIL]
    assert reported == outcomes


@pytest.mark.parametrize(
    ("answers", "is_busy", "verdict"),
    [
        (["error", "ok"], False, Verdict.FLAKY),
        (["error", "ok"], True, Verdict.PASS),
        (["error"], False, Verdict.FAIL),
        (["error"], True, Verdict.INCONCLUSIVE),
        (["ok 8"], True, Verdict.FAIL),
    ],
)
def test_a_busy_machine_excuses_what_it_may_have_caused(
    answers: list[str],
    is_busy: bool,
    verdict: Verdict,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starved = Starved(40.0 if is_busy else 0.0, 2.0, 0.0, 2.0)
    monkeypatch.setattr(Starvation, "since", lambda self: starved)
    played = tmp_path / "played"
    program = f"import os\nanswers, played = {answers!r}, {str(played)!r}\n"
    program += "for q in open(0):\n n, o, *w = q.split()\n answer = 'ok'\n"
    program += (
        " if o == 'kick':\n  done = os.path.getsize(played) if os.path.exists(played) else 0\n"
    )
    program += "  answer = answers[min(done, len(answers) - 1)]\n  open(played, 'a').write('x')\n"
    program += " print('@beanstalk', n, answer, flush=True)\n"
    player = CasePlayer(lambda: Driver([sys.executable, "-c", program]), timeout=60)
    try:
        outcome = player.play(ClientCase("reply.kick-kicked", "kick 9", gives("7")))
    finally:
        player.close()
    assert outcome.verdict is verdict


def test_a_client_that_hangs_is_restarted() -> None:
    program = answering("time.sleep(60) if o == 'delete' else 'ok', *['1'] * (o == 'put')")
    cases = [
        ClientCase("send.delete", "delete 1", succeeds),
        ClientCase("send.use", "use x61", succeeds),
    ]
    outcomes = ClientCampaign(lambda: Driver([sys.executable, "-c", program]), 1.0, 1).run(cases)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.FAIL, Verdict.PASS]
