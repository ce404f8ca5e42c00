"""Two servers on one folder: the second refuses to start, or neither loses a job."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from conformance.durability.damage import DAMAGED
from conformance.durability.inspection import Inventory, Question, inspect_folder
from conformance.durability.judging import JobDifference
from conformance.target.address import ask, connect
from conformance.target.launch import DidNotStart, Launched
from conformance.target.transport import Transport
from reference_server.wire import ProtocolError

PUTS = 5
"""The jobs that each of them is given, in turns."""


def rivals(question: Question) -> Iterator[JobDifference]:
    """Start a second server on the folder of a first one, and yield its forbidden effects."""
    with tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-") as folder:
        values = {"binlog": folder}
        with contextlib.ExitStack() as ends:
            first = ends.enter_context(
                Launched(question.command, values=values, limits=question.limits)
            )
            try:
                second = ends.enter_context(
                    Launched(question.command, values=values, limits=question.limits)
                )
            except DidNotStart as error:
                if (refused := Inventory(error.how, error.said)).crashed:
                    yield _wrong(f"the second server {error.how}", refused.said)
                return
            answered = _put_in_turns(question, first, second)
            for server in (first, second):
                server.end(hangs=True)
        yield from _lost(question, Path(folder), answered)


def _put_in_turns(question: Question, *servers: Launched) -> list[str]:
    """Put jobs on each, in turns; return the bodies of those that were answered with an id."""
    answered = []
    limit = question.limits.reply
    for number in range(PUTS):
        for letter, server in zip("ab", servers, strict=True):
            body = f"{letter}{number}"
            with (
                contextlib.suppress(OSError, EOFError, ProtocolError),
                Transport(connect(server.where, question.limits.probe)) as client,
            ):
                line = f"put 0 0 1000 {len(body)}\r\n{body}".encode()
                if ask(client, line, limit).word == "INSERTED":
                    answered.append(body)
    return answered


def _lost(question: Question, folder: Path, answered: list[str]) -> Iterator[JobDifference]:
    """Yield a difference if a single server lacks jobs that the two have accepted."""
    inventory = inspect_folder(replace(question, ids=tuple(range(1, 4 * PUTS))), folder)
    if inventory.ending:
        yield _wrong("no server starts on a folder that two have used", inventory.ending)
        return
    found = {job["body"] for job in inventory.jobs.values()}
    if lost := [body for body in answered if body not in found]:
        what = f"{len(lost)} of {len(answered)} jobs are lost: {' '.join(lost)}"
        yield _wrong("two servers use one folder, and lose jobs", what)


def _wrong(cause: str, observed: str) -> JobDifference:
    expected = "a second server that refuses to start, or loses nothing"
    return JobDifference(DAMAGED, cause, expected, observed)
