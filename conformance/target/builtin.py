"""The reference server as a target: in a thread, with a clock of our own."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from conformance.target.address import Address
from conformance.target.clock import ControlledClock, RealClock, next_exact
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import USUAL, Limits
from conformance.target.serving import ServerProcess, own_process
from conformance.target.signals import named
from conformance.target.starvation import CpuTime, thread_meter, watch
from conformance.target.target import Target
from conformance.target.wall_clock import WallClock
from conformance.verdict import NotTestable, Outage, OutcomeKind, TargetLost
from reference_server.binlog import BinlogError
from reference_server.clock import MovableClock
from reference_server.faults import FAULTS, NO_FAULT, Fault
from reference_server.loop_thread import LoopThread
from reference_server.profiles import NEWEST, Profile
from reference_server.serve import Server

T = TypeVar("T")


class VirtualClock(ControlledClock):
    """The clock of a server in this process: it stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = MovableClock(flows=False)
        self.tick: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.shown.now / 1e9

    def move(self, seconds: float) -> bool:
        self.shown.forward(round(seconds * 1e9))
        self.tick()
        return True

    def _set_step(self, step: int) -> None:
        self.step = self.shown.step = step
        self.shown.forward(next_exact(self.shown.now) - self.shown.now)


class BuiltIn(Target):
    """The reference server; runs until :meth:`close`."""

    launches = False
    """Tests get a process where they need one; each takes a while to start."""

    def __init__(
        self,
        profile: Profile = NEWEST,
        max_job_size: int | None = None,
        max_jobs_ready: int | None = None,
        real_time: bool = False,
        fault: Fault = NO_FAULT,
        binlog: bool = False,
        settable: bool = False,
        limits: Limits = USUAL,
    ) -> None:
        super().__init__("reference server", limits)
        self.profile = profile
        self._limits = max_job_size, max_jobs_ready
        self._fault = fault
        self._wall_clock = WallClock() if settable else None
        self._folder = (
            tempfile.TemporaryDirectory(prefix="beanstalk-conformance-binlog-") if binlog else None
        )
        self._in_real_time: BuiltIn | None = None
        self._in_a_process: LaunchedTarget | None = None
        self._thread = LoopThread("reference server")
        self._meter = thread_meter(self._thread.native_id)
        if real_time:
            self.clock = RealClock()
        else:
            self.clock = virtual = VirtualClock()
            virtual.tick = lambda: self.call(self._server.engine.tick)
        self._serve()

    def _serve(self) -> None:
        virtual = self.clock if isinstance(self.clock, VirtualClock) else None
        self._begun = self.clock.time()
        self._server = Server(
            self.profile,
            *self._limits,
            time.monotonic_ns if virtual is None else virtual.shown,
            self._fault,
            None if self._folder is None else self._fault.binlog(self._folder.name, None),
            self._wall_clock or (time.time_ns if virtual is None else virtual.shown),
        )
        where = self.call(lambda: self._server.start(self._thread.loop, "127.0.0.1", 0))
        host, _, port = where.rpartition(":")
        self._address = host, int(port)
        self.traits = replace(self.traits, max_body=self._server.engine.model.max_job_size)
        if virtual is not None:
            virtual.watch(self._address, self.limits.alive, self.sync_line)

    def call(self, function: Callable[[], T]) -> T:
        """Return what it gives when it is called between two events of the server's loop."""
        return self._thread.call(function)

    @property
    def address(self) -> Address:
        return self._address

    def processes(self) -> list[ServerProcess]:
        return [own_process()]

    def age(self) -> tuple[float, float]:
        age = self.clock.time() - self._begun
        return age, age

    def cpu_time(self) -> CpuTime:
        # The interpreter's lock keeps it waiting, too.
        return CpuTime(0.0, max(self._meter.read().waited, watch().overslept()))

    def fresh(self, **configuration: Any) -> Target:
        real_time = not self.clock.movable
        return self._another(real_time, **configuration)

    def in_real_time(self) -> Target:
        if self._in_real_time is None:
            self._in_real_time = self._another(real_time=True)
        return self._in_real_time

    def in_a_process(self) -> Target:
        if not self.launches:
            return super().in_a_process()
        if self._in_a_process is None:
            if FAULTS.get(self._fault.name, NO_FAULT) is not self._fault:
                raise NotTestable("needs a server that runs as a process of its own")
            self._in_a_process = LaunchedTarget(self._command, "real", limits=self.limits)
            self._in_a_process.traits = self.traits
        return self._in_a_process

    @property
    def _command(self) -> str:
        fault = f" --fault {self._fault.name}" if self._fault.name in FAULTS else ""
        return (
            f"{shlex.quote(sys.executable)} -m reference_server -l {{host}} -p {{port}}"
            f" --profile {self.profile.stage}{fault} [-z {{max_job_size}}] [-b {{binlog}}]"
        )

    def _another(self, real_time: bool, **configuration: Any) -> BuiltIn:
        other = BuiltIn(
            self.profile,
            real_time=real_time,
            fault=self._fault,
            limits=self.limits,
            **configuration,
        )
        other.traits = replace(self.traits, max_body=other.traits.max_body)
        return other

    def restart(self) -> None:
        self.call(self._server.close)
        self._start_again()

    def crash(self) -> None:
        self.call(self._server.abandon)
        self._start_again()

    def _start_again(self) -> None:
        try:
            self._serve()
        except BinlogError as error:
            raise TargetLost(
                "a server that starts again", Outage(OutcomeKind.GONE, str(error))
            ) from error

    def signal(self, number: int) -> None:
        if number != named("SIGUSR1"):
            raise NotTestable("needs --launch: a server to send this signal to")
        self.call(self._server.engine.drain)

    def set_wall_clock(self, seconds: int) -> None:
        if self._wall_clock is None:
            super().set_wall_clock(seconds)
        else:
            self._wall_clock.set(seconds)

    def close(self) -> None:
        for other in filter(None, (self._in_real_time, self._in_a_process)):
            other.close()
        self.call(self._server.close)
        self._thread.close()
        if self._folder is not None:
            self._folder.cleanup()
