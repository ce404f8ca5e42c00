"""Sessions from the clipboard: commands and replies are told apart by their first word."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.oracle.check import check
from conformance.reading import parse
from conformance.transcript import NotATranscript
from conformance.verdict import Inconclusive
from tests.command_line import check_text

STATS = """\
---
id: 1
tube: default
state: reserved
pri: 0
age: 4
delay: 0
ttr: 60
time-left: 56
file: 0
reserves: 1
timeouts: 0
releases: 0
buries: 0
kicks: 0
"""
TELNET = f"""\ufeff$ telnet localhost 11300
Trying 127.0.0.1...
Connected to localhost.
Escape character is '^]'.
put 0 0 60 8
delete 1
INSERTED 1

reserve
RESERVED 1 8
delete 1
stats-job 1
OK {len(STATS)}
{STATS}
helo
UNKNOWN_COMMAND
delete 1
DELETED
quit
Connection closed by foreign host.
"""
TWO_CLIENTS = r"""
1> put 0 0 60 5
1> hello
1> INSERTED 1
2> reserve
2> RESERVED 1 5
2> hello
1> delete 1
1> NOT_FOUND
"""


def _messages(text: str) -> list[str]:
    return [entry.line() for entry in parse(text).entries]


def test_a_telnet_session_is_judged_as_it_was_pasted(tmp_path: Path) -> None:
    done = check_text(tmp_path, TELNET)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "allowed by profile 1.13: 12 messages\n"
    done = check_text(tmp_path, TELNET.replace("DELETED", "NOT_FOUND"))
    assert (done.returncode, done.stderr) == (1, "")
    assert "> A < NOT_FOUND\\r\\n\n" in done.stdout
    assert "EXPECTED  DELETED\\r\\n" in done.stdout


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("number", ["{}> ", "{}: ", "[{}] ", "client {}: ", "worker{}> "])
def test_several_clients_are_told_apart_by_what_stands_before_a_line(number: str, end: str) -> None:
    text = TWO_CLIENTS.strip()
    for client in "12":
        text = text.replace(f"{client}> ", number.format(client))
    told = parse(text.replace("\n", end))
    assert [entry.connection for entry in told.entries] == [*"AABBAA"]
    assert check(told) is None


def test_marks_of_both_sides_are_no_names() -> None:
    for sent, got in (("> ", "< "), ("C: ", "S: "), ("-> ", "<- ")):
        text = f"{sent}put 0 0 60 1\n{sent}a\n{got}INSERTED 1\n"
        assert _messages(text) == [r"A > put 0 0 60 1\r\na\r\n", r"A < INSERTED 1\r\n"]


def test_a_body_of_several_lines_has_the_line_ends_that_fit_its_size() -> None:
    assert _messages("put 0 0 60 3\na\nb\n") == [r"A > put 0 0 60 3\r\na\nb\r\n"]
    assert _messages("put 0 0 60 4\na\nb\n") == [r"A > put 0 0 60 4\r\na\r\nb\r\n"]
    # What is no size at all is what the server must notice.
    wrong = "put 0 0 60 4\nhello\nEXPECTED_CRLF\n"
    assert _messages(wrong) == [r"A > put 0 0 60 4\r\nhello\r\n", r"A < EXPECTED_CRLF\r\n"]


def test_an_empty_line_that_was_lost_behind_yaml_is_put_back() -> None:
    listed = "list-tubes\nOK 14\n---\n- default\n"
    assert _messages(listed + "\nquit\n") == _messages(listed + "quit\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", "line 3 is not a command, and not a reply: 'hello'"),
        ("OK 903\n---\n...", "line 3 says that 903 bytes follow, and others do"),
    ],
)
def test_a_line_that_may_mean_anything_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(NotATranscript, match=said):
        parse(f"stats\n\n{line}\n")
    done = check_text(tmp_path, f"stats\n\n{line}\n")
    assert done.returncode == 4
    assert r"write “A > put 0 0 60 5\r\nhello\r\n” for what client A sends" in done.stderr
    assert done.stderr.count("\n") == 1


def test_lines_without_line_ends_are_whole_lines(tmp_path: Path) -> None:
    assert _messages("A > put 0 0 60 5\nA > hello\nA < INSERTED 1\n") == [
        *(r"A > put 0 0 60 5\r\n", r"A > hello\r\n", r"A < INSERTED 1\r\n"),
    ]
    done = check_text(tmp_path, "A > put 0 0 60 5\nA > hello\nA < BANANA\n")
    assert done.returncode == 1
    assert "no reply of the protocol: BANANA" in done.stdout
    # A client that goes in the middle of a line, or cuts it.
    assert _messages("A > put\nA ! closes\n") == ["A > put", "A ! closes"]
    assert _messages("A > sta\nA > ts\\r\\n\nA < OK") == ["A > sta", r"A > ts\r\n", "A < OK"]


def test_nothing_is_no_transcript(tmp_path: Path) -> None:
    for text in ("", "\n\n", "# only a comment\n"):
        done = check_text(tmp_path, text)
        assert done.returncode == 4
        assert done.stderr.endswith("is empty: there is no transcript in it\n")


SHORT = "put 0 0 60 1\na\nINSERTED 1\nreserve\nRESERVED 1 1\na\n"


@pytest.mark.parametrize(
    ("session", "allowed"),
    [
        # Whatever ends some day may have ended, or not.
        (SHORT + "reserve-with-timeout 5\nTIMED_OUT\ntouch 1\nTOUCHED\n", True),
        (SHORT + "reserve-with-timeout 5\nTIMED_OUT\ntouch 1\nNOT_FOUND\n", True),
        (SHORT + "reserve\nDEADLINE_SOON\nreserve\nRESERVED 1 1\na\n", True),
        (SHORT + "release 1 0 30\nRELEASED\nreserve\nRESERVED 1 1\na\n", True),
        (SHORT + "release 1 0 0\nRELEASED\nreserve-with-timeout 5\nTIMED_OUT\n", False),
        (SHORT + "delete 1\nDELETED\ntouch 1\nTOUCHED\n", False),
    ],
)
def test_any_time_may_have_passed_where_none_is_known(session: str, allowed: bool) -> None:
    finding = check(parse(session))
    assert (finding is None) == allowed, finding


def test_too_many_times_are_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.oracle.unknown_times.MOST", 3)
    with pytest.raises(Inconclusive, match="too many are possible"):
        check(parse(SHORT + "delete 1\nDELETED\ntouch 1\nTOUCHED\n"))


@pytest.mark.parametrize("line", ["stats-job 1\nOK 10\n---\nid: 1\n", "peek 1\nFOUND 1 1\na\n"])
def test_a_job_that_was_deleted_is_gone(line: str) -> None:
    finding = check(parse("put 0 0 60 1\na\nINSERTED 1\ndelete 1\nDELETED\n" + line))
    assert finding is not None
    assert finding.level == "must"
