"""A campaign of hostile bytes, limited by time or by the number of findings."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from conformance.oracle.diagnosis import Diagnosis, last_command
from conformance.oracle.violation import Violation
from conformance.random_testing.delta_debugging import OutOfTime, ends
from conformance.random_testing.exploration import Exploration
from conformance.random_testing.findings import at_first_sight, keep, not_kept
from conformance.random_testing.levels import diagnosis_of
from conformance.random_testing.replay import Counterexample
from conformance.random_testing.session import Session
from conformance.random_testing.steps import Program, Step
from conformance.target.target import Target
from conformance.transcript import Transcript
from conformance.verdict import GOES_ON
from fuzz import undefined_input as wild
from fuzz.campaign import REPLAYS, MakesUp, ProgramCampaign
from fuzz.campaign_findings import CampaignReport, Filed, Sighting
from fuzz.corpus import Pool
from fuzz.greybox import GreyBox
from fuzz.health import growth, look, thinned
from fuzz.hostile import cases
from fuzz.judgeable_steps import judgeable
from fuzz.sanitizer_findings import Reports
from fuzz.suppression import Signature, line_of, lines_of, signature

WILD = 8
"""One program in so many is wild: no text defines the answers to its bytes."""
_STATISTICS = ("OK", "OK")
"""The beginning of what is expected and observed where statistics differ."""
_STATS = frozenset(("stats", "stats-job", "stats-tube"))
_AHEAD = 0.6
"""Seconds that scouts have before the first judged program."""
_WITHOUT_NEWS = 1.0
"""Seconds of scouting without a filed finding until slow findings are shrunk."""
ENOUGH = 2
"""The number of times that findings that look the same are shrunk."""
MOST_STATISTICS = 8
"""Findings of differing statistics after which these are no longer compared."""
MOST_LINES = 200
"""Steps of a finding among which single lines are looked for that show it alone."""


class Fuzzer:
    """Sends hostile bytes to a target; leaves alone what others have there.

    ``grey``: scouts who run ahead, if their coverage can be seen; then programs of the second gear
    are played, too. ``sees`` is called with a violation at first sight. ``to_first_failure``: to
    end with a finding that breaks a must.
    """

    def __init__(
        self,
        exploration: Exploration,
        target: Target,
        pool: Pool,
        grey: GreyBox | None = None,
        sees: Callable[[Transcript], None] = lambda _: None,
        to_first_failure: bool = False,
    ) -> None:
        self.report = CampaignReport(to_first_failure=to_first_failure)
        self._sees = sees
        self._exploration = exploration
        self._target = target
        self._pool = pool
        hostile = partial(cases, pool, self.report.progress)
        self._campaign = ProgramCampaign(exploration, target, hostile)
        self._grey = grey
        if grey is not None:
            grey.known = pool.known
        self._reports = Reports(target, exploration.folder, exploration.effort)
        self._lanes = (
            [hostile] if grey is None else [grey.watch(hostile), grey.watch(grey.second_gear)]
        )
        self._kinds: Counter[tuple[str, str]] = Counter()
        self._alike: set[Signature] = set()
        self._later: deque[Callable[[], None]] = deque()
        """Slow work, postponed until scouts find nothing else: unanswered requests and crashes."""
        self._postponed: Counter[tuple[str, str]] = Counter()
        self._without_news = 0.0
        """Seconds of scouting since the last filed finding, or the last postponed work."""
        self._pid: int | None = None
        self._wild: Target | None = None

    def run(
        self, seconds: float, most: float = math.inf, on_progress: Callable[[], None] = lambda: None
    ) -> CampaignReport:
        """Go on for some seconds, or until ``most`` things are found, and end.

        ``on_progress`` is called after each program.
        """
        self.go_on(seconds, most, on_progress)
        self.close()
        return self.report

    def go_on(self, seconds: float, most: float, on_progress: Callable[[], None]) -> None:
        """Do as :meth:`run`, without the end: it can be called again to go on."""
        chance, report = Random(self._exploration.seed), self.report
        start = time.monotonic()
        report.seconds = 0.0
        if not report.programs:
            self._scout(_AHEAD, most)
        while report.seconds < seconds and not report.is_over(most):
            seed = chance.randrange(2**32)
            report.programs += 1
            if self._target.exclusive and report.programs % WILD == 0:
                self._go_wild(self._wild_program(seed))
            else:
                before = time.monotonic()
                lane = self._lanes[report.programs % len(self._lanes)]
                for sighting in self._play(lane, seed, most):
                    self._file(sighting, most)
                self._look()
                self._scout(time.monotonic() - before, most)
            self._pool.exchange()
            report.shapes = len(self._pool.shapes)
            report.health |= self._reports.remark_of
            report.seconds = time.monotonic() - start
            on_progress()
        while self._later and not report.is_over(most):
            self._later.popleft()()
        self._campaign.close()

    def close(self) -> None:
        """End what it has started beside the target."""
        if self._grey is not None:
            self._grey.close()
        if self._wild is not None:
            self._wild.close()
            self._wild = None

    def _play(self, makes_up: MakesUp, seed: int, most: float) -> Iterator[Sighting]:
        """Play a program; yield what it shows, but silences only if there are no scouts."""
        found = self._campaign.play(Random(seed), makes_up)
        self._reports.hear(self._target.reported(), self._campaign.last)
        if found is None:
            return
        if self._is_like_filed(found) or self._are_enough(found):
            yield Sighting(found, self._campaign.starved)
            return
        # To see a silence again takes longest. The line of a put gets no answer alone, either.
        line = self._answered(found)
        is_long = found.violation.is_silence or (line or b"").startswith(b"put ")
        sighting = self._sighting(found, line if is_long or len(found.program) == 1 else None)
        if self._grey is not None and is_long:
            self._postponed[found.violation.kind] += 1
            self._later.append(partial(self._file, sighting, most))
        else:
            yield sighting

    def _are_enough(self, found: Counterexample) -> bool:
        """Return whether enough that looks the same was put off until later."""
        return self._postponed[found.violation.kind] > ENOUGH

    def _sighting(self, found: Counterexample, line: bytes | None) -> Sighting:
        """Report a finding, and keep it as it is; ``line`` shows it alone, most likely."""
        self._sees(found.transcript)
        command = next(self._campaign.commands(filter(None, [line])), None)
        if command is not None:
            # Others like it need not be judged.
            self._pool.known.learn([command])
        first = self._keep_unreduced(found.transcript)
        return Sighting(found, self._campaign.starved, command, first)

    def _keep_unreduced(self, shown: Transcript) -> Path | None:
        """Keep what shows a finding until it is small; return where."""
        folder = self._exploration.folder
        # A finding that cannot be kept now is reported when it is small.
        with contextlib.suppress(OSError):
            return at_first_sight(folder, shown) if folder is not None else None
        return None

    def _scout(self, seconds: float, most: float) -> None:
        """Let scouts run ahead for some seconds; judge the programs that reach something new."""
        if self._grey is None:
            return
        self._grey.exchange()
        sightings: list[Sighting] = []
        # Most of what they find is found at once, and to make it small takes long.
        for program in sorted(self._grey.explore(seconds), key=len):
            steps = judgeable(program, self._exploration.profile)
            self.report.unjudged += len(steps) < len(program)
            if new := self._grey.without_known(steps):
                sightings += self._play(partial(_steps, new), 0, most)
        lost, self._grey.lost = self._grey.lost, []
        for done in lost:
            self._lose(list(done))
        before = len(self.report.found)
        for sighting in sightings:
            if not self.report.is_over(most):
                self._file(sighting, most)
        self._without_news = (
            self._without_news + seconds if len(self.report.found) == before else 0.0
        )
        if self._without_news > _WITHOUT_NEWS and self._later:
            self._without_news = 0.0
            self._later.popleft()()
        reported, self._grey.reported = self._grey.reported, []
        for reports, program in reported:
            self._reports.hear(reports, program)

    def _answered(self, found: Counterexample) -> bytes | None:
        """Return the line that was answered wrongly, or not at all; None if that is unknown."""
        return line_of(found.shown.entries, self._exploration.profile)

    def _is_like_filed(self, found: Counterexample) -> bool:
        """Return whether the finding is about one line, and resembles a filed one."""
        line = self._answered(found)
        return line is not None and signature(line, *_replies(found.violation)) in self._alike

    def _file(self, sighting: Sighting, most: float) -> None:
        """Shrink what was found, and file it, unless it is filed."""
        found = sighting.found
        kind = found.violation.kind
        self._kinds[kind] += 1
        if kind == _STATISTICS and self._kinds[kind] > MOST_STATISTICS:
            # They would hide whatever else is wrong.
            self._campaign.looks = False
            self._pool.avoids = _STATS
        if self._is_like_filed(found):
            self._pool.known.learn([self._answered(found)])
            self.report.again += 1
        elif sighting.line is not None and (alone := self._campaign.alone(sighting.line)):
            self._keep_firm(alone, sighting.starved)
        elif not self._file_lines(sighting, most):
            if self._kinds[kind] > ENOUGH:
                self.report.again += 1
            else:
                self._keep(self._campaign.smallest(found), sighting.starved)
        _remove(sighting.first)

    def _file_lines(self, sighting: Sighting, most: float) -> bool:
        """File the single lines of a finding that show it alone; return whether there are any."""
        lines = lines_of(sighting.found.program[-MOST_LINES:], self._exploration.profile)
        shown = False
        new = self._pool.known.unknown(reversed(lines))
        for single in self._campaign.each_alone(new, self._is_known):
            shown = True
            self._pool.known.learn(lines_of(single.program, self._exploration.profile))
            if self._is_known(single):
                self.report.again += 1
            elif self._grey is not None and single.violation.is_silence:
                self._later.append(partial(self._keep_firm, single, sighting.starved))
            else:
                self._keep_firm(single, sighting.starved)
            if self.report.is_over(most):
                break
        return shown

    def _keep_firm(self, single: Counterexample, starved: float) -> None:
        looks = self._campaign.looks
        self._keep(self._exploration.most_severe(single, self._target, looks), starved)

    def _alike_of(self, found: Counterexample) -> Signature:
        lines = lines_of(found.program, self._exploration.profile)
        return signature(lines[-1] if lines else b"", *_replies(found.violation))

    def _is_known(self, found: Counterexample) -> bool:
        return self._alike_of(found) in self._alike

    def _keep(self, small: Counterexample, starved: float) -> None:
        profile = self._exploration.profile
        self._pool.known.learn(lines_of(small.program, profile))
        if self._is_known(small):
            self.report.again += 1
            return
        again = self._campaign.seen(small.program)
        diagnosis = diagnosis_of(small, profile)
        if diagnosis.is_quirk:
            # Ids that differ from those of the first time may have made it one.
            self.report.again += 1
            return
        is_starved = starved > self._target.limits.lateness
        if not (again or diagnosis.is_loss) and is_starved:
            # Its timers, or our own clocks, may have been late.
            self._exploration.undecided += 1
            return
        self._alike.add(self._alike_of(small))
        self._add(diagnosis, small.shown, f"reproduced {again} of {REPLAYS}")

    def _add(
        self, diagnosis: Diagnosis, shown: Transcript, seen: str, is_wild: bool = False
    ) -> None:
        report = self.report
        if any(filed.diagnosis.name == diagnosis.name for filed in report.found):
            report.again += 1
            return
        path, new, folder = None, True, self._exploration.folder
        if folder is not None:
            name = "wild" if is_wild else "transcript"
            try:
                path, new = keep(folder, diagnosis, shown, seen, name)
            except OSError as error:
                seen = f"{seen}; {not_kept(folder, error)}"
        if not new:
            # Another fuzzer, or an earlier run, has reported it.
            report.again += 1
        report.found.append(Filed(diagnosis, shown, path, seen, is_wild))

    # ------------------------------------------------------------ beyond what is judged

    def _wild_program(self, seed: int) -> list[Step]:
        known = self._pool.known
        lines = wild.lines_of_fork(self._exploration.profile.dialect)
        made = wild.undefined_program(Random(seed), lines)
        return [step for step in made if not known.has(wild.lines_of([step]))]

    def _lose(self, done: list[Step]) -> None:
        """File what ended a scouts' server by its last messages, or else put that off."""
        if (end := next(filter(self._is_wrong, ends(done)), None)) is not None:
            self._go_wild(end)
            return
        first = self._keep_unreduced(wild.transcript_of(done))

        def later() -> None:
            self._go_wild(done)
            _remove(first)

        self._later.append(later)

    def _go_wild(self, done: list[Step]) -> None:
        target = self._new_server()
        wrong, slowest, taken = wild.survives(target, done)
        self.report.progress.slowest = max(self.report.progress.slowest, slowest)
        self._reports.hear(target.reported(), done)
        if wrong is None:
            return
        effort = self._exploration.effort

        def shows(fewer: list[Step]) -> bool:
            if not effort.remaining:
                raise OutOfTime
            return self._is_wrong(fewer)

        with effort.spent(self._target.cpu_time):
            done = wild.smallest(self._needed(done[:taken]), shows)
        self._pool.known.learn(wild.lines_of(done))
        seen = sum(self._is_wrong(done) for _ in range(REPLAYS))
        seen_again = f"reproduced {seen} of {REPLAYS}"
        shown = wild.transcript_of(done)
        diagnosis = Diagnosis(GOES_ON, str(wrong), behind=last_command(shown.entries), outage=wrong)
        self._add(diagnosis, shown, seen_again, is_wild=True)

    def _is_wrong(self, done: list[Step]) -> bool:
        return wild.survives(self._new_server(), done).wrong is not None

    def _needed(self, done: list[Step]) -> list[Step]:
        """Return the last steps, up to the fatal one, if they alone end the target; else all."""
        last = done[-wild.EVERY :]
        wrong, _, taken = wild.survives(self._new_server(), last, every=1)
        return done if wrong is None else last[:taken]

    def _new_server(self) -> Target:
        """Return a server that has just started: nobody knows in what state it is afterwards."""
        if self._wild is None:
            self._wild = self._target.fresh()
        else:
            # Ids begin anew, so that a program alone shows what is wrong.
            self._wild.restart()
        return self._wild

    def _look(self) -> None:
        """Sample the memory and descriptors of the target, and report those that keep growing."""
        pid, report = self._target.pid, self.report
        if pid is None:
            return
        if pid != self._pid:
            self._pid = pid
            report.looks.clear()
        health = look(pid, report.progress.cases)
        if health is not None:
            report.looks = [*thinned(report.looks), health]
            report.health |= growth(report.looks)


def _remove(path: Path | None) -> None:
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()


def _replies(violation: Violation) -> tuple[str, str]:
    """Return the reply that was expected, or the first of them, and the one that was observed."""
    return violation.expected[0], violation.observed


def _steps(program: Program, _: Session, __: Random) -> Iterator[Step]:
    """Return a program that is made up already."""
    return iter(program)
