"""Servers that choose otherwise where the text leaves a choice: ids, clients, jobs, lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from reference_server.model import Model
from reference_server.state import Client, Job, JobState, KeptJob, Tube
from reference_server.wire import Put
from tests.variants.variant import Variant, non_strict

Choice = Callable[[Sequence[Any]], Any]


def chooses(summary: str, choice: Choice, *slugs: str) -> Variant:
    """Return a variant that makes other choices wherever the model asks."""

    class Chooses(Model):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.choose = choice

    return Variant(summary, Chooses, non_strict=non_strict(*slugs))


def _of_clients(choice: Choice) -> Choice:
    """Choose among clients that wait; elsewhere, it is beanstalkd's choice."""

    def choose(options: Sequence[Any]) -> Any:
        return choice(options) if isinstance(options[0], Client) else options[0]

    return choose


def _number(conn: Client) -> int:
    return conn.id


def numbers(summary: str, start: int, step: Callable[[], int], *slugs: str) -> Variant:
    """Return a variant whose ids begin at ``start``, with gaps that ``step`` gives."""

    class Numbers(Model):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.next_id = start

        def _put(self, conn: Client, put: Put) -> None:
            self.next_id += step()
            super()._put(conn, put)

    return Variant(summary, Numbers, non_strict=non_strict(*slugs))


class _FailedPutsHaveNoId(Model):
    def _body(self, conn: Client, data: bytes | None) -> Any:
        reply = super()._body(conn, data)
        if reply.word in ("EXPECTED_CRLF", "DRAINING"):
            self.next_id -= 1
        return reply


class _ByTimeOfReadiness(Model):
    """Of equal priorities, the job is next that has been ready for longest."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._since: dict[int, int] = {}

    def _make_ready(self, job: Job) -> None:
        self._since[job.id] = len(self._since) and max(self._since.values()) + 1
        super()._make_ready(job)

    def _dequeue(self, job: Job) -> None:
        if job.state is JobState.READY:
            del self._since[job.id]
        super()._dequeue(job)

    def _first_of(self, tubes: Sequence[Tube]) -> Job | None:
        ready = [(pri, self._since[id], id) for tube in tubes for pri, id in tube.ready]
        return self.jobs[min(ready)[2]] if ready else None

    def _next_ready(self, conn: Client) -> Job | None:
        return self._first_of([tube for tube in conn.watch if not tube.pause])

    def _next_of(self, tube: Tube) -> Job | None:
        return self._first_of([tube])


class _RemembersBackwards(Model):
    """After a restart, buried jobs are in another order."""

    def remember(self, kept: Iterable[KeptJob], next_id: int) -> None:
        super().remember(reversed([*kept]), next_id)


_CHANCE = Random(7)

_TAKEN = "put.id-is-taken-with-the-line"
_KEEPS_PLACE = (
    *("release.keeps-place", "kick.keeps-place", "reserve.expiry-keeps-place"),
    "lifecycle.close-keeps-place",
)

ORDERS = (
    chooses(
        "the last choice everywhere",
        lambda options: options[-1],
        *("reserve.ready-job-in-margin-is-given", "reserve.expiry-keeps-place"),
    ),
    chooses(
        "any choice, another one each time",
        _CHANCE.choice,
        *("reserve.ready-job-in-margin-is-given", "reserve.expiry-keeps-place"),
    ),
    chooses("the client that came last is served", _of_clients(lambda o: max(o, key=_number))),
    chooses("the client that came first is served", _of_clients(lambda o: min(o, key=_number))),
    chooses("any client that waits is served", _of_clients(_CHANCE.choice)),
    chooses(
        "no job in the safety margin",
        lambda options: "DEADLINE_SOON" if "DEADLINE_SOON" in options else options[0],
        *("reserve.ready-job-in-margin-is-given", "reserve.expiry-keeps-place"),
    ),
    numbers("ids high and with gaps", 2**40, lambda: 6, _TAKEN),
    numbers("ids of which every second is left out", 1, lambda: 1, _TAKEN),
    numbers("ids that grow by chance", 1, lambda: _CHANCE.randrange(1000), _TAKEN),
    numbers("ids of 19 digits", 2**62 + 2**61, lambda: 0),
    numbers("ids from 0 on", 0, lambda: 0),
    Variant(
        "a put that fails does not use up an id",
        _FailedPutsHaveNoId,
        non_strict=non_strict("put.id-is-taken-with-the-line"),
    ),
    Variant(
        "jobs that come back go to the end of their priority",
        _ByTimeOfReadiness,
        non_strict=non_strict(*_KEEPS_PLACE, "protocol.any-overlap"),
    ),
    Variant("remembers jobs in another order", _RemembersBackwards),
)
