"""The invariants of every job, in whatever order a target handled concurrent commands.

No search is needed: a client certainly holds a job from the time at which it hears so until it says
anything that gives the job up, and a job is certainly ready from the time at which a client hears
so until a client asks for a job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from conformance.oracle.oracle import FOR_EVER
from conformance.oracle.violation import Violation
from reference_server.wire import Reply


class NotReleased(Violation):
    """Jobs of clients that left stay held; every server gives them back, but no text says so."""


GIVES_UP = ("delete", "release", "bury")
"""Commands after which a client may not hold a job any more."""


class SentCommand(NamedTuple):
    """A command that was sent ``at`` (nanoseconds), with its arguments.

    ``watched``: the tubes that the client watches then.
    """

    verb: str
    at: int
    job: int = 0
    pri: int = 0
    delay: int = 0
    tube: str = ""
    body: bytes = b""
    watched: Collection[str] = ()


class ReceivedReply(NamedTuple):
    """A reply that was received ``at`` (nanoseconds), written at ``mark``."""

    client: str
    asked: SentCommand
    reply: Reply
    at: int
    mark: int
    given_up: bool
    """The client has sent, by then, a command that may give up this job."""


@dataclass(slots=True)
class _Job:
    put: SentCommand
    pris: list[int]
    """Priorities that it may have had so far."""
    holder: str = ""
    since: int = 0
    """When its holder has heard of it."""
    abandoned: bool = False
    """The client that got it last has left since, or may have."""
    deleted: int | None = None
    dying: int = 0
    """Replies to its deletion that have not been heard."""
    ready: list[ReceivedReply] = field(default_factory=list)
    """Replies that show that the job is ready."""
    taken: list[ReceivedReply] = field(default_factory=list)
    """Replies that show that the job is not ready any more."""

    def may_change(self, asked: SentCommand) -> None:
        """Note that a client wants it deleted, or to have another priority."""
        if asked.verb == "delete":
            self.dying += 1
        else:
            self.pris.append(asked.pri)


class Ledger:
    """The jobs of all clients of some tubes. Its methods raise :class:`Violation`.

    ``orders_tubes``: of all watched tubes, the smallest priority is next; else of one tube.
    """

    def __init__(self, orders_tubes: bool = True) -> None:
        self._orders_tubes = orders_tubes
        self._jobs: dict[int, _Job] = {}
        self._gone: set[int] = set()
        self._early: dict[int, list[ReceivedReply]] = {}
        self._early_asked: dict[int, list[SentCommand]] = {}
        """Requests that may change jobs whose puts are not answered yet."""
        self._reserved: list[ReceivedReply] = []
        self._sure: set[SentCommand] = set()
        """Requests about a job by the client that certainly holds it."""
        self._left: list[int] = []
        """When clients had asked for jobs, and then left before they got one."""

    def jobs(self) -> list[int]:
        """Return the jobs for which no client has received DELETED."""
        return [id for id, job in self._jobs.items() if job.deleted is None]

    def are_abandoned(self, jobs: Iterable[int]) -> bool:
        """Tell whether clients that have left held all these jobs, as far as is known."""
        return all(self._jobs[id].abandoned for id in jobs)

    def asks(self, client: str, asked: SentCommand) -> None:
        """Note that a client sends a command."""
        job = self._jobs.get(asked.job)
        if job is None:
            if asked.verb in GIVES_UP:
                self._early_asked.setdefault(asked.job, []).append(asked)
            return
        if job.holder == client and asked.verb in (*GIVES_UP, "touch"):
            self._sure.add(asked)
        if asked.verb in GIVES_UP:
            job.may_change(asked)
            job.holder = "" if job.holder == client else job.holder

    def leaves(self, client: str, asked: Collection[SentCommand]) -> None:
        """Note that a client sends nothing more; what it holds or waits for is open from now."""
        self._left += [waiting.at for waiting in asked]
        for job in self._jobs.values():
            if job.holder == client:
                job.holder, job.abandoned = "", True

    def hears(self, received: ReceivedReply) -> None:
        """Note that a client has got a reply."""
        word, asked = received.reply.word, received.asked
        if word == "INSERTED":
            self._inserted(received, int(received.reply.args[0]))
        elif word in ("RESERVED", "FOUND"):
            self._is_about(received, int(received.reply.args[0]))
        elif word == "DELETED" or (word == "RELEASED" and not asked.delay):
            self._is_about(received, asked.job)
        elif word in ("RELEASED", "BURIED") and asked.job in self._jobs:
            self._jobs[asked.job].abandoned = False
        elif word == "NOT_FOUND" and asked.job in self._jobs:
            self._missing(received, self._jobs[asked.job])
        elif word == "NOT_FOUND" and asked in self._early_asked.get(asked.job, ()):
            self._early_asked[asked.job].remove(asked)
        self._sure.discard(asked)

    def _inserted(self, received: ReceivedReply, id: int) -> None:
        if id in self._jobs or id in self._gone:
            raise Violation(["an id that no job had before"], str(received.reply), received.mark)
        job = self._jobs[id] = _Job(received.asked, [received.asked.pri])
        if not received.asked.delay:
            job.ready.append(received)
        for asked in self._early_asked.pop(id, ()):
            job.may_change(asked)
        for early in self._early.pop(id, ()):
            # Its client may have given it up since.
            self._is_about(early._replace(given_up=True), id)

    def _is_about(self, received: ReceivedReply, id: int) -> None:
        job = self._jobs.get(id)
        if id in self._gone:
            raise Violation(["no job that was deleted"], str(received.reply), received.mark)
        if job is None:
            # The reply to its put may still be on its way.
            self._early.setdefault(id, []).append(received)
        elif received.reply.word == "DELETED":
            self._deleted(received, job)
        elif received.reply.word == "RELEASED":
            job.abandoned = False
            job.ready.append(received)
        else:
            self._seen(received, job, id)

    def _seen(self, received: ReceivedReply, job: _Job, id: int) -> None:
        if received.reply.body != job.put.body:
            body = f"job {id} with the body that it was put with"
            raise Violation([body], str(received.reply), received.mark)
        if job.deleted is not None and received.asked.at > job.deleted:
            raise Violation(["no job that was deleted"], str(received.reply), received.mark)
        if received.reply.word == "FOUND":
            return
        if job.holder and (not received.given_up or received.asked.at > job.since):
            said = f"job {id} for {job.holder} alone, who holds it"
            raise Violation([said], str(received.reply), received.mark)
        job.abandoned = received.given_up
        if not received.given_up:
            job.holder, job.since = received.client, received.at
        job.taken.append(received)
        if received.asked.verb != "reserve-job":
            self._reserved.append(received)

    def _deleted(self, received: ReceivedReply, job: _Job) -> None:
        if job.deleted is not None:
            said = f"NOT_FOUND, as job {received.asked.job} was deleted before"
            raise Violation([said], str(received.reply), received.mark)
        if job.holder and received.asked.at > job.since:
            said = f"NOT_FOUND, as {job.holder} holds job {received.asked.job}"
            raise Violation([said], str(received.reply), received.mark)
        job.deleted = received.at
        job.taken.append(received)

    def _missing(self, received: ReceivedReply, job: _Job) -> None:
        asked = received.asked
        if asked in self._sure:
            said = f"no NOT_FOUND, as {received.client} holds job {asked.job}"
            raise Violation([said], str(received.reply), received.mark)
        job.dying -= asked.verb == "delete"
        if asked.verb == "peek" and job.deleted is None and not job.dying:
            said = f"job {asked.job}, which was put and not deleted"
            raise Violation([said], str(received.reply), received.mark)

    def overdue(self, waiting: Iterable[SentCommand]) -> int | None:
        """Return a job that certainly is ready though a client waits for its tube; else None."""
        tubes = {tube for asked in waiting for tube in asked.watched}
        for id, job in self._jobs.items():
            certain = any(self._until(job, ready) == FOR_EVER for ready in job.ready)
            if certain and job.put.tube in tubes:
                return id
        return None

    def close(self) -> None:
        """Judge the end, after all replies, when all clients have left."""
        for unknown in self._early.values():
            raise Violation(["a job that was put"], str(unknown[0].reply), unknown[0].mark)
        self._are_in_order()
        self.forget()

    def forget(self) -> None:
        """Forget all jobs, as what follows is about others."""
        self._gone.update(self._jobs)
        self._jobs.clear()
        self._early.clear()
        self._early_asked.clear()
        self._reserved.clear()
        self._left.clear()
        self._sure.clear()

    def _are_in_order(self) -> None:
        """Raise if a client got a job while one with a smaller priority certainly was ready."""
        spans = [
            (ready.at, until, ready.asked.pri, job.put.tube, id)
            for id, job in self._jobs.items()
            for ready in job.ready
            if ready.at < (until := self._until(job, ready))
        ]
        for received in self._reserved:
            asked, id = received.asked, int(received.reply.args[0])
            job = self._jobs[id]
            pri = min(job.pris)
            tubes = asked.watched if self._orders_tubes else (job.put.tube,)
            for since, until, other, tube, before in spans:
                certain = since < asked.at and received.at < until and tube in tubes
                if certain and other < pri:
                    said = f"job {before}, whose priority is {other}, before job {id} with {pri}"
                    raise Violation([said], str(received.reply), received.mark)

    def _until(self, job: _Job, ready: ReceivedReply) -> int:
        """Return until when a job certainly was ready, after a reply that made it so."""
        taken = [received.asked.at for received in job.taken if received.at > ready.asked.at]
        # A client that left may have had it until the target came to its end, whenever that was.
        return min(taken + self._left, default=FOR_EVER)
