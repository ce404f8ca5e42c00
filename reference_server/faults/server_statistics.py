"""Faults of stats."""

from __future__ import annotations

from typing import Any

from reference_server import wire
from reference_server.events import Connected, Event, Output
from reference_server.faults.registry import always_says, fault, says, takes, with_value
from reference_server.model import Model
from reference_server.state import Client
from reference_server.stats import COUNTED_COMMANDS
from reference_server.wire import Command, Malformed, Put, Reply

for _key in ("rusage-utime", "binlog-max-size", "platform", "uptime"):
    says("stats.ok", f"stats lacks {_key}", "stats", rf"^{_key}: .*\n", "")
for _key in (
    *("current-jobs-urgent", "current-jobs-reserved", "current-jobs-delayed", "pid", "uptime"),
    *("current-jobs-buried", "current-producers", "current-waiting"),
):
    always_says(f"stats.{_key}", f"{_key} is told as 0", "stats", _key, "0")
for _key in ("current-tubes", "current-connections"):
    always_says(f"stats.{_key}", f"{_key} is told as 1", "stats", _key, "1")
for _key in ("version", "hostname", "os", "platform"):
    always_says(f"stats.{_key}", f"the {_key} is empty", "stats", _key, '""')
for _key in ("utime", "stime"):
    always_says(f"stats.rusage-{_key}", f"{_key} has no fraction", "stats", f"rusage-{_key}", "1")
    always_says(
        f"stats.rusage-{_key}", f"{_key} is always 0", "stats", f"rusage-{_key}", "0.000000"
    )
for _key in ("oldest-index", "current-index", "max-size", "records-written", "records-migrated"):
    summary = f"the {_key} of the binlog is told as negative"
    always_says(f"stats.binlog-{_key}", summary, "stats", f"binlog-{_key}", "-1")
always_says("stats.yaml-values-parse", "the os is a comment to YAML", "stats", "os", "#1 SMP")
always_says("stats.id", "all servers have one id", "stats", "id", "1")
always_says(
    "stats.max-job-size",
    "max-job-size is told as 65535 whatever it is",
    "stats",
    "max-job-size",
    "65535",
)
always_says("stats.draining", "draining is always false", "stats", "draining", "false")


@fault("stats.current-jobs-ready", "buried jobs count as ready in stats")
class BuriedIsReady(Model):
    def _stats(self, conn: Client) -> Reply:
        counted = sum(len(tube.ready) + len(tube.buried) for tube in self.tubes)
        return with_value(super()._stats(conn), "current-jobs-ready", counted)


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
        self._becomes_worker(self.connections[number])


def _counts_speakers(key: str) -> type[Model]:
    class CountsSpeakers(Model):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._silent: set[int] = set()

        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            self._silent.discard(conn)
            if isinstance(event, Connected):
                self._silent.add(conn)
            return super().step(event, now, conn)

        def _stats(self, conn: Client) -> Reply:
            total = key == "total-connections"
            counted = self.total_connections if total else len(self.connections)
            return with_value(super()._stats(conn), key, counted - len(self._silent))

    return CountsSpeakers


for _key in ("current-connections", "total-connections"):
    fault(f"stats.{_key}", f"{_key} leaves out who has said nothing yet")(_counts_speakers(_key))


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

    def _stats(self, conn: Client) -> Reply:
        reply, self._kept = self._kept, None
        if reply is None:
            reply = self._kept = super()._stats(conn)
        return reply


@fault("stats.total-jobs", "total-jobs of stats goes down with a delete")
class TotalGoesDown(Model):
    def _delete(self, conn: Client, id: int) -> Reply:
        reply = super()._delete(conn, id)
        self.total_jobs -= reply == wire.DELETED
        return reply


@fault("stats.total-jobs", "total-jobs of stats is one too high")
class CountsOneMore(Model):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.total_jobs += 1


@fault("stats.failed-commands-count", "a peek that finds nothing does not count")
class CountsFound(Model):
    def _peek(self, conn: Client, id: int) -> Reply:
        self.commands["peek"] -= id not in self.jobs
        return super()._peek(conn, id)


takes(
    "stats.malformed-commands-do-not-count",
    "a malformed delete counts",
    b"delete x",
    Malformed(wire.BAD_FORMAT, "delete"),
)
