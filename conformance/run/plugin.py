"""Hooks of pytest that run the tests of a target and report them."""

from __future__ import annotations

import gc
import math
import shlex
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.catalogue import CatalogueError, Requirement, catalogue
from conformance.dialogue.scenario import PARTS
from conformance.run.attribution import blame_of, cause_of
from conformance.run.baseline import BaselineError, KnownDeviation, read_baseline
from conformance.run.belated_reports import BelatedReports, belated_property
from conformance.run.distribution import check_processes, scheduler
from conformance.run.ending import Ending
from conformance.run.error_line import error_line
from conformance.run.evidence import clean, describe, gather, printable_cause
from conformance.run.fork_requirements import add_requirements, check_named
from conformance.run.interruption import Interruption
from conformance.run.kept_transcripts import TranscriptKeeper
from conformance.run.listing import Listing
from conformance.run.load import expected
from conformance.run.observation import Observation, observation_of
from conformance.run.options import AUTO, Options, with_short_names
from conformance.run.progress import NAME, Dots, ProgressLine, is_wanted
from conformance.run.runner import Outcome
from conformance.run.selection import Selection
from conformance.run.suite import Suite, module_of, requirements, slugs, test_id
from conformance.run.summary import REMARKS, Summary
from conformance.run.worker_setup import WorkerSetup, set_up_worker
from conformance.target.address import TargetError
from conformance.target.command_rate import COMMAND_RATE, GENTLE
from conformance.target.launch import LaunchError
from conformance.target.vitals import WATCH
from conformance.verdict import (
    Deviation,
    Inconclusive,
    NotApplicable,
    NotOffered,
    NotTestable,
    TargetLost,
)
from reports.results import SourceCoverage, Test
from reports.verdicts import DEVIATIONS, SERVER_LEVELS, Verdict

LAST = Path(".beanstalk-conformance", "last")
"""The folder for the report of a run that names none."""
_SUITE = pytest.StashKey[Suite]()
_KEEPER = pytest.StashKey[TranscriptKeeper]()
_BASELINE = pytest.StashKey[Mapping[str, KnownDeviation]]()


def _part(name: str) -> Any:
    # Only the name: the parts are made anew for each attempt at a test.
    @pytest.fixture(name=name)
    def part() -> None:
        """Return a part of the scenario of a conformance test."""

    return part


for _name in (*PARTS, "exploration"):
    globals()[f"part_{_name}"] = _part(_name)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requirement(slug, ...): the requirements of the protocol that a test tests"
    )
    chosen = config.option
    options = Options(
        address=chosen.beanstalk_target,
        command=chosen.beanstalk_launch,
        clock=chosen.beanstalk_clock,
        lateness=chosen.beanstalk_lateness,
        examples=chosen.beanstalk_examples,
        seed=chosen.beanstalk_seed,
        fuzz_time=chosen.beanstalk_fuzz_time,
        profile=chosen.beanstalk_profile,
        name=chosen.beanstalk_name,
        labels=tuple(chosen.beanstalk_label),
        start_timeout=chosen.beanstalk_start_timeout,
        peers=chosen.beanstalk_peers,
    )
    options.check()
    if chosen.beanstalk_gentle and options.address is None:
        raise pytest.UsageError("--gentle needs --target: a server of our own is for this alone")
    COMMAND_RATE.rate = GENTLE if chosen.beanstalk_gentle else math.inf
    if (own := chosen.beanstalk_requirements) is not None:
        _check_root(config, "--beanstalk-requirements", own)
        add_requirements(config, own)
    for level in SERVER_LEVELS:
        marker = level.replace("-", "_")
        config.addinivalue_line("markers", f"{marker}: tests of requirements of level {level}")
    config.stash[_SUITE] = Suite(options, distributed=_is_worker(config))
    selection = Selection(config.stash[_SUITE], _is_worker(config), chosen.beanstalk_quick)
    config.pluginmanager.register(selection, "conformance-selection")
    config.stash[_BASELINE] = {}
    is_recorded = not (config.option.collectonly or chosen.beanstalk_list_requirements)
    folder = chosen.beanstalk_report or (LAST if is_recorded else None)
    config.stash[_KEEPER] = TranscriptKeeper(folder, options.name)
    path = chosen.beanstalk_baseline
    if chosen.beanstalk_update_baseline and path is None:
        raise pytest.UsageError("a baseline can be updated only where one is named")
    if path is not None:
        _check_root(config, "--beanstalk-baseline", path)
    if path is not None and not (chosen.beanstalk_update_baseline and not path.exists()):
        try:
            config.stash[_BASELINE] = read_baseline(path)
        except BaselineError as error:
            raise pytest.UsageError(str(error)) from None
    if options.names_server:
        if _is_worker(config):
            set_up_worker(config, config.stash[_SUITE])
        else:
            worker_setup = WorkerSetup(config.stash[_SUITE])
            config.pluginmanager.register(worker_setup, "conformance-worker-setup")
        interruption = Interruption(config, config.stash[_SUITE], _is_worker(config))
        config.pluginmanager.register(interruption, "conformance-interruption")
        interruption.attend()
    if not _is_worker(config):
        update = path if chosen.beanstalk_update_baseline else None
        summary = Summary(config.stash[_BASELINE], update, _source(config))
        config.pluginmanager.register(summary, "conformance-summary")
        config.pluginmanager.register(BelatedReports(config), "conformance-late")
        config.pluginmanager.register(Ending(summary), "conformance-ending")
        if folder is not None:
            _check_root(config, "--beanstalk-report", folder)
            # It takes longer to import than the rest.
            from conformance.run.report_writer import ReportWriter

            config.stash[_KEEPER].clear()
            is_asked = chosen.beanstalk_report is not None
            recorder = ReportWriter(folder, summary, options, chosen.beanstalk_strict, is_asked)
            config.pluginmanager.register(recorder, "conformance-recorder")


def _source(config: pytest.Config) -> Callable[[], SourceCoverage | None]:
    """Return a function that reads the source coverage; it returns None unless requested."""
    if (build := config.option.beanstalk_coverage_report) is None:
        return lambda: None
    if config.option.beanstalk_launch is None:
        raise pytest.UsageError(
            "coverage of the source needs --launch: the server writes it at its end"
        )
    _check_root(config, "--beanstalk-coverage-report", build)
    from conformance.run.source_coverage import CoverageReader

    reader = CoverageReader(build)
    config.add_cleanup(reader.close)
    return reader.read


def _check_root(config: pytest.Config, option: str, path: Path) -> None:
    """Refuse an outside path in a separate argument: pytest takes it for a folder of tests."""
    asked = config.invocation_params
    if option in asked.args and not path.resolve().is_relative_to(asked.dir):
        raise pytest.UsageError(f"write {option}={path} in one word: pytest took it for a folder")


def _has_target(config: pytest.Config) -> bool:
    runs = not (config.getoption("collectonly") or config.option.beanstalk_list_requirements)
    return config.stash[_SUITE].options.names_server and runs and not _is_worker(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Make sure that there is something to test before anything is collected."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if is_wanted(reporter):
        session.config.pluginmanager.register(
            ProgressLine(reporter, _has_target(session.config)), NAME
        )
    elif reporter:
        session.config.pluginmanager.register(Dots(reporter))
    if _has_target(session.config):
        suite = session.config.stash[_SUITE]
        try:
            target = suite.start()
        except (TargetError, LaunchError) as error:
            raise pytest.UsageError(str(error)) from None
        if (summary := session.config.pluginmanager.get_plugin("conformance-summary")) is not None:
            summary.traits = target.traits
        check_processes(session.config, suite.options, target)
        for line in suite.leftovers():
            session.config.get_terminal_writer().line(line)


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not _has_target(config):
        return []
    suite = config.stash[_SUITE]
    traits = suite.target.traits
    commands = traits.commands_in_words()
    unusual = traits.in_words() if config.get_verbosity() > 0 else []
    chosen, is_ours = config.option, suite.target.exclusive
    load = expected(chosen.beanstalk_quick).sentence(chosen.beanstalk_gentle)
    return [
        suite.describe(),
        *([] if is_ours else [load]),
        *([f"commands: {commands}"] if commands else []),
        *(f"survey: {line}" for line in unusual),
    ]


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    remarks = session.config.stash[_SUITE].farewell()
    if _is_worker(session.config):
        session.config.workeroutput[REMARKS] = remarks  # type: ignore[attr-defined]
    elif (summary := session.config.pluginmanager.get_plugin("conformance-summary")) is not None:
        summary.remarks += remarks
    # Workers have ended after that.
    yield
    left = session.config.stash[_SUITE].close()
    if left and not _is_worker(session.config):
        session.config.get_terminal_writer().line(f"\n{left}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute tests so that no process is left alone with those that take long."""
    target = config.stash[_SUITE].target
    # The workers have targets of their own.
    config.stash[_SUITE].release()
    return scheduler(config, log, target) if config.getoption("dist") == "load" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection: their objects live until the end of the run."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    try:
        known = catalogue()
    except CatalogueError as error:
        raise pytest.UsageError(str(error)) from None
    for item in items:
        for slug in slugs(item):
            if slug not in known:
                raise pytest.UsageError(f"{item.nodeid} tests an unknown requirement: {slug}")
            # So that -k finds a requirement, and -m a level.
            item.extra_keyword_matches.add(slug)
            for _, level in known[slug].levels:
                item.add_marker(level.replace("-", "_"))
    if (own := config.option.beanstalk_requirements) is not None:
        check_named(config, own, items)
    config.stash[_SUITE].order(items)


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """List the requirements instead of running their tests, if asked to."""
    if not session.config.option.beanstalk_list_requirements:
        return None
    listing = Listing()
    listing.pytest_runtestloop(session)
    writer = session.config.get_terminal_writer()
    writer.line()
    for line in listing.lines():
        writer.line(line)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not slugs(pyfuncitem):
        return None
    suite = pyfuncitem.config.stash[_SUITE]
    try:
        suite.start()
    except (TargetError, LaunchError) as error:
        pytest.exit(str(error), returncode=4)
    missing = suite.missing(pyfuncitem)
    outcome = Outcome(missing) if missing else suite.outcome(pyfuncitem)
    observation = _observe(pyfuncitem, outcome)
    if outcome.deviation is not None:
        observation = _with_company(pyfuncitem, observation)
    pyfuncitem.user_properties += observation.properties()
    for loss in suite.late():
        pyfuncitem.user_properties.append(belated_property(pyfuncitem.config, _late(*loss)))
    if suite.losses.are_too_many(suite.target):
        pyfuncitem.session.shouldfail = (
            f"the target was lost {suite.losses.in_a_row} times in a row: {outcome.error}"
        )
    if isinstance(outcome.error, NotTestable | NotApplicable | Inconclusive):
        pytest.skip(_in_short(observation))
    is_seen = observation.test.verdict is Verdict.SEEN
    if isinstance(outcome.error, Deviation) and not is_seen:
        # Its own message is enough: to format a traceback takes long.
        pytest.fail(str(outcome.error), pytrace=False)
    if outcome.error is not None and not is_seen:
        raise outcome.error
    return True


def _observe(item: pytest.Function, outcome: Outcome) -> Observation:
    """Return what a test found, before anybody knows what blocks it."""
    suite, error = item.config.stash[_SUITE], outcome.error
    verdict, reason = _verdict(item, outcome)
    deviation = error.deviation if isinstance(error, Inconclusive) else error
    blame = evidence = None
    if isinstance(deviation, Deviation) and verdict is not Verdict.SEEN:
        evidence = gather(
            deviation,
            outcome,
            _reproduce(item, test_id(item)),
            test_id(item),
            item.config.stash[_KEEPER],
            suite.target.profile,
        )
    if isinstance(error, Deviation):
        blame = blame_of(error, suite.target.traits)
    cause = None
    if blame and verdict in DEVIATIONS:
        cause = cause_of(blame, suite.target.traits, outcome.said)
    test = Test(
        id=clean(test_id(item)),
        requirements=list(slugs(item)),
        verdict=verdict,
        reason=clean(reason),
        seconds=0,
        known=False,
        cause=printable_cause(cause) if cause else None,
        evidence=evidence,
    )
    observation = Observation(
        test,
        suite.identity(),
        blame,
        tuple(map(clean, outcome.health)),
        tuple(outcome.worlds),
        tuple(WATCH.look()),
        suite.selected,
        tuple(round(seconds, 7) for seconds in outcome.latencies),
        tuple(round(seconds, 7) for seconds in outcome.latenesses),
        outcome.longest_wait,
        outcome.waited,
    )
    known = observation.is_known(item.config.stash[_BASELINE])
    return replace(observation, test=test.model_copy(update={"known": known}))


def _with_company(item: pytest.Function, found: Observation) -> Observation:
    """Return a finding with a command that reproduces it, if that needs other tests, too."""
    test = found.test
    if test.evidence is None or test.known:
        return found
    names = [test_id(other) for other in item.config.stash[_SUITE].company(item)]
    if not names or not (file := item.config.stash[_KEEPER].keep_company(test.id, names)):
        return found
    command = clean(shlex.join(_reproduce(item, f"@{file}")))
    evidence = test.evidence.model_copy(update={"reproduce": command})
    return replace(found, test=test.model_copy(update={"evidence": evidence}))


def _late(item: pytest.Function, outcome: Outcome) -> pytest.TestReport:
    """Return the report of a finished test that turned out later to have ended the target."""
    observation = _observe(item, outcome)
    path, line, _ = item.location
    known, evidence = observation.test.known, observation.test.evidence
    assert evidence is not None
    return pytest.TestReport(
        item.nodeid,
        item.location,
        {},
        "skipped" if known else "failed",
        (path, line or 0, "known") if known else describe(_asked(item), evidence),
        "call",
        user_properties=observation.properties(),
    )


def _asked(item: pytest.Item) -> list[Requirement]:
    """Return the requirements of a test, as the profile of its target has them."""
    return requirements(item, item.config.stash[_SUITE].target.profile)


def _verdict(item: pytest.Item, outcome: Outcome) -> tuple[Verdict, str]:
    error = outcome.error
    levels = {requirement.level for requirement in _asked(item)}
    if isinstance(error, Deviation) and error.owner:
        profile = item.config.stash[_SUITE].target.profile
        levels = {catalogue()[error.owner].judged_by(profile.stage).level}
    if isinstance(error, TargetLost) and not error.de_facto:
        # Nothing that anybody sends may end a server, whatever a test is about.
        return Verdict.FAIL, str(error).splitlines()[0][:300]
    if levels == {"quirk"} and (error is None or isinstance(error, Deviation)):
        return Verdict.SEEN, (outcome.seen or str(error))[:300]
    match error:
        case None:
            return Verdict.PASS, outcome.seen[:300]
        case NotTestable():
            return Verdict.NOT_TESTABLE, str(error)
        case NotOffered():
            return Verdict.NOT_OFFERED, str(error)
        case NotApplicable():
            return Verdict.NOT_APPLICABLE, str(error)
        case Inconclusive():
            return Verdict.INCONCLUSIVE, str(error)
        case Deviation():
            must = "must" in levels and not error.de_facto
            verdict = Verdict.FAIL if must else Verdict.NON_STRICT
            return verdict, str(error).splitlines()[0][:300]
    return Verdict.ERROR, error_line(error, item.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    observation = observation_of(report) if report.failed else None
    if observation is None:
        return report
    found = observation.test
    if found.evidence is not None:
        report.longrepr = describe(_asked(item), found.evidence)
    loose = found.verdict is Verdict.NON_STRICT and not item.config.option.beanstalk_strict
    if found.known or loose:
        # Not a failure of the run; the summary shows it.
        report.outcome = "skipped"
        path, line, _ = item.location
        report.longrepr = (path, line or 0, _in_short(observation))
    return report


def _in_short(observation: Observation) -> str:
    return f"{observation.test.verdict.words}: {observation.test.reason}"


def _reproduce(item: pytest.Item, tests: str) -> list[str]:
    """Return the command that runs tests again, of the program that has run one of them now."""
    program = shlex.split(item.config.getini("beanstalk_program"))
    options = item.config.stash[_SUITE].options
    chosen = options.chosen
    if options.clock != AUTO:
        chosen.append(f"--beanstalk-clock={options.clock}")
    if (own := item.config.option.beanstalk_requirements) is not None and not module_of(item):
        chosen.append(f"--beanstalk-requirements={own}")
    if "--pyargs" not in program:
        chosen = with_short_names(chosen)
    return [*program, tests, *chosen]
