"""``cleanup`` and ``serve``: commands for servers that run no tests."""

from __future__ import annotations

import click

from conformance.target.address import TargetError
from conformance.target.cleanup import clean_up
from conformance.target.target import Remote
from conformance.usage import ADDRESS, ConsoleCommand, refuse
from reference_server import serve as server
from reference_server.wire import ProtocolError


@click.command(cls=ConsoleCommand)
@click.option("--target", metavar="ADDRESS", required=True, help=ADDRESS)
def cleanup(target: str) -> int:
    """Remove what killed runs have left on a server.

    Exit code 0: nothing of earlier runs is left, 1: something is.
    """
    try:
        remote = Remote(target)
        remote.profile = remote.probe()
        removed, left = clean_up(remote)
    except (TargetError, OSError, EOFError, ProtocolError, ValueError) as error:
        raise refuse(f"{target}: {error}" if isinstance(error, OSError) else str(error)) from None
    print(f"removed tubes: {removed}")
    if left:
        print(f"left alone, as they are in use: {len(left)}, {left[0]} …")
    return int(bool(left))


@click.command(
    cls=ConsoleCommand, add_help_option=False, context_settings={"ignore_unknown_options": True}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(arguments: tuple[str, ...]) -> int:
    """Run the reference server; takes its options."""
    return server.main(list(arguments), click.get_current_context().command_path)
