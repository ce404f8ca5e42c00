"""Generates programs of hostile bytes while they are played, with other clients at work.

A case is what a client sends in one go, mutated from something valid. What follows it proves that
the stream is in step: a tube is used whose name is new, if there are tubes. Left out is what no
text and no decision covers: a CR that does not end a line, and too long lines of which beanstalkd
swallows the next.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from conformance.oracle.underspecification import Lines
from conformance.random_testing.session import Session
from conformance.random_testing.steps import Ask, Leave, Step
from conformance.target.footprint import FOOTPRINT
from fuzz.corpus import Pool
from fuzz.mutate import Mutator
from fuzz.program import BRISK, BY_NAME, Writer
from reference_server.commands import ABOUT_A_JOB, COMMANDS, U64, WAITING, any_of
from reference_server.wire import CRLF, Body, Command, Malformed, Put, Request

_QUIT = Command("quit")
_HARMLESS = (
    *(b"put 0 0 120 5\r\nhello\r\n", b"put 0 3600 120 0\r\n\r\n", b"ignore default\r\n"),
    *(b"%b %%(own)sa\r\n" % verb.encode() for verb in BY_NAME),
    *(
        b"%b\r\n" % grammar.probe
        for grammar in COMMANDS.values()
        if grammar.probe is not None and grammar.verb not in BY_NAME
    ),
)
"""Where others use the target, too."""
_HARMFUL = re.compile(
    rb"(?i)%b[^\r\n]*[1-9]" % any_of("kick", "pause-tube", *WAITING, *ABOUT_A_JOB)
)
_OF_ONE_S_OWN = tuple(
    verb
    for verb, grammar in COMMANDS.items()
    if grammar.probe is not None and verb not in ("use", "watch", "stats-tube", "reserve-job")
)
"""Commands without a tube, about jobs that no server has, or of the tube that is used."""
HOSTILE, BYSTANDER = 1, 2
CASES = 1000
"""Cases of one program."""
BURSTS = (1, 2, 8, 64, 128, 128)
"""Cases that are sent in one go."""
ENDS = 0.02
"""The chance that a case may end within a line or body; nothing can follow but the end."""
_BYSTANDERS = 10**9
"""Tags of jobs from here on are those of the bystander."""
_KINDS = 4
"""Replies to a case beyond which it makes no difference what they are."""
_MISSING = 70_000
"""Bytes of a body beyond which it is not completed."""
_UNSETTLED = 3
"""Bursts after which a program ends while the outcome of an earlier one is still open."""
AGAIN, LIKE = 0.01, 0.1
"""The chances to send a line with a known flaw, and one that most likely shows one."""
TRIES = 8
"""Mutations that are tried until one is a case."""
_SOON = 100
"""Seconds: what ends earlier would leave much open, while time flows."""


@dataclass(slots=True)
class Progress:
    """The amount made up; ``slowest``: the longest wait of others for a reply, in seconds."""

    cases: int = 0
    commands: int = 0
    slowest: float = 0.0


def cases(pool: Pool, progress: Progress, session: Session, chance: Random) -> Iterator[Step]:
    """Return a program of hostile bytes."""
    return CaseAuthor(session, chance, pool, progress).steps(CASES)


class CaseAuthor:
    """Makes up a program of some cases; ``pool`` has inputs to begin with, and keeps new ones.

    Where others use the target, it keeps to tubes of its own and lets their jobs alone.
    """

    def __init__(self, session: Session, chance: Random, pool: Pool, progress: Progress) -> None:
        self._session = session
        self._chance = chance
        self._pool = pool
        self._progress = progress
        self._shared = session.begins_among_others
        self._resets = session.target.exclusive
        """Its connections may be reset: servers log that, and others read that log."""
        self._own = f"{FOOTPRINT.new_name()}-".encode() if self._shared else b""
        self._writer = Writer(chance, BRISK, session.tag)
        self._mutate = Mutator(chance)
        self._profile = session.judge.model.profile
        self._neutral = self._profile.neutral + CRLF
        self._sentinels = 0
        self._sent: list[bytes] = []
        self._tags: deque[int] = deque(maxlen=30)
        self._untouched: list[int] = []

    def steps(self, cases: int) -> Iterator[Step]:
        """Yield the steps; each must be taken before the next is asked for."""
        pick, chance, session = self._mutate.pick, self._chance, self._session
        unsettled = 0
        while cases > 0 and unsettled < _UNSETTLED:
            unsettled = unsettled + 1 if len(session.judge.oracle.states) > 1 else 0
            if not session.may_ask(HOSTILE):
                yield Leave(HOSTILE, half=True)
            length = pick(BURSTS)
            cases -= length
            yield from self._burst(length)
            yield from self._look_on()
            if self._pool.is_new():
                for text in self._sent:
                    self._pool.note(text, text)
            if chance.random() < 0.03:
                yield Leave(HOSTILE, half=False, reset=chance.random() < 0.5 and self._resets)

    def _burst(self, length: int) -> Iterator[Step]:
        session = self._session
        self._sent.clear()
        for number in range(length):
            if self._shared and number == 0:
                yield Ask(HOSTILE, b"use %bs\r\n" % self._own, apart=True)
            conn = session.conn(HOSTILE)
            owed = session.judge.owes(conn)
            case, reader = self._case(conn, first=number == 0)
            self._sent.append(case.text)
            # beanstalkd overlooks the end of a line that is too long, if it happens to read the CR
            # and the LF one after the other.
            too_long = None in reader.lines
            if number == 0:
                cuts = () if too_long else self._cuts(case.text, length)
                case = case._replace(apart=True, cuts=cuts)
            if reader.is_complete:
                self._sentinels += 1
                yield case._replace(text=case.text + self._proof())
            else:
                # Nothing can follow but the end.
                yield case
                yield Leave(HOSTILE, half=True, reset=self._chance.random() < 0.1 and self._resets)
                return
            if too_long or not session.is_clear(HOSTILE):
                return
            if session.conn(HOSTILE) == conn:
                replies = session.judge.owed(conn, owed)
                self._pool.note(case.text, tuple(reply.word for reply in replies[:_KINDS]))

    def _proof(self) -> bytes:
        """Return a command whose answer shows that the stream is in step."""
        if not self._profile.has_tubes:
            # One answer too many, or too few, and the next is another.
            return (b"kick 0\r\n", b"peek 0\r\n")[self._sentinels % 2]
        return b"use %bs%d\r\n" % (self._own, self._sentinels)

    def _cuts(self, text: bytes, length: int) -> tuple[int, ...]:
        """Return where a case that is alone is cut: nowhere, somewhere, or everywhere."""
        if length > 2 or len(text) < 2 or self._chance.random() < 0.3:
            return ()
        if len(text) < 20 and self._chance.random() < 0.2:
            return tuple(range(1, len(text)))
        count = self._mutate.pick((1, 1, 2, 3))
        return tuple(sorted({self._chance.randrange(1, len(text)) for _ in range(count)}))

    def _look_on(self) -> Iterator[Step]:
        """Let another client be at work, which must be served, whatever others send."""
        if self._chance.random() < 0.2:
            yield Ask(BYSTANDER, self._neutral, apart=True, hasty=True)
        start = time.monotonic()
        used = b"use %bbystander\r\n" % self._own
        yield Ask(BYSTANDER, used if self._profile.has_tubes else self._neutral, apart=True)
        self._progress.slowest = max(self._progress.slowest, time.monotonic() - start)
        pick, jobs = self._mutate.pick, self._untouched
        avoids = {verb.encode() for verb in self._pool.avoids}
        if len(jobs) < 5 or self._chance.random() < 0.2:
            jobs.append(_BYSTANDERS + len(jobs))
            self._tags.append(jobs[-1])
            yield Ask(BYSTANDER, b"put 5 0 1000 9\r\nuntouched\r\n", tag=jobs[-1])
        about = self._profile.stats_of_job.encode()
        verbs = [verb for verb in (b"peek", about, b"delete") if verb not in avoids]
        yield Ask(BYSTANDER, pick(verbs) + b" %d\r\n", pick(jobs[-20:]))

    # ------------------------------------------------------------ cases

    def _case(self, conn: int, first: bool) -> tuple[Ask, Lines]:
        """Return the bytes of the hostile client, and how they are understood."""
        for _ in range(TRIES):
            made = self._template(conn)
            template, job = made.text, made.job
            if b"%d" not in template:
                job = None
            elif job is None:
                template = template.replace(b"%d", b"1")
            else:
                head, _, tail = template.partition(b"%d")
                tail = tail.replace(b"%d", b"1").replace(b"%", b"%%")
                template = head.replace(b"%", b"%%") + b"%d" + tail
            reader = self._read(template, job)
            if self._chance.random() >= ENDS:
                template, reader = self._completed(template, job, reader)
            if reader is None or not self._is_judgeable(template, reader, first):
                continue
            if not (reader.is_complete or self._profile.half_close):
                # Nobody waits for its answer: it need not be counted.
                continue
            self._progress.cases += 1
            self._progress.commands += len(reader.requests) + 1
            if made.tag is not None:
                self._tags.append(made.tag)
            quits = _QUIT in reader.requests
            return made._replace(text=template, job=job, apart=quits), reader
        return Ask(HOSTILE, self._neutral), Lines(self._profile)

    def _template(self, conn: int) -> Ask:
        """Return a request that may be sent; nothing in it is escaped."""
        kind = self._chance.random()
        if kind < 0.05:
            return Ask(HOSTILE, self._mutate.noise())
        if self._shared:
            harmless = self._mutate.pick(_HARMLESS) % {b"own": self._own}
            return Ask(HOSTILE, self._mutate(harmless))
        if kind < 0.4 and len(self._pool):
            known = self._pool.pick(self._chance)
            if kind < 0.12:
                known = self._mutate.splice(known, self._pool.pick(self._chance))
            else:
                known = self._mutate(known)
            return Ask(HOSTILE, known, self._mutate.pick(self._tags) if self._tags else 0)
        if kind < 0.5:
            return self._writer.ask(self._session.judge.model, HOSTILE, conn)
        text, job = b"", None
        for _ in range(self._mutate.pick((1, 1, 1, 1, 1, 1, 2, 3))):
            ask = self._writer.ask(self._session.judge.model, HOSTILE, conn)
            text, job = text + ask.text, ask.job if job is None else job
        return Ask(HOSTILE, self._mutate(text), job)

    def _completed(
        self, template: bytes, job: int | None, reader: Lines | None
    ) -> tuple[bytes, Lines | None]:
        """Add what the last line lacks, and its body; None as the reader if that is too much."""
        while reader is not None and not reader.is_complete:
            if reader.missing > _MISSING:
                return template, None
            template += b"b" * (reader.missing - 2) + CRLF
            reader = self._read(template, job)
        return template, reader

    def _read(self, template: bytes, job: int | None) -> Lines | None:
        """Return how a server understands it; None if that depends on the id of the job."""
        # Ids have up to 20 digits.
        texts = (template,) if job is None else (template % 1, template % U64)
        readers = [Lines(self._profile) for _ in texts]
        for reader, text in zip(readers, texts, strict=True):
            reader.read(text)
        short, long = readers[0], readers[-1]
        if short is not long and (None in long.lines or short.shape != long.shape):
            return None
        return short

    def _is_judgeable(self, template: bytes, reader: Lines, first: bool) -> bool:
        """Return whether it is known what a server does, and little is open after it."""
        # With what follows quit, replies to what came before it may get lost.
        if reader.is_quirk or _QUIT in reader.requests[1:]:
            return False
        if (None in reader.lines and not first) or (self._shared and _HARMFUL.search(template)):
            return False
        known, lines = self._pool.known, reader.lines
        if known.has(lines) and self._chance.random() > AGAIN:
            return False
        if known.expects(lines) and self._chance.random() > LIKE:
            return False
        return all(map(self._leaves_little_open, reader.requests))

    def _leaves_little_open(self, request: Request) -> bool:
        if _ends_soon(request) or (self._shared and not self._is_own(request)):
            return False
        if not isinstance(request, Command):
            return True
        if request.verb in self._pool.avoids:
            return False
        # All clients begin in that tube, and when exactly its pause ends is open for a while.
        pauses = request.verb == "pause-tube" and request.args[0] == "default"
        if not (pauses or request.verb in WAITING):
            return True
        return request.args == (0,) or self._chance.random() < 0.05

    def _is_own(self, request: Request) -> bool:
        """Return whether a request is about nobody else's tubes or jobs."""
        if isinstance(request, Put | Body | Malformed):
            return True
        if request.verb in ("use", "watch", "stats-tube"):
            return str(request.args[0]).startswith(self._own.decode())
        return request.verb in _OF_ONE_S_OWN


def _ends_soon(request: Request) -> bool:
    """Return whether a request starts a timer that ends soon."""
    if isinstance(request, Put):
        return 0 < request.delay < _SOON or request.ttr < _SOON
    if not isinstance(request, Command):
        return False
    match request.verb, request.args:
        case "reserve-with-timeout", (int(time),):
            return 0 < time < _SOON
        case "release", (_, _, int(time)):
            return 0 < time < _SOON
        case "pause-tube", (_, int(time)):
            return time < _SOON
    return False
