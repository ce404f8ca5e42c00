"""``run`` and ``list``: pytest runs the suite, whatever settings the current folder has."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest

from beanstalk_conformance import OPTIONS
from conformance.console.processes import processes
from conformance.run.listing import Listing
from conformance.usage import ConsoleCommand, Option, looks_like_address, refuse, suggestion

# The packages are imported already, by this very command; their tests are not.
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
# They would load Hypothesis, and collect garbage several times, at the end of any run.
_QUICK = ("-p", "no:hypothesispytest", "-p", "no:unraisableexception")
_ALONE = ("--pyargs", "--noconftest", *_QUICK, *_QUIET)
"""A conftest.py of the current folder is for other tests."""
SUITE = ("conformance", "fuzz", *_ALONE)
"""All tests."""
_TESTS = r"@|[^-].*(::|\.py$)|(conformance|fuzz)\."
"""Words that name tests: ``MODULE::TEST``, a module or a file; with ``@``, a list of them."""
LONGEST_LIST = 1 << 24
"""Characters of a list of tests."""
_TARGET = {
    "target": {"metavar": "ADDRESS", "help": "a server that runs: HOST:PORT or unix:/path"},
    "launch": {
        "metavar": "COMMAND",
        "help": "a server to start and test: a command with {host} and {port}, or {path}, and"
        " optional parts such as [-z {max_job_size}]",
    },
}
GROUPS = {
    "What to test": ("target", "launch", "profile", "requirements", "clock", "start-timeout"),
    "How much to try": ("quick", "gentle", "examples", "seed", "fuzz-time", "peers"),
    "How to judge": ("lateness", "strict", "baseline", "update-baseline"),
    "What to write": ("report", "coverage-report", "name", "label"),
}
_PYTEST = """
\b
Options of pytest work, too:
  MODULE, MODULE::TEST all tests of a module, or one test, as failures name it
  @FILE                the tests that are listed in a file
  -k EXPRESSION        requirements and tests by name: -k put. or -k put.body-limit
  -m LEVEL             requirements of a level: must or de_facto
  -n N                 in so many processes; a whole run of --launch has up to 4, else 1
  -x, --maxfail=N      end after the first failure, or after N
  -v, -vv, -q          say more, or less

\b
Exit codes:
  0                    all that was tested conforms, or deviates as the baseline says
  1                    the server does not conform
  2                    the run was interrupted
  4                    there was nothing to test; one sentence says why
"""


class _Spelling:
    """Reports an unknown option in one sentence."""

    @pytest.hookimpl(wrapper=True)
    def pytest_cmdline_parse(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except pytest.UsageError as error:
            match = re.search("error: (unrecognized arguments: )?(.*)", str(error))
            if match is None:
                raise
            if match[1] is None:
                raise pytest.UsageError(match[2]) from None
        word = match[2].split()[0].partition("=")[0]
        known = [f"--{name}" for name in (*_TARGET, *OPTIONS)]
        raise pytest.UsageError(f"no such option: {word}{suggestion(word, known)}")


def _option(name: str, group: str) -> Option:
    """Return an option of the plugin as the console has it."""
    declaration: Mapping[str, Any] = _TARGET.get(name) or OPTIONS[name]
    kind: dict[str, Any] = {"type": declaration.get("type", str)}
    if "choices" in declaration:
        kind = {"type": click.Choice(declaration["choices"])}
    if declaration.get("action") == "store_true":
        kind = {"is_flag": True}
    elif declaration.get("action") == "append":
        kind = {"multiple": True}
    return Option(
        [f"--{name}"],
        group=group,
        metavar=declaration.get("metavar"),
        help=declaration["help"],
        **kind,
    )


def _run(arguments: tuple[str, ...], **chosen: Any) -> int:
    # As failures show it: REPRODUCE beanstalk-conformance run MODULE::TEST
    words = [word for option, word in pairwise(("", *arguments)) if option not in ("-k", "-m")]
    if (address := next(filter(looks_like_address, words), None)) is not None:
        raise refuse(f"{address} is no test; the server there is tested by --target={address}")
    for word in words:
        if word.startswith("@"):
            _check_list(Path(word[1:]))
    suite = _ALONE if any(re.match(_TESTS, word) for word in words) else SUITE
    # More is said of failures, not of the tests that pass.
    is_verbose = any(re.fullmatch("-v+|--verbose", word) for word in arguments)
    names = ("-o", "verbosity_test_cases=0") if is_verbose else ()
    asked = [*suite, *names, *_settings(), *_for_pytest(chosen), *arguments]
    if chosen["launch"] is not None and chosen["coverage_report"] is None:
        count = processes(arguments, chosen["quick"])
        asked += [f"--numprocesses={count}"] if count > 1 else []
    return pytest.main(asked, plugins=[_Spelling()])


def _check_list(file: Path) -> None:
    """Refuse a file that pytest cannot read a list of tests from."""
    try:
        with file.open(encoding="utf-8") as stream:
            text = stream.read(LONGEST_LIST + 1)
    except OSError as error:
        raise refuse(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise refuse(f"{file} is no list of tests: it is not text") from None
    if not text.strip() or len(text) > LONGEST_LIST:
        raise refuse(f"{file} is no list of tests: it is {'too long' if text.strip() else 'empty'}")


run = ConsoleCommand(
    "run",
    callback=_run,
    help=f"Run the suite on a server; without one, on the built-in reference server.\n{_PYTEST}",
    context_settings={"ignore_unknown_options": True},
    params=[
        click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST'S]"),
        *(_option(name, group) for group, names in GROUPS.items() for name in names),
    ],
)


def _settings() -> list[str]:
    """Return the options that make pytest ignore a pytest.ini, or the like, of this folder."""
    return ["-c", str(Path(__file__).with_name("run.ini")), f"--rootdir={Path.cwd()}"]


def _for_pytest(chosen: Mapping[str, Any]) -> list[str]:
    arguments = []
    for key, value in chosen.items():
        name = key.replace("_", "-")
        full = f"--{name}" if name in _TARGET else f"--beanstalk-{name}"
        if value is True:
            arguments.append(full)
        elif value is not None and value is not False:
            arguments += [
                f"{full}={one}" for one in (value if isinstance(value, tuple) else (value,))
            ]
    return arguments


@click.command("list", cls=ConsoleCommand)
@click.option("-k", "expression", metavar="EXPRESSION", help="by name, such as put. or TTR")
@click.option("-m", "level", metavar="LEVEL", help="of a level: must or de_facto")
@click.option("--json", "as_json", is_flag=True, help="as JSON, with clauses and names of tests")
def list_requirements(expression: str | None, level: str | None, as_json: bool) -> int:
    """List the requirements, with level, profiles and number of tests."""
    listing = Listing()
    chosen = [f"-k{expression}"] if expression else []
    chosen += [f"-m{level}"] if level else []
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "--beanstalk-list-requirements"]
    code = pytest.main([*SUITE, *_settings(), *quiet, *chosen], plugins=[listing])
    if code == pytest.ExitCode.OK:
        print(listing.encoded() if as_json else "\n".join(listing.lines()))
    return code
