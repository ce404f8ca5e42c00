"""The command line: ``beanstalk-conformance``, or ``python -m conformance``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from conformance.check import check
from conformance.transcript import NotATranscript, parse
from conformance.verdict import Inconclusive
from reference_server import serve
from reference_server.profiles import NEWEST, PROFILES

USAGE = 4
"""Exit code for what the user has got wrong, as pytest has it."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


_PASSED_ON = {
    "run": "run the suite; takes the options of pytest, those of the suite among them",
    "list": "list the requirements; takes the same options",
    "serve": "run the reference server; takes its options",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand; gives the exit code: 4 for bad usage, as pytest has it."""
    parser = _Parser(prog="beanstalk-conformance", description="Conformance of beanstalk servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in _PASSED_ON.items():
        commands.add_parser(name, help=text, add_help=False)
    checker = commands.add_parser("check", help="judge a recorded transcript")
    checker.add_argument("file", type=Path, help="a transcript, as failures show it")
    checker.add_argument("--profile", choices=list(PROFILES), default=NEWEST.name)
    args, rest = parser.parse_known_args(argv)
    match args.command:
        case "run":
            return pytest.main(["--pyargs", "conformance", *rest])
        case "list":
            return pytest.main(["--pyargs", "conformance", "-q", "--list-requirements", *rest])
        case "serve":
            return serve.main(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return _check(parser, args)


def _check(parser: _Parser, args: argparse.Namespace) -> int:
    """Exit code 0: allowed, 1: not allowed, or not decided."""
    try:
        transcript = parse(args.file.read_text(encoding="utf-8"))
    except OSError as error:
        parser.error(f"cannot read {args.file}: {error.strerror}")
    except (NotATranscript, UnicodeDecodeError) as error:
        parser.error(f"{args.file}: {error}")
    try:
        finding = check(transcript, PROFILES[args.profile])
    except Inconclusive as error:
        print(f"not decided: {error}")
        return 1
    if finding is None:
        print(f"allowed by profile {args.profile}: {len(transcript.entries)} messages")
        return 0
    print("TRANSCRIPT", transcript.render(finding.position), sep="\n")
    print(f"EXPECTED  {finding.expected}\nOBSERVED  {finding.observed}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
