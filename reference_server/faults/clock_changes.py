"""Faults that show only when somebody sets the wall clock: durations that are measured by it."""

from __future__ import annotations

from collections.abc import Iterator

from reference_server.events import Event, Output
from reference_server.faults.registry import fault
from reference_server.keeping import Keeper
from reference_server.model import Model
from reference_server.state import SECOND, Alarm, Client, KeptJob, Timer
from reference_server.wire import Reply


class _MindsTheWallClock(Model):
    """A model that notices when the wall clock goes on by other steps than its own clock."""

    _ahead: int | None = None

    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        wall = self.host().get("wall-clock")
        if isinstance(wall, int):
            ahead = wall - now
            changed = 0 if self._ahead is None else ahead - self._ahead
            if abs(changed) > SECOND:
                self._is_set(changed)
            if self._ahead is None or abs(changed) > SECOND:
                self._ahead = ahead
        return super().step(event, now, conn)

    def _is_set(self, changed: int) -> None:
        """Do what should not be done when the wall clock was set by so many nanoseconds."""
        raise NotImplementedError

    def _alarms(self, kind: Timer) -> Iterator[Alarm]:
        """Take all timers of a kind away, one by one."""
        for alarm in [alarm for alarm in self._timers if alarm[1] is kind]:
            self._timers.remove(alarm)
            yield alarm


@fault("put.delay-after-clock-change", "delays end when the wall clock shows it")
class Delays(_MindsTheWallClock):
    def _is_set(self, changed: int) -> None:
        for _, _, id in self._alarms(Timer.DELAY):
            job = self.jobs[int(id)]
            job.tube.delayed.remove((job.deadline, job.id))
            self._make_delayed(job, job.deadline - changed)


@fault("put.ttr-after-clock-change", "TTRs end when the wall clock shows it")
class Ttrs(_MindsTheWallClock):
    def _is_set(self, changed: int) -> None:
        for at, kind, id in self._alarms(Timer.TTR):
            job = self.jobs[int(id)]
            assert job.reserver is not None
            job.reserver.deadlines.remove((at, job.id))
            job.deadline = at - changed
            job.reserver.deadlines.add((job.deadline, job.id))
            self._timers.add((job.deadline, kind, id))


@fault("reserve.timeout-after-clock-change", "timeouts end when the wall clock shows it")
class Timeouts(_MindsTheWallClock):
    def _is_set(self, changed: int) -> None:
        for at, kind, id in self._alarms(Timer.WAIT):
            client = self.connections[int(id)]
            client.wakes_at = at - changed
            self._timers.add((client.wakes_at, kind, id))


@fault("pause-tube.end-after-clock-change", "pauses end when the wall clock shows it")
class Pauses(_MindsTheWallClock):
    def _is_set(self, changed: int) -> None:
        for at, _, name in self._alarms(Timer.PAUSE):
            tube = self._by_name[str(name)]
            self._pause(tube, tube.pause, at - changed)


@fault("stats-job.age-after-clock-change", "ages of jobs are told by the wall clock")
class Ages(_MindsTheWallClock):
    def _is_set(self, changed: int) -> None:
        for job in self.jobs.values():
            job.created -= changed


@fault("stats.uptime-after-clock-change", "uptime is told by the wall clock")
class Uptime(_MindsTheWallClock):
    def _is_set(self, changed: int) -> None:
        self.started -= changed


class _RemembersChange(_MindsTheWallClock):
    _changed = 0

    def _is_set(self, changed: int) -> None:
        self._changed += changed


@fault("stats-job.time-left-after-clock-change", "times left of jobs are told by the wall clock")
class TimesLeft(_RemembersChange):
    def _stats_job(self, conn: Client, id: int) -> Reply:
        if (job := self.jobs.get(id)) is None:
            return super()._stats_job(conn, id)
        job.deadline -= self._changed
        reply = super()._stats_job(conn, id)
        job.deadline += self._changed
        return reply


@fault("stats-tube.pause-time-left-after-clock-change", "pauses left are told by the wall clock")
class PausesLeft(_RemembersChange):
    def _stats_tube(self, conn: Client, name: str) -> Reply:
        if (tube := self._by_name.get(name)) is None:
            return super()._stats_tube(conn, name)
        tube.unpause_at -= self._changed
        reply = super()._stats_tube(conn, name)
        tube.unpause_at += self._changed
        return reply


@fault("persistence.age-after-clock-change", "a job comes back younger than new")
class KeepsTheWallClock(Keeper):
    """When the wall clock was set back, a job has been put in the future."""

    def _on_our_clock(self, job: KeptJob, ahead: int) -> KeptJob:
        created = job.created * 1000 - ahead
        return super()._on_our_clock(job, ahead)._replace(created=created)
