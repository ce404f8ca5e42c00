"""The command line: ``beanstalk-conformance``, or ``python -m conformance``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.dialogue.connection import REPLY_LIMIT
from conformance.oracle.check import Finding, check
from conformance.random_testing.again import replayed
from conformance.random_testing.replay import GOES_ON
from conformance.run.entry import OPTIONS
from conformance.run.suite import Options
from conformance.target.address import TargetError
from conformance.target.cleanup import clean_up
from conformance.target.launch import LaunchError
from conformance.target.target import Remote
from conformance.transcript import RESTARTS, NotATranscript, Transcript, parse
from conformance.usage import Parser
from conformance.verdict import Inconclusive, NotTestable
from fuzz.cli import main as fuzz_main
from fuzz.undefined_input import actions_of, is_wild, survives
from reference_server import serve
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.wire import ProtocolError
from reports.results import ResultsError, read_results
from reports.write import write_comparison, write_report

# The packages are imported already, by this very command; their tests are not.
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
SUITE = ("--pyargs", "conformance", "fuzz", "--noconftest", *_QUIET)
"""The tests that pytest runs; a conftest.py of the current folder is for other tests."""

_ADDRESS = "HOST:PORT or unix:/path"
_PASSED_ON = {
    "run": "run the suite; takes the options of pytest, those of the suite among them",
    "list": "list the requirements; takes the same options",
    "serve": "run the reference server; takes its options",
    "fuzz": "send hostile bytes; see fuzz --help",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand; gives the exit code: 4 for bad usage, as pytest has it."""
    parser = Parser(prog="beanstalk-conformance", description="Conformance of beanstalk servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in _PASSED_ON.items():
        commands.add_parser(name, help=text, add_help=False)
    checker = commands.add_parser("check", help="judge a recorded transcript")
    checker.add_argument("file", type=Path, help="a transcript, as failures show it")
    checker.add_argument("--profile", choices=list(PROFILES), default=NEWEST.name)
    replayer = commands.add_parser("replay", help="drive a recorded transcript, and judge it")
    replayer.add_argument("file", type=Path, help="a transcript, as failures show it")
    replayer.add_argument("--target", metavar="ADDRESS", help=_ADDRESS)
    replayer.add_argument("--launch", metavar="COMMAND", help="a server to start, as for run")
    replayer.add_argument("--clock", choices=("auto", "real", "fake"), default="auto")
    cleaner = commands.add_parser("cleanup", help="remove what runs have left on a server")
    cleaner.add_argument("--target", metavar="ADDRESS", required=True, help=_ADDRESS)
    reporter = commands.add_parser("report", help="make the report again from results.json")
    reporter.add_argument("file", type=Path, nargs=1, metavar="results.json")
    comparer = commands.add_parser("compare", help="put the results of many runs side by side")
    comparer.add_argument("file", type=Path, nargs="+", metavar="results.json")
    for writer in (reporter, comparer):
        writer.add_argument("-o", dest="folder", type=Path, required=True, metavar="FOLDER")
    args, rest = parser.parse_known_args(argv)
    match args.command:
        case "run":
            return pytest.main([*SUITE, *for_pytest(rest)])
        case "list":
            return pytest.main([*SUITE, "-q", *for_pytest(["--list-requirements", *rest])])
        case "serve":
            return serve.main(rest)
        case "fuzz":
            return fuzz_main(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command in ("report", "compare"):
        return _write(parser, args)
    if args.command == "cleanup":
        return _clean_up(parser, args.target)
    transcript = _read(parser, args.file)
    if args.command == "check":
        return _check(transcript, PROFILES[args.profile])
    try:
        return _replay(transcript, Options(args.target, args.launch, args.clock, 0.25))
    except (pytest.UsageError, TargetError, LaunchError, NotTestable) as error:
        parser.error(str(error))


def for_pytest(arguments: Sequence[str]) -> list[str]:
    """Return arguments as pytest takes them: with ``--beanstalk-``, and values in the same word."""
    told: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, _ = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name not in OPTIONS:
            told.append(argument)
            continue
        full = f"--beanstalk-{argument.removeprefix('--')}"
        is_flag = OPTIONS[name].get("action") == "store_true"
        value = None if equals or is_flag else next(rest, None)
        told.append(full if value is None else f"{full}={value}")
    return told


def _clean_up(parser: Parser, address: str) -> int:
    """Exit code 0: nothing of earlier runs is left, 1: something is."""
    try:
        target = Remote(address)
        target.profile = target.probe()
        removed, left = clean_up(target)
    except (TargetError, OSError, EOFError, ProtocolError, ValueError) as error:
        parser.error(f"{address}: {error}" if isinstance(error, OSError) else str(error))
    print(f"removed tubes: {removed}")
    if left:
        print(f"left alone, as they are in use: {len(left)}, {left[0]} …")
    return int(bool(left))


def _write(parser: Parser, args: argparse.Namespace) -> int:
    try:
        found = [read_results(path) for path in args.file]
        if args.command == "report":
            write_report(found[0], args.folder)
        else:
            write_comparison(found, args.folder)
    except ResultsError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"cannot write to {args.folder}: {error.strerror}")
    return 0


def _read(parser: Parser, file: Path) -> Transcript:
    try:
        return parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        parser.error(f"cannot read {file}: {error.strerror}")
    except (NotATranscript, UnicodeDecodeError) as error:
        parser.error(f"{file}: {error}")


def _check(transcript: Transcript, profile: Profile) -> int:
    """Exit code 0: the text allows it, 1: it does not, or it is not decided."""
    try:
        finding = check(transcript, profile)
    except Inconclusive as error:
        print(f"not decided: {error}")
        return 1
    return _told(transcript, finding, profile)


def _replay(transcript: Transcript, options: Options) -> int:
    """Exit code 0: the text allows it, 1: it does not, or it is not decided.

    Raises TargetError, LaunchError or NotTestable.
    """
    options.check()
    target = options.target()
    try:
        profile = target.probe()
        if any(entry.data == RESTARTS and not entry.connection for entry in transcript.entries):
            # With its log, if it has one.
            with contextlib.suppress(NotTestable):
                target, first = target.fresh(binlog=True), target
                target.profile = profile
                first.close()
        if is_wild(transcript, profile):
            wrong, _ = survives(target, actions_of(transcript), REPLY_LIMIT)
            lost = Finding(len(transcript.entries) - 1, GOES_ON, wrong or "", "must")
            shown, finding, counts = transcript, lost if wrong else None, False
        else:
            shown, finding = replayed(target, profile, transcript)
            counts = bool(shown.entries)
    except Inconclusive as error:
        print(f"not decided: {error}")
        return 1
    finally:
        target.close()
    code = _told(shown, finding, profile)
    if counts and shown.begins is None:
        why = "it had jobs before, or does not tell them all"
        why = why if target.exclusive else "others may use it"
        print(f"the counters of the target were not compared, as {why}")
    return code


def _told(transcript: Transcript, finding: Finding | None, profile: Profile) -> int:
    """Tells what is wrong with a transcript, if anything is; gives the exit code."""
    if finding is None:
        print(f"allowed by profile {profile.name}: {len(transcript.entries)} messages")
        return 0
    print("TRANSCRIPT", transcript.render(finding.position), sep="\n")
    print(f"EXPECTED  {finding.expected}\nOBSERVED  {finding.observed}")
    print(f"LEVEL     {finding.level}" + (f": {finding.about}" if finding.about else ""))
    return int(finding.level == "must")


if __name__ == "__main__":
    sys.exit(main())
