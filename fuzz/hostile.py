"""Makes up programs of hostile bytes, while others are at work, step by step while they are played.

A case is what a client sends in one go, mutated from something valid. What follows it proves that
the stream is in step: a tube is used whose name is new. Left out is what no text and no decision
covers: a CR that does not end a line, and too long lines of which beanstalkd swallows the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from conformance.leeway import Lines
from conformance.moves import RESERVES
from conformance.session import Session
from fuzz.mutate import Mutator
from fuzz.pool import Pool
from fuzz.program import BRISK, Ask, Leave, Step, Writer
from reference_server.wire import CRLF, U64, Command, Put, Request

_QUIT = Command("quit")
HOSTILE, BYSTANDER = 1, 2
BURSTS = (1, 2, 8, 64, 128, 128)
"""Cases that are sent in one go."""
ENDS = 0.02
"""How often a case may end where no line and no body ends; nothing can follow but the end."""
_KINDS = 4
"""Replies to a case beyond which it makes no difference what they are."""
_MISSING = 70_000
_UNSETTLED = 3
"""Bursts after which a program ends if it is still open what came of an earlier one."""
TRIES = 8
"""Mutations that are tried until one is a case."""
_SOON = 100
"""Seconds: what ends earlier would leave much open, while time flows."""


class Author:
    """Makes up a program of ``cases`` cases; ``pool`` has inputs to begin with, and keeps new."""

    def __init__(self, session: Session, chance: Random, pool: Pool) -> None:
        self._session = session
        self._chance = chance
        self._pool = pool
        self._writer = Writer(chance, BRISK, session.tag)
        self._mutate = Mutator(chance)
        self._profile = session.judge.model.profile
        self._max_job_size = session.judge.model.max_job_size
        self._sentinels = self._puts = 0

    def steps(self, cases: int) -> Iterator[Step]:
        """The steps; each must be taken before the next is asked for."""
        pick, chance, session = self._mutate.pick, self._chance, self._session
        unsettled = 0
        while cases > 0 and unsettled < _UNSETTLED:
            unsettled = unsettled + 1 if session.judge.states > 1 else 0
            if not session.may_ask(HOSTILE):
                yield Leave(HOSTILE, half=True)
            length = pick(BURSTS)
            cases -= length
            yield from self._burst(length)
            yield from self._look_on()
            if chance.random() < 0.05:
                yield Leave(HOSTILE, half=False, reset=chance.random() < 0.5)

    def _burst(self, length: int) -> Iterator[Step]:
        session = self._session
        for number in range(length):
            conn = session.conn(HOSTILE)
            owed = session.judge.owes(conn)
            case, complete = self._case(conn)
            if number == 0:
                case = case._replace(apart=True, cuts=self._cuts(case.text, length))
            if complete:
                self._sentinels += 1
                yield case._replace(text=case.text + b"use s%d\r\n" % self._sentinels)
            else:
                # Nothing can follow but the end.
                yield case
                yield Leave(HOSTILE, half=True, reset=self._chance.random() < 0.1)
                return
            if not session.is_clear(HOSTILE):
                return
            if session.conn(HOSTILE) == conn:
                replies = session.judge.owed(conn, owed)
                self._pool.note(case.text, tuple(reply.word for reply in replies[:_KINDS]))

    def _cuts(self, text: bytes, length: int) -> tuple[int, ...]:
        """Where a case that is alone is cut into pieces: nowhere, somewhere, or everywhere."""
        if length > 2 or len(text) < 2 or self._chance.random() < 0.3:
            return ()
        if len(text) < 20 and self._chance.random() < 0.2:
            return tuple(range(1, len(text)))
        count = self._mutate.pick((1, 1, 2, 3))
        return tuple(sorted({self._chance.randrange(1, len(text)) for _ in range(count)}))

    def _look_on(self) -> Iterator[Step]:
        """Somebody else is at work, and must be served, whatever others send."""
        pick, jobs = self._mutate.pick, self._puts
        if self._chance.random() < 0.2:
            yield Ask(BYSTANDER, b"list-tube-used\r\n", apart=True, hasty=True)
        yield Ask(BYSTANDER, b"use bystander\r\n", apart=True)
        if jobs < 5 or self._chance.random() < 0.2:
            self._puts += 1
            yield Ask(BYSTANDER, b"put 5 0 1000 9\r\nuntouched\r\n", tag=self._puts)
        job = self._chance.randrange(max(jobs - 20, 0), jobs + 1)
        yield Ask(BYSTANDER, pick((b"peek %d\r\n", b"stats-job %d\r\n", b"delete %d\r\n")), job)

    # ------------------------------------------------------------ cases

    def _case(self, conn: int) -> tuple[Ask, bool]:
        """What the hostile client sends, and whether the server then expects a new line."""
        for _ in range(TRIES):
            template, job = self._template(conn)
            if b"%d" not in template:
                job = None
            elif job is None:
                template = template.replace(b"%d", b"1")
            else:
                head, _, tail = template.partition(b"%d")
                tail = tail.replace(b"%d", b"1").replace(b"%", b"%%")
                template = head.replace(b"%", b"%%") + b"%d" + tail
            if job is None:
                reader = self._read(template)
            else:
                # Ids have up to 20 digits, which must make no difference.
                reader, longest = self._read(template % 1), self._read(template % U64)
                if None in longest.lines or longest.shape != reader.shape:
                    continue
            if not reader.is_complete and self._chance.random() > ENDS:
                if reader.missing > _MISSING:
                    continue
                template += b"b" * (reader.missing - 2) + CRLF
                reader = self._read(template if job is None else template % 1)
            requests = reader.requests
            if reader.is_quirk or not all(map(self._is_decent, requests)) or _QUIT in requests[1:]:
                # With what follows quit, replies to what came before it may get lost.
                continue
            return Ask(HOSTILE, template, job, apart=_QUIT in requests), reader.is_complete
        return Ask(HOSTILE, b"list-tube-used\r\n"), True

    def _template(self, conn: int) -> tuple[bytes, int | None]:
        """Something that is to be sent, and the job whose id belongs where it has ``%d``."""
        kind = self._chance.random()
        if kind < 0.05:
            return self._mutate.noise(), None
        if kind < 0.4 and len(self._pool):
            return self._mutate(self._pool.pick(self._chance)), self._chance.randrange(20)
        text, job = b"", None
        for _ in range(self._mutate.pick((1, 1, 1, 1, 1, 2, 3))):
            ask = self._writer.ask(self._session.judge.model, HOSTILE, conn)
            text, job = text + ask.text, ask.job if job is None else job
        return (self._mutate(text) if kind < 0.9 else text), job

    def _read(self, data: bytes) -> Lines:
        reader = Lines(self._profile, self._max_job_size)
        reader.read(data)
        return reader

    def _is_decent(self, request: Request) -> bool:
        """Whether little is open after a request."""
        if _ends_soon(request):
            return False
        if not isinstance(request, Command) or request.verb not in RESERVES:
            return True
        return request.args == (0,) or self._chance.random() < 0.05


def _ends_soon(request: Request) -> bool:
    """Whether time will do something soon because of a request."""
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
