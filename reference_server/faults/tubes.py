"""Faults of the life of tubes, of use, watch and ignore, and of the lists."""

from __future__ import annotations

from reference_server import wire
from reference_server.faults.registry import answered, fault
from reference_server.model import Model
from reference_server.state import Connection, Job, State, Tube
from reference_server.wire import Command, Put, Reply


def _is_idle(tube: Tube | None) -> bool:
    return tube is not None and not (tube.ready or tube.delayed or tube.buried or tube.reserved)


answered(
    "lifecycle.tube-kept-by-clients",
    "a tube that is only watched is gone with its last job",
    "stats-tube",
    lambda model, conn, command, reply: (
        wire.NOT_FOUND
        if _is_idle(tube := model._by_name.get(command.args[0]))  # type: ignore[arg-type]
        and tube is not None
        and tube.total_jobs
        and not tube.using
        else None
    ),
)
answered(
    "lifecycle.tube-kept-by-reserved-job",
    "a tube is gone when its only job is reserved",
    "stats-tube",
    lambda model, conn, command, reply: (
        wire.NOT_FOUND
        if (tube := model._by_name.get(command.args[0])) is not None  # type: ignore[arg-type]
        and tube.refs == tube.reserved
        else None
    ),
)


@fault("lifecycle.default-stays", "default goes as other tubes do")
class DefaultGoes(Model):
    def _deref(self, tube: Tube) -> None:
        super()._deref(tube)
        if tube is self._default and tube.refs == 1 and tube in self.tubes:
            self.tubes.remove(tube)


@fault("lifecycle.tube-begins-anew", "the count of pauses outlives a tube")
class CountsOn(Model):
    def __init__(self, *args: object, **options: object) -> None:
        self._pauses: dict[str, int] = {}
        super().__init__(*args, **options)  # type: ignore[arg-type]

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
    def _put(self, conn: Connection, put: Put) -> None:
        if put.delay == 3600 and len(conn.use.delayed) == 2:
            self._use(conn, "default")
        super()._put(conn, put)


@fault("use.does-not-watch", "use watches, too")
class UseWatches(Model):
    def _use(self, conn: Connection, name: str) -> Reply:
        reply = super()._use(conn, name)
        if self._default not in conn.watch and conn.use not in conn.watch:
            self._add_watch(conn, conn.use)
        return reply


@fault("watch.many-tubes", "the 65th watched tube and all behind it do not count")
class Watches64(Model):
    def _watch(self, conn: Connection, name: str) -> Reply:
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
    def _watch(self, conn: Connection, name: str) -> Reply:
        for other in self.connections.values():
            same = len(conn.watch) == len(other.watch) == 1
            if same and other is not conn and conn.use is other.use and conn.use.name != "default":
                super()._watch(other, name)
        return super()._watch(conn, name)


@fault("ignore.takes-effect", "a tube with ready jobs stays watched in spite of ignore")
class StaysWatched(Model):
    def _ignore(self, conn: Connection, name: str) -> Reply:
        tube = self._by_name.get(name)
        if tube is not None and tube in conn.watch and tube.ready and len(conn.watch) > 1:
            return wire.WATCHING(len(conn.watch) - 1)
        return super()._ignore(conn, name)


@fault("ignore.default", "ignore leaves default in the list of watched tubes")
class ListsDefault(Model):
    def _command(self, conn: Connection, command: Command) -> None:
        lists = command.verb == "list-tubes-watched"
        if lists and conn.use.name == "default" and self._default not in conn.watch:
            conn.watch.add(self._default)
            super()._command(conn, command)
            conn.watch.remove(self._default)
        else:
            super()._command(conn, command)


@fault("ignore.creates-no-tube", "ignore creates the tube")
class IgnoreCreates(Model):
    def _ignore(self, conn: Connection, name: str) -> Reply:
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

    def _command(self, conn: Connection, command: Command) -> None:
        super()._command(conn, command)
        if command.verb == "list-tubes" and self._ghost:
            _, reply = self._outputs[-1]
            assert isinstance(reply, Reply)
            body = (reply.body or b"") + f"- {self._ghost}\n".encode()
            self._outputs[-1] = (conn.id, reply._replace(body=body))


def _crowded(model: Model) -> bool:
    return len(model.connections) >= 6


answered(
    "list-tube-used.own",
    "of many clients the last one's used tube is named",
    "list-tube-used",
    lambda model, conn, command, reply: (
        wire.USING(list(model.connections.values())[-1].use.name) if _crowded(model) else None
    ),
)
answered(
    "list-tubes-watched.own",
    "of many clients the last one's watched tubes are listed",
    "list-tubes-watched",
    lambda model, conn, command, reply: (
        wire.OK(
            b"---\n"
            + b"".join(
                f"- {tube.name}\n".encode() for tube in list(model.connections.values())[-1].watch
            )
        )
        if _crowded(model)
        else None
    ),
)


@fault("kick-job.same-tube", "kick-job moves a buried job into the used tube")
class KicksHere(Model):
    def _kick_job(self, conn: Connection, id: int) -> Reply:
        job = self.jobs.get(id)
        if job is None or job.state is not State.BURIED or job.tube is conn.use:
            return super()._kick_job(conn, id)
        self._dequeue(job)
        old, job.tube = job.tube, conn.use
        job.tube.refs += 1
        self._deref(old)
        job.kicks += 1
        self._make_ready(job)
        return wire.KICKED
