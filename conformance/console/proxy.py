"""``proxy``: live traffic of any server is judged."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.console.recorded_file import found_profile
from conformance.target.address import Address, TargetError, is_near, parse_address
from conformance.target.target import Remote
from conformance.traffic.judging import Setup
from conformance.traffic.proxy import forward
from conformance.usage import ADDRESS, ConsoleCommand, make_folder, refuse
from reference_server.profiles import NEWEST
from reference_server.wire import ProtocolError


@click.command(cls=ConsoleCommand)
@click.option("--listen", metavar="HOST:PORT", required=True, help="where clients connect to")
@click.option("--target", metavar="ADDRESS", required=True, help=ADDRESS)
@click.option(
    "--profile", metavar="NAME", help="the version of the protocol; by default, that of the server"
)
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="FILE", help="write a transcript for check"
)
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FOLDER", help="write a page at the end"
)
@click.option(
    "--shared", is_flag=True, help="other clients bypass the proxy: do not judge states of jobs"
)
def proxy(
    listen: str,
    target: str,
    profile: str | None,
    record: Path | None,
    report: Path | None,
    shared: bool,
) -> int:
    """Forward all connections to a server, and judge a copy of the traffic.

    Clients and server get the bytes of each other unchanged, and wait for no verdict. Ctrl-C ends
    it.

    Exit code 0: no alarm, 1: an alarm about the server or a client.
    """
    address, at = _address(target), _address(listen)
    if isinstance(at, str):
        raise refuse("--listen takes HOST:PORT")
    if report is not None:
        make_folder(report)
    setup = Setup(
        f"Traffic of {target}",
        _profile(target, profile),
        _writable(record),
        "" if report is None else str(report),
        shared,
        0 if isinstance(address, str) else address[1],
        is_near=is_near(address),
    )

    def ready(port: int) -> None:
        click.echo(f"listening at {at[0]}:{port}, forwarding to {target}, profile {setup.profile}")

    try:
        return forward(at, address, setup, ready)
    except OSError as error:
        raise refuse(f"cannot listen at {listen}: {error.strerror or error}") from None


def _address(text: str) -> Address:
    try:
        return parse_address(text)
    except TargetError as error:
        raise refuse(str(error).replace("--target takes", "an address is")) from None


def _writable(record: Path | None) -> str:
    if record is None:
        return ""
    try:
        record.open("w").close()
    except OSError as error:
        raise refuse(f"cannot write {record}: {error.strerror}") from None
    return str(record)


def _profile(target: str, name: str | None) -> str:
    """Return the name of the profile that is asked for, or that of the server."""
    if name is not None:
        found_profile(name)
        return name
    try:
        return Remote(target).probe().name
    except (TargetError, OSError, EOFError, ProtocolError, ValueError):
        # It may start later.
        return NEWEST.name
