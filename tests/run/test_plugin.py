"""The suite as its users see it: exit codes, sentences, evidence, installed or from a checkout."""

from __future__ import annotations

import contextlib
import http.server
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from conformance.run.aggregation import Result, Tally
from conformance.target.launch import Launched
from reference_server.wire import OK
from reports.results import read_results
from reports.verdicts import Verdict
from tests import ROOT
from tests.command_line import FAST, TIMED, command, refuses, suite
from tests.faults import FILES
from tests.made import case
from tests.parts import part_of
from tests.servers import KEEPS, REFERENCE_COMMAND, changed_server


@contextlib.contextmanager
def listener(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """Yield a TCP server on a free port that handles each connection with ``serve``."""
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    serve(sock.accept()[0])

        threading.Thread(target=run, daemon=True).start()
        yield sock.getsockname()[1]


def test_a_target_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    refuses(suite(f"--target=127.0.0.1:{port}"), "cannot be reached: Connection refused")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:", ":1", "127.0.0.1:x", "a:99999"])
def test_a_target_that_is_no_address(address: str) -> None:
    refuses(suite(f"--target={address}"), "--target takes HOST:PORT or unix:/path")


def test_a_unix_socket_that_is_not_there(tmp_path: Path) -> None:
    refuses(suite(f"--target=unix:{tmp_path}/none"), "cannot be reached: No such file")


def test_an_http_server() -> None:
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = suite(f"--target=127.0.0.1:{server.server_port}")
        server.shutdown()
    refuses(done, "the target closed the connection after <!DOCTYPE")


def test_a_port_that_never_answers() -> None:
    kept: list[socket.socket] = []
    with listener(kept.append) as port:
        refuses(suite(f"--target=127.0.0.1:{port}"), "did not answer within 5 seconds")


def test_a_port_that_closes_at_once() -> None:
    with listener(lambda sock: sock.close()) as port:
        refuses(
            suite(f"--target=127.0.0.1:{port}"),
            r"is not a beanstalk server: sent list-tube-used\r\n, the target closed the connection",
        )


def test_a_port_that_floods() -> None:
    def flood(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock.sendall(b"x" * 65536)

    with listener(flood) as port:
        refuses(suite(f"--target=127.0.0.1:{port}"), "is not a beanstalk server: a reply line of")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--launch=/nonexistent {port}"], "cannot run '/nonexistent': No such file"),
        (["--launch=sh -c 'echo no; exit 3' {port}"], "exited with status 3"),
        (["--launch=true {port"], "the command to launch is not well-formed"),
        (["--launch=true {nonsense}"], "the command to launch has {nonsense}; there are only"),
        (["--launch="], "the command to launch is empty"),
        (["--launch=true", "--target=a:1"], "exclude each other"),
        (["--clock=fake"], "a fake clock needs --launch"),
        (["--profile=9"], "there is no profile '9'; choose from 0.6"),
        (["--lateness=9"], "the lateness is more than 0"),
        (["--baseline=/nonexistent"], "cannot read the baseline"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], sentence: str) -> None:
    refuses(suite(*arguments), sentence)


@pytest.fixture
def liar() -> Iterator[int]:
    """Yield a server that calls every tube by the same wrong name."""

    def lie(sock: socket.socket) -> None:
        def talk() -> None:
            with sock, sock.makefile("rb") as lines:
                for line in lines:
                    if line.startswith(b"stats"):
                        sock.sendall(OK(b'---\nversion: "<script>"\n').encode())
                    else:
                        sock.sendall(b"USING wrong\r\n")

        threading.Thread(target=talk, daemon=True).start()

    with listener(lie) as port:
        yield port


def test_a_failure_shows_clause_transcript_expected_observed_and_how_to_reproduce(
    liar: int,
) -> None:
    done = suite(f"--target=127.0.0.1:{liar}", FAST)
    assert done.returncode == 1
    # On a busy machine, time has passed.
    lines = [line for line in done.stdout.splitlines() if not line.startswith("  + ")]
    start = lines.index("REQUIREMENT use.using (must; protocol-1.12, Producer Commands)")
    tube = lines[start + 3].split()[3].removesuffix("\\r\\n")
    assert lines[start + 1 : start + 8] == [
        "  “The only reply is: USING <tube>\\r\\n <tube> is the name of the tube now being used.”",
        "TRANSCRIPT",
        f"  A > use {tube}\\r\\n",
        "> A < USING wrong\\r\\n",
        f"EXPECTED  USING {tube}\\r\\n",
        "OBSERVED  USING wrong\\r\\n",
        f"REPRODUCE beanstalk-conformance run {FAST} --target=127.0.0.1:{liar}",
    ]


def test_the_command_that_reproduces_a_failure_works_where_others_have_our_names(
    tmp_path: Path, liar: int
) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("raise RuntimeError('not ours')")
    # ``python -m`` would look for modules in the current folder first.
    script = Path(sys.executable).with_name("beanstalk-conformance")
    chosen = ["run", f"--target=127.0.0.1:{liar}", FAST, "--clock=real", "--start-timeout=9"]
    done = subprocess.run([script, *chosen], cwd=tmp_path, capture_output=True, text=True)
    (line,) = re.findall("REPRODUCE (.*)", done.stdout)
    program, *arguments = shlex.split(line)
    assert program == script.name
    assert arguments[-2:] == ["--start-timeout=9", "--clock=real"]
    again = subprocess.run([script, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 1, again.stderr
    assert "= 1 failed in " in again.stdout


CONFUSED = """
from reference_server.wire import NOT_FOUND

wake_up = Model._wake_up

def confused(model, conn):
    wake_up(model, conn)
    if any(other.timeout_at for tube in model.tubes for other in tube.waiting):
        model._outputs[-1] = conn.id, NOT_FOUND

Model._wake_up = confused
"""
"""The change of a server that answers wrongly while several clients wait."""


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_fails_only_while_other_tests_run_is_reproduced_with_these(
    tmp_path: Path, is_shared: bool
) -> None:
    launch = changed_server(tmp_path, CONFUSED)
    with contextlib.ExitStack() as stack:
        where = f"--launch={launch}"
        if is_shared:
            host, port = stack.enter_context(Launched(launch)).address
            where = f"--target={host}:{port}"
        done = suite(where, "--clock=real", "-k", "test_a_reserve_times_out", cwd=tmp_path)
        (command, *_) = re.findall("REPRODUCE (.*)", done.stdout)
        _, _, tests, *options = shlex.split(command)
        names = (tmp_path / tests.removeprefix("@")).read_text().splitlines()
        assert len(names) > 1
        assert suite(names[0], *options, cwd=tmp_path).returncode == 0
        again = suite(tests, *options, cwd=tmp_path)
    assert (again.returncode, "OBSERVED  NOT_FOUND" in again.stdout) == (1, True)


def test_a_failure_in_pytest_is_reproduced_by_pytest(liar: int) -> None:
    command = [sys.executable, "-m", "pytest", "--pyargs", "-q", FAST]
    chosen = [f"--target=127.0.0.1:{liar}", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *chosen], cwd=ROOT, capture_output=True, text=True)
    assert f"REPRODUCE pytest --pyargs {FAST}" in done.stdout


def test_a_known_deviation_passes_and_its_absence_fails(liar: int, tmp_path: Path) -> None:
    file = tmp_path / "baseline.yaml"
    file.write_text("use.using: {verdict: fail, reason: it lies}\n")
    known = suite(f"--target=127.0.0.1:{liar}", FAST, f"--baseline={file}")
    assert (known.returncode, "1 known" in known.stdout) == (0, True)
    gone = suite(FAST, f"--baseline={file}")
    assert gone.returncode == 1
    assert "not found any more, take it out of the baseline: use.using" in gone.stdout


@pytest.mark.campaign
def test_installed_elsewhere_alone_and_distributed(tmp_path: Path) -> None:
    with Launched(REFERENCE_COMMAND) as server:
        target = f"--target={server.address[0]}:{server.address[1]}"
        alone = suite(target, "-k", "test_stats or test_reserve", cwd=tmp_path)
        spread = suite(target, "-k", "test_stats or test_reserve", "-n", "4", cwd=tmp_path)
    assert alone.returncode == spread.returncode == 0, alone.stdout + spread.stdout
    assert "not testable: needs a server of its own" not in alone.stdout
    assert "failed" not in spread.stdout


def test_a_run_leaves_nothing_behind() -> None:
    files = " or ".join(part_of(FILES, "0/3"))
    with Launched(REFERENCE_COMMAND) as server:
        where = f"--target={server.address[0]}:{server.address[1]}"
        done = suite(where, "--examples=4", "-k", f"({files}) and not ({TIMED})")
        assert done.returncode == 0, done.stdout
        with socket.create_connection(server.address) as sock:
            sock.sendall(b"list-tubes\r\nstats\r\n")
            sock.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.startswith(b"OK 14\r\n---\n- default\n\r\n")
    for state in (b"ready", b"reserved", b"delayed", b"buried"):
        assert b"current-jobs-%b: 0\n" % state in answer


def test_de_facto_deviations_are_told_and_fail_only_if_strict(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import sys\n"
        "from reference_server import serve\n"
        "from reference_server.model import Model\n"
        "from reference_server.wire import NOT_FOUND\n"
        "Model._reserve_job = lambda *_: NOT_FOUND\n"
        "sys.exit(serve.main())\n"
    )
    launch = f"--launch={sys.executable} {script} --host {{host}} --port {{port}}"
    loose = suite(launch, "-k", "reserve_job_takes_a_job_of_a_paused")
    assert loose.returncode == 0, loose.stdout
    said = "incomplete: 1 de-facto deviation, else no deviation in the 0 of "
    assert said in loose.stdout, loose.stdout
    assert "DE-FACTO DEVIATION" in loose.stdout
    assert "OBSERVED  NOT_FOUND\\r\\n" in loose.stdout
    strict = suite(launch, "-k", "reserve_job_takes_a_job_of_a_paused", "--strict")
    assert strict.returncode == 1


def test_updating_a_baseline(liar: int, tmp_path: Path) -> None:
    file = tmp_path / "baseline.yaml"
    target = [f"--target=127.0.0.1:{liar}", FAST, f"--baseline={file}"]
    made = suite(*target, "--update-baseline")
    assert made.returncode == 0, made.stdout
    assert f"baseline {file}: 1 known deviation; 1 added: use.using\n" in made.stdout
    assert "use.using:\n  verdict: fail\n  kinds:\n  - wrong reply at use\n" in file.read_text()
    assert "  reason: not looked into yet\n" in file.read_text()
    assert suite(*target).returncode == 0
    file.write_text(file.read_text().replace("not looked into yet", "it lies"))
    same = suite(*target, "--update-baseline")
    assert "1 known deviation; none has changed\n" in same.stdout
    assert "reason: it lies" in file.read_text()
    mended = suite(FAST, f"--baseline={file}", "--update-baseline")
    assert mended.returncode == 0
    assert "0 known deviations; 1 removed: use.using\n" in mended.stdout
    assert file.read_text() == ""
    refuses(suite("--update-baseline"), "a baseline can be updated only where")


def test_listing_requirements() -> None:
    done = command("list", "-k", "put.draining")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "put.draining  de-facto, must since 1.12  all profiles  1 test" in lines
    assert "put.draining-only-put  de-facto  all profiles  1 test" in lines
    loose = command("list", "-m", "de_facto")
    assert "  must  " not in loose.stdout
    assert "put.draining-only-put" in loose.stdout
    everything = command("list").stdout.splitlines()
    assert "kick.all-jobs  must  until 0.6  1 test" in everything
    assert "put.draining-keeps-no-job  must  since 1.12  1 test" in everything


def test_a_part_of_the_suite_never_conforms(tmp_path: Path) -> None:
    for more in ([], ["-n2"], ["-m", "must"]):
        done = suite(
            *("-k", "use_names_the_tube or test_peek_changes", f"--report={tmp_path}"),
            *(f"--launch={REFERENCE_COMMAND}", "--clock=real", *more),
        )
        assert done.returncode == 0, done.stdout
        assert ": incomplete: no deviation in the 2 of " in done.stdout
        assert "conforms" not in done.stdout
        assert read_results(tmp_path / "results.json").verdict.word == "incomplete"
        for name in ("badge.svg", "badge.json", "report.html", "report.md"):
            assert "incomplete" in (tmp_path / name).read_text(encoding="utf-8"), name


def test_a_part_of_the_tests_of_what_is_required_is_a_part() -> None:
    item = Tally(catalogue(), {}, "a target", selected=True)
    item.add([Result(case("put.inserted", requirements=list(catalogue())))])
    assert item.conclusion().word == "incomplete"
    item.selected = False
    assert item.conclusion().word == "conforms"


def test_an_error_of_ours_breaks_no_requirement() -> None:
    tally = Tally(catalogue(), {}, "a target")
    results = [Result(case(slug)) for slug in catalogue()]
    error = case("put.inserted", Verdict.ERROR, reason="OSError: a folder is full")
    results.append(Result(error))
    tally.add(results)
    told = tally.conclusion()
    assert (told.word, told.must_broken) == ("incomplete", 0)
    assert told.tested == told.applicable - 1
    assert "(1 error of the suite: OSError: a folder is full)" in told.sentence


@pytest.mark.parametrize("arguments", [["-k", "nosuch"], ["-m", "nosuch"], ["-k", "nosuch", "-n2"]])
def test_nothing_that_is_selected(arguments: list[str]) -> None:
    done = suite(f"--launch={REFERENCE_COMMAND}", "--clock=real", *arguments)
    refuses(done, "no test of the suite is selected: look at -k and -m")


def test_a_run_that_is_stopped_never_conforms(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def pytest_runtest_logfinish(nodeid):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = suite("-p", "conftest", FAST, cwd=tmp_path, path=tmp_path)
    assert done.returncode == 2, done.stdout
    assert ": incomplete: no deviation in the " in done.stdout


def test_quirks_are_told_and_never_judged() -> None:
    done = suite("-k", "quirk.kick-with or quirk.negative", "--strict", "-vv")
    assert done.returncode == 0, done.stdout
    assert "quirk.kick-with-letters-behind: “kick 1x” is answered KICKED 0\\r\\n" in done.stdout
    assert "quirk.negative-timeout ended with profile 1.12" in done.stdout


def test_what_needs_a_restart_is_not_testable_without_the_means_for_it() -> None:
    with Launched(REFERENCE_COMMAND) as server:
        remote = suite(f"--target={server.address[0]}:{server.address[1]}", "-k", "persistence.put")
    assert "not testable: needs --launch: a server of its own" in remote.stdout
    launched = suite(f"--launch={REFERENCE_COMMAND}", "-k", "persistence.put")
    assert "not testable: needs --launch with {binlog} in its command" in launched.stdout


def test_an_assert_is_told_as_expected_and_observed(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import sys\n"
        "from reference_server import serve\n"
        "from reference_server.state import JobState\n"
        "JobState.BURIED._value_ = 'gone'\n"
        "sys.exit(serve.main())\n"
    )
    launch = f"--launch={sys.executable} {script} --host {{host}} --port {{port}}"
    done = suite(launch, "-k", "test_stats_job_tells_the_state")
    assert re.search(r"^EXPECTED  the state of job \d+ to be buried$", done.stdout, re.M)
    assert "OBSERVED  gone\n" in done.stdout


def test_health_is_told_apart_from_verdicts(tmp_path: Path) -> None:
    launch, report = f"--launch={changed_server(tmp_path, KEEPS)}", tmp_path / "report"
    more = (launch, "-k", "test_any_bytes", f"--report={report}")
    for seconds in (10, 60):
        # On a busy machine, there are fewer cases in the time.
        done = suite(*more, f"--fuzz-time={seconds}", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        results = read_results(report / "results.json")
        if results.health:
            break
    (line,) = results.health
    assert "bytes a case" in line
    _, _, health = done.stdout.partition("_ health, which is no part of the verdict _")
    health, _, verdict = health.partition("_ verdict _")
    assert f"health: {line}" in health
    assert re.search(r"^health: \d+ MB of memory and \d+ descriptors at most, \d", health, re.M)
    assert "health:" not in verdict
    assert results.vitals is not None
    assert results.vitals.memory > 50e6
    assert results.vitals.descriptors > 3
    assert results.vitals.cpu > 0.5
    assert (results.verdict.must_broken, results.verdict.non_strict) == (0, 0)
    page = (report / "report.html").read_text(encoding="utf-8")
    assert line in page.partition('<h2 id="health">')[2].partition("</section>")[0]
    for name in ("report.html", "report.md"):
        assert line in (report / name).read_text(encoding="utf-8")


def test_a_quick_run_says_what_it_leaves_out(tmp_path: Path) -> None:
    chosen = ("--quick", "-k", "use. or any-program or persistence.again or change")
    done = suite(*chosen, f"--report={tmp_path}")
    assert done.returncode == 0, done.stdout
    listed = suite(*chosen, "-v", "--collect-only")
    assert (
        "quick: random conversations, exhaustion, endurance, restarts, clock changes and equal"
        " timers are left out" in listed.stdout
    )
    assert not re.search("test_any_program|test_persistence|test_clock", listed.stdout)
    verdicts = {r.slug: r.verdict for r in read_results(tmp_path / "results.json").requirements}
    assert verdicts["use.using"] is Verdict.PASS
    assert verdicts["protocol.any-program"] is verdicts["persistence.again"] is Verdict.NOT_RUN
    assert "not run)" in done.stdout
