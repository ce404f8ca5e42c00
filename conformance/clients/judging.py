"""One case, played with a driver: what came of it, as data."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.clients.cases import OR, SUCCESSES, ClientCase
from conformance.clients.checks import SMALL, CallRecord, Mismatch
from conformance.clients.driver import Channel, DriverEnded
from conformance.clients.protocol import UNSUPPORTED, Answer, DriverError
from conformance.clients.server import Change, ScriptedServer
from conformance.target.starvation import Starvation
from reports.verdicts import Verdict

ANSWER_TIMEOUT = 6.0
"""Seconds that a library has for a call; drivers set its own timeout to 1 s, if it has one."""
OPTIONAL = 1 / 6
"""The share of that time for an answer that need not arrive."""
STARVED = 0.5
"""Seconds without a CPU, ours or the driver's, that excuse an error: the library may time out."""
PLAYS = 4
"""The most plays of a case until a mismatch has shown twice without such an excuse."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The result of a case; ``verdict`` is FAIL for any mismatch, whatever the level.

    ``blocked_by``: the requirement that is broken where the case had not come to its own. ``seed``:
    that of a random program.
    """

    case: ClientCase
    verdict: Verdict
    reason: str = ""
    mismatch: Mismatch | None = None
    transcript: Sequence[str] = ()
    said: str = ""
    seconds: float = 0.0
    blocked_by: str = ""
    seed: int | None = None


def excuse(starvation: Starvation, answer: Answer | None, timeout: float) -> str:
    """Return the starvation that may have caused an answer that is an error or missing, in words.

    One that is missing after ``timeout`` seconds has been waited for longer.
    """
    if answer is not None and answer.is_ok:
        return ""
    found = starvation.since()
    limit = timeout if answer is None else STARVED
    return str(found) if found.seconds > limit else ""


def flaky(outcome: CaseOutcome) -> CaseOutcome:
    """Return the outcome of a case whose mismatch did not show again."""
    assert outcome.mismatch is not None
    expected, observed = outcome.mismatch.expected, outcome.mismatch.observed
    reason = f"only once: expected {expected}, observed {observed}"
    return replace(outcome, verdict=Verdict.FLAKY, reason=reason, mismatch=None)


class _Stop(Exception):
    """The case ends here, with a verdict other than a mismatch."""

    def __init__(self, verdict: Verdict, reason: str, blocked_by: str = "") -> None:
        super().__init__(reason)
        self.verdict, self.reason, self.blocked_by = verdict, reason, blocked_by


@dataclass
class CasePlayer:
    """Plays cases with one driver at a time; a driver that hung or ended is started again."""

    start: Callable[[], Channel]
    timeout: float = ANSWER_TIMEOUT
    _driver: Channel | None = None
    _wait: float = field(init=False)
    _ended: str = ""
    _excuse: str = ""
    """The starvation that may have caused the last outcome, in words."""
    _answer: Answer | None = None

    def __post_init__(self) -> None:
        self._wait = self.timeout

    def play(self, case: ClientCase) -> CaseOutcome:
        """Return the outcome of a case; a mismatch must show again with a new driver."""
        shown: list[CaseOutcome] = []
        starved = ""
        for _ in range(PLAYS):
            outcome = self._play(case)
            if outcome.verdict in (Verdict.PASS, Verdict.NOT_OFFERED, Verdict.INCONCLUSIVE):
                return flaky(shown[0]) if shown else outcome
            is_timeless = outcome.mismatch is not None and outcome.mismatch.is_timeless
            if self._excuse and not is_timeless:
                starved = self._excuse
            else:
                shown.append(outcome)
                if len(shown) == 2 or outcome.mismatch is None:
                    return outcome
            self.close()
        if shown:
            return shown[0]
        return replace(outcome, verdict=Verdict.INCONCLUSIVE, reason=starved, mismatch=None)

    def close(self) -> None:
        """End the driver."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _play(self, case: ClientCase) -> CaseOutcome:
        begun, self._ended, self._excuse = time.monotonic(), "", ""
        transcript: list[str] = []
        said, mismatch = "", None
        verdict, reason, owner = Verdict.PASS, "", ""
        try:
            for change in case.changes:
                mismatch = self._variant(case, change, transcript)
                if mismatch is not None:
                    verdict = Verdict.FAIL
                    break
        except _Stop as stop:
            verdict, reason, owner = stop.verdict, stop.reason, stop.blocked_by
        except DriverError as error:
            verdict, reason = Verdict.ERROR, f"an error of the driver: {error}"
        if verdict is not Verdict.PASS:
            said = self._driver.said() if self._driver else ""
            if verdict is not Verdict.NOT_OFFERED:
                self.close()
        seconds = time.monotonic() - begun
        return CaseOutcome(case, verdict, reason, mismatch, transcript, said, seconds, owner)

    def _variant(self, case: ClientCase, change: Change, transcript: list[str]) -> Mismatch | None:
        if case.is_weighed:
            # It would take again what it has freed.
            self.close()
        if self._driver is None:
            self._driver = self.start()
        driver = self._driver
        server = ScriptedServer(change, case.jobs)
        starvation = Starvation(driver.cpu_time)
        try:
            transcript[:] = server.transcript
            server.transcript = transcript
            return self._talk(case, server, driver)
        finally:
            server.close()
            self._excuse = excuse(starvation, self._answer, self.timeout)
            if self._answer is None:
                self.close()

    def _talk(self, case: ClientCase, server: ScriptedServer, driver: Channel) -> Mismatch | None:
        ask = self._ask
        if case.refused:
            server.refuse()
        connect = f"connect 127.0.0.1 {server.port}"
        connected = ask(server, driver, connect)
        if connected is None or not connected.is_ok:
            if case.refused or server.change.leaves:
                return case.check(self._record(server, driver, connect, connected))
            observed = f"the answer {connected}" if connected else self._ended or "no answer"
            if server.change.every or server.change.early:
                return Mismatch("connect succeeds", observed)
            raise _Stop(Verdict.BLOCKED, f"connect failed: {observed}")
        for question in case.before:
            self._prepare(server, driver, question)
        memory, cpu = driver.memory(), driver.cpu_time().ran
        server.is_armed = not server.change.leaves
        self._wait = self.timeout * OPTIONAL if case.has_short_timeout else self.timeout
        question, answer = self._first_supported(server, driver, case.ask)
        self._wait = self.timeout
        server.is_armed = bool(server.change.at)
        if server.change.alters_one and not server.altered and not case.has_short_timeout:
            # A reply that was never sent judges nothing.
            verb = question.split()[0]
            reason = f"the library does not send {verb} here"
            if answer is None:
                raise _Stop(Verdict.BLOCKED, reason, f"send.{verb}")
            raise _Stop(Verdict.NOT_OFFERED, reason)
        if case.settles:
            server.deliver(self.timeout)
        if case.is_weighed and not server.deliver(
            self.timeout, lambda: driver.memory() - memory > SMALL
        ):
            raise _Stop(Verdict.INCONCLUSIVE, "the library reads too slowly to see what it keeps")
        found = self._record(server, driver, question, answer)
        found = replace(found, growth=driver.memory() - memory, cpu=driver.cpu_time().ran - cpu)
        mismatch = case.check(found)
        if mismatch is None and case.differs is not None:
            mismatch = self._other(case, server, driver, str(answer))
        for following, check in case.after if answer is not None else ():
            if mismatch is not None:
                break
            question, answer = self._first_supported(server, driver, following)
            mismatch = check(self._record(server, driver, question, answer))
        return mismatch

    def _other(
        self, case: ClientCase, server: ScriptedServer, driver: Channel, first: str
    ) -> Mismatch | None:
        assert case.differs is not None
        server.change, server.is_armed = Change(says=case.differs), True
        # A connection after an error may be of no use.
        self._prepare(server, driver, f"connect 127.0.0.1 {server.port}")
        _, answer = self._first_supported(server, driver, case.ask)
        if str(answer) != first:
            return None
        other = case.differs.decode().strip()
        return Mismatch(f"another answer than after {other}", f"{first} after both")

    def _record(
        self, server: ScriptedServer, driver: Channel, question: str, answer: Answer | None
    ) -> CallRecord:
        record = server.recorded(question, answer, self.timeout, self._ended)
        return replace(record, histories=[[*history] for history in server.histories])

    def _ask(self, server: ScriptedServer, driver: Channel, question: str) -> Answer | None:
        server.mark()
        try:
            self._answer = server.await_answer(driver, question, self._wait)
        except DriverEnded as error:
            self._ended, self._answer = str(error), None
            server.transcript.append(f"  {error}")
        return self._answer

    def _first_supported(
        self, server: ScriptedServer, driver: Channel, questions: str
    ) -> tuple[str, Answer | None]:
        """Ask the first question that the driver supports; stop if there is none."""
        for question in questions.split(OR):
            answer = self._ask(server, driver, question)
            if answer is None or answer.word != UNSUPPORTED:
                return question, answer
        verb = questions.split()[0]
        raise _Stop(Verdict.NOT_OFFERED, f"the driver does not support {verb}")

    def _prepare(self, server: ScriptedServer, driver: Channel, question: str) -> None:
        question, answer = self._first_supported(server, driver, question)
        if answer is None or not answer.is_ok:
            failed = f"{question} failed: {answer or self._ended or 'no answer'}"
            owner = SUCCESSES.get(question.split()[0], "")
            raise _Stop(Verdict.BLOCKED, f"the preparation {failed}", owner)
