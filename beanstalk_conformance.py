"""The pytest plugin: its options and fixtures, and nothing more until they are used.

Every pytest of this Python loads this file, other people's tests included. So it has a name that no
other project has, its options begin with ``--beanstalk-``, and it imports our packages only where
our tests or fixtures are asked for: other projects have packages such as ``reports``, too.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reference_server import BeanstalkClock, BeanstalkServer

_TESTED = ("conformance", "fuzz")
"""The packages with tests of a target."""
PACKAGES = (*_TESTED, "reference_server", "reports")

OPTIONS: Mapping[str, dict[str, Any]] = {
    "clock": {
        "choices": ("auto", "real", "fake"),
        "default": "auto",
        "help": "clock of a launched server: fake moves it with libfaketime (default: if it can)",
    },
    "start-timeout": {
        "type": float,
        "default": 8.0,
        "metavar": "SECONDS",
        "help": "how long a launched server may take until it listens (default: 8)",
    },
    "lateness": {
        "type": float,
        "default": 0.25,
        "metavar": "SECONDS",
        "help": "how late a timer of the target may be under a real clock (default: 0.25)",
    },
    "profile": {
        "default": "auto",
        "metavar": "NAME",
        "help": "the version of the protocol, or the file of a fork's dialect (default: auto, as"
        " the target's stats say)",
    },
    "requirements": {
        "type": Path,
        "metavar": "FOLDER",
        "help": "requirements and tests of your own, which are run as those of the suite",
    },
    "baseline": {
        "type": Path,
        "metavar": "FILE",
        "help": "known deviations: those listed do not fail the run, but their absence does",
    },
    "update-baseline": {
        "action": "store_true",
        "help": "write what this run found into the baseline; reasons that are there stay",
    },
    "quick": {
        "action": "store_true",
        "help": "leave out random tests, exhaustion, endurance, restarts, clock changes and equal"
        " timers: a first verdict in seconds",
    },
    "gentle": {
        "action": "store_true",
        "help": "send at most 1000 commands a second, on average, to a shared server",
    },
    "strict": {
        "action": "store_true",
        "help": "fail on de-facto requirements, too",
    },
    "report": {
        "type": Path,
        "metavar": "FOLDER",
        "help": "write results.json there, and a report as HTML, Markdown, JUnit and badge"
        " (default: .beanstalk-conformance/last)",
    },
    "coverage-report": {
        "type": Path,
        "metavar": "BUILD",
        "help": "report which lines of the server's source were run: the folder of a build with"
        " gcov, or the program that LLVM has made",
    },
    "name": {
        "default": "",
        "metavar": "NAME",
        "help": "the name of the server in summary, report, badge and names of files",
    },
    "label": {
        "action": "append",
        "default": [],
        "metavar": "KEY=VALUE",
        "help": "what the results say of the run, such as commit=…; may be given again",
    },
    "examples": {
        "type": int,
        "default": 25,
        "metavar": "N",
        "help": "random conversations of each kind (default: 25)",
    },
    "seed": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": "where random conversations begin (default: 0): the same ones each time",
    },
    "fuzz-time": {
        "type": float,
        "default": 2.5,
        "metavar": "SECONDS",
        "help": "how long hostile bytes are tried (default: 2.5)",
    },
    "peers": {
        "type": int,
        "default": 50,
        "metavar": "N",
        "help": "clients that misbehave at a time: slow readers, bodies that do not end (default:"
        " 50)",
    },
    "list-requirements": {
        "action": "store_true",
        "help": "list the requirements that are selected, with level, profile and tests, and stop",
    },
}
"""The options by the names that ``beanstalk-conformance run`` has for them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("beanstalk", "conformance of beanstalk servers")
    group.addoption(
        "--target",
        dest="beanstalk_target",
        metavar="ADDRESS",
        help="server to test: HOST:PORT or unix:/path/to/socket",
    )
    group.addoption(
        "--launch",
        dest="beanstalk_launch",
        metavar="COMMAND",
        help="server to start and test: a command with {host} and {port}, and optional parts such"
        " as [-z {max_job_size}]",
    )
    parser.addini(
        "beanstalk_program",
        "the command that runs one test, as failures show it",
        default="pytest --pyargs",
    )
    for name, details in OPTIONS.items():
        group.addoption(f"--beanstalk-{name}", **details)


def pytest_configure(config: pytest.Config) -> None:
    if _is_asked_for(config):
        plugin = _load("conformance.run.plugin", PACKAGES)
        config.pluginmanager.register(plugin, "conformance.run.plugin")


@pytest.fixture
def beanstalk_server(request: pytest.FixtureRequest) -> Iterator[BeanstalkServer]:
    """Run a beanstalk server on a free port of 127.0.0.1, in a thread, fresh for each test.

    ``server.address`` is its host and port, ``server.jobs(tube="mail")`` its jobs. A failing test
    shows its conversation with clients.
    """
    try:
        fixtures = _load("reference_server.embedded.fixtures", ("reference_server",))
    except pytest.UsageError as error:
        pytest.fail(str(error), pytrace=False)
    yield from fixtures.serve(request)


@pytest.fixture
def beanstalk_clock(beanstalk_server: BeanstalkServer) -> BeanstalkClock:
    """Return the clock of ``beanstalk_server``, standing still: ``advance(3600)`` moves it an hour.

    TTRs, delays, pauses and timeouts that are over by then fire at once, in order.
    """
    beanstalk_server.clock.freeze()
    return beanstalk_server.clock


def _is_asked_for(config: pytest.Config) -> bool:
    chosen = config.option
    asks = (chosen.beanstalk_target, chosen.beanstalk_launch, chosen.beanstalk_requirements)
    if any(value is not None for value in asks):
        return True
    return any(_is_ours(config, argument.partition("::")[0]) for argument in config.args)


def _is_ours(config: pytest.Config, place: str) -> bool:
    """Tell whether tests of the suite are at a place of the command line."""
    if config.option.pyargs and place.partition(".")[0] in _TESTED:
        return True
    home, path = _home(), (config.invocation_params.dir / place).resolve()
    return path == home or any(path.is_relative_to(home / package) for package in _TESTED)


def _home() -> Path:
    """Return the folder of our packages: a checkout, or site-packages."""
    return Path(__file__).resolve().parent


def _load(module: str, packages: tuple[str, ...]) -> ModuleType:
    """Import a module of ours, and our packages whatever the current folder has of these names."""
    home = _home()
    sys.path.insert(0, str(home))
    try:
        for name in packages:
            found = Path(next(iter(importlib.import_module(name).__path__)))
            if found != home / name:
                raise pytest.UsageError(
                    f"{found} shadows the package {name} of beanstalk-conformance:"
                    " add --noconftest, or run pytest in another folder"
                )
    finally:
        sys.path.remove(str(home))
    return importlib.import_module(module)
