"""The command line: ``python -m conformance check FILE``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.check import check
from conformance.transcript import NotATranscript, parse
from conformance.verdict import Inconclusive
from reference_server.profiles import NEWEST, PROFILES

USAGE = 4
"""Exit code for what the user has got wrong, as pytest has it."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: allowed, 1: not allowed, or not decided, 4: bad usage."""
    parser = _Parser(prog="beanstalk-conformance", description="Conformance of beanstalk servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    checker = commands.add_parser("check", help="judge a recorded transcript")
    checker.add_argument("file", type=Path, help="a transcript, as failures show it")
    checker.add_argument("--profile", choices=list(PROFILES), default=NEWEST.name)
    args = parser.parse_args(argv)
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
