"""The command line as a person uses it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from beanstalk_conformance import OPTIONS
from conformance.__main__ import console
from conformance.console.run import GROUPS
from tests import ROOT
from tests.command_line import FAST, command, suite
from tests.servers import REFERENCE_COMMAND

CONSOLE = [sys.executable, "-m", "conformance"]
INI = """
[pytest]
addopts = --nonsense -k nothing
filterwarnings = error
xfail_strict = true
python_files = mine_*.py
"""


def test_run_and_list_take_the_options_of_the_suite() -> None:
    done = command("run", "-q", "-k", "use.using", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    assert "reference server 1.13 (profile 1.13): incomplete: no deviation" in done.stdout
    listed = command("list", "-k", "use.using")
    assert listed.stdout.splitlines()[0] == "use.using  must  since 1.0  1 test"
    assert command("run", "-q", "--target=nonsense").returncode == 4


def test_serve_takes_the_options_of_the_reference_server() -> None:
    assert "--fault NAME" in command("serve", "--help").stdout


@pytest.mark.parametrize("arguments", [[], ["bogus"], ["check"], ["check", "a", "b"]])
def test_bad_usage_is_one_sentence(arguments: list[str]) -> None:
    done = command(*arguments)
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("beanstalk-conformance")


def test_every_option_has_a_group_in_help() -> None:
    # The command has another name for the one that lists.
    assert {*OPTIONS, "target", "launch"} - {"list-requirements"} == {
        name for names in GROUPS.values() for name in names
    }
    said = command("run", "--help").stdout
    for title, names in GROUPS.items():
        assert f"\n{title}:\n" in said
        assert all(f"  --{name}" in said for name in names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "no such command: rnu; did you mean run?"),
        (["run", "--taget=a:1"], "no such option: --taget; did you mean --target?"),
        (["run", "--reprot", "x"], "no such option: --reprot; did you mean --report?"),
        (["run", "127.0.0.1:11300"], "the server there is tested by --target=127.0.0.1:11300"),
        (["[::1]:11300"], "a server is tested by: beanstalk-conformance run --target=[::1]:11300"),
        (["run", "--xyzzy=1"], "no such option: --xyzzy"),
        (["run", "--clock=fast"], "'fast' is not one of 'auto', 'real', 'fake'"),
        (["run", "--examples=many"], "'many' is not a valid integer"),
        (["run", "--examples=0"], "the number of examples is 1 or more"),
        (
            ["run", "--fuzz-time=inf"],
            "the time for hostile bytes is more than 0 and at most 100,000,000 seconds",
        ),
        (["run", "-n", "x"], "argument -n/--numprocesses: invalid parse_numprocesses value: 'x'"),
        (["run", "@none"], "cannot read none: No such file or directory"),
        (["run", "@/dev/zero"], "/dev/zero is no list of tests: it is too long"),
        (["run", "@/dev/null"], "/dev/null is no list of tests: it is empty"),
        (["check", "/dev/zero"], "/dev/zero: it has a line of 64 MiB or more"),
        (["scale", "--report=/dev/null"], "cannot write to the folder /dev/null: File exists"),
        (
            ["proxy", "--listen=127.0.0.1:9", "--target=h:1", "--report=/dev/null"],
            "cannot write to the folder /dev/null: File exists",
        ),
        (["run", "--report"], "Option '--report' requires an argument"),
        (["fuzz", "--job=2"], "Did you mean"),
        (["check", "x", "--profile=9"], "there is no profile '9'; choose from 0.6"),
        (["list", "-k", "nosuch"], "no test of the suite is selected"),
        (["replay", "x"], "give --target or --launch"),
        (["serve", "--prot=1"], "unrecognized arguments: --prot=1"),
        (["serve", "--fault=a-peek"], "there is no fault called 'a-peek'"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(arguments: list[str], said: str) -> None:
    done = command(*arguments)
    assert done.returncode == 4, done.stdout + done.stderr
    assert said in done.stderr
    assert len(done.stderr.split("\n\n")[0].splitlines()) == 1
    assert done.stdout == ""


def test_a_list_of_tests_is_text(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_bytes(b"\x95")
    done = command("run", f"@{file}")
    assert (done.returncode, done.stderr) == (
        4,
        f"beanstalk-conformance run: {file} is no list of tests: it is not text\n",
    )


def test_a_folder_that_does_not_exist_any_more(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    # The path of the package does not depend on the folder.
    gone = f'rmdir "$PWD"; exec {sys.executable} -P -m conformance list'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", gone], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        4,
        "beanstalk-conformance: the current folder does not exist any more\n",
    )


def test_a_terminal_with_a_narrow_character_set() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    asked = [*CONSOLE, "list", "-k", "use.using"]
    done = subprocess.run(asked, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert rb"    \u201c" in done.stdout


@pytest.mark.parametrize("closed", ["0<&-", "2>&-"])
def test_a_closed_stream_is_no_traceback(closed: str) -> None:
    asked = f"{sys.executable} -m conformance draw - {closed}"
    done = subprocess.run(["sh", "-c", asked], stdin=subprocess.DEVNULL, stderr=-1, text=True)
    assert done.returncode == 4
    said = "cannot read standard input: Bad file descriptor\n" if closed[0] == "0" else ""
    assert done.stderr.endswith(said)
    assert "Traceback" not in done.stderr


def test_escape_sequences_of_arguments_are_shown() -> None:
    done = command("check", "a\x1b[31mb")
    assert r"cannot read a\x1b[31mb" in done.stderr


def test_the_version() -> None:
    told = f"beanstalk-conformance, version {version('beanstalk-conformance')}\n"
    assert command("--version").stdout == told


def test_requirements_as_json() -> None:
    done = command("list", "--json", "-k", "use.using")
    (found,) = json.loads(done.stdout)
    assert (found["slug"], found["level"], found["section"]) == (
        *("use.using", "must", "Producer Commands"),
    )
    assert [name.partition("::")[2] for name in found["tests"]] == [FAST.partition("::")[2]]
    assert "USING <tube>" in found["clause"]


@pytest.mark.parametrize(
    "module", ["conformance.tests.test_quit", "conformance/tests/test_quit.py"]
)
def test_a_module_is_run_alone(module: str) -> None:
    done = command("run", "--collect-only", "-q", module)
    assert done.returncode == 0, done.stdout
    tests = [line for line in done.stdout.splitlines() if "::" in line]
    assert tests
    assert all(line.startswith(module.replace(".", "/").removesuffix("/py")) for line in tests)


@pytest.mark.parametrize("asked", [["list"], ["run", FAST]])
def test_a_reader_may_go(tmp_path: Path, asked: list[str]) -> None:
    errors = tmp_path / "errors"
    command = [*CONSOLE, *asked]
    with errors.open("wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0
    assert errors.read_text() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("asked", [["list"], ["run", FAST]])
def test_output_that_finds_no_room_is_told_in_a_sentence(asked: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*CONSOLE, *asked], stdout=full, stderr=-1, text=True, timeout=60)
    assert done.returncode == 4
    assert done.stderr == (
        "beanstalk-conformance: cannot write the output: No space left on device\n"
    )


def test_help_has_a_word_for_each_option_and_exit_codes() -> None:
    context = click.Context(console)
    for name in console.list_commands(context):
        command = console.get_command(context, name)
        assert command is not None
        options = [one for one in command.params if isinstance(one, click.Option)]
        assert [one.name for one in options if not one.help] == [], name
    done = subprocess.run([*CONSOLE, "run", "--help"], capture_output=True, text=True)
    assert "Exit codes:" in done.stdout
    done = subprocess.run([*CONSOLE, "serve", "--help"], capture_output=True, text=True)
    assert done.stdout.startswith("usage: beanstalk-conformance serve ")


def test_settings_of_the_folder_for_its_own_tests_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    done = suite(FAST, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    listed = subprocess.run(
        [*CONSOLE, "list"], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count(" test") > 300


def test_the_fuzzer_says_what_it_fuzzes() -> None:
    done = command("fuzz", "--launch", REFERENCE_COMMAND, "--time=0.5", "--seed=7")
    first = done.stdout.splitlines()[0]
    assert re.fullmatch(r"fuzzing python\S* 1\.13 \(profile 1\.13\), .* for 0\.5 s, seed 7", first)
