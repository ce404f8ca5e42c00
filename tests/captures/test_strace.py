"""The output of strace: it is judged where it is unambiguous, and refused in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.captures.strace import Trace
from conformance.target.system_calls import is_strace
from conformance.traffic.events import Kind
from tests.traffic.served_traffic import WHILE

SERVER = r"""
7 1700000000.000001 accept(3, {AF_INET, sin_port=htons(5), sin_addr=inet_addr("10.0.0.9")}, [9]) = 5
7 1700000000.000002 read(5, "put 0 0 60 3\r\n\1\"\\\r\n", 224) = 19
7 1700000000.000003 write(5, "INSERTED 1\r\n", 12) = 12
7 1700000000.000004 read(5, "reserve\r\n", 224) = 9
7 1700000000.000005 writev(5, [{iov_base="RESERVED 1 3\r\n"}, {iov_base="\001\x22\\\r\n"}], 2) = 19
7 1700000000.000006 read(5, "delete 1\r\n", 224) = 10
7 1700000000.000007 write(5, "DELETED\r\n", 9) = 9
7 1700000000.000008 read(5, 0x55d5, 224) = -1 EAGAIN (Resource temporarily unavailable)
7 1700000000.000009 read(5, "", 224) = 0
7 1700000000.000010 close(5) = 0
7 1700000000.000011 --- SIGTERM {si_signo=SIGTERM} ---
7 1700000000.000012 +++ killed by SIGTERM +++
""".lstrip()
CLIENT = r"""
[pid 8] 12:00:00.000001 connect(3, {sin_port=htons(11300), sin_addr=inet_addr("10.0.0.1")}, 16) = 0
[pid 8] 12:00:00.000002 sendto(3, "use mail\r\n", 10, 0, NULL, 0) = 10
[pid 8] 12:00:00.000003 recvfrom(3, <unfinished ...>
[pid 9] 12:00:00.000004 recvfrom(4, "x", 9, 0, NULL, NULL) = 1
[pid 8] 12:00:00.000005 <... recvfrom resumed>"USING mail\r\n", 4096, 0, NULL, NULL) = 12
""".lstrip()


def check(tmp_path: Path, text: str) -> int:
    path = tmp_path / "trace"
    path.write_text(text)
    return main(["check", str(path)])


def test_a_server_that_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, SERVER) == 0
    output = capsys.readouterr().out
    assert "server of the trace" in output
    assert "1 connection, 3 requests, 3 replies" in output
    events = [found.event for found in Trace().events(SERVER.splitlines())]
    assert events[1].data == b'put 0 0 60 3\r\n\1"\\\r\n'
    assert events[4].data == b'RESERVED 1 3\r\n\1"\\\r\n'
    assert [one.kind for one in events[-2:]] == [Kind.CLIENT_ENDED, Kind.CLOSED]


def test_a_server_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = SERVER.replace('"DELETED\\r\\n", 9) = 9', '"NOT_FOUND\\r\\n", 11) = 11')
    assert check(tmp_path, wrong) == 1
    output = capsys.readouterr().out
    assert "EXPECTED  a reply about job 1, which is reserved" in output
    assert "not decided" not in output
    lines = wrong.splitlines(keepends=True)
    assert check(tmp_path, "".join(line for line in lines if "writev" not in line)) == 1
    assert "not decided: the trace has no writev" in capsys.readouterr().out


def test_a_client(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, CLIENT) == 0
    output = capsys.readouterr().out
    assert "server 10.0.0.1:11300" in output
    assert "1 request, 1 replies" in output
    assert check(tmp_path, CLIENT.replace("USING mail", "USING main")) == 1


WAITS = """
8 1700000000.1 connect(3, {sin_port=htons(11300), sin_addr=inet_addr("10.0.0.1")}, 16) = 0 <0.01>
8 1700000000.2 sendto(3, "reserve-with-timeout 2\\r\\n", 24, 0, NULL, 0) = 24 <0.01>
8 1700000000.3 recvfrom(3, "TIMED_OUT\\r\\n", 8192, 0, NULL, NULL) = 11 <1.95>
""".lstrip()


def test_a_client_that_waits_within_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, WAITS) == 0
    assert "timeouts are not judged" not in capsys.readouterr().out
    assert check(tmp_path, WAITS.replace("<1.95>", "<0.95>")) == 1
    assert "TIMED_OUT\\r\\n after 1.050 s" in capsys.readouterr().out
    # Without -T, it is not shown how long it has waited.
    assert check(tmp_path, re.sub(" <.*>", "", WAITS)) == 0
    assert "timeouts are not judged" in capsys.readouterr().out


@pytest.mark.parametrize("written", ["", "blocked", "answered"])
def test_a_server_that_owes_a_reply(written: str, tmp_path: Path) -> None:
    lines = [f"7 1700000000.{fd} accept(3, NULL, NULL) = {fd} <0.0>" for fd in (5, 6)]
    lines.append('7 1700000001.0 read(5, "reserve-with-timeout 1\\r\\n", 224) = 24 <0.0>')
    result = {"blocked": "-1 EAGAIN (Resource temporarily unavailable)", "answered": "11"}
    if written:
        call = 'write(5, "TIMED_OUT\\r\\n", 11)'
        lines.append(f"7 1700000002.0 {call} = {result[written]} <0.0>")
    for second in range(3, 3 + 2 * WHILE):
        lines.append(f'7 17000000{second:02}.0 read(6, "list-tube-used\\r\\n", 224) = 16 <0.0>')
        lines.append(f'7 17000000{second:02}.1 write(6, "USING default\\r\\n", 15) = 15 <0.0>')
    assert check(tmp_path, "\n".join(lines)) == int(written == "")
    assert check(tmp_path, "\n".join(lines).replace(" <0.0>", "")) == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (SERVER.replace("3\\r\\n\\1", '3\\r\\n"...,', 1), "line 2 has a string that is cut"),
        (SERVER.replace("1700000000.000003 ", ""), "line 3 has no time"),
        ("".join(SERVER.splitlines(keepends=True)[1:]), "line 1 uses descriptor 5, which was open"),
        (SERVER.splitlines(keepends=True)[0] * 2, "line 2 opens descriptor 5 again"),
        (SERVER.splitlines(keepends=True)[0], "there is no beanstalk conversation in it"),
        (
            CLIENT.splitlines(keepends=True)[0]
            + '[pid 8] 12:00:01 sendto(3, "reserve\\r\\n", 9, 0, NULL, 0 <unfinished ...>\n'
            + "[pid 8] 12:00:01 <... sendto resumed>) = 4\n",
            "line 3: only a part was written",
        ),
    ],
)
def test_what_is_ambiguous_is_refused_in_one_sentence(
    tmp_path: Path, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, text) == 4
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_transcripts_and_sessions_are_no_traces() -> None:
    assert all(map(is_strace, SERVER.splitlines()[:5]))
    for line in ("A > put 0 0 60 5\\r\\nhello\\r\\n", "1> put 0 0 60 5", "+ 2s", "stats", "OK 5"):
        assert not is_strace(line)
