"""Faults of the life of tubes, of use, watch and ignore, and of the lists."""

from __future__ import annotations

from typing import Any

from reference_server import stats, wire
from reference_server.faults.registry import fault
from reference_server.model import Model
from reference_server.state import SECOND, Alarm, Bag, Client, Job, JobState, Timer, Tube
from reference_server.wire import Command, Put, Reply


@fault("lifecycle.tube-deleted", "a tube stays whose last client left while it waited")
class WaitersKeepTubes(Model):
    def _half_close(self, conn: Client) -> None:
        for tube in conn.watch if conn.waiting else ():
            tube.refs += 1
        super()._half_close(conn)


@fault("lifecycle.tube-kept-by-clients", "a tube that is only watched is gone with its last job")
class WatchersKeepNothing(Model):
    def _stats_tube(self, conn: Client, name: str) -> Reply:
        tube = self._by_name.get(name)
        if tube is None or tube.using or not tube.total_jobs:
            return super()._stats_tube(conn, name)
        kept = tube.ready or tube.delayed or tube.buried or tube.reserved
        return super()._stats_tube(conn, name) if kept else wire.NOT_FOUND


@fault("lifecycle.tube-kept-by-reserved-job", "a tube is gone when its only job is reserved")
class ReservedKeepNothing(Model):
    def _command(self, conn: Client, command: Command) -> None:
        every, by_name = self.tubes, self._by_name
        if command.verb in ("stats", "stats-tube", "list-tubes"):
            self.tubes, self._by_name = Bag(), {}
            for tube in every:
                if tube.refs > tube.reserved:
                    self.tubes.add(tube)
                    self._by_name[tube.name] = tube
        super()._command(conn, command)
        self.tubes, self._by_name = every, by_name


@fault("lifecycle.default-stays", "default goes as other tubes do")
class DefaultGoes(Model):
    def _deref(self, tube: Tube) -> None:
        super()._deref(tube)
        if tube is self._default and tube.refs == 1 and tube in self.tubes:
            self.tubes.remove(tube)


@fault("lifecycle.tube-begins-anew", "the count of pauses outlives a tube")
class CountsOn(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        self._pauses: dict[str, int] = {}
        super().__init__(*args, **options)

    def _tube(self, name: str) -> Tube:
        new = name not in self._by_name
        tube = super()._tube(name)
        if new:
            tube.pauses = self._pauses.pop(name, 0)
        return tube

    def _deref(self, tube: Tube) -> None:
        self._pauses[tube.name] = tube.pauses
        super()._deref(tube)


@fault("use.subsequent-puts", "the third delayed job goes to default")
class ThirdGoesAstray(Model):
    def _put(self, conn: Client, put: Put) -> None:
        if put.delay == 3600 and len(conn.use.delayed) == 2:
            self._use(conn, "default")
        super()._put(conn, put)


@fault("use.does-not-watch", "use watches, too")
class UseWatches(Model):
    def _use(self, conn: Client, name: str) -> Reply:
        reply = super()._use(conn, name)
        if self._default not in conn.watch and conn.use not in conn.watch:
            self._add_watch(conn, conn.use)
        return reply


@fault("watch.many-tubes", "the 65th watched tube and all behind it do not count")
class Watches64(Model):
    def _watch(self, conn: Client, name: str) -> Reply:
        return wire.WATCHING(64) if len(conn.watch) >= 64 else super()._watch(conn, name)


@fault("watch.many-tubes", "who waits for more than 64 tubes waits for the first 64")
class WaitsFor64(Model):
    def _make_ready(self, job: Job) -> None:
        tube = job.tube
        far = [conn for conn in tube.waiting if list(conn.watch).index(tube) >= 64]
        for conn in far:
            tube.waiting.remove(conn)
        super()._make_ready(job)
        for conn in far:
            tube.waiting.add(conn)


@fault("watch.own-connection-only", "watch concerns all clients that watch the same tube")
class WatchesTogether(Model):
    def _watch(self, conn: Client, name: str) -> Reply:
        for other in self.connections.values():
            same = len(conn.watch) == len(other.watch) == 1
            if same and other is not conn and conn.use is other.use and conn.use.name != "default":
                super()._watch(other, name)
        return super()._watch(conn, name)


@fault("ignore.takes-effect", "a tube with ready jobs stays watched in spite of ignore")
class StaysWatched(Model):
    def _ignore(self, conn: Client, name: str) -> Reply:
        tube = self._by_name.get(name)
        if tube is not None and tube in conn.watch and tube.ready and len(conn.watch) > 1:
            return wire.WATCHING(len(conn.watch) - 1)
        return super()._ignore(conn, name)


@fault("ignore.default", "ignore leaves default in the list of watched tubes")
class ListsDefault(Model):
    def _list_tubes_watched(self, conn: Client) -> Reply:
        more = conn.use is self._default and self._default not in conn.watch
        return wire.OK(stats.names([*conn.watch, *[self._default] * more]))


@fault("ignore.creates-no-tube", "ignore creates the tube")
class IgnoreCreates(Model):
    def _ignore(self, conn: Client, name: str) -> Reply:
        if name not in self._by_name:
            self._tube(name).refs += 1
        return super()._ignore(conn, name)


@fault("list-tubes.yaml", "list-tubes lists the tube that was deleted last")
class ListsGhost(Model):
    _ghost = ""

    def _deref(self, tube: Tube) -> None:
        super()._deref(tube)
        if not tube.refs:
            self._ghost = tube.name

    def _list_tubes(self, conn: Client) -> Reply:
        ghosts = [Tube(self._ghost)] if self._ghost else []
        return wire.OK(stats.names([*self.tubes, *ghosts]))


def _last(model: Model, conn: Client) -> Client:
    """Return the last of many clients; of few clients, the one that asks."""
    crowded = len(model.connections) >= 6
    return list(model.connections.values())[-1] if crowded else conn


@fault("list-tube-used.own", "of many clients the last one's used tube is named")
class NamesLast(Model):
    def _list_tube_used(self, conn: Client) -> Reply:
        return super()._list_tube_used(_last(self, conn))


@fault("list-tubes-watched.own", "of many clients the last one's watched tubes are listed")
class ListsLast(Model):
    def _list_tubes_watched(self, conn: Client) -> Reply:
        return super()._list_tubes_watched(_last(self, conn))


@fault("kick-job.same-tube", "kick-job moves a buried job into the used tube")
class KicksHere(Model):
    def _kick_job(self, conn: Client, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is None or job.state is not JobState.BURIED or job.tube is conn.use:
            return super()._kick_job(conn, id)
        self._dequeue(job)
        old, job.tube = job.tube, conn.use
        job.tube.refs += 1
        self._deref(old)
        job.kicks += 1
        self._make_ready(job)
        return wire.KICKED


@fault("pause-tube.timers-go-on", "a ttr does not end during a pause")
class PausesTtr(Model):
    def _fire(self, alarm: Alarm) -> None:
        end, kind, subject = alarm
        tube = self.jobs[int(subject)].tube if kind is Timer.TTR else None
        if tube is None or not tube.pause:
            super()._fire(alarm)
            return
        self._timers.remove(alarm)
        job = self.jobs[int(subject)]
        assert job.reserver is not None
        job.reserver.deadlines.remove((end, job.id))
        job.deadline = tube.unpause_at + SECOND
        job.reserver.deadlines.add((job.deadline, job.id))
        self._timers.add((job.deadline, kind, subject))
