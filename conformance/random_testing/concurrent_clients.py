"""Concurrent clients on the same tubes, each with the jobs that it knows of."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from functools import partial
from random import Random

from conformance.oracle.concurrent_history import ConcurrentHistory
from conformance.oracle.invariants import GIVES_UP, Ledger, NotReleased, ReceivedReply
from conformance.oracle.linearizability import Explanation, Misplaced
from conformance.oracle.violation import NOTHING, THE_END, UNASKED, Violation
from conformance.random_testing.concurrent_client import ConcurrentClient
from conformance.random_testing.concurrent_requests import NAME, Requests, Said
from conformance.target.address import ask, visit
from conformance.target.cleanup import delete_jobs
from conformance.target.target import Target
from conformance.target.transport import wait_for
from conformance.transcript import (
    CLIENT_CLOSES,
    CLIENT_HALF_CLOSES,
    TARGET_CLOSES,
    Transcript,
    letters,
)
from reference_server.profiles import NEWEST, Profile
from reference_server.wire import TIMED_OUT, ProtocolError, Reply, ReplyReader

LEAVES = 0.01
"""The share of turns in which a client that is idle, or waits, leaves, and another comes."""
MOST_TIME = 5.0
"""Seconds after which clients begin nothing more, so that a slow target has less to do."""


class NotEnded(Violation):
    """The connection of a client that has half-closed it is not ended."""


class ConcurrentClients:
    """Lets clients work on tubes that nobody else uses, and judges what they saw.

    ``ledger`` knows what became of jobs in the same server before. ``tidy``: clients hold nothing
    when they leave. ``half_closes``: some half-close their connections.
    """

    def __init__(
        self,
        target: Target,
        tubes: Sequence[str],
        chance: Random,
        ledger: Ledger,
        profile: Profile = NEWEST,
        tidy: bool = False,
        half_closes: bool = True,
    ) -> None:
        self.transcript = Transcript()
        self.commands = 0
        self._target = target
        self._generation = target.generation
        self._tubes = tubes
        self._chance = chance
        self._ledger = ledger
        self._limits = target.limits
        self._tidy = tidy
        self._half_closes = half_closes
        self._may_wait_on = half_closes and profile.half_close
        self._profile = profile
        self._history = ConcurrentHistory(profile)
        self._requests = Requests(
            target, profile, tubes, chance, self._now, tidy, self._may_wait_on
        )
        self._clients: list[ConcurrentClient] = []
        self._letters = letters()
        self._tick = self._last = 0

    def run(self, clients: int, commands: int) -> None:
        """Let so many clients do so many things in all; then all leave, and all jobs are deleted.

        Raises :class:`Violation`, with the position in the transcript, or Inconclusive.
        """
        self._target.needs_body(NAME)
        end = time.monotonic() + MOST_TIME
        for number in range(clients):
            # Some never wait, so that there is always one that goes on.
            self._arrives(reserves=number > clients // 5)
        while self.commands < commands and time.monotonic() < end:
            for client in list(self._clients):
                if not client.is_busy:
                    self._goes_on(client)
            if not self._listen(self._limits.reply):
                break
        self._await_replies()
        self._queue_up()
        self._await_jobs()
        if self._tidy:
            self._give_up()
        for client in sorted(self._clients, key=lambda client: not client.asked):
            self._leaves(client, half=self._may_wait_on or not client.asked)
            if client.asked:
                # The next client that waits gets what it holds.
                self._await_replies()
        self._await_replies()
        self._clean()
        Explanation(self._history).find()
        self._ledger.close()

    def abandon(self) -> None:
        """End all clients without looking at what comes, and delete all jobs of the tubes."""
        jobs = self._ledger.jobs()
        self._ledger.forget()
        if not self._clients:
            return
        for client in self._clients:
            client.transport.hang_up(self._target.end_timeout(self._limits.goodbye))
        self._clients.clear()
        if "ready" not in self._profile.deletes:
            delete_jobs(self._target, self._generation, jobs, self._limits.reply)
            return
        with (
            contextlib.suppress(OSError, EOFError, ProtocolError),
            visit(self._target.address, self._limits.reply, self._target.traits) as sock,
        ):
            for tube in self._tubes:
                ask(sock, f"use {tube}".encode(), self._limits.reply)
                for queue in (b"peek-ready", b"peek-delayed", b"peek-buried"):
                    for _ in range(self.commands):
                        found = ask(sock, queue, self._limits.reply)
                        if found.word != "FOUND":
                            break
                        ask(sock, f"delete {found.args[0]}".encode(), self._limits.reply)

    def whole(self, violation: Violation) -> tuple[Transcript, int]:
        """Return the conversation so far, and the place of a violation in it."""
        transcript = self.transcript.copy()
        return transcript, violation.mark % len(transcript.entries)

    def show(self, transcript: Transcript, violation: Violation) -> int:
        """Write down what concerns the job of a violation, or all; return where it is shown."""
        entries = self.transcript.entries
        mark = violation.mark % len(entries)
        said = f"{' '.join(violation.expected)} {violation.observed}"
        about = re.search(r"(?:\bjob|RESERVED|FOUND|INSERTED) (\d+)", said)
        if about is not None:
            word = re.compile(rb"\b%b\b" % about[1].encode())
            kept = [entry for entry in entries[:mark] if word.search(entry.data)]
            entries, mark = [*kept, entries[mark]], len(kept)
        transcript.entries[:] = entries[: mark + 1]
        return mark

    def _now(self) -> int:
        """Return a time: only the order in which things happen matters."""
        self._tick += 1
        return self._tick

    # ------------------------------------------------------------ coming and going

    def _arrives(self, reserves: bool) -> None:
        transport = self._target.connect()
        self._last += 1
        reader = ReplyReader.of(self._profile)
        client = ConcurrentClient(transport, self._last, next(self._letters), reserves, reader)
        self._clients.append(client)
        self._history.connect(client.conn)
        if not self._profile.has_tubes:
            return
        tubes = self._chance.sample(self._tubes, self._chance.randint(1, len(self._tubes)))
        of_tube = self._requests.of_tube
        first = [of_tube(client, "watch", tube) for tube in tubes]
        first.append(of_tube(client, "ignore", "default"))
        self._say(client, [of_tube(client, "use", self._chance.choice(self._tubes)), *first])

    def _leaves(self, client: ConcurrentClient, half: bool) -> None:
        """Let a client close, or (``half``) send nothing more and read to the end."""
        if client.leaving:
            return
        half &= self._half_closes
        now = self._now()
        client.leaving = True
        self._history.leaves(client.conn, now)
        self._ledger.leaves(client.name, client.asked)
        word = CLIENT_HALF_CLOSES if half else CLIENT_CLOSES
        self.transcript.add(client.name, "!", word, self._target.clock.time())
        if half:
            client.transport.half_close()
        else:
            self._forget(client)

    def _forget(self, client: ConcurrentClient) -> None:
        self._history.ended(client.conn)
        self._clients.remove(client)
        client.transport.close()

    def _goes_on(self, client: ConcurrentClient) -> None:
        holds = client.held or (self._tidy and client.asked)
        leaves = client is not self._clients[0] and not holds
        if leaves and self._chance.random() < LEAVES:
            # Nobody could tell what became of commands that wait on a connection that is closed.
            several = len(client.asked) > 1
            half = self._may_wait_on and (several or self._chance.random() < 0.7)
            if half or not several:
                self._leaves(client, half=half)
                self._arrives(client.reserves)
        elif not client.asked:
            self._say(client, self._requests.burst(client))

    def _say(self, client: ConcurrentClient, burst: Sequence[Said]) -> None:
        for text, asked in burst:
            self._history.sent(client.conn, text, asked.at)
            self._ledger.asks(client.name, asked)
            client.asked.append(asked)
        self.commands += len(burst)
        text = b"".join(text for text, _ in burst)
        self.transcript.add(client.name, ">", text, self._target.clock.time())
        client.transport.send(text)

    # ------------------------------------------------------------ what they hear

    def _listen(self, seconds: float) -> bool:
        """Handle replies that arrive within this time; tell whether any did."""
        clients = {client.transport: client for client in self._clients}
        ready = wait_for(clients, seconds)
        for transport in ready:
            self._receive(clients[transport])
        return bool(ready)

    def _receive(self, client: ConcurrentClient) -> None:
        time = self._target.clock.time()
        data = client.transport.receive()
        if client.transport.ended:
            mark = self.transcript.add(client.name, "!", TARGET_CLOSES, time)
            if not client.leaving:
                raise Violation(["an open connection"], "its end", mark)
            self._forget(client)
            return
        if not data:
            return
        mark = self.transcript.add_to_reply(client.name, data, time)
        client.reader.receive(data)
        try:
            while (reply := client.reader.next_reply()) is not None:
                self._hears(client, reply, mark)
        except ProtocolError as error:
            raise Violation(["a reply of the protocol"], str(error), mark) from error

    def _hears(self, client: ConcurrentClient, reply: Reply, mark: int) -> None:
        now = self._now()
        if not client.asked:
            raise Violation([UNASKED], str(reply), mark)
        asked = client.asked.popleft()
        self._history.heard(client.conn, reply, now, mark)
        job = int(reply.args[0]) if reply.word in ("RESERVED", "INSERTED") else asked.job
        given_up = client.leaving or any(
            later.job == job and later.verb in GIVES_UP for later in client.asked
        )
        self._ledger.hears(ReceivedReply(client.name, asked, reply, now, mark, given_up))
        if reply.word == "INSERTED":
            self._requests.known.append(job)
        elif reply.word == "RESERVED":
            client.held.append(job)
        elif reply.word in ("DELETED", "RELEASED", "BURIED") and job in client.held:
            client.held.remove(job)

    # ------------------------------------------------------------ the end

    def _await_replies(self) -> None:
        """Wait until all clients have got what they must get."""
        end = time.monotonic() + self._limits.reply
        while busy := [client for client in self._clients if client.is_busy]:
            if not self._listen(end - time.monotonic()) and time.monotonic() > end:
                client = busy[0]
                missing = THE_END if client.leaving else "a reply"
                said = f"nothing for {client.name} within {self._limits.reply:g} s"
                broken = ""
                if client.leaving and client.may_wait:
                    # It has half-closed: nothing else of it would be awaited.
                    missing, broken = str(TIMED_OUT), "reserve.half-closed"
                ends = client.leaving and (client.may_wait or not client.asked)
                kind = NotEnded if ends else Violation
                mark = self.transcript.last_of(client.name)
                raise kind([missing], said, mark, requirement=broken)

    def _queue_up(self) -> None:
        """Let clients wait where they may, for a few jobs or as many as there are clients."""
        first = self._clients[0]
        for client in self._clients:
            goes = client.reserves and not client.asked
            if goes and (not client.held or self._chance.choice((0, 1))):
                done = [self._requests.of_job("delete", job) for job in client.held]
                self._say(client, [*done, self._requests.waits(client)])
        waiting = sum(first.used in client.watched for client in self._clients if client.asked)
        count = self._chance.choice((1, 2, max(waiting, 1)))
        self._say(first, [self._requests.put(first) for _ in range(count)])
        self._await_replies()

    def _await_jobs(self) -> None:
        """Wait until no client waits although there is a job for it."""
        end = time.monotonic() + self._limits.reply
        while self._listen(self._limits.grace):
            pass
        while job := self._ledger.overdue(
            client.asked[0] for client in self._clients if client.asked
        ):
            if not self._listen(end - time.monotonic()):
                waiting = " or ".join(client.name for client in self._clients if client.asked)
                said = f"job {job} for {waiting}, who wait"
                raise Violation([said], NOTHING, self.transcript.last)
        while any(client.asked for client in self._clients):
            try:
                Explanation(self._history).find()
                return
            except Misplaced:
                # It is reported at the end.
                return
            except Violation:
                # What they must get may still be on its way.
                if not self._listen(end - time.monotonic()):
                    raise

    def _give_up(self) -> None:
        """Let all clients delete what they hold, and what they get meanwhile."""
        while holders := [client for client in self._clients if client.held and not client.asked]:
            for client in holders:
                self._say(client, [self._requests.of_job("delete", job) for job in client.held])
            self._await_replies()
            self._await_jobs()

    def _clean(self) -> None:
        """Delete all jobs; none of them is held, and all must be there."""
        end = time.monotonic() + self._limits.reply
        self._arrives(reserves=False)
        (cleaner,) = self._clients
        if "ready" not in self._profile.deletes and self._profile.has_tubes:
            # They are reserved before they are deleted.
            watch = partial(self._requests.of_tube, cleaner, "watch")
            self._say(cleaner, [watch(tube) for tube in self._tubes])
            self._await_replies()
        while jobs := self._ledger.jobs():
            if "ready" not in self._profile.deletes:
                self._say(cleaner, [self._requests.waits(cleaner) for _ in jobs])
                self._await_jobs()
            self._say(cleaner, [self._requests.of_job("delete", job) for job in jobs])
            self._await_replies()
            # A server may come to the end of a connection later than it closes it.
            left = self._ledger.jobs()
            self._say(cleaner, [self._requests.of_job("peek", job) for job in left])
            self._await_replies()
            if time.monotonic() > end:
                expected = f"job {left[0]} held by nobody"
                kind = NotReleased if self._ledger.are_abandoned(left) else Violation
                raise kind([expected], "it cannot be deleted", self.transcript.last)
        self._leaves(cleaner, half=True)
        self._await_replies()
