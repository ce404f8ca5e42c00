"""The commands that tests use most, as methods, over any way of exchanging messages."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

from conformance.dialogue.exchange import UNDER_TEST, Exchange, Role, Statistics, observation
from conformance.dialogue.schedule import DISTANT, Timeline
from conformance.oracle.underspecification import Lines
from conformance.target.target import Target
from conformance.usual_answers import (
    HOLDS_BACK,
    IN_STEP,
    answer_about_tube,
    answer_to_delete,
    answer_to_put,
    is_observing,
    usual_answer,
)
from conformance.verdict import Deviation, NotApplicable, NotOffered
from reference_server.commands import VERBS
from reference_server.profiles import LIST_TUBE_USED
from reference_server.wire import (
    CRLF,
    KICKED_COUNT,
    NOT_FOUND,
    RESERVED,
    TIMED_OUT,
    USING,
    Reply,
)

STALE_STEP = 0.25
"""Seconds after which it is looked again whether a target has renewed its statistics."""


class UsualCommands(ABC):
    """A client that sends the usual commands; ``tube`` is the tube it works on.

    How it sends them, and takes their replies, is the matter of :class:`Connection`. ``another``
    opens another connection.

    A command has one of three roles (see :class:`Role`). What :meth:`send` and :meth:`raw` send is
    under test. ``put``, ``use``, ``bury`` and the like are set-up: if one of them fails, the
    requirement of its usual answer is broken, not that of the test. ``reserve``, ``peek``,
    ``stats_job`` and the like observe: another job, or none, breaks the test's requirement; no
    reply, or an error, that of the command. :attr:`tested` sends the same commands under test.
    """

    is_under_test = False
    """All commands are under test, also those that are usually set-up or observations."""

    def __init__(
        self,
        tube: str,
        timeline: Timeline,
        target: Target,
        another: Callable[[], UsualCommands],
    ) -> None:
        self.tube = tube
        self._timeline = timeline
        self._target = target
        self._limits = target.limits
        self._another = another

    def needs(self, line: bytes) -> None:
        """Raise NotApplicable if the profile has no such command, or no lines that are so long."""
        verb, profile = line.partition(b" ")[0].decode("latin-1"), self._target.profile
        if not profile.skips_long_lines and len(line) + len(CRLF) > profile.max_line:
            raise NotApplicable(f"profile {profile.name}: {profile.max_line} bytes a line at most")
        if verb not in profile.commands and verb in VERBS:
            kind = NotOffered if verb in profile.dialect.without else NotApplicable
            raise kind(f"profile {profile.name} has no {verb}")

    def needs_usable(self, data: bytes) -> None:
        """Raise Unusable if the survey has shown that one of these commands does not work.

        Malformed or not: what such a command gets for an answer has that cause first of all.
        """
        traits = self._target.traits
        if not traits.unusable:
            return
        reader = Lines(traits.profile)
        reader.read(data)
        for line in filter(None, reader.lines):
            traits.needs(line.partition(b" ")[0].decode("latin-1"))

    @abstractmethod
    def send(self, line: str | bytes, role: Role = UNDER_TEST) -> Exchange:
        """Send one command line (CR LF is added) and return the exchange that it begins."""

    @abstractmethod
    def raw(self, data: bytes, replies: int = 1, role: Role = UNDER_TEST) -> Exchange:
        """Send bytes as they are; return the exchange of the first of ``replies`` replies."""

    @abstractmethod
    def each(self, requests: Sequence[bytes], roles: Sequence[Role] = ()) -> Iterator[Exchange]:
        """Send requests, and yield the exchange of each; without ``roles``, all under test."""

    @property
    def tested(self) -> UsualCommands:
        """The same client, all of whose commands are under test."""
        return _Tested(self, self.tube, self._timeline, self._target, self._another)

    def _owned_by(self, owner: str) -> Role:
        return UNDER_TEST if self.is_under_test else Role(owner)

    def _set_up_role(self, line: str) -> Role:
        return self._owned_by(usual_answer(line.split()[0], self._target.profile))

    def prepare(self, line: str) -> Exchange:
        """Send a command that the test needs, but does not test."""
        return self.send(line, self._set_up_role(line))

    def observe(self, line: str) -> Exchange:
        """Send a command by which the test observes what it tests."""
        return self.send(line, self.observation(line))

    def observation(self, line: str) -> Role:
        """Return the role of a command line by which the test observes what it tests."""
        role = self._set_up_role(line)
        return observation(line, role.owner) if role.owner else role

    def usual_role(self, line: str) -> Role:
        """Return the role of a command line that is not under test: set-up, or an observation."""
        return self.observation(line) if is_observing(line) else self._set_up_role(line)

    @abstractmethod
    def finish(self, limit: float) -> None:
        """End the connection; give up at the real time ``limit``."""

    @property
    def ping(self) -> bytes:
        """A line that changes nothing and is answered at once, with :attr:`pong`."""
        return self._target.profile.neutral + CRLF

    @property
    def pong(self) -> Reply:
        """The answer to :attr:`ping`, as long as the connection uses its tube."""
        names_tube = self._target.profile.neutral == LIST_TUBE_USED
        return USING(self.tube) if names_tube else NOT_FOUND

    def is_served(self) -> bool:
        """Return whether the target answers this client."""
        try:
            self.raw(self.ping).any_reply()
        except Deviation:
            return False
        return True

    def minds_time(self) -> None:
        """Record that a timer is near: later observations depend on the speed of the target."""
        self._timeline.timed = True

    def put(self, body: bytes = b"", pri: int = 0, delay: int = 0, ttr: int = 60) -> int:
        """Put a job and give its id; times in seconds."""
        self._target.needs_body(len(body))
        self._timeline.timed |= ttr < DISTANT or 0 < delay < DISTANT
        head = f"put {pri} {delay} {ttr} {len(body)}\r\n".encode()
        put = self.raw(head + body + CRLF, role=self._role_of_put(pri, delay, ttr))
        return int(put.reply("INSERTED").args[0])

    def put_many(self, bodies: Sequence[bytes], ttr: int = 60, in_order: bool = False) -> list[int]:
        """Put several jobs in one go and give their ids; ``in_order``: by priority."""
        self._target.needs_body(max(map(len, bodies), default=0))
        self._timeline.timed |= ttr < DISTANT
        return self.put_each(
            [(body, number * in_order, 0, ttr) for number, body in enumerate(bodies)]
        )

    def put_each(self, jobs: Iterable[tuple[bytes, int, int, int]]) -> list[int]:
        """Put jobs in one go, each of a body, priority, delay and TTR, and give their ids."""
        jobs = list(jobs)
        puts = [
            b"put %d %d %d %d\r\n%b\r\n" % (pri, delay, ttr, len(body), body)
            for body, pri, delay, ttr in jobs
        ]
        asked = self.each(puts, [self._role_of_put(*numbers) for _, *numbers in jobs])
        return [int(put.reply("INSERTED").args[0]) for put in asked]

    def _role_of_put(self, pri: int, delay: int, ttr: int) -> Role:
        return self._owned_by(answer_to_put(self._target.profile, pri, delay, ttr))

    def go_to(self, *lines: str) -> None:
        """Send lines that use, watch or ignore tubes, in one go if the target can take that."""
        roles = [self._set_up_role(line) for line in lines]
        asked = self.each([line.encode() + CRLF for line in lines], roles)
        for line, exchange in zip(lines, asked, strict=True):
            exchange.reply("USING" if line.startswith("use") else "WATCHING")

    def use(self, tube: str) -> None:
        """Use a tube."""
        self.prepare(f"use {tube}").reply("USING")

    def watch(self, tube: str) -> None:
        """Watch a tube."""
        self.prepare(f"watch {tube}").reply("WATCHING")

    def ignore(self, tube: str) -> None:
        """Ignore a tube that is not the last of the watch list."""
        self.prepare(f"ignore {tube}").reply("WATCHING")

    def delete(self, job: int, state: str = "reserved") -> None:
        """Delete a job that this client may delete; ``state`` is that of the job."""
        self.send(f"delete {job}", self.role_of_delete(state)).reply("DELETED")

    def role_of_delete(self, state: str) -> Role:
        """Return the role of the set-up's delete of a job in this state."""
        return self._owned_by(answer_to_delete(self._target.profile, state))

    def delete_many(self, jobs: Sequence[int]) -> None:
        """Delete jobs in one go."""
        roles = [self._set_up_role("delete")] * len(jobs)
        for asked in self.each([b"delete %d\r\n" % job for job in jobs], roles):
            asked.reply("DELETED")

    def release(self, job: int, pri: int = 0, delay: int = 0) -> None:
        """Release a job that this client holds; the delay is in seconds."""
        self._timeline.timed |= 0 < delay < DISTANT
        self.prepare(f"release {job} {pri} {delay}").reply("RELEASED")

    def bury(self, job: int, pri: int = 0) -> None:
        """Bury a job that this client holds."""
        self.prepare(f"bury {job} {pri}").reply("BURIED")

    def touch(self, job: int) -> None:
        """Touch a job that this client holds."""
        self.prepare(f"touch {job}").reply("TOUCHED")

    def kick(self, bound: int) -> int:
        """Kick so many jobs at most; return how many the target reports."""
        return self.prepare(f"kick {bound}").count("KICKED")

    def kick_one(self, state: str = "buried") -> None:
        """Kick a job of the used tube; the first that can be kicked is in this state."""
        owner = "kick.kicked" if state == "buried" else "kick.otherwise-delayed"
        self.send("kick 1", self._owned_by(owner)).expect(KICKED_COUNT(1))

    def kick_job(self, job: int) -> None:
        """Kick a job that is buried or delayed."""
        self.prepare(f"kick-job {job}").reply("KICKED")

    def pause(self, seconds: int, tube: str | None = None) -> None:
        """Pause a tube; its own if none is named."""
        self._timeline.timed |= 0 < seconds < DISTANT
        with self._on_a_tube():
            self.prepare(f"pause-tube {tube or self.tube} {seconds}").reply("PAUSED")

    @contextlib.contextmanager
    def _on_a_tube(self) -> Iterator[None]:
        """Blame the command that should have made a tube if another one gets NOT_FOUND."""
        try:
            yield
        except Deviation as deviation:
            if deviation.owner and deviation.step.came == NOT_FOUND.word:
                deviation.owner = answer_about_tube(self._target.profile) or deviation.owner
            raise

    def put_and_reserve(self, body: bytes = b"a", pri: int = 0, ttr: int = 60) -> int:
        """Put a job and reserve it, where no ready job comes before it; return its id."""
        job = self.put(body, pri=pri, ttr=ttr)
        self.hold(job, body)
        return job

    def hold(self, job: int, body: bytes = b"a") -> None:
        """Reserve the next job, which is this one, in the set-up.

        No other ready job may have its priority: their order is not specified everywhere.
        """
        taken, expected = self.prepare(self.ask_for_job), RESERVED(job, body)
        came = taken.reply("RESERVED")
        if came.args[0] != job and not self.is_under_test:
            deviation = Deviation(str(expected), str(came))
            deviation.owner, deviation.suspects = "put.smaller-priority-first", HOLDS_BACK
            raise deviation
        taken.expect(expected)

    def take_job(self) -> int:
        """Reserve the next job in the set-up, whichever it is; return its id."""
        (job,) = self.take_jobs(1)
        return job

    def take_jobs(self, count: int) -> list[int]:
        """Reserve the next jobs in the set-up, asking for so many in one go; return their ids."""
        line = self.ask_for_job
        asked = self.each([line.encode() + CRLF] * count, [self._set_up_role(line)] * count)
        return [int(exchange.reply("RESERVED").args[0]) for exchange in asked]

    def put_and_bury(self, body: bytes = b"a") -> int:
        """Put a job, reserve it and bury it; return its id."""
        job = self.put_and_reserve(body)
        self.bury(job)
        return job

    def job_in(self, state: str) -> int:
        """Make a job in this state, where no ready job comes before it; return its id."""
        match state:
            case "reserved":
                return self.put_and_reserve()
            case "buried":
                return self.put_and_bury()
        return self.put(b"a", delay=3600 if state == "delayed" else 0)

    def linger(self) -> None:
        """Make a few round trips, so that the target handles what other clients have sent.

        Nothing may depend on it: a target may still be slower.
        """
        for _ in range(5):
            self.synchronise()

    def synchronise(self, times: int = 1) -> None:
        """Send a neutral command, so many times in one go, and wait for the replies."""
        role = self._set_up_role(self.ping.decode())
        for asked in self.each([self.ping] * times, [role] * times):
            asked.any_reply()

    def becomes(self, is_so: Callable[[], bool], within: float = 0.0) -> bool:
        """Return whether something becomes so soon that must, though no text says when."""
        return self._timeline.becomes(is_so, within)

    def eventually(
        self, is_so: Callable[[], bool], with_ends: bool = False, soon: bool = False
    ) -> bool:
        """Return whether something becomes so within the time in which a reply must come.

        ``with_ends``: when the target notices the ends of connections. ``soon``: in a shorter time,
        as it need not become so.
        """
        seconds = self._limits.soon if soon else self._limits.reply
        if with_ends:
            seconds = self._target.end_timeout(seconds)
        limit = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > limit:
                return False
        return True

    def comes_back(self, job: int) -> None:
        """Wait in the set-up until an expired job is ready again, however late."""
        self._is_made_ready(job, "put.ttr-expiry-releases")

    def delay_ends(self, job: int) -> None:
        """Wait in the set-up until a delayed job is ready, however late."""
        self._is_made_ready(job, "put.ready-after-delay")

    def _is_made_ready(self, job: int, owner: str) -> None:
        state = self.state_of(job)
        if not self.becomes(lambda: self.state_of(job) == "ready", self._limits.reply):
            deviation = Deviation(f"job {job} to be ready", state[:100])
            deviation.owner = owner
            raise deviation

    def gets_soon(self, line: str, reply: Reply) -> None:
        """Repeat an observation until it gets this reply, which is due within the grace period."""
        self.becomes(lambda: self.observe(line).any_reply() == reply)
        self.observe(line).expect(reply)

    def is_in_step(self) -> None:
        """Expect that the target understands what is sent next as a command, and answers it."""
        self.raw(self.ping).expect(self.pong)

    def takes_pipelines(self) -> None:
        """Expect in the set-up that each of several commands in one go is answered."""
        both = self.raw(self.ping * 2, replies=2, role=Role(IN_STEP))
        both.reply(self.pong.word)
        both.nth(1, Role(IN_STEP)).reply(self.pong.word)

    def reserve(self) -> Exchange:
        """Observe which job comes next; do not wait for one, if the profile allows that."""
        return self.observe(self.ask_for_job)

    @property
    def ask_for_job(self) -> str:
        """The line by which :meth:`reserve` asks."""
        return "reserve-with-timeout 0" if self._target.traits.has_timeouts else "reserve"

    def reserve_many(self, count: int) -> list[Reply]:
        """Observe which jobs come next, asking for so many in one go."""
        role = observation(self.ask_for_job, self._set_up_role("reserve").owner)
        roles = [UNDER_TEST if self.is_under_test else role] * count
        asked = self.each([self.ask_for_job.encode() + CRLF] * count, roles)
        return [exchange.reply("RESERVED") for exchange in asked]

    def reserve_within(self, timeout: int) -> Exchange:
        """Observe which job comes within ``timeout`` seconds."""
        self._timeline.timed |= 0 < timeout < DISTANT
        return self.observe(f"reserve-with-timeout {timeout}")

    def reserve_waiting(self) -> Exchange:
        """Wait for a job, and observe which one comes."""
        return self.observe("reserve")

    def wait_for_margin(self) -> Exchange:
        """Wait in the set-up until the safety margin of a job that this client holds begins."""
        return self.send("reserve", self._owned_by("reserve.pending-reserve-aborted-by-deadline"))

    def reserve_job(self, job: int) -> Exchange:
        """Observe whether a job can be reserved by its id."""
        return self.observe(f"reserve-job {job}")

    def peek(self, job: int) -> Exchange:
        """Observe whether a job is there, and its body."""
        return self.observe(f"peek {job}")

    def peek_ready(self) -> Exchange:
        """Observe which ready job of the used tube comes first."""
        return self.observe("peek-ready")

    def peek_delayed(self) -> Exchange:
        """Observe which delayed job of the used tube comes first."""
        return self.observe("peek-delayed")

    def finds_no_job(self) -> None:
        """Expect that there is no job to be reserved."""
        if self._target.traits.has_timeouts:
            self.reserve().expect(TIMED_OUT)
            return
        other = self._another()
        waiting = other.reserve_waiting()
        self.linger()
        waiting.is_pending()
        other.finish(time.monotonic() + self._limits.reply)

    def peek_buried(self) -> Exchange:
        """Observe which job of the used tube was buried first."""
        return self.observe("peek" if self._target.profile.id_is_optional else "peek-buried")

    def tube_used(self) -> str:
        """Return the tube that the target says this client uses."""
        return str(self.observe("list-tube-used").reply("USING").args[0])

    def tubes(self) -> list[str]:
        """Return the tubes that the target lists."""
        return self.observe("list-tubes").names()

    def tubes_watched(self) -> list[str]:
        """Return the tubes that the target says this client watches."""
        return self.observe("list-tubes-watched").names()

    def state_of(self, job: int) -> str:
        """Return the state of a job, as its statistics report it."""
        return self.stats_job(job)["state"]

    def states_of(self, jobs: Sequence[int]) -> dict[int, str]:
        """Return the states of jobs, asked for in one go."""
        lines = [self._stats_job_line(job) for job in jobs]
        roles = [self.observation(line) for line in lines]
        asked = self.each([line.encode() + CRLF for line in lines], roles)
        return {
            job: self._values("stats-job", answer)["state"]
            for job, answer in zip(jobs, asked, strict=True)
        }

    def stats_job(self, job: int) -> Statistics:
        """Return the statistics of a job."""
        return self._statistics("stats-job", self._stats_job_line(job))

    def _stats_job_line(self, job: int) -> str:
        return f"{self._target.profile.stats_of_job} {job}"

    def job_is(self, job: int, **values: int | str) -> None:
        """Expect these values in the statistics of a job, as far as the profile has such keys.

        Where they have no priority, peek reports it.
        """
        profile, stats = self._target.profile, self.stats_job(job)
        for key, value in values.items():
            if key == "pri" and profile.tells_priority:
                actual = str(self.peek(job).reply("FOUND").args[1])
            elif f"stats-job.{key}" not in profile.lacks:
                actual = stats[key]
            else:
                continue
            if actual != str(value):
                raise Deviation(f"job {job} to have {key} {value}", actual[:100])

    def _statistics(self, command: str, line: str) -> Statistics:
        role = self.observation(line)
        if command == "stats-tube":
            # Whether there is such a tube is not what its statistics are about.
            role = role._replace(answers=role.answers - {"NOT_FOUND"})
        return self._values(command, self.send(line, role))

    def _values(self, command: str, answer: Exchange) -> Statistics:
        values = answer.dictionary()
        values.left_out = self._target.profile.left_out(command)
        values.command = "" if self.is_under_test else command
        return values

    def confirm(self, line: str, word: str, owner: str) -> None:
        """Expect a reply with this word in the set-up, as another requirement says."""
        self.send(line, self._owned_by(owner)).reply(word)

    def finds_tube(self, tube: str) -> None:
        """Observe that there is a tube of this name."""
        self.observe(f"stats-tube {tube}").reply("OK")

    def stats_tube(self, tube: str | None = None) -> Statistics:
        """Return the statistics of a tube; its own if none is named."""
        with self._on_a_tube():
            return self._statistics("stats-tube", f"stats-tube {tube or self.tube}")

    def stats(self) -> Statistics:
        """Return the statistics of the server, not older than this call.

        Some servers keep them for a while; that each call counts shows whether they are new. Where
        they never are, nobody waits for it again.
        """
        first = self._statistics("stats", "stats")
        tries = round(self._limits.renewal / STALE_STEP)
        renews = self._target.traits.renews_stats
        for _ in range(tries if renews else 1):
            stats = self._statistics("stats", "stats")
            if not renews or stats.get("cmd-stats") != first.get("cmd-stats"):
                return stats
            self._timeline.renew(STALE_STEP)
        return stats


class _Tested(UsualCommands):
    """A client whose commands are all under test."""

    is_under_test = True

    def __init__(
        self,
        client: UsualCommands,
        tube: str,
        timeline: Timeline,
        target: Target,
        another: Callable[[], UsualCommands],
    ) -> None:
        super().__init__(tube, timeline, target, another)
        self._client = client

    def send(self, line: str | bytes, role: Role = UNDER_TEST) -> Exchange:
        return self._client.send(line, role)

    def raw(self, data: bytes, replies: int = 1, role: Role = UNDER_TEST) -> Exchange:
        return self._client.raw(data, replies, role)

    def each(self, requests: Sequence[bytes], roles: Sequence[Role] = ()) -> Iterator[Exchange]:
        return self._client.each(requests, roles)

    def finish(self, limit: float) -> None:
        self._client.finish(limit)
