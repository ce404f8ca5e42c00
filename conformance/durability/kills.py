"""kill -9 under real load, for any server, including those that strace cannot follow.

After each kill the server is started on the same files and asked for everything; then all jobs are
deleted, and it goes on, so that its files have a past.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from conformance.durability.crashes import CrashKind
from conformance.durability.expected_jobs import AllJobs
from conformance.durability.findings import CrashCase, place
from conformance.durability.inspection import Inventory, Question, inspect_folder, shown
from conformance.durability.judging import differences
from conformance.durability.load import LoadClient
from conformance.target.address import ask, connect
from conformance.target.launch import Launched
from conformance.target.transport import Transport
from conformance.verdict import NotTestable

CLIENTS = 4
_SOONEST, _LATEST = 0.02, 0.4
"""Seconds for which clients are at work."""


@dataclass
class Kills:
    """The outcome of the kills: their number, the commands answered before them, the cases."""

    count: int = 0
    commands: int = 0
    cases: list[CrashCase] = field(default_factory=list)


def kills(question: Question, count: int, on_progress: Callable[[int], None]) -> Kills:
    """Kill a server so often, and judge what it has each time; raise NotTestable."""
    done = Kills()
    with tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-") as folder:
        left: dict[int, str] = {}
        for number in range(count):
            clients = _work(question, Path(folder), number, left)
            tubes = tuple(client.tube for client in clients)
            asked = replace(question, ids=_ids(clients), tubes=tubes)
            inventory = inspect_folder(asked, Path(folder))
            left = {id: job.get("tube", "") for id, job in inventory.jobs.items()}
            done.cases += _cases(clients, inventory, number)
            done.count += 1
            done.commands += sum(client.known for client in clients)
            on_progress(done.count)
            if inventory.ending:
                # It has nothing to go on with.
                break
    return done


def _work(
    question: Question, folder: Path, number: int, left: Mapping[int, str]
) -> Sequence[LoadClient]:
    """Let clients work, kill the server under them, and return them."""
    chosen = random.Random(f"kill {number}")
    values = {"binlog": str(folder)}
    with Launched(question.command, values=values, limits=question.limits) as server:
        _clear(server, question, left)
        clients = [
            LoadClient(server.where, n, f"kill{number}", question.profile, question.limits)
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        time.sleep(chosen.uniform(_SOONEST, _LATEST))
        server.signal(signal.SIGKILL)
        server.end(hangs=True)
    for client in clients:
        client.join()
        if client.refused:
            raise NotTestable(f"before it was killed, {client.refused}")
    return clients


def _ids(clients: Sequence[LoadClient]) -> tuple[int, ...]:
    """Return all ids that were given, and those that puts on their way may have got."""
    given = {id for client in clients for id in client.ids.values()}
    return tuple(sorted({id + more for id in given or {0} for more in range(CLIENTS + 1)}))


def _clear(server: Launched, question: Question, left: Mapping[int, str]) -> None:
    """Delete the jobs that an earlier start has left, by ids and tubes; all are ready before."""
    limit = question.limits.reply
    with Transport(connect(server.where, question.limits.probe)) as client:
        tubes = sorted({*left.values()} - {""})
        lines = [line for tube in tubes for line in (f"use {tube}", *[f"kick {len(left)}"] * 2)]
        for line in (*lines, *(f"delete {id}" for id in left)):
            ask(client, line.encode(), limit, question.profile.tells_priority)


def _cases(clients: Sequence[LoadClient], inventory: Inventory, number: int) -> Iterator[CrashCase]:
    """Yield the differences of the inventory after a kill."""
    ids = {name: id for client in clients for name, id in client.ids.items()}
    windows = [client.window for client in clients]
    before, after = (_together(moments) for moments in zip(*windows, strict=True))
    # The id of an unanswered put is unknown: its body identifies it.
    bodies = {job["body"]: id for id, job in inventory.jobs.items()}
    for name, view in after.jobs.items():
        if name not in ids:
            ids[name] = next((id for body, id in bodies.items() if body == shown(view.body)), -1)
    slowest = max(client.transcript.slowest for client in clients)
    # Of a put that was on its way, the id may be any.
    inventory = replace(inventory, counted=-1)
    for difference in differences(inventory, [before, after], ids, slowest):
        words = f"kill {number + 1}, after {sum(client.known for client in clients)} commands"
        known = place(CrashKind.LOAD, number)
        talk = partial(_about, clients, difference.ids)
        yield CrashCase(difference, CrashKind.LOAD, known, words, talk, str(number), {}, "load")


def _about(clients: Sequence[LoadClient], ids: Collection[int]) -> list[str]:
    """Return the messages about these jobs, which one client has put; none if nobody has."""
    for client in clients:
        if any(one.id in ids for one in client.spoken if one.step.job):
            return client.transcript.about(ids)
    return []


def _together(moments: Sequence[AllJobs]) -> AllJobs:
    """Return the jobs of all clients."""
    jobs = {name: view for moment in moments for name, view in moment.jobs.items()}
    buried = {tube: names for moment in moments for tube, names in moment.buried.items()}
    return AllJobs(jobs, buried)
