"""Programs: the steps of some clients, one after another.

Steps refer to jobs by the tag of the put that made them, and to connections by a number; so any of
them can be left out, and the rest still means something. A :class:`Writer` makes programs up, from
any source of choices: ``random.Random(seed)``, or bytes (:class:`Choices`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple, TypeVar

from conformance.dialogue.scaled_lines import scaled
from conformance.oracle.underspecification import KINDS, is_free
from conformance.random_testing.steps import Ask
from reference_server.commands import ABOUT_A_JOB, U32, ArgumentKind
from reference_server.dialect import Changes
from reference_server.model import Model

T = TypeVar("T")


class Choices(Random):
    """Choices taken from bytes, so that any engine can drive a :class:`Writer`; then zeros."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._at = 0

    def getrandbits(self, count: int) -> int:
        size = (count + 7) // 8
        chunk = self._data[self._at : self._at + size].ljust(size, b"\0")
        self._at += size
        return int.from_bytes(chunk, "big") >> (8 * size - count)

    def random(self) -> float:
        return self.getrandbits(16) / 2**16


class Times(NamedTuple):
    """The times that commands carry, in seconds, each as often as it is to be chosen."""

    delays: Sequence[int]
    ttrs: Sequence[int]
    timeouts: Sequence[int]
    pauses: Sequence[int]
    waits: Sequence[float]


LONG = 1000
STILL = Times((0, 0, 0, 0, 0, LONG), (0, 1, 2, 1000, 2**32 - 1), (0, 0, 0, 1000), (0, 0, 1000), ())
"""For clocks that do not move: nothing ever falls due."""
MOVED = Times(
    (0, 0, 0, 0, 1, 2, 5, LONG, 3600, 2**31, 2**32 - 1),
    (0, 1, 2, 3, 5, *range(8, 120, 13), 1000, 2**32 - 1),
    (0, 0, 0, 1, 2, 3, 5, 1000, 2**32 - 1),
    (0, 1, 2, 1000, 2**31, 2**32 - 1),
    (0.3, 0.7, 1.0, 1.5, 3.0, 500.0, 1001.0),
)
"""For clocks that the program moves."""
REAL = Times(
    (*(0,) * 40, 1, 2, *(LONG,) * 8),
    (*(1000,) * 60, 0, 1, 2, 3, 2**32 - 1),
    (*(0,) * 30, 1, 2),
    (1, *(1000,) * 30),
    (0.0, 0.5, 1.0),
)
"""For real clocks: little falls due, and no wait is long."""
BRISK = Times(
    (*(0,) * 40, *(LONG,) * 8),
    (120, 1000, 2**32 - 1),
    (*(0,) * 30, 1000),
    (1000,),
    (),
)
"""Where speed matters: nothing falls due."""

TUBES = ("default", "a", "b", "c", "A", "A-+/;.$_()9", "n" * 200, "null", "x", "ax")
FLEETING_TUBES = tuple(f"t{n}" for n in range(20))
ODD_NAMES = (
    *("", "-a", "a b", " a", "a ", "n" * 201, "n" * 199, "a,b", "\x00", "a\x00", "t\t", "é", "-"),
    *("0", "a*b", "a\x7f", "a:b", "a@b", "a=b", "a'b", "a#b", "a%b"),
)
ODD_NUMBERS = (
    *("", "-1", "+1", "007", " 3", "3 ", "x", "3x", "0x1", "1.5", "\t3", "3\t", "4294967295"),
    *("4294967296", "8589934591", "18446744073709551615", "18446744073709551616", "9" * 40),
)
BEFORE = ("", "", "+", "-", "0", " ")
BEHIND = (" ", "x", ".0", "~", "\t", "\0")
PRIORITIES = (*range(11), 1023, 1024, 2**31, 2**32 - 1)
BARE = tuple(verb for verb, kinds in KINDS.items() if not kinds and verb != "quit")
BY_ID = ("delete", *(verb for verb in ABOUT_A_JOB if KINDS[verb] == "n"))
BY_NAME = tuple(verb for verb, kinds in KINDS.items() if kinds == "t")
SHAPES = {
    verb: kinds.replace("c", "n") for verb, kinds in KINDS.items() if verb not in ("put", "quit")
}
"""The kinds of a command's arguments: numbers or tubes."""
WORDS = tuple(SHAPES)
FORKS = 10
"""The weight of the commands that a fork has added."""
LETTERS = b" \n\0\t-aeprstu01\xff"
_LINES = {word: word.encode() + b"\r\n" for word in BARE}


class Writer:
    """Writes steps that make sense, or nearly, in the state of a model.

    ``tags`` gives the tag of a job of the model by its id.
    """

    def __init__(self, chance: Random, times: Times, tags: Callable[[int], int | None]) -> None:
        self._chance = chance
        self._random = chance.random
        self._times = times
        self._tags = tags
        self._written = self._client = 0
        self._kinds: list[Callable[[Model, int], Ask]] = []
        self._tubes_of_now: Sequence[str] = TUBES

    def ask(self, model: Model, client: int, conn: int) -> Ask:
        """Return the next request of a client; ``conn`` is its connection in the model."""
        if self._written % 400 == 0:
            # Where jobs are scarce, clients wait; where they are plenty, queues are deep.
            self._mix(scarce=self._chance.random() < 0.6, wide=self._chance.random() < 0.1)
            self._kinds += [self._of_fork] * (FORKS if model.profile.dialect.harmless else 0)
        self._written += 1
        self._client = client
        ask = self._pick(self._kinds)(model, conn)
        while is_free(ask.text, model.profile):
            ask = self._pick(self._kinds)(model, conn)
        text = scaled(ask.text, model.profile)
        return ask if text is ask.text else ask._replace(text=text)

    def _mix(self, scarce: bool, wide: bool) -> None:
        few = [self._pick(TUBES) for _ in range(self._pick((1, 2, 3, 10)))]
        self._tubes_of_now = FLEETING_TUBES if wide else few
        kinds = {
            self._put: 10 if scarce else 26,
            self._reserve: 20 if scarce else 12,
            self._by_id: 18,
            self._of_held: 12,
            self._kick: 5,
            self._by_name: 80 if wide else 10,
            self._bare: 8,
            self._pause: 3,
            self._odd: 12,
            self._wrong: 3,
            self._spoiled: 10,
            self._garbage: 3,
        }
        self._kinds = [kind for kind, weight in kinds.items() for _ in range(weight)]

    def _pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    # ------------------------------------------------------------ jobs

    def _any_job(self, model: Model) -> int | None:
        jobs = model.jobs
        if not jobs:
            return None
        chance = self._chance.random()
        if chance < 0.5:
            # The dictionary is in the order of putting: the last is at its end.
            return next(reversed(jobs))
        ids = reversed(jobs) if chance < 0.8 else iter(jobs)
        return self._pick(tuple(islice(ids, 20)))

    def _held(self, model: Model, conn: int) -> int | None:
        held = model.connections[conn].reserved
        if not held or self._chance.random() < 0.1:
            return self._any_job(model)
        return self._pick(tuple(held))

    def _about(self, text: bytes, job: int | None) -> Ask:
        """Return a command about a job of the model, or about one that is not there."""
        tag = None if job is None else self._tags(job)
        if tag is not None and self._chance.random() > 0.04:
            return Ask(self._client, text, tag)
        if self._written and self._chance.random() < 0.5:
            # One that was there once, perhaps.
            return Ask(self._client, text, self._chance.randrange(self._written))
        return Ask(self._client, text % self._pick((0, 2**64 - 1, 2**63)))

    # ------------------------------------------------------------ commands

    def _put(self, _: Model, __: int) -> Ask:
        chance = self._chance
        choice = self._pick
        size = choice((0, 1, 5, 5, 5, 20, 300, 1024))
        if chance.random() < 0.005:
            size = choice((65535, 65536, 70000))
        body = chance.randbytes(size) if chance.random() < 0.3 else b"x" * size
        end = b"\r\n" if chance.random() < 0.97 else choice((b"xx", b"\n\n", b"\r\r", b"\n\r"))
        numbers = (choice(PRIORITIES), self._delay(), choice(self._times.ttrs), size)
        return Ask(self._client, b"put %d %d %d %d\r\n" % numbers + body + end, tag=self._written)

    def _reserve(self, _: Model, __: int) -> Ask:
        if self._chance.random() < 0.2:
            return Ask(self._client, b"reserve\r\n")
        return Ask(self._client, b"reserve-with-timeout %d\r\n" % self._pick(self._times.timeouts))

    def _by_id(self, model: Model, conn: int) -> Ask:
        verb = self._pick(BY_ID)
        if verb == "stats-job":
            verb = model.profile.stats_of_job
        job = self._held(model, conn) if verb == "touch" else self._any_job(model)
        return self._about(verb.encode() + b" %d\r\n", job)

    def _of_held(self, model: Model, conn: int) -> Ask:
        job = self._held(model, conn)
        kind = self._chance.random()
        if kind < 0.3:
            return self._about(b"delete %d\r\n", job)
        pri = b"%d" % self._pick(PRIORITIES)
        if kind < 0.6:
            return self._about(b"bury %d " + pri + b"\r\n", job)
        delay = b"%d" % self._delay()
        return self._about(b"release %d " + pri + b" " + delay + b"\r\n", job)

    def _delay(self) -> int:
        """Return a delay; long ones differ, as it is open which of two that end together comes."""
        delay = self._pick(self._times.delays)
        if delay < LONG or (self._times.waits and self._chance.random() < 0.05):
            return delay
        return delay + self._chance.randrange(10**6) * (-1 if delay == U32 else 1)

    def _kick(self, model: Model, _: int) -> Ask:
        if self._chance.random() < 0.4:
            aside = [tube for tube in model.tubes if tube.buried or tube.delayed]
            if aside:
                tube = self._pick(aside)
                put_aside = (*islice(tube.buried, 20), *(id for _, id in tube.delayed[:20]))
                verb = self._pick((b"kick-job", b"kick-job", b"reserve-job"))
                return self._about(verb + b" %d\r\n", self._pick(put_aside))
        return Ask(self._client, b"kick %d\r\n" % self._pick((0, 1, 1, 2, 20, 2**32 - 1)))

    def _by_name(self, _: Model, __: int) -> Ask:
        tubes = self._tubes_of_now if self._chance.random() < 0.9 else TUBES
        verb = self._pick(BY_NAME)
        return Ask(self._client, f"{verb} {self._pick(tubes)}\r\n".encode())

    def _bare(self, model: Model, __: int) -> Ask:
        if model.profile.id_is_optional and self._chance.random() < 0.5:
            return Ask(self._client, b"peek\r\n")
        return Ask(self._client, _LINES[self._pick(BARE)])

    def _pause(self, _: Model, __: int) -> Ask:
        tube = self._pick(self._tubes_of_now)
        if tube == "default" and self._chance.random() < 0.8:
            # It outlives the program, and so does its pause, which costs time.
            tube = "a"
        return Ask(self._client, f"pause-tube {tube} {self._pick(self._times.pauses)}\r\n".encode())

    def _of_fork(self, model: Model, _: int) -> Ask:
        """Return a command that a fork has added, with arguments that change nothing."""
        added = self._pick(model.profile.dialect.harmless)
        arguments = added.line.split(b" ")[1:]
        assert added.grammar is not None
        if added.changes is Changes.NOTHING:
            arguments = [self._argument(kind) for kind in added.grammar.kinds]
        text = b" ".join((added.verb.encode(), *arguments)) + b"\r\n"
        if text.count(b"%d") == 1:
            return self._about(text, self._any_job(model))
        return Ask(self._client, text.replace(b"%d", b"0"))

    def _argument(self, kind: ArgumentKind) -> bytes:
        if kind is ArgumentKind.JOB:
            return b"%d"
        name = self._pick(self._tubes_of_now)
        return name.encode() if kind is ArgumentKind.TUBE else b"%d" % self._pick(PRIORITIES)

    def _odd(self, _: Model, __: int) -> Ask:
        """Return a command that is well-formed except for one argument, or one too many."""
        pick = self._pick
        word = pick(WORDS)
        kinds = SHAPES[word]
        arguments = [pick(("0", "1")) if kind == "n" else pick(("default", "a")) for kind in kinds]
        if word == "pause-tube":
            # Where nothing falls due, one of no time would.
            arguments[1] = str(pick(self._times.pauses))
        index = self._chance.randrange(len(kinds) + 1)
        if index == len(kinds):
            arguments.append(pick(("", "1", "a", "x")))
        elif self._chance.random() < 0.5:
            arguments[index] = pick(BEFORE) + arguments[index] + pick(BEHIND)
        else:
            arguments[index] = pick(ODD_NAMES if kinds[index] == "t" else ODD_NUMBERS)
        return self._line(word, arguments)

    def _wrong(self, _: Model, __: int) -> Ask:
        """Return a command with odd arguments, too many or too few of them, or an odd word."""
        chance, pick = self._chance, self._pick
        word = pick(WORDS)
        count = pick((0, 1, 1, 1, 2, 3, 4, 5))
        odd = (*ODD_NUMBERS, *ODD_NAMES, *TUBES, "0", "1000", "1000")
        arguments = [pick(odd) for _ in range(count)]
        if word == "kick":
            arguments[:1] = [pick(ODD_NUMBERS)]
        mutate = chance.random()
        if mutate < 0.1:
            word = word[: chance.randrange(len(word))]
        elif mutate < 0.2:
            word += pick(("x", "-", " ", "\t"))
        elif mutate < 0.25:
            word = word.upper()
        elif mutate < 0.35:
            word = pick(("get", "help", "stats-", "reserve-"))
        return self._line(word, arguments)

    def _line(self, word: str, arguments: Sequence[str]) -> Ask:
        line = " ".join([word, *arguments]).encode("latin-1") + b"\r\n"
        # What becomes of a line that is too long is another question.
        return Ask(self._client, line if len(line) <= 224 else line[:100] + b"\r\n")

    def _spoiled(self, model: Model, conn: int) -> Ask:
        """Return a command that would make sense, except for one argument."""
        makers = (self._put, self._by_id, self._of_held, self._by_name, self._pause)
        ask = self._pick(makers)(model, conn)
        line, _, rest = ask.text.partition(b"\r\n")
        words = line.split(b" ")
        # The size of a body stays as it is.
        last = len(words) - (words[0] == b"put")
        if last < 2:
            return ask
        index = 1 + int(self._chance.random() * (last - 1))
        odds = ODD_NUMBERS if self._chance.random() < 0.8 else ODD_NAMES
        odd = self._pick(odds).encode("latin-1").replace(b"%", b"")
        if words[0] == b"put":
            # With more arguments, or fewer, another would be taken for the size.
            words[index] = odd.replace(b" ", b"") or b"x"
        else:
            words[index : index + self._pick((0, 1, 1, 1, 1))] = self._pick(((odd,), (odd,), ()))
        line = b" ".join(words)
        # What becomes of a line that is too long is another question.
        if max(len(line), len(rest)) > 180:
            return ask
        if rest:
            # What is not taken for a body is taken for a line.
            rest = b"x" * (len(rest) - 2) + b"\r\n"
        job = ask.job if b"%d" in line else None
        return Ask(self._client, line + b"\r\n" + rest, job)

    def _garbage(self, _: Model, __: int) -> Ask:
        """Return noise without CR, which beanstalkd handles oddly in the middle of a line."""
        chance, pick = self._chance, self._pick
        if chance.random() < 0.5:
            line = pick((b"", pick(WORDS).encode() + b" ")).ljust(pick((100, 221, 222)), b"z")
        else:
            line = bytes(pick(LETTERS) for _ in range(chance.randrange(12)))
        return Ask(self._client, line + b"\r\n")
