"""Faults of stats."""

from __future__ import annotations

from reference_server import wire
from reference_server.events import Event, Output
from reference_server.faults.registry import answered, edited, fault, takes
from reference_server.model import Model
from reference_server.state import Connection
from reference_server.stats import COUNTED_COMMANDS
from reference_server.wire import Command, Malformed, Put, Reply


def _says(requirement: str, summary: str, pattern: str, new: str) -> None:
    """Registers a fault of the text that stats answers with."""
    answered(requirement, summary, "stats", edited(pattern, new))


for _key in ("rusage-utime", "binlog-max-size", "platform", "uptime"):
    _says("stats.ok", f"stats lacks {_key}", rf"^{_key}: .*\n", "")
for _key in ("current-jobs-urgent", "current-jobs-reserved", "current-jobs-delayed"):
    _says(f"stats.{_key}", f"{_key} is told as 0", rf"^{_key}: .*$", f"{_key}: 0")
for _key in ("current-jobs-buried", "current-producers", "current-waiting", "pid", "uptime"):
    _says(f"stats.{_key}", f"{_key} is told as 0", rf"^{_key}: .*$", f"{_key}: 0")
for _key in ("current-tubes", "current-connections"):
    _says(f"stats.{_key}", f"{_key} is told as 1", rf"^{_key}: .*$", f"{_key}: 1")
for _key in ("version", "hostname", "os", "platform"):
    _says(f"stats.{_key}", f"the {_key} is empty", rf"^{_key}: .*$", f'{_key}: ""')
for _key in ("utime", "stime"):
    _says(
        f"stats.rusage-{_key}",
        f"{_key} has no fraction",
        rf"^rusage-{_key}: .*$",
        f"rusage-{_key}: 1",
    )
for _key in ("oldest-index", "current-index", "max-size", "records-written", "records-migrated"):
    _says(
        f"stats.binlog-{_key}",
        f"the {_key} of the binlog is told as negative",
        rf"^binlog-{_key}: .*$",
        f"binlog-{_key}: -1",
    )
_says("stats.id", "all servers have one id", "^id: .*$", "id: 1")
_says(
    "stats.max-job-size",
    "max-job-size is told as 65535 whatever it is",
    "^max-job-size: .*$",
    "max-job-size: 65535",
)
_says("stats.draining", "draining is always false", "draining: true", "draining: false")


@fault("stats.current-jobs-ready", "buried jobs count as ready in stats")
class BuriedIsReady(Model):
    def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
        outputs = super().step(event, now, conn)
        if isinstance(event, Command) and event.verb == "stats":
            buried = sum(len(tube.buried) for tube in self.tubes)
            ready = sum(len(tube.ready) for tube in self.tubes)
            edit = edited(r"^current-jobs-ready: .*$", f"current-jobs-ready: {ready + buried}")
            client = self.connections[conn]
            reply = outputs[-1][1]
            if isinstance(reply, Reply):
                outputs[-1] = (conn, edit(self, client, event, reply) or reply)
        return outputs


def _miscounts(verb: str) -> type[Model]:
    class Miscounts(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            outputs = super().step(event, now, conn)
            asked = isinstance(event, Command) and event.verb == verb
            if asked or (isinstance(event, Put) and verb == "put"):
                self.commands[verb] -= 1
            return outputs

    return Miscounts


for _verb in COUNTED_COMMANDS:
    fault(f"stats.cmd-{_verb}", f"{_verb} is not counted")(_miscounts(_verb))


@fault("stats.current-workers", "everybody counts as a worker")
class AllWork(Model):
    def _connect(self, number: int) -> None:
        super()._connect(number)
        self.connections[number].worker = True


@fault("stats.total-connections", "who leaves is counted as connected for ever")
class TotalIsCurrent(Model):
    def _connect(self, number: int) -> None:
        super()._connect(number)
        self.total_connections += 1


@fault("stats.job-timeouts", "job-timeouts counts a tube's second timeout only")
class EverySecond(Model):
    def _fire_timers(self, now: int) -> None:
        before = self.timeouts
        super()._fire_timers(now)
        self.timeouts -= self.timeouts > before


takes("stats.bad-format", "stats ignores its argument", b"stats x", Command("stats"))


@fault("stats.at-once", "every second answer of stats is that of before")
class Keeps(Model):
    _kept: Reply | None = None

    def _command(self, conn: Connection, command: Command) -> None:
        super()._command(conn, command)
        if command.verb == "stats":
            _, reply = self._outputs[-1]
            assert isinstance(reply, Reply)
            self._outputs[-1] = conn.id, self._kept or reply
            self._kept = None if self._kept else reply


@fault("stats.total-jobs", "total-jobs of stats goes down with a delete")
class TotalGoesDown(Model):
    def _delete(self, conn: Connection, id: int) -> Reply:
        reply = super()._delete(conn, id)
        self.total_jobs -= reply == wire.DELETED
        return reply


@fault("stats.failed-commands-count", "a peek that finds nothing does not count")
class CountsFound(Model):
    def _command(self, conn: Connection, command: Command) -> None:
        super()._command(conn, command)
        if command.verb == "peek" and self._outputs[-1][1] == wire.NOT_FOUND:
            self.commands["peek"] -= 1


takes(
    "stats.malformed-commands-do-not-count",
    "a malformed delete counts",
    b"delete x",
    Malformed(wire.BAD_FORMAT, "delete"),
)
