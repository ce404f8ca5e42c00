"""Random exploration: the seed, budget and findings that all random tests share."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NoReturn

from conformance.oracle.diagnosis import diagnose
from conformance.oracle.violation import Violation
from conformance.random_testing.budget import Budget
from conformance.random_testing.findings import keep, kept, not_kept
from conformance.random_testing.levels import diagnosis_of, most_severe
from conformance.random_testing.replay import Counterexample, as_observed, lost, program_of
from conformance.random_testing.session import Session
from conformance.random_testing.shrink_budget import ShrinkBudget
from conformance.random_testing.steps import Happen, Program, waits
from conformance.target.address import TargetError
from conformance.target.target import Target
from conformance.transcript import Entry, Transcript
from conformance.verdict import Deviation, Inconclusive, NotTestable, Outage, TargetLost
from reference_server.profiles import NEWEST, Profile
from reports.results import WorldRecord
from reports.words import counted
from reports.worlds import transitions

LIMIT = 5.0
"""Seconds after which that is given up."""
LONGEST = 1000
"""Steps of the longest kept finding that is played again: the oracle may need 10 s for 2,000."""
KEPT = 3
"""Conversations that are kept in mind; some of them ask for statistics only."""

Loose = tuple[Deviation, list[Entry]]
"""A deviation that is at most de-facto, and what shows it."""


@dataclass(slots=True)
class Exploration:
    """The amount of random input, and its seed.

    ``folder``: where findings are kept, None if they are not.
    """

    examples: int
    seed: int = 0
    profile: Profile = NEWEST
    folder: Path | None = None
    shared: bool = False
    """Conversations must leave alone the jobs and tubes of others on the target."""
    fuzz_time: float = 1.0
    """Seconds in which hostile bytes are tried."""
    budget: Budget = field(default_factory=Budget)
    """The time for what is made up, without an end if none is given."""
    effort: ShrinkBudget = field(default_factory=ShrinkBudget)
    """The time for making small what is found."""
    undecided: int = 0
    """Conversations that were given up, as too many states were possible."""
    health: list[str] = field(default_factory=list)
    """Resources that the target used more and more of: reported, and no verdict."""
    worlds: list[WorldRecord] = field(default_factory=list)
    """The small worlds that were explored."""
    plain: bool = False
    """Lines that the text leaves open are not sent, and counters are not compared."""
    left_out: int = 0
    """Kept findings that were not played again: they, or their waits in real time, are too long."""
    shortens_timeouts: bool = False
    """The finding at hand is about a reply that never came."""
    outage: Outage | None = None
    """The outage of a target that has ended a connection."""
    _new: Target | None = None
    """The target that was started anew, and nothing has been said to it since."""
    _last: deque[Transcript] = field(default_factory=lambda: deque(maxlen=KEPT))
    _shown: dict[tuple[str, str], tuple[Violation, Transcript]] = field(default_factory=dict)

    def shortfall(self, count: int, kind: str) -> str:
        """Return how many of so many conversations did not fit in, or were not decided.

        Raises Inconclusive if few are left.
        """
        parts = [self.budget.shortfall(count, kind)]
        reached = min(count, self.budget.begun)
        if self.undecided:
            parts.append(
                f"{self.undecided} of {reached} were not decided, as too much was possible"
            )
        said = "; ".join(filter(None, parts))
        if not self.budget.is_enough(count):
            raise Inconclusive(f"reached only {said}")
        if self.undecided > reached // 2:
            raise Inconclusive(said)
        return said

    def transition_shortfall(self) -> str:
        """Return how many transitions of small worlds were taken, empty if all were.

        Raises Inconclusive if there is no world of which all were.
        """
        reached = f"{transitions(self.worlds)} of {counted(len(self.worlds), 'small world')}"
        if not any(world.taken == world.transitions for world in self.worlds):
            raise Inconclusive(f"reached only {reached}")
        return reached if any(world.taken < world.transitions for world in self.worlds) else ""

    def session(self, target: Target) -> Session:
        """Return a new conversation with a target; raises NotTestable if others may use it, too."""
        keeps_apart = self.shared and self.profile.has_tubes
        if not target.exclusive and not keeps_apart:
            raise NotTestable("needs --launch: a server of its own, for random conversations")
        session = self._begun(target)
        if session.begins_among_others and not keeps_apart:
            # They may be what an earlier test could not delete.
            self.start_anew(session)
            session = self._begun(target)
        if session.begins_among_others and not keeps_apart:
            session.abandon()
            raise NotTestable("needs a server that begins without jobs in default")
        return session

    def restored_session(self, target: Target) -> Session:
        """Return the same, and bring the target back if the last program has ended or spoilt it."""
        try:
            return self.session(target)
        except (OSError, TargetLost):
            target.restore()
        except TargetError:
            self.restart(target)
        return self.session(target)

    def _begun(self, target: Target) -> Session:
        self._new = None
        session = Session(target, self.profile, plain=self.plain)
        self.remember(session.transcript)
        return session

    def remember(self, conversation: Transcript) -> None:
        """Keep in mind what has begun, as long as the target is there."""
        if not self.outage:
            self._last.append(conversation)

    def show_last(self, transcript: Transcript) -> None:
        """Copy the last conversation with the target into a transcript in which nothing is sent."""
        if not any(entry.direction == ">" for entry in transcript.entries):
            for conversation in reversed(self._last):
                if any(entry.direction == ">" for entry in conversation.entries):
                    transcript.entries[:] = conversation.copy().entries
                    return

    def end(self, session: Session) -> None:
        """End a conversation that went as it should."""
        if session.is_spent:
            self.start_anew(session)
        else:
            session.abandon()

    def start_anew(self, session: Session) -> None:
        """End a conversation that has gone wrong, and leave nothing of it on the target."""
        session.abandon(before_restart=session.target.exclusive)
        try:
            session.target.restart()
            self._new = session.target
        except NotTestable:
            session.clean_up()

    def restart(self, target: Target) -> None:
        """Start a target anew, if we can, for what is said to it then."""
        with contextlib.suppress(NotTestable):
            target.restart()
        self._new = None

    def judge(
        self,
        target: Target,
        transcript: Transcript,
        make_up: Callable[[], str],
        earlier: Iterable[tuple[Path, Transcript]] = (),
    ) -> str:
        """Let ``make_up`` generate and judge conversations; return its result.

        Findings of ``earlier`` runs are tried first. A de-facto deviation must not hide a must: if
        only that was found, plainer conversations are generated.
        Raises Deviation, the worst that was found; ``transcript`` then shows it.
        """
        loose = self._again(target, transcript, earlier)
        result = ""
        for self.plain in (False, True):
            try:
                result = make_up()
                break
            except Deviation as deviation:
                loose = self._worst(loose, deviation, transcript)
            except Inconclusive:
                if not self.plain:
                    raise
        self.plain = False
        if loose is None:
            return "; ".join(filter(None, (result, self._skipped_findings())))
        worst, transcript.entries[:] = loose
        raise worst

    def _skipped_findings(self) -> str:
        if not self.left_out:
            return ""
        findings = counted(self.left_out, "kept finding")
        return f"{findings} not played again, as that takes too long"

    def earlier(self) -> Iterator[tuple[Path, Transcript]]:
        """Yield the kept findings, each with its file."""
        if self.folder is not None:
            yield from kept(self.folder)

    def _again(
        self, target: Target, transcript: Transcript, earlier: Iterable[tuple[Path, Transcript]]
    ) -> Loose | None:
        """Play the findings of earlier runs; raise Deviation if one is still there."""
        loose, self.left_out, left = None, 0, LIMIT
        for path, found in earlier:
            program = program_of(found)
            seconds = 0.0 if target.clock.movable else waits(program)
            if seconds > left or len(program) > LONGEST:
                self.left_out += 1
                continue
            left -= seconds
            try:
                self.look_again(target, transcript, found, f", as kept in {path}")
            except Deviation as deviation:
                loose = self._worst(loose, deviation, transcript)
            except Inconclusive:
                continue
        return loose

    def _worst(self, loose: Loose | None, deviation: Deviation, transcript: Transcript) -> Loose:
        """Return the first deviation that is at most de-facto; raise another."""
        if not deviation.de_facto:
            self.plain = False
            raise deviation
        return loose or (deviation, list(transcript.entries))

    def note(self, violation: Violation, transcript: Transcript) -> None:
        """Remember what has shown a violation, unless something shorter has shown one like it."""
        known = self._shown.get(violation.kind)
        if known is None or len(transcript.entries) < len(known[1].entries):
            self._shown[violation.kind] = violation, transcript.copy()

    def once_more(self, target: Target, transcript: Transcript) -> NoReturn:
        """Play the programs again that have shown a violation.

        Raises Deviation, or else Inconclusive; ``transcript`` then shows it.
        """
        shown = sorted(self._shown.values(), key=lambda item: len(item[1].entries))
        for _, found in shown:
            with contextlib.suppress(Inconclusive):
                self.look_again(target, transcript, found)
        if not shown:
            raise Inconclusive("what went on was not the same twice")
        violation, found = shown[0]
        transcript.entries[:] = found.entries
        seen = diagnose(violation, found.entries, self.profile).deviation(transcript.last)
        raise Inconclusive(f"a violation was seen once, and not again: {seen}", seen)

    def look_again(
        self, target: Target, transcript: Transcript, found: Transcript, where: str = ""
    ) -> None:
        """Drive a conversation again; raises Deviation, OSError or Inconclusive.

        ``transcript`` then shows what is wrong, ``where`` is said of it.
        """
        session = self.session(target)
        program = program_of(found)
        try:
            session.play(program)
            self.end(session)
        except Violation as violation:
            seen = Counterexample(program, as_observed(violation, target), session.transcript)
            self.start_anew(session)
            raise self.deviation(self.most_severe(seen, target), transcript, where) from violation
        except Inconclusive:
            self.start_anew(session)
            raise
        except OSError:
            transcript.entries[:] = session.transcript.entries
            raise

    def replayed(
        self,
        target: Target,
        program: Program,
        timeout: float = 0.0,
        limit: float = LIMIT,
        look: bool = True,
        anew: bool = True,
    ) -> Counterexample | None:
        """Return the violation of a program without waits, within so many seconds.

        ``timeout``: the seconds that a reply may take, a short timeout if 0; ``look``: see
        :meth:`Session.finish`.
        ``anew``: on a target that is started for it, which takes longer; a target that gets a
        signal is always started for it, and again for the next program.
        """
        anew = anew or any(isinstance(step, Happen) for step in program)
        if anew and self._new is not target:
            self.restart(target)
        session = self.restored_session(target)
        if session.begins_with_jobs and not anew and target.exclusive:
            # They may be what the last one could not delete.
            self.start_anew(session)
            session = self.session(target)
        timeout = timeout or target.short_timeout()
        session.timeout = timeout
        if not target.clock.movable:
            limit += waits(program)
        session.judge.give_up_at(time.monotonic() + limit)
        found, is_over = None, False
        try:
            session.play(program, look)
            is_over = not session.is_spent and session.judge.oracle.is_settled
        except Violation as violation:
            found = Counterexample(program, as_observed(violation, target), session.transcript)
        except OSError as error:
            found = Counterexample(program, lost(error, session), session.transcript)
        except Inconclusive:
            return None
        finally:
            if anew and not is_over:
                self.start_anew(session)
            else:
                session.abandon()
                if not is_over:
                    session.clean_up(timeout)
        return found

    def most_severe(
        self, found: Counterexample, target: Target, look: bool = True
    ) -> Counterexample:
        """Return what remains of a finding without lines that the text leaves open."""
        replayed = partial(self.replayed, target, look=look)
        quickly = partial(replayed, anew=False)
        with_full_timeouts = partial(replayed, timeout=target.limits.reply, limit=math.inf)
        with self.effort.spent(target.cpu_time):
            return most_severe(
                found, quickly, with_full_timeouts, self.profile, self.effort.remaining
            )

    def deviation(
        self, found: Counterexample, transcript: Transcript, where: str = ""
    ) -> Deviation:
        """Return the failure of a test for what was found; it is kept for the next run.

        ``transcript`` then shows it.
        """
        transcript.entries[:] = found.transcript.entries
        diagnosis = diagnosis_of(found, self.profile)
        if not where and self.folder is not None:
            try:
                path, _ = keep(self.folder, diagnosis, found.shown)
                where = f"; beanstalk-conformance replay {path} drives it again"
            except OSError as error:
                where = f"; {not_kept(self.folder, error)}"
        return diagnosis.deviation(found.violation.mark, where)
