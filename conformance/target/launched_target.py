"""A server that the suite starts, moves the clock of, and ends."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from conformance.target.address import Address, TargetError, ask
from conformance.target.clock import FakeClock, RealClock, faketime_library
from conformance.target.clock_probe import why_not
from conformance.target.failing_allocations import FailingAllocations
from conformance.target.immediate_replies import late_instants
from conformance.target.launch import DidNotStart, Launched
from conformance.target.limits import USUAL, Limits
from conformance.target.probe_clients import IN_TIME
from conformance.target.profile_detection import known_line
from conformance.target.sanitizers import SanitizerReport, reports
from conformance.target.serving import ServerProcess, serving, signalled
from conformance.target.starvation import SEEN, CpuTime, Starvation, processes
from conformance.target.target import Printed, Target
from conformance.target.traits import Failure, Traits
from conformance.target.wall_clock import SETTABLE, FakeWallClock
from conformance.transcript import CLIENT_CLOSES, Transcript
from conformance.usual_answers import CLOSES
from conformance.verdict import GOES_ON, NotTestable, Outage, OutcomeKind, Step, TargetLost
from reference_server.profiles import LIST_TUBE_USED, Profile
from reference_server.wire import CRLF, ProtocolError

HEEDLESS = "heedless"
"""The configuration of a server that gets no signal when a file grows beyond its limit."""
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
_SLOW = 4.0
"""Seconds in which a slow server does."""
_SEEN: set[str] = set()
"""The commands of which a process was seen to serve."""
_ONE_AT_A_TIME = "only one of these servers runs at a time"


class LaunchedTarget(Target):
    """A server that we run, from a command template.

    ``environment``: variables that it is started with, and none else like it. ``traits``: those
    of another server like it. ``allocations``: they can fail. ``wall_clock``: the one that it sees.
    """

    def __init__(
        self,
        command: str,
        clock: str = "auto",
        limits: Limits = USUAL,
        environment: Mapping[str, str] | None = None,
        traits: Traits | None = None,
        reported_kinds: set[str] | None = None,
        allocations: FailingAllocations | None = None,
        wall_clock: FakeWallClock | None = None,
        **values: object,
    ) -> None:
        label = command.split()[0].rpartition("/")[2] if command.split() else command
        super().__init__(label, limits, traits)
        if isinstance(size := values.get("max_job_size"), int):
            self.traits = replace(self.traits, max_body=size)
        self._command = command
        self._choice = clock
        self.allocations = allocations
        self._wall_clock = wall_clock
        self._environment = {
            **(environment or {}),
            **(allocations.environment if allocations is not None else {}),
            **(wall_clock.environment if wall_clock is not None else {}),
        }
        self._prefix = _HEEDLESS if values.pop(HEEDLESS, False) else ()
        self._values = values
        if values.get("binlog"):
            self._folder = tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-")
            self._values = {**values, "binlog": self._folder.name}
        self._in_real_time: LaunchedTarget | None = None
        if reported_kinds is not None:
            # Shared by the servers of one test.
            self.reported_kinds = reported_kinds
        self._unread = ""
        self._restoring = threading.Lock()
        self._hanging: Launched | None = None
        self._is_new = traits is None
        self._server = self._launch()

    def _launch(self) -> Launched:
        first, self._is_new = self._first_server() if self._is_new else None, False
        if self.traits.defect is not None:
            self._choice = "real"
        library = None if self._choice == "real" else faketime_library()
        if library is not None:
            if server := self._with_moved_clock(FakeClock(library), first):
                return server
            first = None
        elif self._choice != "real":
            self.clock_reason = "libfaketime is not installed"
        if self._choice == "fake":
            raise TargetError(f"a fake clock is not possible: {self.clock_reason}")
        self._choice = "real"
        self.clock = RealClock()
        return self._start(first)

    def _first_server(self) -> Launched:
        """Return the first server of its kind; note whether it outlives its first client."""
        server = self._run(keeps_first=True)
        if (defect := self._defect(server)) is not None:
            self.traits = replace(self.traits, defect=defect, defective=CLOSES)
            self._hanging = server
        return server

    def _run(
        self, environment: Mapping[str, str] | None = None, keeps_first: bool = False
    ) -> Launched:
        return Launched(
            self._command,
            {**self._environment, **(environment or {})},
            self._values,
            limits=self.limits,
            prefix=self._prefix,
            # Where files must not grow, its log is none.
            piped=bool(self._prefix),
            keeps_first=keeps_first,
        )

    def _with_moved_clock(self, clock: FakeClock, first: Launched | None) -> Launched | None:
        """Return the server under a clock that we move; None if that is in doubt.

        ``first``: one that runs beside it while it starts, and is ended then.
        """
        before = self.traits
        self.clock = clock
        try:
            server = self._start()
        except DidNotStart as error:
            if self.traits.clock_follows:
                raise
            if first is not None and (how := self._end_of_another()) is not None:
                raise TargetError(
                    f"{_ONE_AT_A_TIME}; while another one runs, it {how}, and the suite needs"
                    " several: give its files a folder by {binlog}, or test one that runs, with"
                    " --target"
                ) from None
            self.clock_reason = (
                "a sanitizer must be loaded before libfaketime"
                if _NOT_FIRST in str(error)
                else f"under libfaketime, the launched server {error.how}"
            )
            return None
        except OSError as error:
            self.clock_reason = f"under libfaketime, the launched server cannot be reached: {error}"
            return None
        finally:
            if first is not None:
                first.end()
        if self.traits.clock_follows:
            return server
        self.clock_reason = (
            why_not(server.where, clock, server.process.pid, self.limits.probe, self.traits)
            if self._answers
            else "under libfaketime, the launched server does not answer"
        )
        late = []
        if self.clock_reason:
            # A server that waits for its clock leaves requests unanswered that it answers else.
            self.traits = before
        else:
            late = late_instants(server.where, self.limits.probe, self.traits, IN_TIME)
            # What is late in real time, too, is no matter of the clock.
            allowed = self._late_in_real_time() if late else []
            self.clock_reason = next((doubt for doubt in late if doubt not in allowed), "")
        self.traits = replace(self.traits, clock_follows=not self.clock_reason)
        if late or self.clock_reason:
            server.end()
            return None if self.clock_reason else self._start()
        return server

    def _end_of_another(self) -> str | None:
        """Start another server while one runs; return why it did not start, None if it did."""
        try:
            Launched(self._command, values=self._values, limits=self.limits).end()
        except DidNotStart as error:
            return error.how
        return None

    def _late_in_real_time(self) -> list[str]:
        limit = self.limits.probe
        with Launched(self._command, values=self._values, limits=self.limits) as other:
            starvation = Starvation(other.meter.read)
            late = late_instants(other.where, limit, self.traits, limit)
            if SEEN * starvation.since().seconds >= IN_TIME:
                # A busy machine may be to blame.
                return []
        return late

    def _start(self, server: Launched | None = None) -> Launched:
        """Start the server under the clock that was chosen, unless it runs already."""
        fake = self.clock if isinstance(self.clock, FakeClock) else None
        environment = fake.environment() if fake else {}
        self._begun = self._seen = self.clock.time()
        server = server or self._run(environment)
        self._answers = self.traits.defect is not None or self._first_client(server)
        if fake is not None:
            try:
                fake.watch(server.where, self.limits.alive, self.sync_line)
            except OSError:
                server.end()
                raise
            fake.read_back(server.process.pid)
        self._seen = self.clock.time()
        return server

    def _first_client(self, server: Launched) -> bool:
        """Tell whether a server answers a client; find out what, if not the usual command."""
        goodbye = self.end_timeout(self.limits.goodbye)
        if self.sync_line != LIST_TUBE_USED or self.traits.latencies:
            return server.answers(goodbye, self.sync_line)
        # Many questions at once would keep a slow server from its first answer.
        if any(server.answers(goodbye, seconds=seconds) for seconds in (_PROMPT, _SLOW)):
            return True
        known = known_line(server.where, self.limits.detection)
        if known is None:
            return server.answers(goodbye)
        self.traits = replace(self.traits, sync_line=known.line, neutral_line=known.neutral)
        return True

    def _defect(self, server: Launched) -> Failure | None:
        """Return what is wrong with a server that serves nobody after its first client has left."""
        transcript, line = Transcript(), self.sync_line
        assert server.first is not None
        with server.first as first:
            try:
                reply = ask(first, line, _PROMPT)
            except (OSError, EOFError, ProtocolError):
                return None
        transcript.add("A", ">", line + CRLF, 0.0)
        transcript.add("A", "<", reply.encode(), 0.0)
        transcript.add("A", "!", CLIENT_CLOSES, 0.0)
        if server.answers(0.0, line):
            return None
        transcript.add("B", ">", line + CRLF, 0.0)
        status = server.exit_status()
        how = "a new client got no answer after the first one had left"
        outage = Outage(OutcomeKind.CRASHED, status) if status else Outage(OutcomeKind.HANGS, how)
        step = Step(outage.kind, self.sync_line.split()[0].decode())
        return Failure(step, GOES_ON, str(outage), transcript, outage)

    @property
    def address(self) -> Address:
        return self._server.where

    @property
    def pid(self) -> int | None:
        return self._server.process.pid

    def processes(self) -> list[ServerProcess]:
        return serving(processes(self._server.process.pid), self.address)

    def check_processes(self) -> None:
        # To look through all sockets of a machine takes ten milliseconds.
        if self._command not in _SEEN:
            super().check_processes()
            _SEEN.add(self._command)

    def age(self) -> tuple[float, float]:
        now = self.clock.time()
        return now - self._seen, now - self._begun

    def outage(self) -> Outage | None:
        server, outage = self._server, super().outage()
        if outage is None:
            return None
        if outage.kind is OutcomeKind.HANGS:
            self._hanging = server
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # While it writes down its memory, it is still there.
                server.process.wait(self.limits.exit)
        return self.ended() or outage

    def note_hang(self) -> None:
        self._hanging = self._server

    def ended(self) -> Outage | None:
        server = self._server
        if server.is_exiting:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(self.limits.exit)
        status = None if server.has_ended else server.exit_status()
        # What it has started may go on without it.
        if status is None or self._outage(self.limits.alive) is None:
            return None
        return Outage(OutcomeKind.CRASHED, status, max(-(server.process.returncode or 0), 0))

    def cpu_time(self) -> CpuTime:
        return self._server.meter.read()

    def probe(self, profile: Profile | None = None) -> Profile:
        if self.traits.defect is not None:
            self.profile_reason = "the newest, as it serves no second client"
            return self.profile
        if not self._answers and self._server.exit_status() is None:
            return self._unrecognised(f"did not answer within {self.limits.probe:g} seconds")
        try:
            found = super().probe(profile)
        except TargetError:
            if self.ended() is None:
                raise
            # It had listened, and did not survive its first client.
            self._end()
            self._server = self._run()
            return self._unrecognised("did not survive its first client")
        if self.traits.defect is None:
            # Not for the first test to be blamed for what the survey has made it print:
            # the tests ask for all of that again, and show what leads to it.
            self._unread = ""
        return found

    def printed(self) -> Printed:
        return self._server, self._server.printed

    def said(self, since: Printed | None = None) -> str:
        server, count = since or (None, 0)
        # What was started meanwhile has printed all of it since.
        said = self._server.said(count if server is self._server else 0)
        # As in the command: the folder is another one each time.
        return said.replace(self._folder.name, "{binlog}") if self._folder else said

    def _end(self) -> None:
        """End the server; some say only then what they have seen, such as leaks."""
        self._server.end(self._server is self._hanging)
        self._unread += self._server.new_output()

    def reported(self) -> list[SanitizerReport]:
        printed, self._unread = self._unread + self._server.new_output(), ""
        found = [r for r in reports(printed) if r.kind not in self.reported_kinds]
        kinds = {report.kind: report for report in reversed(found)}
        # In place, as servers of one test share it.
        self.reported_kinds.update(kinds)
        return list(kinds.values())

    def restore(self) -> None:
        # Many tests may lose it at the same time.
        with self._restoring:
            self._restore()

    def _restore(self) -> None:
        gone = self._server.exit_status() is not None or self._server is self._hanging
        if gone or super().outage() is not None:
            self._end()
            # Before: clients of the new one see that it is not the old one.
            self.generation += 1
            try:
                self._server = self._launch()
            except DidNotStart:
                # What it has kept may prevent that; then nobody needs it any more.
                if self._folder is None:
                    raise

    def fresh(self, **configuration: object) -> Target:
        can_fail = configuration.pop(ALLOCATIONS, False)
        is_settable = configuration.pop(SETTABLE, False)
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
            traits=self.traits,
            reported_kinds=self.reported_kinds,
            allocations=allocations,
            wall_clock=self._new_wall_clock() if is_settable else None,
            **configuration,
        )
        try:
            return self._beside(begin)
        except DidNotStart as error:
            if allocations is None or allocations.reason:
                raise
            # A sanitizer, for one, must be loaded before it.
            allocations.reason = f"under libfiu, the launched server {error.how}"
        return begin()

    def _new_wall_clock(self) -> FakeWallClock:
        """Return a wall clock for another server; raises NotTestable if it may not follow it."""
        library = faketime_library()
        if library is None or not self.traits.clock_follows:
            reason = f": {self.clock_reason}" if self.clock_reason else ""
            raise NotTestable(f"needs a server whose wall clock can be set{reason}")
        return FakeWallClock(library)

    def set_wall_clock(self, seconds: int) -> None:
        if self._wall_clock is None:
            super().set_wall_clock(seconds)
        else:
            self._wall_clock.set(seconds)

    def in_real_time(self) -> Target:
        if not self.clock.movable:
            return self
        if self._in_real_time is None:
            self._in_real_time = self._beside(
                partial(
                    LaunchedTarget,
                    self._command,
                    "real",
                    limits=self.limits,
                    traits=self.traits,
                    reported_kinds=self.reported_kinds,
                )
            )
        return self._in_real_time

    def _beside(self, begin: Callable[[], LaunchedTarget]) -> LaunchedTarget:
        """Start another server beside this one; raises NotTestable if no two can run together."""
        try:
            return begin()
        except DidNotStart:
            if (how := self._end_of_another()) is not None:
                raise NotTestable(f"{_ONE_AT_A_TIME}: a second {how}") from None
            raise

    def in_a_process(self) -> Target:
        return self

    def restart(self) -> None:
        self._end()
        self._start_again()

    def end_and_try(self, prefix: Sequence[str], environment: Mapping[str, str]) -> Outage | None:
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
            return error.as_outage
        return None

    def crash(self) -> None:
        self._server.end(hangs=True)
        self._start_again()

    def _start_again(self) -> None:
        try:
            self._server = self._start()
        except DidNotStart as error:
            self._unread += error.said
            raise TargetLost("a server that starts again", error.as_outage) from error

    def signal(self, number: int) -> None:
        leader = self._server.process.pid
        process = signalled(processes(leader), self.address, leader)
        if process == leader:
            self._server.signal(number)
        else:
            os.kill(process, number)

    def close(self) -> None:
        if self._in_real_time is not None:
            self._in_real_time.close()
            self._unread += self._in_real_time._unread
        self._end()
        if self._folder is not None:
            self._folder.cleanup()
        if self.allocations is not None:
            self.allocations.close()
        if self._wall_clock is not None:
            self._wall_clock.close()
