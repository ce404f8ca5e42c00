"""The survey: sends every command once, with full timeouts, before the first test.

Each command is sent where nothing is special: ``bury`` by a client that has just reserved a job in
a tube of its own. All are sent at the same time, on a connection each. If the target is lost
meanwhile, each is sent again on a target that was restored, so that it is known which one it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from conformance import yamlish
from conformance.target.address import Address, ask_all, connect, next_reply
from conformance.target.clock import TargetClock, pause
from conformance.target.footprint import FOOTPRINT
from conformance.target.limits import Limits
from conformance.target.resting import rests
from conformance.target.starvation import CpuTime, Starvation
from conformance.target.traits import TUBE_COMMANDS, Failure, Traits
from conformance.target.transport import Transport
from conformance.transcript import TARGET_CLOSES, Direction, Transcript
from conformance.usual_answers import IN_STEP, usual_answer
from conformance.verdict import Outage, OutcomeKind, Step
from reference_server.commands import COMMANDS
from reference_server.profiles import Profile
from reference_server.state import JobState
from reference_server.wire import (
    BAD_FORMAT,
    CRLF,
    UNKNOWN_COMMAND,
    ProtocolError,
    Reply,
    ReplyReader,
    escape,
)

_PUT = b"put 0 0 60 1\r\na"
_DELAYED = b"put 0 3600 60 1\r\na"
_RESERVE = b"reserve"
_HELD = (_PUT, _RESERVE)
_BURIED = (*_HELD, b"bury %d 0")
_SURPLUS = 2**16
"""Bytes that are read of what nobody asked for."""
_AGAIN = 0.05
"""Seconds between two looks at something that takes its time."""
_MARGIN = 4
"""Times that all commands at once must take less than the timeout of one."""
_SLOW = 0.25
"""Seconds of a round trip from which on only commands that change nothing are sent."""
_MODEST = 1024
"""Bytes of a body that any target is taken to accept."""
_STOPS = 64
"""Bytes: the search for the limit of bodies stops when its bounds are this close."""


class _Situation(NamedTuple):
    """A command where nothing is special: what was sent before it, and the usual answer.

    ``%d`` is the id of the job that was put last, ``%t`` the tube of the client.
    """

    before: tuple[bytes, ...]
    line: bytes
    word: str


_SITUATIONS: Mapping[str, _Situation] = {
    "put": _Situation((), _PUT, "INSERTED"),
    "use": _Situation((), b"use %t", "USING"),
    "reserve": _Situation((_PUT,), _RESERVE, "RESERVED"),
    "reserve-with-timeout": _Situation((), b"reserve-with-timeout 0", "TIMED_OUT"),
    "reserve-job": _Situation((_PUT,), b"reserve-job %d", "RESERVED"),
    "delete": _Situation(_HELD, b"delete %d", "DELETED"),
    "release": _Situation(_HELD, b"release %d 0 0", "RELEASED"),
    "bury": _Situation(_HELD, b"bury %d 0", "BURIED"),
    "touch": _Situation(_HELD, b"touch %d", "TOUCHED"),
    "watch": _Situation((), b"watch %t", "WATCHING"),
    "ignore": _Situation((b"watch %t",), b"ignore default", "WATCHING"),
    "peek": _Situation((_PUT,), b"peek %d", "FOUND"),
    "peek-ready": _Situation((_PUT,), b"peek-ready", "FOUND"),
    "peek-delayed": _Situation((_DELAYED,), b"peek-delayed", "FOUND"),
    "peek-buried": _Situation(_BURIED, b"peek-buried", "FOUND"),
    "kick": _Situation((), b"kick 1", "KICKED"),
    "kick-job": _Situation((_DELAYED,), b"kick-job %d", "KICKED"),
    "stats-job": _Situation((_PUT,), b"stats-job %d", "OK"),
    "stats-tube": _Situation((), b"stats-tube %t", "OK"),
    "stats": _Situation((), b"stats", "OK"),
    "list-tubes": _Situation((), b"list-tubes", "OK"),
    "list-tube-used": _Situation((), b"list-tube-used", "USING"),
    "list-tubes-watched": _Situation((), b"list-tubes-watched", "OK"),
    "quit": _Situation((), b"quit", ""),
    "pause-tube": _Situation((), b"pause-tube %t 0", "PAUSED"),
}


class Surveyed(Protocol):
    """A target, as far as the survey is concerned with it."""

    limits: Limits
    exclusive: bool
    clock: TargetClock

    @property
    def address(self) -> Address: ...

    def cpu_time(self) -> CpuTime: ...

    def outage(self) -> Outage | None: ...

    def restore(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer to a command: how long it took, in seconds, or what was wrong with it."""

    seconds: float
    failure: Failure | None
    is_lost: bool = False
    """Nothing came, or the connection ended: the target may be lost."""


_NOT_ASKED = _Answer(0.0, None)


def survey(target: Surveyed, known: Traits, delete: Callable[[list[int]], None]) -> Traits:
    """Return the traits of a target; ``known`` are those that were measured before.

    ``delete`` removes jobs from it. Raises OSError if it cannot be reached.
    """
    jobs: list[int] = []
    try:
        return _surveyed(target, known, jobs)
    finally:
        # Also if somebody interrupts it.
        if jobs:
            delete(jobs)


def _surveyed(target: Surveyed, known: Traits, jobs: list[int]) -> Traits:
    """Do the same; ``jobs`` are those that it has put."""
    look = _Look(target, known.profile, known.sync_line)
    if (failure := look.out_of_step()) is not None:
        return replace(known, defect=failure, defective=IN_STEP)
    known = replace(known, one_client=look.one_client())
    commands = _Commands(target, known, jobs, look.round_trip)
    found = commands.answers()
    known = replace(
        known,
        latencies={verb: answer.seconds for verb, answer in found.items() if not answer.failure},
        unusable={verb: answer.failure for verb, answer in found.items() if answer.failure},
    )
    if (outage := target.outage()) is not None:
        # It cannot be brought back; what it was lost after first is to blame.
        lost = [verb for verb, answer in found.items() if answer.is_lost]
        first = min(lost, key=lambda verb: found[verb].seconds, default="")
        if first and (failure := found[first].failure):
            failure = replace(failure, outage=outage)
            return replace(known, defect=failure, defective=usual_answer(first, known.profile))
        return known
    unusable = known.unusable.keys()
    is_apart = target.exclusive or known.has_tubes
    # A server of one client at a time is asked for one thing after the other.
    with ThreadPoolExecutor(1 if known.one_client else None) as pool:
        pipelines = pool.submit(look.pipelines)
        ends = pool.submit(look.ends, waiting=False)
        # Where others use the same tube, to wait for a job is to take one of theirs.
        ends_waiting = pool.submit(
            lambda: "reserve" in unusable or not is_apart or look.ends(waiting=True)
        )
        # One after the other: time passes for both, perhaps on a clock that is moved.
        slow = pool.submit(
            lambda: (
                "stats" in unusable or look.renews_stats(),
                not {"use", "list-tubes"} & unusable and look.keeps_tubes(),
            )
        )
        size = pool.submit(
            lambda: (
                known.max_body
                if "put" in unusable or not (commands.puts and is_apart)
                else look.max_body(known.max_body, jobs)
            )
        )
    renews_stats, keeps_tubes = slow.result()
    return replace(
        known,
        pipelines=pipelines.result(),
        ends_connections=ends.result(),
        ends_waiting=ends_waiting.result(),
        renews_stats=renews_stats,
        keeps_tubes=keeps_tubes,
        max_body=size.result(),
        rests=rests(target.cpu_time),
    )


# ---------------------------------------------------------------- commands


class _Commands:
    """The commands of a profile, each sent to a target; ``jobs`` are those that were put for it."""

    def __init__(self, target: Surveyed, known: Traits, jobs: list[int], round_trip: float) -> None:
        self._target = target
        self._jobs = jobs
        self._profile = profile = known.profile
        # A slow server may serve all of them one after the other.
        most = int(target.limits.reply / (_MARGIN * max(round_trip, 0.001)))
        self._at_once = 1 if known.one_client else max(min(most, len(profile.commands)), 1)
        self._verbs = [verb for verb in COMMANDS if verb in profile.commands]
        self._found: dict[str, _Answer] = {}
        # On a server of others, jobs must be in tubes of our own, and be deleted from any state.
        is_clean = profile.has_tubes and len(profile.deletes) == len(JobState)
        self.puts = (target.exclusive or is_clean) and round_trip < _SLOW

    def answers(self) -> Mapping[str, _Answer]:
        """Return the answer to each command, by its first word."""
        self._ask_all(self._verbs)
        if not (lost := [verb for verb in self._verbs if self._found[verb].is_lost]):
            return self._found
        if self._target.outage() is None:
            # No failure is believed that is not seen twice.
            self._ask_all(lost)
            return self._found
        if not self._target.exclusive:
            return self._found
        self._found = {}
        for verb in self._verbs:
            # Any of them may be the one that it does not survive.
            answer = self._alone(self._usual, verb) or self._alone(self._probed, verb)
            self._found[verb] = answer or _NOT_ASKED
        self._target.restore()
        return self._found

    def _alone(self, ask: Callable[[str], _Answer | None], verb: str) -> _Answer | None:
        """Return the answer of a target that is there, with its outage if it is lost after that."""
        # The first time, it may be the end of the client before that it did not survive.
        for _ in range(2):
            self._target.restore()
            answer = ask(verb)
            outage = self._target.outage() if answer and answer.is_lost else None
            if outage is None:
                break
        if answer and answer.failure:
            answer = replace(answer, failure=replace(answer.failure, outage=outage))
        return answer

    def _ask_all(self, verbs: Sequence[str]) -> None:
        """Send commands, first those of tubes, as the others need these."""
        self._ask([verb for verb in verbs if verb in TUBE_COMMANDS])
        others = [verb for verb in verbs if verb not in TUBE_COMMANDS]
        if self._has_tubes:
            self._ask(others)
            return
        # All clients share one queue: jobs are put and taken one after the other.
        with_jobs = {verb for verb in others if verb == "put" or _SITUATIONS[verb].before}
        probed = {verb for verb in with_jobs if COMMANDS[verb].probe is not None}
        self._ask(
            [verb for verb in others if verb in probed or verb not in with_jobs],
            lambda verb: (verb in probed and self._probed(verb)) or self._answer(verb),
        )
        for verb in filter(with_jobs.__contains__, others):
            if verb not in probed or self._found[verb].failure is None:
                self._found[verb] = self._answer(verb)

    @property
    def _has_tubes(self) -> bool:
        """Tell whether clients can have tubes of their own, as far as is known so far."""
        is_usable = not any(_fails(self._found, verb.encode()) for verb in TUBE_COMMANDS)
        return self._profile.has_tubes and (is_usable or not self._target.exclusive)

    def _ask(self, verbs: Sequence[str], ask: Callable[[str], _Answer] | None = None) -> None:
        with ThreadPoolExecutor(self._at_once) as pool:
            self._found |= zip(verbs, pool.map(ask or self._answer, verbs), strict=True)

    def _probed(self, verb: str) -> _Answer | None:
        """Return the answer where the command changes nothing; None without such a line."""
        probe = COMMANDS[verb].probe
        if probe is None:
            return None
        return _Dialogue(self._target, self._jobs).answer(verb, _Situation((), probe, ""))

    def _answer(self, verb: str) -> _Answer:
        """Return the answer where nothing is special, or else where the command changes nothing."""
        return self._usual(verb) or self._probed(verb) or _NOT_ASKED

    def _usual(self, verb: str) -> _Answer | None:
        """Return the answer where nothing is special; None if it does not come to the command."""
        situation, probe = _SITUATIONS[verb], COMMANDS[verb].probe
        first = (b"use %t", b"watch %t", b"ignore default") if self._has_tubes else ()
        if verb not in TUBE_COMMANDS:
            situation = situation._replace(before=(*first, *situation.before))
        lines = (*situation.before, situation.line)
        is_usual = self.puts or (
            probe is None and not any(line.startswith((b"put", b"kick")) for line in lines)
        )
        # What must be sent before it may not work.
        if not is_usual or any(_fails(self._found, line) for line in situation.before):
            return None
        return _Dialogue(self._target, self._jobs).answer(verb, situation)


def _fails(found: Mapping[str, _Answer], line: bytes) -> bool:
    """Tell whether a command is known to fail."""
    answer = found.get(line.split()[0].decode())
    return answer is not None and answer.failure is not None


class _Dialogue:
    """A client that sends a command, and what it needs before it, in a tube of its own."""

    def __init__(self, target: Surveyed, jobs: list[int]) -> None:
        self._target = target
        self._all_jobs = jobs
        self._job = 0
        self._limits = target.limits
        self._tube = FOOTPRINT.new_name().encode()
        self._transcript = Transcript()
        self._begun = time.monotonic()

    def answer(self, verb: str, situation: _Situation) -> _Answer | None:
        """Return the answer; None if what comes before it is not answered as usual."""
        begun = time.monotonic()
        try:
            sock = Transport(connect(self._target.address, self._limits.probe))
        except OSError as error:
            return self._judged(verb, situation, error, time.monotonic() - begun)
        with sock:
            reader = ReplyReader(tells_priority=None)
            for line in situation.before:
                reply, _ = self._say(sock, reader, line)
                usual = _SITUATIONS[line.split()[0].decode()].word
                if not (isinstance(reply, Reply) and reply.word == usual):
                    return None
            return self._judged(verb, situation, *self._say(sock, reader, situation.line))

    def _say(
        self, sock: Transport, reader: ReplyReader, line: bytes
    ) -> tuple[Reply | Exception, float]:
        data = line.replace(b"%t", self._tube).replace(b"%d", b"%d" % self._job) + CRLF
        self._note(">", data)
        begun, starvation = time.monotonic(), Starvation(self._target.cpu_time)
        sock.send(data)
        try:
            try:
                reply = next_reply(sock, reader, begun + self._limits.reply)
            except TimeoutError:
                # While others keep the target from a CPU, the wait goes on.
                more = min(starvation.since().target, self._limits.starved)
                reply = next_reply(sock, reader, time.monotonic() + more)
        except (OSError, EOFError, ProtocolError) as error:
            if not isinstance(error, TimeoutError | ProtocolError):
                self._note("!", TARGET_CLOSES)
            return error, time.monotonic() - begun
        self._note("<", reply.encode())
        if reply.word == "INSERTED":
            self._job = int(reply.args[0])
            self._all_jobs.append(self._job)
        return reply, time.monotonic() - begun

    def _note(self, direction: Direction, data: bytes) -> None:
        self._transcript.add("A", direction, data, time.monotonic() - self._begun)

    def _judged(
        self, verb: str, situation: _Situation, reply: Reply | Exception, seconds: float
    ) -> _Answer:
        words = (situation.word,) if situation.word else ()
        expected = f"{situation.word} …" if situation.word else "a reply"
        if verb == "quit":
            expected = "the end of the connection"
            if isinstance(reply, EOFError | ConnectionResetError | BrokenPipeError):
                return _Answer(seconds, None)

        def failed(kind: OutcomeKind, observed: str, came: str = "") -> _Answer:
            step = Step(kind, verb, words, came)
            failure = Failure(step, expected, observed, self._transcript)
            return _Answer(seconds, failure, kind in _SILENT)

        match reply:
            case Reply():
                if reply in (UNKNOWN_COMMAND, BAD_FORMAT) and verb != "quit":
                    return failed(OutcomeKind.WRONG_REPLY, str(reply), reply.word)
                # Whether it is the right one is for the tests of this command.
                return _Answer(seconds, None)
            case TimeoutError():
                kind = OutcomeKind.NOT_DISCONNECTED if verb == "quit" else OutcomeKind.NO_REPLY
                return failed(kind, f"no reply within {self._limits.reply:g} seconds")
            case ProtocolError():
                return failed(OutcomeKind.NOT_A_REPLY, str(reply))
        return failed(OutcomeKind.DISCONNECTED, "the target closed the connection")


_SILENT = (OutcomeKind.NO_REPLY, OutcomeKind.DISCONNECTED, OutcomeKind.NOT_DISCONNECTED)


# ---------------------------------------------------------------- other traits


class _Look:
    """Measures one trait of a target after another."""

    def __init__(self, target: Surveyed, profile: Profile, sync: bytes) -> None:
        self._target = target
        self._profile = profile
        self._sync = sync
        self.round_trip = 0.0
        """The seconds of the slower of two round trips."""

    @contextlib.contextmanager
    def _client(self) -> Iterator[Transport]:
        with Transport(connect(self._target.address, self._target.limits.probe)) as client:
            yield client

    def _ask(self, client: Transport, *lines: bytes) -> list[Reply]:
        return ask_all(client, lines, self._target.limits.reply, tells_priority=None)

    def out_of_step(self) -> Failure | None:
        """Return what is wrong if more comes than one reply to each of two commands."""
        transcript, reader = Transcript(), ReplyReader(tells_priority=None)
        with contextlib.suppress(OSError, EOFError), self._client() as client:
            for number in range(2):
                transcript.add("A", ">", self._sync + CRLF, 0.0)
                client.send(self._sync + CRLF)
                begun = time.monotonic()
                end = begun + self._target.limits.reply
                try:
                    transcript.add("A", "<", next_reply(client, reader, end).encode(), 0.0)
                    self.round_trip = max(self.round_trip, time.monotonic() - begun)
                except ProtocolError:
                    if number == 0:
                        # It is malformed, which the tests of that command report.
                        return None
            client.half_close()
            left = _SURPLUS
            while left > 0 and (data := client.receive_within(_AGAIN)):
                reader.receive(data)
                left -= len(data)
            if surplus := reader.pending:
                transcript.add("A", "<", surplus, 0.0)
                step = Step(OutcomeKind.EXTRA_REPLY, self._sync.split()[0].decode())
                expected = "no reply without a request"
                return Failure(step, expected, escape(surplus[:100]), transcript)
        return None

    def one_client(self) -> Failure | None:
        """Return what is wrong if a second client gets no answer while the first is connected."""
        transcript = Transcript()
        with contextlib.suppress(OSError, EOFError, ProtocolError), self._client() as first:
            transcript.add("A", ">", self._sync + CRLF, 0.0)
            (reply,) = self._ask(first, self._sync)
            transcript.add("A", "<", reply.encode(), 0.0)
            starvation = Starvation(self._target.cpu_time)
            with self._client() as second:
                transcript.add("B", ">", self._sync + CRLF, 0.0)
                second.send(self._sync + CRLF)
                seconds = self._target.limits.reply
                if second.receive_within(seconds) or second.ended:
                    return None
                if second.receive_within(starvation.since().target) or second.ended:
                    return None
            step = Step(OutcomeKind.NO_REPLY, self._sync.split()[0].decode())
            observed = f"no reply within {seconds:g} seconds, while another client is connected"
            return Failure(step, "a reply", observed, transcript)
        return None

    def pipelines(self) -> bool:
        """Tell whether it answers both of two commands that arrive together."""
        with contextlib.suppress(OSError, EOFError, ProtocolError), self._client() as client:
            return len(self._ask(client, self._sync, self._sync)) == 2
        return False

    def ends(self, waiting: bool) -> bool:
        """Tell whether it ends the connection of a client that half-closes it.

        ``waiting``: the client waits for a job.
        """
        with contextlib.suppress(OSError, EOFError, ProtocolError), self._client() as client:
            if waiting:
                if self._profile.has_tubes:
                    tube = FOOTPRINT.new_name().encode()
                    self._ask(client, b"watch " + tube)
                    self._ask(client, b"ignore default")
                client.send(b"reserve\r\n")
            else:
                self._ask(client, self._sync)
            return client.hang_up(self._target.limits.reply) or client.floods
        return True

    def renews_stats(self) -> bool:
        """Tell whether its stats count the stats command, at the latest after a while."""
        end = time.monotonic() + self._target.limits.renewal
        with (
            contextlib.suppress(OSError, EOFError, ProtocolError, ValueError),
            self._client() as client,
        ):
            first = self._counted(client)
            while (is_late := time.monotonic() > end) or self._counted(client) == first:
                if is_late:
                    return False
                pause(self._target.clock, _AGAIN)
        return True

    def _counted(self, client: Transport) -> str:
        (reply,) = self._ask(client, b"stats")
        return yamlish.dictionary(reply.body or b"").get("cmd-stats", "")

    def keeps_tubes(self) -> bool:
        """Tell whether a tube that nothing refers to is still there after its time."""
        tube = FOOTPRINT.new_name().encode()
        with (
            contextlib.suppress(OSError, EOFError, ProtocolError, ValueError),
            self._client() as client,
        ):
            self._ask(client, b"use " + tube)
            self._ask(client, b"use default")
            limits = self._target.limits
            end = time.monotonic() + max(limits.lateness, limits.soon)
            while True:
                is_late = time.monotonic() > end
                (reply,) = self._ask(client, b"list-tubes")
                if tube.decode() not in yamlish.names(reply.body or b""):
                    return False
                if is_late:
                    return True
                pause(self._target.clock, _AGAIN)
        return False

    def max_body(self, limit: int | None, jobs: list[int]) -> int | None:
        """Return the size of the largest body that it takes; ``limit`` if it takes that one."""
        usual = self._profile.max_job_size
        most = usual if limit is None else min(limit, usual)
        low, high = 0, most + 1
        size = most
        while low + _STOPS < high:
            taken = self._takes(size, jobs)
            if taken is None:
                # To look for the very size would take long.
                low = min(_MODEST, most)
                break
            low, high = (size, high) if taken else (low, size)
            if low == most:
                break
            size = (low + high) // 2
        return limit if low == most else low

    def _takes(self, size: int, jobs: list[int]) -> bool | None:
        """Tell whether it takes a body of so many bytes; None if it does not answer."""
        tube = b"use %b" % FOOTPRINT.new_name().encode()
        with contextlib.suppress(OSError, EOFError, ProtocolError), self._client() as client:
            if self._profile.has_tubes:
                self._ask(client, tube)
            (reply,) = self._ask(client, b"put 0 0 60 %d\r\n%b" % (size, b"a" * size))
            if reply.word == "INSERTED":
                jobs.append(int(reply.args[0]))
                return True
            return False
        return None
