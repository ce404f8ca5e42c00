"""A server that the suite starts, moves the clock of, and ends."""

from __future__ import annotations

import contextlib
import copy
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from conformance.target.address import Address, TargetError
from conformance.target.clock import FakeClock, RealClock, faketime_library
from conformance.target.clock_probe import why_not
from conformance.target.failing_allocations import FailingAllocations
from conformance.target.fate import CRASHED, hangs
from conformance.target.instants import late_instants, note_late
from conformance.target.launch import DidNotStart, Launched, with_what_it_said
from conformance.target.learnt import Learnt
from conformance.target.limits import USUAL, Limits
from conformance.target.probe_clients import IN_TIME
from conformance.target.profile_detection import knows
from conformance.target.sanitizers import Report, reports
from conformance.target.serving import ServerProcess, serving
from conformance.target.silences import LEAST
from conformance.target.starvation import SEEN, CpuTime, Starvation, processes
from conformance.target.target import Target
from conformance.verdict import NotTestable, TargetLost
from reference_server.profiles import Profile

HEEDLESS = "heedless"
"""The configuration of a server that no signal tells when a file becomes too large for a limit."""
ALLOCATIONS = "allocations"
"""The configuration of a server whose allocations can fail, if libfiu can be loaded into it."""
_HEEDLESS = (
    *(sys.executable, "-ISc"),
    "import os, signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_DFL);"
    " signal.signal(signal.SIGXFSZ, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])",
)
_ONE_ARENA = {"MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "1")}
"""glibc reserves memory for each thread: that would be room that no limit takes away."""
_NOT_FIRST = "runtime does not come first"
"""The words of a sanitizer that must be loaded before libfaketime."""
_PROMPT = 1.0
"""Seconds in which a server answers its first client, unless it is slow or lacks the command."""
_ONE_AT_A_TIME = "only one of these servers runs at a time"


class LaunchedTarget(Target):
    """A server that we run, from a command template.

    ``environment``: variables that it is started with, and none else like it. ``learnt``: what is
    known of others like it. ``allocations``: they can fail.
    """

    def __init__(
        self,
        command: str,
        clock: str = "auto",
        limits: Limits = USUAL,
        environment: Mapping[str, str] | None = None,
        learnt: Learnt | None = None,
        allocations: FailingAllocations | None = None,
        **values: object,
    ) -> None:
        label = command.split()[0].rpartition("/")[2] if command.split() else command
        super().__init__(label, limits, learnt)
        if isinstance(size := values.get("max_job_size"), int):
            self.learnt.max_job_size = size
        self._command = command
        self._choice = clock
        self.allocations = allocations
        self._environment = {
            **(environment or {}),
            **(allocations.environment if allocations is not None else {}),
        }
        self._prefix = _HEEDLESS if values.pop(HEEDLESS, False) else ()
        self._values = values
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if values.get("binlog"):
            self._folder = tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-")
            self._values = {**values, "binlog": self._folder.name}
        self._in_real_time: LaunchedTarget | None = None
        self._unread = ""
        self._restoring = threading.Lock()
        self._hanging: Launched | None = None
        self._server = self._launch()

    def _launch(self) -> Launched:
        library = None if self._choice == "real" else faketime_library()
        if library is not None:
            if server := self._with_moved_clock(FakeClock(library)):
                return server
        elif self._choice != "real":
            self.clock_reason = "libfaketime is not installed"
        if self._choice == "fake":
            raise TargetError(f"a fake clock is not possible: {self.clock_reason}")
        self._choice = "real"
        self.clock = RealClock()
        return self._start()

    def _with_moved_clock(self, clock: FakeClock) -> Launched | None:
        """Return the server under a clock that we move; None if that is in doubt."""
        first, before = None, copy.deepcopy(self.learnt)
        if self._choice == "auto" and not self.learnt.clock_follows:
            # Run once if it does not start.
            first = Launched(self._command, values=self._values, limits=self.limits)
        self.clock = clock
        try:
            server = self._start()
        except DidNotStart as error:
            if self.learnt.clock_follows:
                raise
            if first is not None and (fate := self._fate_of_another()) is not None:
                raise TargetError(
                    f"{_ONE_AT_A_TIME}; while another one runs, it {fate}, and the suite needs"
                    " several: give its files a folder by {binlog}, or test one that runs, with"
                    " --target"
                ) from None
            self.clock_reason = (
                "a sanitizer must be loaded before libfaketime"
                if _NOT_FIRST in str(error)
                else f"under libfaketime, the launched server {error.fate}"
            )
            return None
        except OSError as error:
            self.clock_reason = f"under libfaketime, the launched server cannot be reached: {error}"
            return None
        finally:
            if first is not None:
                first.end()
        if self.learnt.clock_follows:
            return server
        self.clock_reason = (
            why_not(server.where, clock, server.process.pid, self.limits.probe, self.learnt)
            if self._answers
            else "under libfaketime, the launched server does not answer"
        )
        late = []
        if self.clock_reason:
            # A server that waits for its clock leaves requests unanswered that it answers else.
            self._forget_since(before)
        else:
            late = late_instants(server.where, self.limits.probe, self.learnt, IN_TIME)
            # What is late in real time, too, is no matter of the clock.
            allowed = self._late_in_real_time() if late else []
            self.clock_reason = next((doubt for doubt in late if doubt not in allowed), "")
        self.learnt.clock_follows = not self.clock_reason
        if late or self.clock_reason:
            server.end()
            return None if self.clock_reason else self._start()
        return server

    def _forget_since(self, before: Learnt) -> None:
        """Restore what was recorded of replies, and of ends, before the clock was probed."""
        self.learnt.known = before.known
        self.learnt.missed_ends = before.missed_ends
        self.learnt.silences = before.silences

    def _fate_of_another(self) -> str | None:
        """Start another server while one runs; return why it did not start, None if it did."""
        try:
            Launched(self._command, values=self._values, limits=self.limits).end()
        except DidNotStart as error:
            return error.fate
        return None

    def _late_in_real_time(self) -> list[str]:
        limit = self.limits.probe
        with Launched(self._command, values=self._values, limits=self.limits) as other:
            starvation = Starvation(other.meter.read)
            late = late_instants(other.where, limit, self.learnt, limit)
            if SEEN * starvation.since().seconds >= IN_TIME:
                # A busy machine may be to blame.
                return []
        note_late(late, limit, self.learnt)
        return late

    def _start(self) -> Launched:
        """Start the server under the clock that was chosen."""
        fake = self.clock if isinstance(self.clock, FakeClock) else None
        environment = {**self._environment, **(fake.environment() if fake else {})}
        self._begun = self._seen = self.clock.time()
        server = Launched(
            self._command,
            environment,
            self._values,
            limits=self.limits,
            prefix=self._prefix,
            # Where files must not grow, its log is none.
            piped=bool(self._prefix),
        )
        self._answers = self._first_client(server)
        if fake is not None:
            try:
                fake.watch(server.where, self.settled_within, self.settling)
            except OSError:
                server.end()
                raise
            fake.read_back(server.process.pid)
        self._seen = self.clock.time()
        return server

    def _first_client(self, server: Launched) -> bool:
        """Return whether a server answers a client; learn what, if it is not the usual command."""
        goodbye = self.learnt.until_end(self.limits.goodbye)
        if self.learnt.known:
            return server.answers(goodbye, self.learnt.known)
        if server.answers(goodbye, seconds=_PROMPT):
            return True
        self.learnt.known = knows(server.where, self.limits.detection, self.learnt.silences)
        return self.learnt.known is not None or server.answers(goodbye)

    @property
    def address(self) -> Address:
        return self._server.where

    @property
    def pid(self) -> int | None:
        return self._server.process.pid

    def processes(self) -> list[ServerProcess]:
        return serving(processes(self._server.process.pid), self.address)

    def age(self) -> tuple[float, float]:
        now = self.clock.time()
        return now - self._seen, now - self._begun

    def fate(self, after: bytes = b"") -> str | None:
        seconds = self.learnt.silences.patience_after(after, self.limits.exit, LEAST)
        server, fate = self._server, super().fate(after)
        if fate is None:
            return None
        if hangs(fate):
            self._hanging = server
        with contextlib.suppress(subprocess.TimeoutExpired):
            # While it writes down its memory, it is still there.
            self._server.process.wait(seconds)
        return self.ended() or fate

    def note_hang(self) -> None:
        self._hanging = self._server

    def ended(self) -> str | None:
        server = self._server
        if server.is_exiting:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(self.limits.exit)
        status = None if server.has_ended else server.exit_status()
        # What it has started may go on without it.
        return f"{CRASHED}: {status}" if status and self._fate(self.limits.alive) else None

    def cpu_time(self) -> CpuTime:
        return self._server.meter.read()

    def probe(self) -> Profile:
        if not self._answers and self._server.exit_status() is None:
            limit = self.limits.probe
            raise TargetError(f"{self.label} did not answer within {limit:g} seconds")
        try:
            return super().probe()
        except TargetError as error:
            if (fate := self.ended()) is None:
                raise
            # It had listened, and did not survive its first client.
            told = f"{fate}, when it was first asked"
            raise TargetError(with_what_it_said(told, self.said())) from error

    def said(self) -> str:
        said = self._server.said()
        # As in the command: the folder is another one each time.
        return said.replace(self._folder.name, "{binlog}") if self._folder else said

    def _end(self) -> None:
        """End the server; some say only then what they have seen, such as leaks."""
        self._server.end(self._server is self._hanging)
        self._unread += self._server.news()

    def reported(self) -> list[Report]:
        printed, self._unread = self._unread + self._server.news(), ""
        found = [r for r in reports(printed) if r.kind not in self.learnt.reported]
        kinds = {report.kind: report for report in reversed(found)}
        # In place, as servers of one test share it.
        self.learnt.reported.update(kinds)
        return list(kinds.values())

    def restore(self) -> None:
        # Many tests may lose it at the same time.
        with self._restoring:
            self._restore()

    def _restore(self) -> None:
        gone = self._server.exit_status() is not None or self._server is self._hanging
        if gone or super().fate() is not None:
            self._end()
            # Before: who is connected to the new one, sees that it is not the old one.
            self.generation += 1
            try:
                self._server = self._launch()
            except DidNotStart:
                # What it has kept may prevent that; then nobody needs it any more.
                if self._folder is None:
                    raise

    def fresh(self, **configuration: object) -> Target:
        can_fail = configuration.pop(ALLOCATIONS, False)
        for name in configuration.keys() - {HEEDLESS}:
            if f"{{{name}}}" not in self._command:
                raise NotTestable(f"needs --launch with {{{name}}} in its command")
        allocations = FailingAllocations() if can_fail else None
        begin = partial(
            LaunchedTarget,
            self._command,
            self._choice,
            limits=self.limits,
            environment=_ONE_ARENA,
            learnt=self.learnt,
            allocations=allocations,
            **configuration,
        )
        try:
            return self._beside(begin)
        except DidNotStart as error:
            if allocations is None or allocations.reason:
                raise
            # A sanitizer, for one, must be loaded before it.
            allocations.reason = f"under libfiu, the launched server {error.fate}"
        return begin()

    def in_real_time(self) -> Target:
        if not self.clock.movable:
            return self
        if self._in_real_time is None:
            self._in_real_time = self._beside(
                partial(
                    LaunchedTarget, self._command, "real", limits=self.limits, learnt=self.learnt
                )
            )
        return self._in_real_time

    def _beside(self, begin: Callable[[], LaunchedTarget]) -> LaunchedTarget:
        """Start another server beside this one; raises NotTestable if no two can run together."""
        try:
            return begin()
        except DidNotStart:
            if (fate := self._fate_of_another()) is not None:
                raise NotTestable(f"{_ONE_AT_A_TIME}: a second {fate}") from None
            raise

    def in_a_process(self) -> Target:
        return self

    def restart(self) -> None:
        self._end()
        self._start_again()

    def end_and_try(self, prefix: Sequence[str], environment: Mapping[str, str]) -> str:
        self._end()
        try:
            Launched(
                self._command,
                {**self._environment, **environment},
                self._values,
                limits=self.limits,
                prefix=prefix,
            ).end()
        except DidNotStart as error:
            self._unread += error.said
            return error.fate
        return ""

    def crash(self) -> None:
        self._server.end(hangs=True)
        self._start_again()

    def _start_again(self) -> None:
        try:
            self._server = self._start()
        except DidNotStart as error:
            self._unread += error.said
            observed = f"the launched server {error.fate}"
            raise TargetLost("a server that starts again", observed) from error

    def signal(self, number: int) -> None:
        self._server.signal(number)

    def close(self) -> None:
        if self._in_real_time is not None:
            self._in_real_time.close()
            self._unread += self._in_real_time._unread
        self._end()
        if self._folder is not None:
            self._folder.cleanup()
        if self.allocations is not None:
            self.allocations.close()
