"""Servers that lose, double, hurry or mix up jobs while they are measured are found out."""

from __future__ import annotations

import pytest

from conformance.scale.jobs import Jobs, Sums, WrongAnswer, body
from conformance.scale.workloads import POPULATIONS, WORKLOADS, Growth
from reference_server import wire
from reference_server.commands import COMMANDS
from reference_server.model import Model
from reference_server.state import Client, Job
from reference_server.wire import Reply
from tests.scale.counted_server import subject


class Loses(Model):
    """It answers INSERTED, and forgets each 100th job."""

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        if reply.word == "INSERTED" and reply.args[0] % 100 == 0:
            self._delete(conn, int(reply.args[0]))
        return reply


class Doubles(Model):
    """It gives the first job of a reserve to the next one, too."""

    def _reserve(self, conn: Client, timeout: int | None) -> Reply | None:
        if conn.reserved and self.commands["reserve"] % 7 == 0:
            job = next(iter(conn.reserved.values()))
            return wire.RESERVED(job.id, job.body)
        return super()._reserve(conn, timeout)


class Hurries(Model):
    """It gives delayed jobs to who reserves."""

    def _next_ready(self, conn: Client) -> Job | None:
        return self._soonest(conn.use) or super()._next_ready(conn)


class IgnoresPriorities(Model):
    """It gives the newest job."""

    def _next_ready(self, conn: Client) -> Job | None:
        ready = conn.use.ready
        return self.jobs[ready[-1][1]] if ready else None


class GivesAnotherBody(Model):
    """It tells the body of another job."""

    def _found(self, job: Job | None) -> Reply:
        return wire.FOUND(1, b"") if job else wire.NOT_FOUND


class ServesNoOne(Model):
    """It forgets each third waiting client."""

    def _serve(self, job: Job) -> None:
        if job.id % 3:
            super()._serve(job)
        else:
            self._queue(job)


class IgnoresShortDelays(Model):
    """It takes a delay of a second for none."""

    def _enqueue(self, job: Job) -> None:
        job.delay = 0 if job.delay == 1 else job.delay
        super()._enqueue(job)


@pytest.mark.parametrize(
    ("model", "growth", "sentence"),
    [
        (Loses, Growth.READY, "delete was answered NOT_FOUND"),
        (Doubles, Growth.RESERVED, "a job was reserved twice"),
        (Hurries, Growth.DELAYED, "days too early"),
        (IgnoresPriorities, Growth.READY, "came after one of priority"),
        (GivesAnotherBody, Growth.READY, "peek was answered with another job"),
        (ServesNoOne, Growth.WAITING, "no waiting client got it"),
        (IgnoresShortDelays, Growth.DELAYED, "a delay of a second was reserved earlier"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_a_server_that_is_wrong_under_load_is_found(
    model: type[Model], growth: Growth, sentence: str
) -> None:
    violations = subject(growth, model).measured[growth].violations
    assert len(violations) == 1
    assert sentence in violations[0]


def test_sums_tell_permutations_from_anything_else() -> None:
    begun = Sums().changed(range(1, 1000), 1)
    assert begun.changed(reversed(range(1, 1000)), -1) == Sums()
    assert begun.changed([*range(1, 999), 998], -1) != Sums()
    jobs = Jobs()
    jobs.put([1, 2, 3])
    jobs.delete([1, 2])
    with pytest.raises(WrongAnswer, match="1 fewer jobs came out"):
        jobs.end()
    jobs.delete([4])
    with pytest.raises(WrongAnswer, match="other jobs came out"):
        jobs.end()


def test_bodies_that_nobody_put_are_violations() -> None:
    with pytest.raises(WrongAnswer, match="another body"):
        Jobs().reserve([(1, b"x")], is_ordered=False)
    Jobs().reserve([(1, body(5, False)), (2, body(5, False)), (3, body(6, False))], True)


# ---------------------------------------------------------------- the table


def test_each_curve_of_the_table_has_a_name_of_its_own() -> None:
    names = [(row.grows, step.name) for row in WORKLOADS for step in row.steps if step.is_measured]
    assert len(names) == len({*names})
    assert {row.grows for row in WORKLOADS} == {*Growth} == {*POPULATIONS}


def test_the_table_measures_all_commands_that_keep_a_connection() -> None:
    measured = {
        verb for row in WORKLOADS for step in row.steps if step.is_measured for verb in step.verbs
    }
    assert measured == {*COMMANDS, "connect"} - {"quit"}
