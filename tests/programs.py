"""Random conversations for the differential driver: valid, slightly wrong, and garbage."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from reference_server.model import Model

TUBES = ("default", "a", "b", "c", "A-+/;.$_()9", "n" * 200)
FLEETING_TUBES = tuple(f"t{n}" for n in range(20))
ODD_NAMES = ("", "-a", "a b", " a", "a ", "n" * 201, "a,b", "\x00", "a\x00", "t\t", "é", "-")
ODD_NUMBERS = (
    *("", "-1", "+1", "007", " 3", "3 ", "x", "3x", "0x1", "1.5", "\t3", "3\t", "4294967295"),
    *("4294967296", "9999999999", "18446744073709551615", "18446744073709551616", "9" * 40),
)
# Times are out of reach of a clock that stands still, but for a TTR in its last second.
DELAYS = (0, 0, 0, 0, 0, 1000, 2000, 4294967295)
TTRS = (0, 1, 2, 1000, 4294967295)
PRIORITIES = (0, 1, 2, 5, 1023, 1024, 4294967295)
BARE = (
    *("reserve", "peek-ready", "peek-delayed", "peek-buried", "stats", "list-tubes"),
    *("list-tube-used", "list-tubes-watched"),
)
BY_ID = ("delete", "delete", "touch", "kick-job", "peek", "reserve-job", "stats-job")
BY_NAME = ("use", "watch", "ignore", "stats-tube")
WORDS = (*BARE, *BY_ID, *BY_NAME, "put", "release", "bury", "kick", "pause-tube")
SYNTAX_LETTERS = b" \n\0\t-aeprstu01\xff"


class Writer:
    """Writes commands that make sense, or nearly, in the state of ``model``."""

    def __init__(self, random: Random, model: Model) -> None:
        self._random = random
        self.model = model
        self._written = 0
        self._kinds: dict[Callable[[], bytes], int] = {
            self._put: 26,
            self._reserve: 12,
            self._by_id: 22,
            self._release_or_bury: 6,
            self._kick: 5,
            self._by_name: 9,
            self._bare: 8,
            self._pause: 3,
            self._wrong: 6,
            self._garbage: 4,
        }

    def command(self) -> bytes:
        """One command with its line end, and its body if it has one."""
        self._written += 1
        if self._written % 400 == 1:
            # Where jobs are scarce, clients wait; where they are plenty, queues are deep.
            scarce = self._random.random() < 0.6
            self._kinds[self._put] = 7 if scarce else 26
            self._kinds[self._reserve] = 20 if scarce else 12
        kinds, weights = list(self._kinds), list(self._kinds.values())
        return self._random.choices(kinds, weights)[0]()

    def _job(self) -> int:
        jobs = self.model.jobs
        if not jobs or self._random.random() < 0.05:
            return self._random.choice((0, 2**64 - 1, 2**63))
        return self._random.choice(tuple(jobs)[-40:] if len(jobs) < 400 else tuple(jobs)[:40])

    def _held(self) -> int:
        held = [id for c in self.model.connections.values() for id in c.reserved]
        return self._random.choice(held) if held else self._job()

    def _put(self) -> bytes:
        choice = self._random.choice
        size = choice((0, 1, 5, 5, 5, 20, 300))
        if self._random.random() < 0.01:
            size = choice((65535, 65536, 70000))
        body = self._random.randbytes(size)
        end = b"\r\n" if self._random.random() < 0.95 else choice((b"xx", b"\n\n", b"\r\r"))
        numbers = (choice(PRIORITIES), choice(DELAYS), choice(TTRS), size)
        return b"put %d %d %d %d\r\n" % numbers + body + end

    def _reserve(self) -> bytes:
        if self._random.random() < 0.3:
            return b"reserve\r\n"
        return b"reserve-with-timeout %d\r\n" % self._random.choice((0, 0, 0, 1000))

    def _by_id(self) -> bytes:
        verb = self._random.choice(BY_ID)
        job = self._held() if verb in ("delete", "touch") else self._job()
        return b"%b %d\r\n" % (verb.encode(), job)

    def _release_or_bury(self) -> bytes:
        pri = self._random.choice(PRIORITIES)
        if self._random.random() < 0.5:
            return b"bury %d %d\r\n" % (self._held(), pri)
        return b"release %d %d %d\r\n" % (self._held(), pri, self._random.choice(DELAYS))

    def _kick(self) -> bytes:
        return b"kick %d\r\n" % self._random.choice((0, 1, 2, 10, 4294967295))

    def _by_name(self) -> bytes:
        tubes = TUBES if self._random.random() < 0.7 else FLEETING_TUBES
        return f"{self._random.choice(BY_NAME)} {self._random.choice(tubes)}\r\n".encode()

    def _bare(self) -> bytes:
        return self._random.choice(BARE).encode() + b"\r\n"

    def _pause(self) -> bytes:
        tube = self._random.choice(TUBES[:4])
        return f"pause-tube {tube} {self._random.choice((0, 0, 1000))}\r\n".encode()

    def _wrong(self) -> bytes:
        """A command with odd arguments, too many or too few of them, or an odd word."""
        random = self._random
        word = random.choice((*WORDS, "reserve-with-timeout"))
        count = random.choice((0, 1, 1, 1, 2, 3, 4, 5))
        odd = (*ODD_NUMBERS, *ODD_NAMES, *TUBES, "0", "1000", "1000")
        arguments = [random.choice(odd) for _ in range(count)]
        if word == "put" and len(arguments) > 3:
            arguments[3] = "0"
        if word == "kick":
            arguments[:1] = [random.choice(ODD_NUMBERS)]
        mutate = random.random()
        if mutate < 0.1:
            word = word[: random.randrange(len(word))]
        elif mutate < 0.2:
            word += random.choice(("x", "-", " ", "\t"))
        elif mutate < 0.25:
            word = word.upper()
        line = " ".join([word, *arguments]).encode("latin-1") + b"\r\n"
        # See "line-of-one-byte-too-many" in quirks.yaml.
        return b"x" + line if len(line) % 224 == 1 else line

    def _garbage(self) -> bytes:
        """Noise without CR, whose handling in the middle of a line is a quirk of beanstalkd."""
        random = self._random
        if random.random() < 0.5:
            length = random.choice((221, 222, 224, 225, 300, 445, 446, 448, 900))
            line = (random.choice(WORDS) + " ").encode().ljust(length, b"z")
        else:
            length = random.randrange(12)
            line = bytes(random.choice(SYNTAX_LETTERS) for _ in range(length))
        return line + b"\r\n"


def pieces(random: Random, data: bytes) -> list[bytes]:
    """The same bytes in one segment or in several."""
    if random.random() < 0.6 or len(data) < 2:
        return [data]
    cuts = sorted(random.randrange(1, len(data)) for _ in range(random.randrange(1, 4)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
