"""Each failing step blames one requirement, and no test blames its own for another's sentence."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from conformance.catalogue import catalogue
from conformance.dialogue.drain import drain
from conformance.dialogue.scaled_lines import largest_body
from conformance.run import runner
from conformance.target.builtin import BuiltIn
from conformance.usual_answers import answer_to_delete, answer_to_put
from conformance.verdict import Deviation, Outage, OutcomeKind, TargetLost
from reference_server import wire
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES
from reference_server.state import Alarm, Client, Job, JobState, Timer
from reference_server.wire import CRLF, Reply, Request, RequestReader
from tests.faults import MUCH, PATIENT, Case, cases, outcomes

DELETES = ("delete.ready", "delete.delayed", "delete.buried", "delete.reserved-by-client")
KICKS = ("kick.kicked", "kick.bound", "kick.count", "kick.buried-only-if-any")
ENDS = ("put.expected-crlf", "put.expected-crlf-skips-body-and-two-bytes")


def blamed(fault: Fault, *slugs: str) -> set[str]:
    """Return the requirements that the tests of these requirements blame on a faulty server."""
    return blamed_by(fault, lambda case: bool({*slugs} & case.slugs) and not is_broad(case))


def is_broad(case: Case) -> bool:
    """Tell whether a test tries all numbers, or as much as fits into its time."""
    return case.file in ("test_numbers", *MUCH)


def model(kind: type[Model]) -> Fault:
    return Fault("", kind.__doc__ or "", model=kind)


def reader(kind: type[RequestReader]) -> Fault:
    return Fault("", kind.__doc__ or "", reader=kind)


def blamed_by(fault: Fault, chosen: Callable[[Case], bool]) -> set[str]:
    """Return the requirements that some tests blame."""
    found: set[str] = set()
    for case, outcome in outcomes(fault, chosen, silence=PATIENT):
        if isinstance(outcome.error, Deviation):
            found |= {outcome.error.owner} if outcome.error.owner else case.slugs
        elif outcome.error is not None:
            raise outcome.error
    return found


# ------------------------------------------------------------ delete


class PeekFindsDeleted(Model):
    """peek finds jobs that were deleted"""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deleted: dict[int, Job] = {}

    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        reply = super()._delete(conn, id)
        if reply == wire.DELETED and job is not None:
            self._deleted[id] = job
        return reply

    def _peek(self, conn: Client, id: int) -> Reply:
        job = self._deleted.get(id)
        return super()._peek(conn, id) if job is None else wire.FOUND(id, job.body)


class ExpiredStay(Model):
    """an expired job cannot be deleted while it is ready"""

    def _delete(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is not None and job.timeouts and job.state is JobState.READY:
            return wire.NOT_FOUND
        return super()._delete(conn, id)


def test_a_deleted_job_that_peek_finds_breaks_delete_entirely_alone() -> None:
    assert blamed(model(PeekFindsDeleted), *DELETES, "delete.entirely") == {"delete.entirely"}


def test_an_expired_job_that_is_ready_is_any_ready_job() -> None:
    assert blamed(model(ExpiredStay), *DELETES, "delete.after-expiry") == {"delete.ready"}


@pytest.mark.parametrize("state", ["ready", "delayed", "buried"])
def test_a_delete_of_the_set_up_breaks_what_speaks_of_the_state(state: str) -> None:
    assert answer_to_delete(NEWEST, state) == f"delete.{state}"
    assert answer_to_delete(PROFILES["0.6"], "ready") == "delete.reserved-by-client"


# ------------------------------------------------------------ kick


class KicksAll(Model):
    """kick moves all jobs and counts them, whatever its bound"""

    def _kick(self, conn: Client, bound: int) -> Reply:
        return super()._kick(conn, 1000)


class KicksBoth(Model):
    """kick goes on with delayed jobs and counts them"""

    def _kick(self, conn: Client, bound: int) -> Reply:
        kicked = super()._kick(conn, bound).args[0]
        more = super()._kick(conn, bound - int(kicked)).args[0]
        return wire.KICKED_COUNT(int(kicked) + int(more))


class CountsOneMore(Model):
    """kick reports one job too many"""

    def _kick(self, conn: Client, bound: int) -> Reply:
        return wire.KICKED_COUNT(int(super()._kick(conn, bound).args[0]) + 1)


class CountsNothing(Model):
    """kick reports no number"""

    def _kick(self, conn: Client, bound: int) -> Reply:
        super()._kick(conn, bound)
        return wire.KICKED


@pytest.mark.parametrize(
    ("kind", "slug"),
    [
        (KicksAll, "kick.bound"),
        (KicksBoth, "kick.buried-only-if-any"),
        (CountsOneMore, "kick.count"),
    ],
)
def test_each_requirement_of_kick_checks_its_own_sentence(kind: type[Model], slug: str) -> None:
    assert blamed(model(kind), *KICKS) == {slug}


def test_an_answer_of_the_set_up_without_its_number_breaks_its_own_requirement() -> None:
    assert blamed(model(CountsNothing), "bury.fifo", "bury.untouched-until-kick") == {"kick.kicked"}


# ------------------------------------------------------------ TTRs


class NoTtrEnds(Model):
    """a TTR that is over begins again"""

    def _fire(self, alarm: Alarm) -> None:
        _, kind, subject = alarm
        if kind is not Timer.TTR:
            super()._fire(alarm)
            return
        job = self.jobs[int(subject)]
        assert job.reserver is not None
        self._touch(job.reserver, job.id)


def test_where_no_ttr_ends_nothing_is_wrong_with_special_ttrs() -> None:
    special = (
        "put.ttr-zero-becomes-one",
        "put.ttr-from-reservation",
        "reserve-job.ttr",
        "pause-tube.timers-go-on",
        "stats.job-timeouts",
    )
    found = blamed(model(NoTtrEnds), "put.ttr-expiry-releases", *special)
    assert "put.ttr-expiry-releases" in found
    assert found.isdisjoint(special)


# ------------------------------------------------------------ put


class ReadsOnToTheEnd(RequestReader):
    """after a body that is not followed by CR LF, all is dropped up to the end of the line"""

    def next_request(self) -> Request | None:
        if self._body is not None and len(self._buffer) >= self._body + len(CRLF):
            end = self._buffer.find(CRLF, self._body)
            if end > self._body:
                del self._buffer[: end + len(CRLF)]
                return self._end_body(None)
            if end < 0:
                return None
        return super().next_request()


class KeepsTheEnd(RequestReader):
    """what follows a body that is not followed by CR LF is read as a command"""

    def next_request(self) -> Request | None:
        end = len(self._buffer) if self._body is None else self._body
        after = bytes(self._buffer[end : end + len(CRLF)])
        if len(after) == len(CRLF) and after != CRLF:
            del self._buffer[:end]
            return self._end_body(None)
        return super().next_request()


class LargestIsTooLarge(RequestReader):
    """the largest priority is refused"""

    def parse(self, line: bytes) -> Request:
        if line.startswith(b"put 4294967295 "):
            return wire.Malformed(wire.BAD_FORMAT)
        return super().parse(line)


@pytest.mark.parametrize("kind", [ReadsOnToTheEnd, KeepsTheEnd])
def test_where_a_server_gets_in_step_after_a_bad_end_is_no_must(
    kind: type[RequestReader],
) -> None:
    found = blamed(
        reader(kind), *ENDS, "lifecycle.tube-deleted", "put.id-is-taken-with-the-line", "bury.fifo"
    )
    assert found == {"put.expected-crlf-skips-body-and-two-bytes"}
    assert catalogue()["put.expected-crlf-skips-body-and-two-bytes"].level == "de-facto"


def test_a_put_with_large_numbers_belongs_to_their_limit() -> None:
    assert blamed(reader(LargestIsTooLarge), "stats-tube.current-jobs-urgent") == {
        "put.priority-limit"
    }
    assert answer_to_put(NEWEST, 0, 2**32 - 1, 60) == "put.delay-limit"
    assert answer_to_put(PROFILES["1.10"], 0, 2**32 - 1, 60) == "put.inserted"


def test_the_set_up_puts_no_larger_bodies_than_the_server_takes() -> None:
    server = BuiltIn(max_job_size=16_384)
    try:
        assert largest_body(server, 65_535) == b"a" * 16_384
        assert largest_body(server, 7) == b"a" * 7
        sizes = [case for case in cases() if case.slugs == {"put.body-size-excludes-crlf"}]
        assert [runner.run(case.test, case.arguments, server).error for case in sizes] == [
            None for _ in sizes
        ]
    finally:
        server.close()


# ------------------------------------------------------------ drain mode


def _needs_drain_mode(case: Case) -> bool:
    return case.name.startswith("test_in_drain_mode")


def test_a_server_without_drain_mode_breaks_put_draining_alone() -> None:
    fault = FAULTS["drain-mode-is-told-in-stats-but-refuses-nothing"]
    assert blamed_by(fault, _needs_drain_mode) == {"put.draining"}


def test_a_server_that_the_signal_kills_breaks_put_draining_alone() -> None:
    class Killed(BuiltIn):
        def signal(self, number: int) -> None:
            self.close()

        def outage(self) -> Outage | None:
            return Outage(OutcomeKind.CRASHED, "ended by SIGUSR1", signal.SIGUSR1)

    server = Killed()

    def connect() -> Any:
        outage = server.outage()
        assert outage is not None
        lost = TargetLost("a connection", outage)
        lost.owner = "use.using"
        raise lost

    with pytest.raises(TargetLost) as caught:
        drain(server, connect)
    assert caught.value.owner == "put.draining"
