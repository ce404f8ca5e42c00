"""Several clients of one target, whose conversation is judged while it runs.

Jobs are called by tags, given when they are put; ids appear only on the wire. After each turn the
session waits for every certain reply, so that few states are possible at any time.
"""

from __future__ import annotations

import contextlib

from conformance import yamlish
from conformance.dialogue.grace_period import STEP, attempts
from conformance.oracle.judge import Judge
from conformance.oracle.states import EARLY
from conformance.oracle.underspecification import is_plain
from conformance.oracle.violation import Violation
from conformance.random_testing.job_tags import JobTags
from conformance.random_testing.leftovers import Leftovers
from conformance.random_testing.snapshot import counted
from conformance.random_testing.steps import Ask, Leave, Program, Step, Wait
from conformance.random_testing.traffic import ClientTraffic, SessionClient
from conformance.target.address import ask, visit
from conformance.target.cleanup import delete_jobs
from conformance.target.signals import named
from conformance.target.target import Target
from conformance.transcript import (
    RESTARTS,
    Transcript,
)
from conformance.verdict import Inconclusive
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import Client
from reference_server.wire import CRLF, ProtocolError

_CONTROL = -1
ROUNDS = 3
"""The number of tries to delete all jobs."""


class Session:
    """A judged conversation; ``clients`` are opened when they are first needed.

    ``lenient`` is as for the judge. ``plain``: lines that the text leaves open are not sent, and
    counters are not compared. ``home``: the tube in which all clients begin, if that is not
    ``default``. Each step raises :class:`Violation`, with the position in the transcript, or
    Inconclusive.
    """

    def __init__(
        self,
        target: Target,
        profile: Profile,
        lenient: bool = False,
        plain: bool = False,
        home: bytes = b"",
    ) -> None:
        self.target = target
        self._plain = plain
        self._home = home
        self._generation = target.generation
        self.transcript = Transcript()
        self._limits = target.limits
        self.is_spent = False
        """The jobs and tubes on the target are not judged any more."""
        self._profile = profile
        self._jobs = JobTags()
        self._traffic = traffic = ClientTraffic(target, self.transcript, self._jobs)
        self._sending: SessionClient | None = None
        self._ahead = 0
        """Nanoseconds that the clock was moved of its own accord, which the next wait counts."""
        late = round(target.limits.lateness * 1e9)
        self._margin = late + 4 * EARLY
        # Some servers count a client only when it first says something; other tests look at that.
        traffic.synchronise()
        # The attendant, or the connection that moves the clock, is counted and uses default.
        found = counted(target, profile)
        known = None if found.jobs or plain else found.known
        # When it notices that a client has gone is unknown.
        self.judge = Judge(found.profile, late, known, found.fresh, lenient, found.before, late)
        traffic.judge = self.judge
        self._leftovers = Leftovers(found.taken, found.jobs, self.judge.model.next_id)
        self.judge.connect(_CONTROL)
        self.begin()

    def begin(self) -> None:
        """Begin the transcript here."""
        self.transcript.entries.clear()
        self.transcript.begins = self.judge.oracle.counters

    # ------------------------------------------------------------ what the clients know

    @property
    def timeout(self) -> float:
        """The seconds that a reply may take; fewer while a finding is shrunk in haste."""
        return self._traffic.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._traffic.timeout = seconds

    def now(self) -> int:
        """Return the time of the target's clock, in nanoseconds; it never stands still."""
        return self._traffic.now()

    @property
    def model(self) -> Model:
        """The judge's model."""
        return self.judge.model

    @property
    def is_open(self) -> bool:
        """Return whether more than one outcome is possible."""
        return len(self.judge.oracle.states) > 1

    def conn(self, number: int) -> int:
        """Return the connection of a client, in the judge's model; it is opened if need be."""
        return self._client(number).conn

    def clients(self) -> dict[int, Client]:
        """Return all clients that are connected, by number, as the judge's model has them."""
        conns = ((number, client.conn) for number, client in self._traffic.clients.items())
        known = self.judge.model.connections
        return {number: known[conn] for number, conn in conns if conn in known}

    def tag(self, id: int) -> int | None:
        """Return the tag of a job, by its id in the model."""
        return self._jobs.tag(id)

    def may_ask(self, number: int) -> bool:
        """Return whether a client's next command may be handled at once."""
        client = self._traffic.clients.get(number)
        return client is None or not self.judge.model.is_waiting(client.conn)

    def is_clear(self, number: int) -> bool:
        """Return whether all outcomes of a client's requests are certain, and it may ask more."""
        client = self._client(number)
        if client.known:
            return not self.judge.model.is_waiting(client.conn)
        return self.judge.is_answered(client.conn)

    @property
    def begins_among_others(self) -> bool:
        """Tell whether the tube in which all clients begin may hold jobs of others."""
        return not self.target.exclusive or self._leftovers.in_default > 0

    @property
    def begins_with_jobs(self) -> bool:
        """Tell whether there were any jobs at the beginning, as far as statistics showed."""
        return self._leftovers.in_default > 0 or bool(self._leftovers.tubes)

    def _client(self, number: int) -> SessionClient:
        client = self._traffic.clients.get(number)
        if client is None:
            self.flush()
            client = self._traffic.open(number)
            if self._home:
                for line in (b"use " + self._home, b"watch " + self._home, b"ignore default"):
                    self.ask(number, line + CRLF, apart=True)
                self.flush()
        return client

    # ------------------------------------------------------------ what the clients do

    def play(self, program: Program, look: bool = True) -> None:
        """Take all steps, and :meth:`finish`; raises Violation or Inconclusive."""
        for step in program:
            self.take(step)
        self.finish(look)

    def take(self, step: Step) -> None:
        """Take one step; raises Violation or Inconclusive."""
        if isinstance(step, Ask):
            self.ask(*step)
        elif isinstance(step, Leave):
            self.leave(*step)
        elif isinstance(step, Wait):
            self.wait(step.seconds)
        else:
            self.happen(step.event)

    def ask(
        self,
        number: int,
        text: bytes,
        job: int | None = None,
        tag: int | None = None,
        apart: bool = False,
        hasty: bool = False,
        cuts: tuple[int, ...] = (),
    ) -> None:
        """Let a client send a command; see ``conformance.random_testing.steps.Ask``."""
        if self._leftovers.are_meant(text, self._jobs):
            return
        client = self._client(number)
        if apart or self._sending is not client:
            self.flush(hasty)
        self._ahead = 0
        if client.half_closed:
            return
        if job is not None:
            text = text % self._jobs.id(job)
        if self._plain and not is_plain(text, self._profile):
            return
        judge, conn = self.judge, client.conn
        model = judge.model
        if model.is_waiting(conn):
            client.behind += len(text)
            if client.behind > self._limits.behind or not self._profile.half_close:
                # A command after a reserve that waits is answered in the end, or unspecified.
                return
        else:
            client.behind = 0
        self._sending = client
        guess = model.next_id
        self._traffic.say(client, text)
        if tag is not None:
            client.puts.append(tag)
            if guess in model.jobs and self.target.exclusive:
                # Elsewhere it may be the job of somebody else.
                self._jobs.name(tag, guess)
        self._traffic.pass_on(client, text, cuts)
        if not client.known and judge.oracle.is_leaving(conn):
            self._deliver()
            if not self._traffic.has_ended(number):
                mark = self._traffic.note_wait(self._traffic.timeout)
                raise Violation(["the end of the connection"], "nothing", mark)

    def flush(self, hasty: bool = False) -> None:
        """Send what is left of a burst, and, unless in haste, take in what it causes."""
        if self._sending is None:
            return
        self._deliver(hasty)
        movable = self.target.clock.movable
        if not hasty and movable and self.judge.is_due(self.now() + EARLY):
            # So that it is certain again what has happened, such as the end of a pause of 0.
            before = self.now()
            self._pass(before + EARLY)
            self._ahead += self.now() - before

    def _deliver(self, hasty: bool = False) -> None:
        client, self._sending = self._sending, None
        assert client is not None
        self._traffic.deliver(client, hasty)

    def leave(self, number: int, half: bool, reset: bool = False) -> None:
        """Let a client close, or (``half``) send nothing more and be heard until the end.

        ``reset``: it closes at once, in the middle of a command perhaps. One that has a job, or
        waits for one, is always heard until then: a target may notice its end late.
        """
        self.flush()
        client = self._traffic.clients.get(number)
        if client is None or client.half_closed:
            return
        if self.judge.oracle.is_needed(client.conn):
            half, reset = True, False
        # Nobody could tell what became of commands that wait on a connection that is closed.
        half = not reset and (half or not self.judge.oracle.is_handled(client.conn))
        half = half and self._profile.half_close
        word = Leave(number, half, reset).event
        self.transcript.add(client.letter, "!", word, self.target.clock.time())
        if half:
            oracle = self.judge.oracle
            if oracle.may_wait(client.conn) and oracle.unread(client.conn) > self._limits.behind:
                # In a burst, it was not known that it would wait.
                raise Inconclusive("more was sent than a target need read while a client waits")
            self.judge.half_close(client.conn, self.now())
            self._traffic.half_close(number)
        if number in self._traffic.clients:
            del self._traffic.clients[number]
            self.judge.close(client.conn, self.now())
            if reset:
                client.transport.reset()
            else:
                client.transport.close()
            self._traffic.synchronise()
            self._traffic.hear()

    def wait(self, seconds: float) -> None:
        """Let time pass, from timer to timer: a server may lose some that fall due at once."""
        self.flush()
        end = self.now() + round(seconds * 1e9) - self._ahead
        if not self.target.clock.movable:
            while (left := end - self.now()) > 0:
                self._traffic.poll(left / 1e9)
            self.transcript.add_time(self.target.clock.time())
            self._nudge()
            return
        while (now := self.now()) < end:
            due = self.judge.oracle.next_due(now)
            if due is None or due > end + EARLY:
                self._move(end)
            else:
                self._pass(due)
        self._ahead = max(self.now() - end, 0)
        # It may have caused something that nobody expects.
        self._traffic.synchronise()
        self._traffic.poll(0.0)

    def happen(self, event: bytes) -> None:
        """Signal the target, or end it and start it again; raises NotTestable."""
        self.flush()
        if event == RESTARTS:
            self.target.restart()
            self._traffic.restart()
        else:
            self.target.signal(named(event.decode()))
            if event == b"SIGUSR1":
                self.judge.drains(self.now())
        self.is_spent = True
        self.transcript.add("", "!", event, self.target.clock.time())

    def _pass(self, due: int) -> None:
        """Move the clock past a timer that falls due, and far enough that it must have fired."""
        # The target's clock goes on a little while it comes to a burst. A timer that has not fired
        # here would do so after the next move, and the job that it gives away is held since then.
        self._move(due + EARLY)
        self._move(self.now() + self._margin)
        # Unless its client is idle.
        self._nudge()

    def _move(self, until: int) -> None:
        before, shown = self.now(), self.target.clock.time()
        self.target.clock.move((until - before) / 1e9)
        self.transcript.add_time(self.target.clock.time(), moved_from=shown)
        self.judge.moved(before, self.now())
        self._traffic.hear()

    def _nudge(self) -> None:
        """Let clients that hold jobs say something: some servers notice only then what is due."""
        for number, client in list(self._traffic.clients.items()):
            if (
                not client.half_closed
                and self.judge.oracle.holds(client.conn)
                and self.judge.oracle.is_handled(client.conn)
                and self.may_ask(number)
            ):
                self.ask(number, self._profile.neutral + b"\r\n")
                self._deliver()

    def finish(self, look: bool = True) -> None:
        """End all clients, delete all jobs, and see that nothing is left.

        ``look``: statistics are compared, too.
        """
        self.flush()
        for number in list(self._traffic.clients):
            self.leave(number, half=True)
        number = 0
        for _ in range(ROUNDS):
            if "delayed" not in self._profile.deletes:
                self._kick_all(number)
            if "ready" not in self._profile.deletes:
                self._reserve_all(number)
            for id in sorted(self.judge.oracle.jobs()):
                self.ask(number, b"delete %d\r\n" % id)
            self.flush()
            if not self.judge.oracle.jobs():
                break
        if self._profile.has_tubes:
            self._await_tubes(number)
        if look and self.target.exclusive:
            self.ask(number, b"stats\r\n")
        self.leave(number, half=True)
        if self.judge.oracle.may_be_paused("default"):
            # When exactly it ends would be open for a while.
            self._end_pause(self._limits.clean_up)
            self.is_spent = True
        if left := self.judge.oracle.jobs():
            # Where much is open, it is not known what must be kicked before it can be deleted.
            delete_jobs(self.target, self._generation, left, self._limits.clean_up)
            self.is_spent = True
        self._jobs.clear()

    def _await_tubes(self, number: int) -> None:
        """See that tubes go that nothing keeps, in the time that they have."""
        traits = self.target.traits
        # Where clients never end, they keep their tubes for ever.
        goes = traits.ends_connections and not traits.keeps_tubes
        for is_last in attempts(self._limits) if goes else (True,):
            self._traffic.unforeseen = None
            if is_last:
                self.judge.forget_gone()
            self.ask(number, b"list-tubes\r\n", apart=True)
            self.flush()
            reply = self._traffic.unforeseen
            listed = reply.body or b"" if reply else b""
            if not self.judge.oracle.gone() & {*yamlish.names(listed)}:
                break
            self._traffic.poll(STEP)
            if self.target.clock.movable:
                self._move(self.now() + round(STEP * 1e9))
        self.judge.forget_gone()

    def _kick_all(self, number: int) -> None:
        """Make all jobs ready, one by one, so that little is open meanwhile."""
        tubes = [tube for tube in self.judge.model.tubes if tube.delayed]
        for name, count in [(tube.name, len(tube.buried) + len(tube.delayed)) for tube in tubes]:
            if self._profile.has_tubes:
                self.ask(number, f"use {name}\r\n".encode())
            for _ in range(count):
                self.ask(number, b"kick 1\r\n", apart=True)

    def _reserve_all(self, number: int) -> None:
        """Reserve all jobs that are ready."""
        names = [tube.name for tube in self.judge.model.tubes if tube.ready]
        for name in names if self._profile.has_tubes else ():
            self.ask(number, f"watch {name}\r\n".encode())
        while self.judge.model.next_ready(self.conn(number)) and self.may_ask(number):
            self.ask(number, b"reserve\r\n", apart=True)
            self.flush()

    def clean_up(self, limit: float | None = None) -> None:
        """Delete all jobs that were seen, without looking, if a reply takes no more seconds."""
        limit = self._limits.clean_up if limit is None else limit
        if self.target.exclusive:
            self._end_pause(limit)
        jobs = {*self._jobs.ids(), *self.judge.oracle.jobs()}
        delete_jobs(self.target, self._generation, jobs, limit)

    def _end_pause(self, limit: float) -> None:
        with (
            contextlib.suppress(OSError, EOFError, ProtocolError),
            visit(self.target.address, limit, self.target.traits) as sock,
        ):
            # Where there are no pauses, that is unknown.
            ask(sock, b"pause-tube default 0", limit)

    def abandon(self, before_restart: bool = False) -> None:
        """End all clients without looking at what comes; the target notices, if it can.

        ``before_restart``: it is ended next, so that it need not notice.
        """
        self._traffic.abandon(before_restart)
