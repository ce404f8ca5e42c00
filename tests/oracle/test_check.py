"""Transcripts: written, read again, and judged from a file."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import oracle
from conformance.oracle.attribution import broken
from conformance.oracle.check import check
from conformance.oracle.diagnosis import diagnose
from conformance.oracle.violation import Violation
from conformance.random_testing.exploration import Exploration
from conformance.reading import parse
from conformance.target.builtin import BuiltIn
from conformance.target.launch import Launched
from conformance.target.limits import Limits
from conformance.transcript import NotATranscript, Transcript
from conformance.verdict import Deviation, Inconclusive
from fuzz.campaign import ProgramCampaign
from reference_server.events import Connected
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES
from reference_server.state import Client
from reference_server.wire import NOT_FOUND, Reply, parse_line
from tests.command_line import check_text, command
from tests.servers import REFERENCE_COMMAND

SEED_001 = r"""
# How beanstalk handles multiple workers: the complete exchange.
A > watch tweets\r\nignore default\r\n
A < WATCHING 2\r\n
A < WATCHING 1\r\n
B > use tweets\r\nput 0 0 30 21\r\nthis is my cool tweet\r\n
B < USING tweets\r\n
B < INSERTED 1\r\n
A > reserve\r\nreserve\r\n
A < RESERVED 1 21\r\nthis is my cool tweet\r\n
A > delete 1\r\n
+ 29s
A < DEADLINE_SOON\r\n
A < DELETED\r\n
A > quit\r\n
A ! closed by the target
B ! half-closes
B ! closed by the target
"""


@pytest.mark.parametrize(
    ("profile", "line"),
    [
        ("0.6", "put 0 0 60 4294967296"),
        ("1.0", "put 4294967295  1 1 4294967295"),
        ("1.4.3", "pause-tube 4294967297 0"),
        ("1.8", "pause-tube 0  1"),
    ],
)
def test_the_last_line_may_have_several_meanings_and_no_reply(profile: str, line: str) -> None:
    assert check(parse(f"A > {line}\\r\\n"), PROFILES[profile]) is None


def test_every_byte_is_written_and_read_again() -> None:
    transcript = Transcript()
    transcript.add("A", ">", bytes(range(256)), 0.0)
    transcript.add("AB", "!", b"half-closes", 0.0)
    assert parse(transcript.render(0, fold=False)).entries == transcript.entries


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("A = x", "line 2 is not of a transcript"),
        ("a > x", "line 2 is not of a transcript"),
        (r"A > \q", "line 2 has"),
        ("A > ü", "line 2 has"),
        ("A > put …(760 more bytes)…", "line 2 has left out 760 more bytes: take the whole"),
        ("  … 1 message …", "line 2 has left out 1 message: take the whole transcript"),
        ("+ soon", "line 2 is not of a transcript"),
    ],
)
def test_what_is_no_transcript(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(NotATranscript, match=said):
        parse("# nothing\n" + line)
    done = check_text(tmp_path, "# nothing\n" + line)
    assert done.returncode == 4
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_exchange_of_seed_001_is_allowed(tmp_path: Path) -> None:
    done = check_text(tmp_path, SEED_001)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("allowed by profile 1.13: 16 messages\n")


def test_a_transcript_that_is_not_allowed(tmp_path: Path) -> None:
    done = check_text(tmp_path, SEED_001.replace("29s", "20s"), "--profile", "1.12")
    assert done.returncode == 1
    assert r"> A < DEADLINE_SOON\r\n" in done.stdout
    assert "EXPECTED  no reply yet\nOBSERVED  DEADLINE_SOON\\r\\n\n" in done.stdout


def test_a_name_may_be_used_again_after_the_end_of_its_connection(tmp_path: Path) -> None:
    text = "A > quit\\r\\n\nA ! closed by the target\nA > list-tube-used\\r\\n\n"
    done = check_text(tmp_path, text + "A < USING default\\r\\n\n")
    assert (done.returncode, done.stderr) == (0, "")
    done = check_text(
        tmp_path, text.replace("closed by the target", "closes") + "A < USING a\\r\\n\n"
    )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(("end", "allowed"), [("closes", True), ("resets", True), ("", False)])
def test_a_job_is_ready_again_when_its_client_has_gone(end: str, allowed: bool) -> None:
    held = (
        "A > put 0 0 60 1\\r\\na\\r\\nreserve\\r\\n\n"
        "A < INSERTED 1\\r\\nRESERVED 1 1\\r\\na\\r\\n\n"
    )
    again = "B > reserve\\r\\n\nB < RESERVED 1 1\\r\\na\\r\\n\n"
    transcript = parse(held + (f"A ! {end}\n" if end else "") + again)
    assert (check(transcript, NEWEST) is None) == allowed


@pytest.mark.parametrize(
    ("tube", "allowed"), [("default", True), ("a", True), ("conformance-a", False)]
)
def test_others_may_have_been_in_any_tube_but_those_of_the_suite(tube: str, allowed: bool) -> None:
    model, transcript = Model(), Transcript()
    # Somebody of whom the transcript does not tell is still there.
    model.step(Connected(), 0, 2)
    model.step(Connected(), 0, 1)
    for line in (f"use {tube}", f"stats-tube {tube}"):
        request = parse_line(line.encode(), NEWEST)
        [(_, reply)] = model.step(request, 0, 1)
        assert isinstance(reply, Reply)
        said = reply.encode().replace(b"total-jobs: 0", b"total-jobs: 7")
        transcript.add("A", ">", line.encode() + b"\r\n", 0.0)
        transcript.add("A", "<", said, 0.0)
    assert (check(transcript, NEWEST) is None) == allowed


def test_bytes_that_are_no_reply(tmp_path: Path) -> None:
    done = check_text(tmp_path, r"A < HTTP/1.1 400\r\n")
    assert done.returncode == 1
    assert "OBSERVED  no reply of the protocol" in done.stdout


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "conformance", "check", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 4
    assert done.stderr.endswith("none: No such file or directory\n")


def test_a_transcript_is_driven_again_with_the_ids_of_now(tmp_path: Path) -> None:
    file = tmp_path / "some.transcript"
    put = r"A > put 0 0 60 1\r\na\r\n" + "\n"
    said = r"A < INSERTED 77\r\n" + "\n" + r"B > peek 77\r\ndelete 77\r\n"
    file.write_text(put + said + "\n+ 2s\nA ! half-closes\n", encoding="utf-8")
    done = command("replay", str(file), "--launch", REFERENCE_COMMAND)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("allowed by profile 1.13: ")


def test_counters_that_were_not_compared_are_told(tmp_path: Path) -> None:
    file = tmp_path / "some.transcript"
    file.write_text("A > stats\\r\\n\n", encoding="utf-8")
    told = "the counters of the target were not compared, as "
    with Launched(REFERENCE_COMMAND) as server:
        done = command("replay", str(file), f"--target={server.address[0]}:{server.address[1]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{told}others may use it"
    launched = command("replay", str(file), "--launch", REFERENCE_COMMAND)
    assert told not in launched.stdout


def test_what_is_found_is_kept_and_looked_at_first(tmp_path: Path) -> None:
    faulty = Fault("use.using", "of no use", model=type("Deaf", (Model,), {"_use": _deaf_use}))
    server = BuiltIn(fault=faulty, limits=Limits(reply=1.0))
    exploration = Exploration(5, folder=tmp_path)
    finding = ProgramCampaign(exploration, server).run(5)
    assert finding is not None
    exploration.deviation(finding, Transcript())
    (path,) = tmp_path.glob("*/transcript")
    assert r"use " in path.read_text(encoding="utf-8")
    shown = Transcript()
    with pytest.raises(Deviation, match="as kept in"):
        exploration.judge(server, shown, lambda: "", exploration.earlier())
    assert b"use " in shown.entries[-2].data
    server.close()
    server = BuiltIn()
    assert exploration.judge(server, Transcript(), lambda: "all", exploration.earlier()) == "all"
    server.close()


README_EXAMPLE = r"""
A > use a\r\n
A < USING a\r\n
A > watch a\r\n
A < WATCHING 2\r\n
A > put 0 0 60 1\r\na\r\n
A < INSERTED 9\r\n
A > reserve-with-timeout 0\r\n
A < TIMED_OUT\r\n
"""


EARLY = r"""
A > put 0 2 3 1\r\na\r\n
A < INSERTED 1\r\n
+ 1.7s
A > kick-job 1\r\n
A < NOT_FOUND\r\n
"""
OUT_OF_REACH = r"""
A > use a\r\nput 0 0 99 1\r\na\r\nreserve-job 1\r\nuse b\r\nlist-tubes\r\nstats-tube a\r\n
A < USING a\r\nINSERTED 1\r\nRESERVED 1 1\r\na\r\n
A < USING b\r\nOK 20\r\n---\n- default\n- "b"\n\r\nNOT_FOUND\r\n
"""


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        (README_EXAMPLE, ["lifecycle.starts-ready", "reserve.any-watched-tube"]),
        (README_EXAMPLE.replace("TIMED_OUT", r"RESERVED 9 1\r\na"), []),
        (README_EXAMPLE.replace("TIMED_OUT", "OUT_OF_MEMORY"), []),
        (r"A > delete\r\n" + "\n" + r"A < BAD_FORMAT\r\n", ["error.word-without-argument"]),
        (SEED_001, []),
        (EARLY, ["kick-job.kicked", "put.ready-after-delay"]),
        (OUT_OF_REACH, ["lifecycle.tube-kept-by-reserved-job"]),
        (
            r"A > reserve\r\nuse a\r\n" + "\n" + r"A < USING a\r\n",
            ["reserve.pipelined-behind-wait"],
        ),
        (
            r"A >   \r\n" + "\n" + r"A < BAD_FORMAT\r\n",
            ["protocol.several-blanks", "error.empty-line"],
        ),
    ],
    ids=(
        *("a fault", "no fault", "no fault of ours", "de-facto", "closed by the target"),
        *("an early delay", "a tube out of reach", "behind a reserve", "blanks"),
    ),
)
def test_what_is_wrong_is_named(text: str, requirements: list[str]) -> None:
    assert broken(parse(text).entries, NEWEST) == requirements


def _deaf_use(self: Model, conn: Client, name: str) -> Reply:
    return NOT_FOUND


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --target or --launch: on which server?"),
        (["--target=nonsense"], "--target takes HOST:PORT"),
        (["--target=127.0.0.1:1"], "cannot be reached"),
        (["--launch", "/none {port}"], "cannot run"),
        (["--target=a:1", "--launch", "b"], "exclude each other"),
    ],
)
def test_nothing_to_replay_on(tmp_path: Path, arguments: list[str], said: str) -> None:
    file = tmp_path / "some.transcript"
    file.write_text("A > list-tubes\\r\\n\n", encoding="utf-8")
    done = command("replay", str(file), *arguments)
    assert done.returncode == 4
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("key", ["cmd-put", "current-producers"])
def test_how_failed_commands_are_counted_is_left_open(key: str) -> None:
    told = [f"OK with {key}: 2"], f"OK with {key}: 1"
    failed = parse("A > put 0 0 9 1\\r\\nabc\nA < EXPECTED_CRLF\\r\\n\nA > stats\\r\\n\n").entries
    good = parse("A > put 0 0 9 1\\r\\na\\r\\n\nA < INSERTED 1\\r\\n\nA > stats\\r\\n\n").entries
    assert diagnose(Violation(*told, 2), failed, NEWEST).de_facto
    assert not diagnose(Violation(*told, 2), good, NEWEST).de_facto


def test_how_many_jobs_there_are_is_not_left_open() -> None:
    told = ["OK with current-jobs-ready: 2"], "OK with current-jobs-ready: 1"
    text = f"A > {'x' * 300}\\r\\n\nA < BAD_FORMAT\\r\\n\nA > stats\\r\\n\n"
    failed = parse(text).entries
    assert not diagnose(Violation(*told, 2), failed, NEWEST).of_failures


@pytest.mark.parametrize("reply", ["BAD_FORMAT", "UNKNOWN_COMMAND", None])
@pytest.mark.parametrize("line", ["quit x", "quitx", "quit 1"])
def test_quit_with_more_behind_may_be_answered_in_many_ways(
    tmp_path: Path, line: str, reply: str | None
) -> None:
    said = f"A < {reply}\\r\\n" if reply else "A ! closed by the target"
    rest = "A > list-tube-used\\r\\n\nA < USING default\\r\\n\n"
    done = check_text(tmp_path, f"A > {line}\\r\\n\n{said}\n{rest}")
    assert done.returncode == 0, done.stdout
    wrong = check_text(tmp_path, f"A > {line}\\r\\n\n{said}\n{rest.replace('default', 'a')}")
    assert wrong.returncode == 1, wrong.stdout
    assert "LEVEL     must" in wrong.stdout


@pytest.mark.parametrize(
    ("line", "reply", "level"),
    [
        ("kick 1x", "BAD_FORMAT", "unspecified"),
        ("delete", "BAD_FORMAT", "de-facto: it breaks error.word-without-argument"),
        ("delete 1\\t", "NOT_FOUND", "unspecified"),
        ("", "BAD_FORMAT", "de-facto: it breaks error.empty-line"),
        ("kick abc", "KICKED 0", "must"),
        ("stats x", "UNKNOWN_COMMAND", "must"),
        ("list-tubes 1", "OK 14\\r\\n---\\n- default\\n", "must"),
    ],
)
def test_the_level_of_an_answer(tmp_path: Path, line: str, reply: str, level: str) -> None:
    done = check_text(tmp_path, f"A > {line}\\r\\n\nA < {reply}\\r\\n\n")
    assert f"LEVEL     {level}" in done.stdout
    assert done.returncode == int(level == "must")


@pytest.mark.parametrize("line", ["release 1 0 4294967296", "pause-tube default 4294967296"])
def test_old_texts_limit_no_time(tmp_path: Path, line: str) -> None:
    text = f"A > {line}\\r\\n\nA < NOT_FOUND\\r\\n\n"
    done = check_text(tmp_path, text, "--profile=1.10")
    assert "LEVEL     unspecified" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("odd", "level"),
    [("BAD_FORMAT", "must"), ("UNKNOWN_COMMAND", "must"), ("DELETED", "unspecified")],
)
def test_a_line_that_was_refused_has_done_nothing(tmp_path: Path, odd: str, level: str) -> None:
    put = "A > put 0 0 60 1\\r\\na\\r\\n\nA < INSERTED 1\\r\\n\n"
    asked = f"A > stats \\r\\ndelete 7\\t\\r\\n\nA < BAD_FORMAT\\r\\n{odd}\\r\\n\n"
    done = check_text(tmp_path, put + asked + "A > delete 1\\r\\n\nA < NOT_FOUND\\r\\n\n")
    assert f"LEVEL     {level}" in done.stdout


def test_the_example_on_the_page_of_the_oracle_is_true() -> None:
    failed, attempted = doctest.testmod(oracle)
    assert attempted == 3
    assert not failed


@pytest.mark.parametrize(
    ("line", "reply", "level"),
    [
        ("x" * 300, "UNKNOWN_COMMAND", "unspecified"),
        (f"delete {'0' * 300}", "NOT_FOUND", "must"),
    ],
)
def test_a_long_line_of_no_command_may_be_unknown(line: str, reply: str, level: str) -> None:
    finding = check(parse(f"A > {line}\\r\\n\nA < {reply}\\r\\n\n"))
    assert finding is not None
    assert finding.level == level


def test_what_is_told_from_the_last_messages_only_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "A > use a\\r\\n\nA < USING a\\r\\n\n" * 3 + "A > delete 1\\r\\n\nA < TOUCHED\\r\\n\n"
    finding = check(parse(text))
    assert finding is not None
    assert "messages" not in finding.about
    monkeypatch.setattr(sys.modules[check.__module__], "LOOKED_AT", 4)
    limited = check(parse(text))
    assert limited is not None
    assert limited.about.endswith("as far as the last 4 messages show")


_PUTS = "A > put 0 0 9 1\\r\\na\\r\\nput 0 0 9 1\\r\\nb\\r\\nput 0 0 9 1\\r\\nc\\r\\n\n" + "".join(
    f"A < INSERTED {id}\\r\\n\n" for id in (1, 2, 3)
)
_BACK = (
    "A > reserve-job 1\\r\\nreserve-job 2\\r\\nrelease 1 0 0\\r\\nbury 2 0\\r\\nkick-job 2\\r\\n\n"
    "A < RESERVED 1 1\\r\\na\\r\\nRESERVED 2 1\\r\\nb\\r\\nRELEASED\\r\\nBURIED\\r\\nKICKED\\r\\n\n"
)


@pytest.mark.parametrize(("before", "level"), [(_PUTS + _BACK, "de-facto"), (_PUTS, "must")])
def test_only_jobs_that_came_back_may_have_other_places(before: str, level: str) -> None:
    # No fault of one requirement explains it: one job was released, another kicked.
    transcript = parse(before + "A > reserve\\r\\n\nA < RESERVED 3 1\\r\\nc\\r\\n\n")
    finding = check(transcript, NEWEST)
    assert finding is not None
    assert finding.level == level


def test_what_a_server_without_memory_answers_is_not_judged() -> None:
    text = "A > list-tube-used\\r\\n\nA < USING default\\r\\n\n! memory limited\n"
    with pytest.raises(Inconclusive, match="after “memory limited”, any command may fail"):
        check(parse(text + "A > list-tube-used\\r\\n\nA < OUT_OF_MEMORY\\r\\n\n"))
    found = check(parse(text.replace("default", "other")))
    assert found is not None
    assert found.expected == "USING default\\r\\n"
