"""The server under test: how we reach it, its clock, and how it ended."""

from __future__ import annotations

import contextlib
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from conformance import yamlish
from conformance.target.address import Address, TargetError, ask, connect, parse_address, visit
from conformance.target.clock import RealClock, TargetClock
from conformance.target.failing_allocations import FailingAllocations
from conformance.target.first_answer import first_answer
from conformance.target.footprint import FOOTPRINT
from conformance.target.limits import USUAL, Limits
from conformance.target.profile_detection import answers, known_line, recognise
from conformance.target.sanitizers import SanitizerReport
from conformance.target.serving import ServerProcess
from conformance.target.starvation import ENOUGH, CpuTime, Starvation, pressure
from conformance.target.survey import survey
from conformance.target.timeouts import SHORT, end_timeout, lengthened
from conformance.target.traits import Traits
from conformance.target.transport import Transport
from conformance.usual_answers import usual_answer
from conformance.verdict import NotTestable, Outage, OutcomeKind
from reference_server.profiles import Profile
from reference_server.wire import NotAReply, ProtocolError

LEAST_READY = 1000
"""Jobs that a ready queue must hold, where it has a limit."""
_FINE = 0.001
"""Seconds between two times of a clock that can judge others."""


Printed = tuple[object, int]
"""A server, and how many bytes it had printed."""


class Target(ABC):
    """A server under test, judged by ``profile``; ``exclusive``: nobody else uses it.

    ``limits``: its timeouts. ``traits``: what the survey has measured, on this server or on another
    like it.
    """

    exclusive = True
    accepts = True
    """It can accept new clients, unless a test keeps it from that."""
    allocations: FailingAllocations | None = None
    """Its allocations, if it was started so that they can fail."""
    generation = 0
    """Changes when a server is lost: what listens there later is another one, with other jobs."""
    _folder: tempfile.TemporaryDirectory[str] | None = None
    """The folder in which it keeps its jobs, if it does and we have made it."""
    clock: TargetClock
    reported_kinds: set[str]
    """The kinds of reports of sanitizers that were shown already."""

    def __init__(self, label: str, limits: Limits, traits: Traits | None = None) -> None:
        self.label = label
        self.limits = limits
        self.traits = traits or Traits()
        self.reported_kinds = set()
        self.clock_reason = ""
        self.version = "unknown"
        self.profile_reason = ""

    @property
    def profile(self) -> Profile:
        """The profile that it is judged by."""
        return self.traits.profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self.traits = replace(self.traits, profile=profile.asking(self.traits.neutral_line))

    @property
    def sync_line(self) -> bytes:
        """A line that changes nothing and is answered at once."""
        return self.traits.sync_line

    def timeout(self, command: str) -> float:
        """Return the full timeout of a reply to this command, in seconds."""
        return lengthened(self.limits.reply, self.traits, command)

    def raced_timeout(self, command: str) -> float:
        """Return the same for an attempt that is repeated anyway if the reply is missing."""
        return min(self.timeout(command), lengthened(self.limits.raced, self.traits, command))

    def short_timeout(self, seconds: float = SHORT) -> float:
        """Return the timeout of any reply, in seconds, in a search whose result is confirmed."""
        return min(lengthened(seconds, self.traits), self.limits.reply)

    def end_timeout(self, seconds: float) -> float:
        """Return for how many of so many seconds the end of a connection is awaited."""
        return end_timeout(seconds, self.traits)

    @property
    def sync_verb(self) -> str:
        """The first word of :attr:`sync_line`."""
        return self.sync_line.split()[0].decode()

    @property
    @abstractmethod
    def address(self) -> Address:
        """Where it listens now."""

    @property
    def pid(self) -> int | None:
        """The process of a server that we have started."""
        return None

    def connect(self) -> Transport:
        """Return a new connection; raises OSError."""
        return Transport(connect(self.address, self.limits.probe))

    def outage(self) -> Outage | None:
        """Return what became of a silent target; None if it talks to other clients."""
        if not self.accepts:
            return self.ended()
        limit = time.monotonic() + self.limits.starved
        timeout = self.limits.alive
        before = self.cpu_time().ran
        while True:
            starvation = Starvation(self.cpu_time)
            outage = self._outage(timeout)
            # It has not come to that, where others need the CPU.
            starved = (
                outage is not None
                and outage.kind is OutcomeKind.HANGS
                and starvation.since().seconds > timeout / 4
                and self.cpu_time().ran - before <= ENOUGH * timeout
            )
            if not starved or time.monotonic() > limit:
                return outage

    def _outage(self, limit: float) -> Outage | None:
        try:
            with Transport(connect(self.address, limit)) as sock:
                ask(sock, self.sync_line, limit)
        except TimeoutError:
            how = f"a new client got no answer within {limit:g} seconds"
            return Outage(OutcomeKind.HANGS, how)
        except ConnectionRefusedError:
            return self._gone("it refuses connections")
        except (OSError, EOFError) as error:
            return self._gone(str(error) or "it closes new connections at once")
        except ProtocolError:
            return None
        return None

    def _gone(self, how: str) -> Outage:
        self.generation += 1
        return Outage(OutcomeKind.GONE, how)

    def note_hang(self) -> None:
        """Note that it will not end by itself, as it serves nobody."""

    def ended(self) -> Outage | None:
        """Return how its process has ended of itself, if that can be seen without asking it."""
        return None

    def takes(self, size: int) -> bool:
        """Tell whether it takes bodies of so many bytes, as far as the survey shows."""
        limit = self.traits.max_body
        return limit is None or size <= limit

    def needs_body(self, size: int) -> None:
        """Raise NotTestable if it does not take bodies of so many bytes."""
        if not self.takes(size):
            raise NotTestable(
                f"needs a body of {size:,} bytes, the target takes {self.traits.max_body:,}"
            )

    def printed(self) -> Printed | None:
        """Return how much it has printed so far, if we can see that."""
        return None

    def said(self, since: Printed | None = None) -> str:
        """Return the last that it printed since then, if we can see that."""
        return ""

    def reported(self) -> list[SanitizerReport]:
        """Return what sanitizers have reported since this was asked last, each kind once."""
        return []

    def cpu_time(self) -> CpuTime:
        """Return how long the target ran, and waited for a CPU, as far as the system reports it."""
        return CpuTime()

    def processes(self) -> list[ServerProcess]:
        """Return the processes of which one is the server, mostly the first; raises NotTestable."""
        raise NotTestable("needs --launch: a server whose process can be seen")

    def check_processes(self) -> None:
        """Raise NotTestable if it may be that none of the processes serves."""
        self.processes()

    def age(self) -> tuple[float, float]:
        """Return the seconds for which it has run, at least and at most; raises NotTestable."""
        raise NotTestable("needs --launch: a server of which it is known when it was started")

    def restore(self) -> None:
        """Bring back a target that was lost, if that is in our power."""

    def fresh(self, **configuration: object) -> Target:
        """Return a new server of this kind, to be closed by the caller; raises NotTestable."""
        raise NotTestable("needs --launch: a server of its own")

    def in_real_time(self) -> Target:
        """Return this server, or another of its kind, under a real clock."""
        return self

    def in_a_process(self) -> Target:
        """Return this server, or another like it, as a process of its own; raises NotTestable."""
        raise NotTestable("needs --launch: a server whose process can be limited")

    def restart(self) -> None:
        """End the server and start it again as it was; raises NotTestable."""
        raise NotTestable("needs --launch: a server to restart")

    def end_and_try(self, prefix: Sequence[str], environment: Mapping[str, str]) -> Outage | None:
        """End the server, and try to start it with a program before it, and variables.

        It is ended again if it listens. Return how it ended if it did before, or that it did not
        listen; raises NotTestable.
        """
        raise NotTestable("needs --launch: a server to restart")

    def binlog_size(self) -> int:
        """Return the bytes of the files in which it keeps its jobs; raises NotTestable."""
        if self._folder is None:
            raise NotTestable("needs --launch with {binlog} in its command")
        size = 0
        for file in Path(self._folder.name).iterdir():
            # It may be removed meanwhile.
            with contextlib.suppress(FileNotFoundError):
                size += file.stat().st_size
        return size

    def crash(self) -> None:
        """Kill the server and start it again as it was; raises NotTestable."""
        raise NotTestable("needs --launch: a server to kill")

    def signal(self, number: int) -> None:
        """Send a signal; raises NotTestable."""
        raise NotTestable("needs --launch: a server to send signals to")

    def set_wall_clock(self, seconds: int) -> None:
        """Set its wall clock forward by so many seconds, or back; raises NotTestable."""
        raise NotTestable("needs --launch: a server whose wall clock can be set")

    def close(self) -> None:
        """End what we have started."""

    def probe(self, profile: Profile | None = None) -> Profile:
        """Make sure that it is a beanstalk server, survey it, and return its profile.

        ``profile``: the one to judge it by, instead of a recognised one. Raises
        :class:`TargetError`.
        """
        step = time.get_clock_info("monotonic").resolution
        if step > _FINE:
            raise TargetError(
                f"the clock of this Python has steps of {step:.3f} seconds, too coarse to judge"
                " times by: on Windows, use Python 3.13 or newer"
            )
        if self.traits.defect is None:
            found = self._recognised()
            self.profile = profile or found
        if self.traits.defect is None:
            with contextlib.suppress(OSError):
                self.traits = survey(self, self.traits, self._delete)
            if self.exclusive and self.traits.defect is None:
                with contextlib.suppress(NotTestable):
                    # Ids begin anew, and old profiles cannot delete all jobs of the survey.
                    self.restart()
        return self.profile

    def _delete(self, jobs: list[int]) -> None:
        """Delete jobs of the survey."""
        with (
            contextlib.suppress(OSError, EOFError, ProtocolError),
            visit(self.address, self.limits.clean_up, self.traits) as client,
        ):
            for job in jobs:
                ask(client, b"delete %d" % job, self.limits.clean_up)

    def _recognised(self) -> Profile:
        """Return the detected profile; raises :class:`TargetError`."""
        limits = self.limits
        try:
            with visit(self.address, limits.probe, self.traits) as sock:
                reply = ask(sock, b"stats", limits.probe)
        except NotAReply as error:
            raise TargetError(f"{self.label} is not a beanstalk server: {error}") from error
        except ProtocolError as error:
            self.profile_reason = f"the newest, as it does not say what it is: {error}"
            return self.profile
        except (EOFError, ConnectionResetError, BrokenPipeError):
            if self._knows_others("hangs up"):
                return self.profile
            return self._unrecognised("is not a beanstalk server")
        except TimeoutError:
            if self._knows_others("does not answer"):
                return self.profile
            return self._unrecognised(f"did not answer within {limits.probe:g} seconds")
        except OSError as error:
            why = error.strerror or error
            raise TargetError(f"{self.label} cannot be reached: {why}") from error
        stats: dict[str, str] = {}
        with contextlib.suppress(ValueError):
            stats = yamlish.dictionary(reply.body or b"")
        self.version = stats.get("version", self.version)
        # A server of which the limit is 0 takes nothing, or reports it wrongly.
        self.traits = replace(self.traits, max_body=_small(stats.get("max-job-size", "")) or None)
        limit = _small(stats.get("limit-max-jobs-ready", ""))
        if limit is not None and limit < LEAST_READY:
            raise TargetError(
                f"{self.label} holds {limit} ready jobs at most; the suite needs {LEAST_READY}"
            )
        found, self.profile_reason = recognise(self.address, self.version, limits.detection)
        # It may not have survived what it was asked.
        self.restore()
        is_known = self.sync_verb in found.commands
        if is_known and not answers(self.address, self.sync_line, limits.detection):
            self._find_sync_line()
        return found

    def _unrecognised(self, does: str) -> Profile:
        """Keep the first answer of a server that has answered no command as its defect.

        Raises :class:`TargetError` if somebody else runs it, and it says no word of the protocol.
        """
        try:
            found = first_answer(self.address, self.sync_line, self.limits.probe)
        except OSError as error:
            raise TargetError(f"{self.label} {does}, and then could not be reached") from error
        if found is None:
            raise TargetError(f"{self.label} {does}")
        if not (self.exclusive or found.is_of_protocol):
            raise TargetError(f"{self.label} {does}: {found.in_words}")
        defect = replace(found.failure, outage=self.ended(), said=self.said())
        owner = usual_answer(self.sync_verb, self.profile)
        self.profile_reason = "the newest, as it answers no command"
        self.traits = replace(self.traits, defect=defect, defective=owner)
        return self.profile

    def _knows_others(self, does: str) -> bool:
        """Tell whether a server that ``does`` this when asked for its stats knows commands."""
        self.profile_reason = f"the newest, as it {does} when asked for its stats"
        self.restore()
        # Others may end it.
        is_known = answers(self.address, self.sync_line, self.limits.detection)
        return is_known or self._find_sync_line()

    def _find_sync_line(self) -> bool:
        """Find a line that it answers, one that changes nothing if there is any."""
        known = known_line(self.address, self.limits.detection)
        if known is not None:
            self.traits = replace(self.traits, sync_line=known.line, neutral_line=known.neutral)
        return known is not None


def _small(text: str) -> int | None:
    """Return a number of few digits; None if it is none, or larger than any that matters."""
    return int(text) if text.isdecimal() and len(text) < 10 else None


class Remote(Target):
    """A server that somebody else runs."""

    exclusive = False

    def __init__(self, text: str, limits: Limits = USUAL, traits: Traits | None = None) -> None:
        super().__init__(text, limits, traits)
        self._address = parse_address(text)
        self.clock = RealClock()

    @property
    def address(self) -> Address:
        return self._address

    def connect(self) -> Transport:
        return FOOTPRINT.opened(super().connect())

    def cpu_time(self) -> CpuTime:
        # On this machine it may be any process; if any waited, it may have been this one.
        host = self._address[0] if isinstance(self._address, tuple) else "localhost"
        is_here = host == "localhost" or host.startswith(("127.", "::1"))
        return CpuTime(0.0, pressure() if is_here else 0.0)
