"""The jobs of a server that was started on a folder, read by asking for every id."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance import yamlish
from conformance.durability.disk import Files, write_out
from conformance.target.address import Address, ask, connect
from conformance.target.launch import DidNotStart, Launched
from conformance.target.limits import Limits
from conformance.target.transport import Transport
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, Reply, escape

BEYOND = 3
"""Ids beyond the highest one ever given that are queried as well."""
_FOLD = 60
"""Bytes up to which a body is shown in full."""
_WAIT = 0.05
"""Seconds in which a server that is about to end by a signal does so."""
_HANGS = "hangs"
STATES = ("ready", "delayed", "buried", "reserved")


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that a server reports, by ids. ``ending``: how it ended; empty if it serves.

    ``began`` and ``ended`` are seconds since 1970; ``counted`` is the number of all its jobs, -1 if
    it does not say; ``buried`` are those of each tube, in the order in which they are kicked.
    """

    ending: str = ""
    said: str = ""
    began: float = 0.0
    ended: float = 0.0
    jobs: dict[int, dict[str, str]] = field(default_factory=dict)
    counted: int = -1
    buried: dict[str, list[int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    @classmethod
    def of_json(cls, fields: dict[str, Any]) -> Inventory:
        """Return what was kept as JSON."""
        jobs = {int(id): job for id, job in fields["jobs"].items()}
        return cls(**{**fields, "jobs": jobs})

    @property
    def hangs(self) -> bool:
        """Return whether it does not end, and does not serve either."""
        return self.ending.startswith(("did not", _HANGS))

    @property
    def crashed(self) -> bool:
        """Return whether it was ended by a signal, or hung."""
        return self.hangs or self.ending.startswith("ended by")


def shown(body: bytes) -> str:
    """Return a body as it is shown and compared."""
    if len(body) <= _FOLD:
        return escape(body)
    return f"{len(body)} bytes, SHA-256 {hashlib.sha256(body).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Question:
    """The way to start a server and to ask it; ``ids`` are those of all jobs that were ever put."""

    command: str
    profile: Profile
    limits: Limits
    ids: tuple[int, ...]
    tubes: tuple[str, ...]


def inspect(question: Question, files: Files) -> Inventory:
    """Start a server on these files, ask it for everything, and end it."""
    with tempfile.TemporaryDirectory(prefix="beanstalk-conformance-crash-") as folder:
        write_out(files, Path(folder))
        return inspect_folder(question, Path(folder))


def inspect_folder(question: Question, folder: Path) -> Inventory:
    """Start a server on a folder, ask it for everything, and end it.

    One that does not answer is asked again, for longer: others may have used the CPU.
    """
    inventory = _inspect_folder(question, folder)
    if not inventory.hangs:
        return inventory
    limits = replace(question.limits, reply=question.limits.starved)
    return _inspect_folder(replace(question, limits=limits), folder)


def _inspect_folder(question: Question, folder: Path) -> Inventory:
    begun = time.time()
    try:
        server = Launched(question.command, values={"binlog": str(folder)}, limits=question.limits)
    except DidNotStart as error:
        said = error.said.replace(str(folder), "{binlog}")
        return Inventory(error.how, said, begun, time.time())
    try:
        with contextlib.closing(_Asker(server.where, question)) as asker:
            return _everything(asker)
    except (OSError, EOFError, ProtocolError, ValueError) as error:
        ending = _how_it_ended(server, error)
        return Inventory(ending, server.said().replace(str(folder), "{binlog}"), begun, time.time())
    finally:
        server.end(hangs=True)


def _how_it_ended(server: Launched, error: Exception) -> str:
    """Return how a server has ended, or what it does instead of answering."""
    end = time.monotonic() + _WAIT
    while (status := server.exit_status()) is None and time.monotonic() < end:
        time.sleep(0.005)
    if status is not None:
        return status
    return _HANGS if isinstance(error, TimeoutError) else f"does not answer: {error}"


class _Asker:
    """A client that connects anew after a malformed reply."""

    def __init__(self, where: Address, question: Question) -> None:
        self._where = where
        self._client = Transport(connect(where, question.limits.probe))
        self.question = question

    def ask(self, line: str) -> Reply:
        """Return the reply to a command."""
        question = self.question
        has_priority = question.profile.tells_priority
        try:
            return ask(self._client, line.encode(), question.limits.reply, has_priority)
        except ProtocolError:
            self._client.close()
            self._client = Transport(connect(self._where, question.limits.probe))
            raise

    def close(self) -> None:
        """End the connection."""
        self._client.close()


def _everything(asker: _Asker) -> Inventory:
    asked = time.time()
    ids = asker.question.ids
    jobs = _jobs(asker, [*ids, *range(max(ids, default=0) + 1, max(ids, default=0) + 1 + BEYOND)])
    ended = time.time()
    counted = _counted(asker)
    inventory = Inventory("", "", asked, ended, jobs, counted)
    for tube in sorted(
        {*asker.question.tubes, *(job.get("tube", "") for job in jobs.values())} - {""}
    ):
        count = sum((j.get("tube"), j.get("state")) == (tube, "buried") for j in jobs.values())
        if count:
            inventory.buried[tube] = list(_buried(asker, tube, count))
    return inventory


def _jobs(asker: _Asker, ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return those of these jobs that exist."""
    found = {}
    for id in ids:
        try:
            peeked = asker.ask(f"peek {id}")
        except ProtocolError as error:
            found[id] = {"body": f"none, as {error}"}
            continue
        if peeked.word != "FOUND":
            continue
        reply = asker.ask(f"stats-job {id}")
        job = yamlish.dictionary(reply.body or b"") if reply.word == "OK" else {}
        found[id] = {**job, "body": shown(peeked.body or b"")}
        if (number := str(peeked.args[0])) != str(id):
            found[id]["id"] = number
    return found


def _counted(asker: _Asker) -> int:
    """Return how many jobs the server says it has; -1 if it does not."""
    reply = asker.ask("stats")
    stats = yamlish.dictionary(reply.body or b"") if reply.word == "OK" else {}
    counts = [stats.get(f"current-jobs-{state}", "") for state in STATES]
    return sum(map(int, counts)) if all(map(str.isdecimal, counts)) else -1


def _buried(asker: _Asker, tube: str, count: int) -> Iterable[int]:
    """Yield the buried jobs of a tube, in the order in which they are kicked."""
    asker.ask(f"use {tube}")
    for _ in range(count):
        try:
            head = asker.ask("peek-buried")
        except ProtocolError:
            return
        if head.word != "FOUND":
            return
        yield int(head.args[0])
        asker.ask("kick 1")
