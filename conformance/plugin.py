"""The pytest plugin: options, the run's target, how tests run, and what their reports say."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping
from typing import Any, TypeGuard

import pytest

from conformance.address import TargetError
from conformance.builtin import BuiltIn
from conformance.catalogue import CatalogueError, Requirement, catalogue
from conformance.evidence import describe
from conformance.launch import LaunchError
from conformance.running import Outcome, Overlapped, run
from conformance.scenario import PARTS
from conformance.target import LaunchedTarget, Remote, Target
from conformance.verdict import Inconclusive, NotTestable, TargetLost
from reference_server.profiles import NEWEST, PROFILES

_OUTCOME = pytest.StashKey[Outcome]()
_RUN = pytest.StashKey["Run"]()
LOSSES = 3
"""Tests in a row that lose the target before the run is given up."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("beanstalk", "conformance of beanstalk servers")
    group.addoption(
        "--target", metavar="ADDRESS", help="server to test: HOST:PORT or unix:/path/to/socket"
    )
    group.addoption(
        "--launch",
        metavar="COMMAND",
        help="server to start and test: a command with {host} and {port}, and optional parts such"
        " as [-z {max_job_size}]",
    )
    group.addoption(
        "--clock",
        choices=("auto", "real", "fake"),
        default="auto",
        help="clock of a launched server: fake moves it with libfaketime (default: if it can)",
    )
    group.addoption(
        "--lateness",
        type=float,
        default=0.25,
        metavar="SECONDS",
        help="how late a timer of the target may be under a real clock (default: 0.25)",
    )


class Run:
    """What all tests of this process share."""

    def __init__(self, config: pytest.Config) -> None:
        self.lateness: float = config.getoption("lateness")
        self.address: str | None = config.getoption("target")
        self.command: str | None = config.getoption("launch")
        self.clock: str = config.getoption("clock")
        self.losses = 0
        self.profile = NEWEST
        self._target: Target | None = None
        self._overlapped: Overlapped | None = None

    @property
    def target(self) -> Target:
        """The target; started on first use. Raises TargetError or LaunchError."""
        if self._target is None:
            if self.address is not None:
                self._target = Remote(self.address)
            elif self.command is not None:
                self._target = LaunchedTarget(self.command, self.clock)
            else:
                self._target = BuiltIn()
            self.profile = self._target.probe()
        return self._target

    @property
    def chosen(self) -> list[str]:
        """The options that name this target again."""
        if self.address is not None:
            return [f"--target={self.address}"]
        return [] if self.command is None else ["--launch", self.command]

    def check_options(self) -> None:
        """Raises UsageError if the options contradict each other or make no sense."""
        if self.address is not None and self.command is not None:
            raise pytest.UsageError("--target and --launch exclude each other")
        if self.clock == "fake" and self.command is None:
            raise pytest.UsageError("--clock=fake needs --launch: it is set when a server starts")
        if not 0 < self.lateness <= 0.5:
            raise pytest.UsageError("--lateness takes seconds, more than 0 and at most 0.5")

    def overlap(self, items: list[pytest.Item]) -> None:
        """Under a real clock, begins all tests that wait, so that they wait together."""
        if self._overlapped is None:
            timed = [item for item in items if is_timed(item)]
            tests = [(item.nodeid, item.function, _arguments(item)) for item in timed]
            self._overlapped = Overlapped(tests, self.target, self.lateness)

    def outcome(self, item: pytest.Function) -> Outcome:
        """Runs a test, or waits for it if it has begun already."""
        if is_timed(item) and not self.target.clock.movable:
            self.overlap(item.session.items)
            assert self._overlapped is not None
            return self._overlapped.outcome(item.nodeid)
        return run(item.function, _arguments(item), self.target, self.lateness)

    def close(self) -> None:
        if self._target is not None:
            self._target.close()


def is_timed(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Whether a test of ours lets time pass."""
    return isinstance(item, pytest.Function) and bool(_slugs(item)) and "clock" in item.fixturenames


def _slugs(item: pytest.Item) -> tuple[str, ...]:
    marker = item.get_closest_marker("requirement")
    return () if marker is None else marker.args


def _arguments(item: pytest.Function) -> Mapping[str, object]:
    """The test's arguments: values of parameters, and None for parts of the scenario."""
    values = item.callspec.params if hasattr(item, "callspec") else {}
    return {name: values.get(name) for name in inspect.signature(item.function).parameters}


def _part(name: str) -> Any:
    # Only the name: the parts are made anew for each attempt at a test.
    @pytest.fixture(name=name)
    def part() -> None:
        """A part of the scenario that a conformance test is."""

    return part


for _name in PARTS:
    globals()[f"part_{_name}"] = _part(_name)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requirement(slug, ...): the requirements of the protocol that a test tests"
    )
    config.stash[_RUN] = Run(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    run_ = session.config.stash[_RUN]
    run_.check_options()
    if session.config.getoption("collectonly") or hasattr(session.config, "workerinput"):
        return
    if run_.address is not None or run_.command is not None:
        _begin(run_)


def _begin(run_: Run) -> None:
    try:
        run_.target.probe()
    except (TargetError, LaunchError) as error:
        raise pytest.UsageError(str(error)) from None


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[_RUN].close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        known = catalogue()
    except CatalogueError as error:
        raise pytest.UsageError(str(error)) from None
    for item in items:
        for slug in _slugs(item):
            if slug not in known:
                raise pytest.UsageError(f"{item.nodeid} tests an unknown requirement: {slug}")


def pytest_runtestloop(session: pytest.Session) -> None:
    run_ = session.config.stash[_RUN]
    chosen = not session.config.getoption("collectonly") and not session.testsfailed
    distributed = session.config.getoption("numprocesses", None) or hasattr(
        session.config, "workerinput"
    )
    timed = any(map(is_timed, session.items))
    if chosen and not distributed and timed and not run_.target.clock.movable:
        run_.overlap(session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    slugs = _slugs(pyfuncitem)
    if not slugs:
        return None
    run_ = pyfuncitem.config.stash[_RUN]
    missing = _not_applicable(slugs, run_)
    if missing:
        pytest.skip(missing)
    outcome = run_.outcome(pyfuncitem)
    pyfuncitem.stash[_OUTCOME] = outcome
    pyfuncitem.user_properties.append(("longest_wait", outcome.longest_wait))
    pyfuncitem.user_properties.append(("waited", outcome.waited))
    error = outcome.error
    run_.losses = run_.losses + 1 if isinstance(error, TargetLost) else 0
    if run_.losses == LOSSES:
        pyfuncitem.session.shouldstop = f"the target was lost {LOSSES} times in a row: {error}"
    if isinstance(error, NotTestable):
        pytest.skip(f"not testable: {error}")
    if isinstance(error, Inconclusive):
        pytest.skip(f"inconclusive: {error}")
    if error is not None:
        raise error
    return True


def _not_applicable(slugs: tuple[str, ...], run_: Run) -> str | None:
    profiles = list(PROFILES)
    profile = run_.profile
    for slug in slugs:
        since = catalogue()[slug].since
        if since is not None and profiles.index(profile.name) < profiles.index(since):
            return f"not applicable: {slug} is of profile {since}, the target of {profile.name}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    outcome = item.stash.get(_OUTCOME, None)
    if report.when == "call" and report.failed and outcome and call.excinfo:
        error = call.excinfo.value
        if isinstance(error, AssertionError):
            report.longrepr = describe(
                error, _requirements(item), outcome.transcript, _reproduce(item)
            )
    return report


def _requirements(item: pytest.Item) -> list[Requirement]:
    return [catalogue()[slug] for slug in _slugs(item)]


def _reproduce(item: pytest.Item) -> list[str]:
    path, _, name = item.nodeid.rpartition("::")
    module = getattr(item, "module", None)
    where = f"{module.__name__}::{name}" if module else f"{path}::{name}"
    return ["pytest", "--pyargs", where, *item.config.stash[_RUN].chosen]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    longest = waited = 0.0
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                properties = dict(report.user_properties)
                longest = max(longest, properties.get("longest_wait", 0.0))
                waited += properties.get("waited", 0.0) if properties.get("longest_wait") else 0.0
    if longest:
        terminalreporter.write_line(
            f"real clock: longest single wait {longest:g} s; {waited:g} s of waiting overlapped"
        )


def pytest_report_header(config: pytest.Config) -> str | None:
    run_ = config.stash[_RUN]
    if run_.address is None and run_.command is None:
        return None
    return f"target: {run_.target.label}"
