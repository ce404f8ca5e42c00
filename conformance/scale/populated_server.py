"""One server with a population that grows, and the cycles that are taken there."""

from __future__ import annotations

import contextlib
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from conformance import yamlish
from conformance.printable import printable
from conformance.scale.jobs import SMALLEST, Jobs, WrongAnswer, body
from conformance.scale.servers import BatchWire, MeasuredServer
from conformance.scale.workloads import POPULATIONS, CycleStep, Growth, cycle
from conformance.target.footprint import FOOTPRINT
from reference_server.state import JobState
from reference_server.wire import ProtocolError, Reply, ReplyReader

_REPLIES = {
    "put": "INSERTED",
    "reserve": "RESERVED",
    "reserve-job": "RESERVED",
    "delete": "DELETED",
    "release": "RELEASED",
    "bury": "BURIED",
    "touch": "TOUCHED",
    "kick": "KICKED",
    "kick-job": "KICKED",
    "peek": "FOUND",
    "peek-ready": "FOUND",
    "peek-delayed": "FOUND",
    "peek-buried": "FOUND",
    "use": "USING",
    "list-tube-used": "USING",
    "watch": "WATCHING",
    "ignore": "WATCHING",
    "pause-tube": "PAUSED",
    "list-tubes": "OK",
    "list-tubes-watched": "OK",
    "stats": "OK",
    "stats-job": "OK",
    "stats-tube": "OK",
    "connect": "USING",
    "reserve-with-timeout": "TIMED_OUT",
}
"""The replies that keep a cycle going."""
USUAL_PRIORITY, _PRIORITIES = 30_000, 60_000
_DAY, _DAYS = 86_400, 1000
_SCATTER = 40_507
"""A factor that scatters numbers, as it shares no divisor with those above."""
FEW = 10
"""Members of a population that take part in a cycle, at most: the smallest one has so many."""
_MANY = 6
"""Times its limit that all replies to a batch may take."""
DRAINED = 20_000
"""Jobs that are taken out again to see them, at most."""
BATCH = 500
"""Things that are added at a time."""
_PENDING = 2**17
"""Bytes that are sent at a time, so that they fit into the buffers of a connection."""


class NoAnswer(Exception):
    """A server does not answer any more, or has ended the connection; the text says which."""


class BatchClient:
    """A connection that sends many requests, and takes their replies; ``limit``: in seconds."""

    def __init__(self, wire: BatchWire, limit: float) -> None:
        self.wire = wire
        self._limit = limit
        self._reader = ReplyReader(None)

    def send(self, data: bytes) -> None:
        """Send requests; raises :class:`NoAnswer`."""
        self.wire.send(data)

    def replies(self, count: int) -> list[Reply]:
        """Return so many replies; raises :class:`NoAnswer` or :class:`WrongAnswer`."""
        replies: list[Reply] = []
        last = begun = time.monotonic()
        try:
            while len(replies) < count:
                while len(replies) < count and (reply := self._reader.next_reply()):
                    replies.append(reply)
                if len(replies) == count:
                    break
                # Many slow replies take longer, but no trickle lasts for ever.
                end = min(last + self._limit, begun + _MANY * self._limit)
                left = end - time.monotonic()
                if left <= 0:
                    raise NoAnswer(f"no reply within {self._limit:g} seconds")
                if data := self.wire.receive_within(left):
                    last = begun = time.monotonic()
                    self._reader.receive(data)
                elif self.wire.ended:
                    raise NoAnswer("the server has ended a connection")
        except ProtocolError as error:
            raise WrongAnswer(printable(str(error))) from None
        return replies

    def ask(self, line: str) -> Reply:
        """Return the reply to one line."""
        self.send(line.encode() + b"\r\n")
        return self.replies(1)[0]


class Taken(NamedTuple):
    """A step that was taken ``times`` times.

    What it has cost the server, the seconds for which it waited for a CPU, those that passed, and
    those of CPU time that we used.
    """

    times: int
    cost: float
    waited: float
    seconds: float
    own: float


class PopulatedServer:
    """A server of which one thing is made to grow; its main client has a tube of its own.

    ``limit``: the seconds that a reply may take. Its methods raise :class:`NoAnswer` and
    :class:`WrongAnswer`, and OSError where a connection cannot be made.
    """

    def __init__(self, server: MeasuredServer, growth: Growth, limit: float) -> None:
        self.server = server
        self.growth = growth
        self.size = 0
        self._limit = limit
        self._population = POPULATIONS[growth]
        self._jobs = Jobs()
        self._ids = array("Q")
        self._held: list[tuple[int, int]] = []
        self._idle: list[BatchClient] = []
        self._waiting: dict[BatchWire, BatchClient] = {}
        self._served: list[BatchClient] = []
        self._body = SMALLEST
        self.tube = FOOTPRINT.new_name()
        self._main = self._client()
        self._main.send(f"use {self.tube}\r\nwatch {self.tube}\r\nignore default\r\n".encode())
        self._main.replies(3)

    def _client(self) -> BatchClient:
        return BatchClient(self.server.connect(), self._limit)

    def unknown(self, lines: Mapping[str, bytes]) -> set[str]:
        """Return those commands that the server does not know; each has a line to try."""
        client = self._client()
        replies = {verb: client.ask(line.decode()) for verb, line in lines.items()}
        client.wire.close()
        # beanstalkd 1.4.6 takes reserve-job for a reserve that ends badly.
        unknown = ("UNKNOWN_COMMAND", "BAD_FORMAT")
        return {verb for verb, reply in replies.items() if reply.word in unknown}

    # ------------------------------------------------------------ the population

    def grow(self, size: int, end: float) -> bool:
        """Add to the population until it has this size; check that the server counts as many.

        Return whether it has this size by ``end``, in seconds of the monotonic clock.
        """
        if self.growth is Growth.BODY:
            self._body = self.size = size
        while self.size < size:
            if time.monotonic() > end:
                return False
            count = min(BATCH, size - self.size)
            if self._population.connects:
                for _ in range(count):
                    self._add_connection()
            else:
                self._add(count)
            self.size += count
        self._check()
        return True

    def _add_connection(self) -> None:
        client = self._client()
        if not self._population.steps:
            client.ask("list-tube-used")
            self._idle.append(client)
            return
        lines = f"watch {self.tube}\r\nignore default\r\n"
        client.send(f"{lines}{self._population.steps}\r\n".encode())
        client.replies(2)
        self._waiting[client.wire] = client

    def _add(self, count: int) -> None:
        for step in self._population.parsed:
            sent = list(self._requests(step, count, self.size))
            self._judge(step, self._exchange(step, count, sent), count, sent)
            if step.verbs[-1] == "put" and self.growth is not Growth.PAST:
                self._ids.extend(id for id, _ in self._held)
        if self.growth is Growth.TUBES:
            self._main.ask(f"use {self.tube}")

    def _check(self) -> None:
        """Check that the server counts as many jobs as there must be, where they can be counted."""
        if self.growth is Growth.WATCHED:
            count = self._main.ask(f"watch {self.tube}").args
            if count != (self.size + 1,):
                raise WrongAnswer(f"{self.size + 1} tubes are watched, the server counts {count}")
        if self.growth is Growth.TUBES:
            return
        stats = yamlish.dictionary(self._main.ask(f"stats-tube {self.tube}").body or b"")
        kinds = [f"current-jobs-{state.value}" for state in JobState]
        counts = [int(stats[kind]) for kind in kinds if stats.get(kind, "").isdecimal()]
        if len(counts) == len(kinds) and sum(counts) != self._jobs.sums.jobs:
            due = self._jobs.sums.jobs
            raise WrongAnswer(f"{due} jobs are in a tube, the server counts {sum(counts)}")

    # ------------------------------------------------------------ steps

    def times(self, steps: Sequence[CycleStep], most: int) -> int:
        """Return how many times steps can be taken at once, the same for each size."""
        lines = " ".join(line for step in steps for line in step.lines)
        takes_members = steps[0].verbs[-1] in ("reserve", "kick") or "{old" in lines
        if takes_members or any(step.is_of_served for step in steps):
            most = min(most, FEW)
        return max(1, min(most, _PENDING // self._body))

    def run(self, steps: Sequence[CycleStep], times: int) -> Iterator[tuple[CycleStep, Taken]]:
        """Take the steps of a cycle, each so many times; yield what those to be measured took."""
        for step in steps:
            taken = self.take(step, times)
            if step.is_measured:
                yield step, taken

    def take(self, step: CycleStep, times: int) -> Taken:
        """Take a step so many times, and return what it took."""
        sent = list(self._requests(step, times))
        before, own, start = self.server.spent(), time.process_time(), time.perf_counter()
        replies = self._exchange(step, times, sent)
        seconds, own = time.perf_counter() - start, time.process_time() - own
        after = self.server.spent()
        cost, waited = after.ran - before.ran, after.waited - before.waited
        taken = Taken(times, cost, waited, seconds, own)
        self._judge(step, replies, times, sent)
        return taken

    def pace(
        self,
        steps: Sequence[CycleStep],
        every: float,
        seconds: float,
        add: Callable[[str, float], object] = lambda name, latency: None,
    ) -> int:
        """Take steps one by one, one ``every`` so many seconds; return how many were taken.

        ``add`` takes latencies. They count from when the request was due: with the time for which
        it had to wait because the reply before was late, without that by which we woke up late.
        """
        begun = free = time.perf_counter()
        taken = 0
        while not taken or free < begun + seconds:
            for step in steps:
                sent = list(self._requests(step, 1))
                due = begun + taken * every
                if (left := due - time.perf_counter()) > 0:
                    time.sleep(left)
                start = due if free > due else time.perf_counter()
                replies = self._exchange(step, 1, sent)
                free = time.perf_counter()
                self._judge(step, replies, 1, sent)
                taken += 1
                if step.is_measured:
                    add(step.name, free - start)
        return taken

    def _exchange(self, step: CycleStep, times: int, sent: Sequence[bytes]) -> list[Reply]:
        """Send requests, and return the reply to the last line of each."""
        try:
            return self._answers(step, times, sent)
        except NoAnswer as error:
            raise NoAnswer(f"{step.name}, {times} at once: {error}") from None

    def _answers(self, step: CycleStep, times: int, sent: Sequence[bytes]) -> list[Reply]:
        verb = step.verbs[-1]
        if verb == "connect":
            return self._connect(times)
        if step.is_of_served:
            return self._of_served(verb, sent)
        self._main.send(b"".join(sent))
        replies = self._main.replies(len(step.lines) * times)
        if verb == "put" and self._waiting:
            self._collect(times)
        return replies[len(step.lines) - 1 :: len(step.lines)]

    def _connect(self, times: int) -> list[Reply]:
        clients = [self._client() for _ in range(times)]
        for client in clients:
            client.send(b"list-tube-used\r\n")
        replies = [reply for client in clients for reply in client.replies(1)]
        for client in clients:
            client.wire.close()
        return replies

    def _requests(self, step: CycleStep, times: int, begin: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of each time that a step is taken.

        ``begin``: for members of the population from this number.
        """
        first = 0 if begin is None else begin
        stride = max(1, self.size // times)
        for number in range(first, first + times):
            at = number - first
            # A job of the population, a different one each time.
            old = at * stride % max(self.size, 1)
            id, pri = self._held[at] if at < len(self._held) else (0, USUAL_PRIORITY)
            values = {
                "job": id,
                "pri": pri if "{job}" in step.lines[-1] else USUAL_PRIORITY,
                "scattered": 1 + number * _SCATTER % _PRIORITIES,
                "delay": _DAY * (2 + number * _SCATTER % _DAYS),
                "old": self._ids[old] if old < len(self._ids) else 0,
                "tube": self.tube,
                "old tube": f"{self.tube}-{old}",
                "new tube": f"{self.tube}-{'' if begin is not None else 'new-'}{number}",
            }
            yield b"".join(self._line(line.format_map(values)) for line in step.lines)

    def _line(self, line: str) -> bytes:
        if not line.startswith("put "):
            return line.encode() + b"\r\n"
        _, pri, delay, _ = line.split()
        data = body(int(pri), int(delay) >= _DAY, self._body)
        return b"%b %d\r\n%b\r\n" % (line.encode(), len(data), data)

    def _judge(
        self, step: CycleStep, replies: Sequence[Reply], times: int, sent: Sequence[bytes]
    ) -> None:
        """Check the replies to the last line of a step, and note which jobs are where now."""
        verb = step.verbs[-1]
        for reply in replies:
            if reply.word != _REPLIES[verb]:
                raise WrongAnswer(f"{step.name} was answered {printable(str(reply))}")
        if verb == "put":
            ids = [int(reply.args[0]) for reply in replies]
            self._jobs.put(ids)
            pris = [int(request.rpartition(b"put ")[2].split()[0]) for request in sent]
            if not self._served:
                self._held = list(zip(ids, pris, strict=True))
        elif verb in ("reserve", "reserve-job"):
            self._take_in(replies, is_ordered=verb == "reserve")
        elif verb == "delete":
            self._jobs.delete(id for id, _ in self._held[:times])
        if verb in ("peek", "reserve-job"):
            for request, reply in zip(sent, replies, strict=True):
                if int(request.split()[1]) != reply.args[0]:
                    raise WrongAnswer(f"{step.name} was answered with another job")

    def _take_in(self, replies: Sequence[Reply], is_ordered: bool) -> None:
        found = [(int(reply.args[0]), reply.body or b"") for reply in replies]
        self._jobs.reserve(found, is_ordered)
        self._held = [(id, int(data[:10])) for id, data in found]

    # ------------------------------------------------------------ clients that wait

    def _collect(self, count: int) -> None:
        """Take so many jobs that clients were waiting for, each of another client."""
        replies: list[Reply] = []
        while len(replies) < count:
            ready = self.server.first([*self._waiting], self._limit)
            if not ready:
                raise NoAnswer(f"a job was put, and no waiting client got it in {self._limit:g} s")
            for wire in ready:
                client = self._waiting.pop(wire)
                self._served.append(client)
                replies += client.replies(1)
        for reply in replies:
            if reply.word != "RESERVED":
                raise WrongAnswer(f"a waiting client was answered {printable(str(reply))}")
        self._take_in(replies, is_ordered=False)

    def _of_served(self, verb: str, sent: Sequence[bytes]) -> list[Reply]:
        """Send a request on each connection that has got a job; return the replies."""
        for client, request in zip(self._served, sent, strict=True):
            client.send(request)
        if verb == "delete":
            return [reply for client in self._served for reply in client.replies(1)]
        # Each waits again, and no reply shows when that is so.
        self._waiting.update((client.wire, client) for client in self._served)
        self._served.clear()
        self._main.ask("list-tube-used")
        return []

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        """Take jobs out, most of the times all, and check that they are those that were put in."""
        if self.growth in (Growth.WAITING, Growth.TIMED):
            self._serve_all()
        if self.growth is Growth.DELAYED:
            self._wait_for_delays()
        if self.growth is Growth.BURIED and self.size:
            self._main.ask(f"kick {self.size}")
        if self.growth in (Growth.READY, Growth.BURIED):
            steps = cycle("reserve; delete {job}")
            left = min(self._jobs.sums.jobs, DRAINED)
            while left > 0:
                for step in steps:
                    self.take(step, min(BATCH, left))
                left -= BATCH
        elif self.size <= DRAINED:
            self._delete(self._ids)
        if self.size <= DRAINED:
            self._jobs.end()

    def _serve_all(self) -> None:
        """Put a job for each client that waits, and check that each gets one."""
        put, delete = cycle("put {pri} 0 360000; served: delete {job}")
        served = []
        while self._waiting:
            count = min(BATCH, len(self._waiting))
            for step in (put, delete):
                self.take(step, count)
            served += self._served
            self._served = []
        if self.server.first([client.wire for client in served], 0):
            raise WrongAnswer("a client that waited got more than one reply")
        self._idle += served

    def _wait_for_delays(self) -> None:
        """Put jobs with a short delay, and check that they come, and not too early."""
        put, reserve, delete = cycle("put {pri} 1 360000; reserve; delete {job}")
        begun = self.server.now()
        self.take(put, FEW)
        self._main.send(b"reserve\r\n")
        self._take_in(self._main.replies(1), is_ordered=False)
        if self.server.now() - begun < 1:
            raise WrongAnswer("a job with a delay of a second was reserved earlier")
        self.take(delete, 1)
        for step in (reserve, delete):
            self.take(step, FEW - 1)

    def _delete(self, ids: Sequence[int]) -> None:
        for begin in range(0, len(ids), BATCH):
            some = ids[begin : begin + BATCH]
            self._main.send(b"".join(b"delete %d\r\n" % id for id in some))
            for reply in self._main.replies(len(some)):
                if reply.word != "DELETED":
                    raise WrongAnswer(f"the delete of a job was answered {printable(str(reply))}")
            self._jobs.delete(some)

    def close(self) -> None:
        """Close all connections; on somebody else's server, delete all jobs then."""
        for client in (*self._idle, *self._waiting.values(), *self._served, self._main):
            client.wire.close()
        if self.server.is_shared:
            with contextlib.suppress(NoAnswer, WrongAnswer, OSError):
                self._abandon(self._client())

    def _abandon(self, client: BatchClient) -> None:
        """Delete the jobs of the population, whatever has become of them."""
        for begin in range(0, len(self._ids), BATCH):
            some = self._ids[begin : begin + BATCH]
            client.send(b"".join(b"delete %d\r\n" % id for id in some))
            client.replies(len(some))
        client.wire.close()
