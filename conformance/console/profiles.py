"""``profile``: prints a profile or a fork's dialect, or drafts one from a server."""

from __future__ import annotations

import json

import click

from conformance.target.address import TargetError
from conformance.target.draft import DialectDraft
from conformance.target.target import Remote
from conformance.usage import ADDRESS, ConsoleCommand, refuse
from reference_server.dialect import DialectError
from reference_server.dialect_file import schema
from reference_server.finding import find_profile
from reference_server.wire import ProtocolError


@click.command(cls=ConsoleCommand)
@click.argument("file", required=False)
@click.option("--from", "target", metavar="ADDRESS", help=f"draft a dialect: {ADDRESS}")
@click.option("--name", default="my-fork", show_default=True, help="the name of the draft")
@click.option("--schema", "as_schema", is_flag=True, help="print the JSON Schema of the file")
def profile(file: str | None, target: str | None, name: str, as_schema: bool) -> int:
    """Validate a dialect FILE and print what it changes; or draft one from a running server.

    Exit code 4: the file is no dialect, or the server cannot be asked.
    """
    if (file is not None) + (target is not None) + as_schema != 1:
        raise refuse("give one of FILE, --from and --schema")
    if as_schema:
        print(json.dumps(schema(), indent=2))
    elif target is not None:
        print(_draft(target, name), end="")
    elif file is not None:
        _print_differences(file)
    return 0


def _print_differences(file: str) -> None:
    try:
        found = find_profile(file)
    except DialectError as error:
        raise refuse(str(error)) from None
    print(f"{found.name}: {found.dialect.told or found.document}")
    for what, reason in found.dialect.differences:
        print(f"  {what}: {reason}")


def _draft(target: str, name: str) -> str:
    try:
        remote = Remote(target)
        remote.profile = remote.probe()
        return DialectDraft(remote).text(name)
    except (TargetError, OSError, EOFError, ProtocolError) as error:
        raise refuse(f"{target}: {error}" if isinstance(error, OSError) else str(error)) from None
