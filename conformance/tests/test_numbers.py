"""Section "Protocol", continued: each number of each command, in each spelling.

One table is made of the grammar. What a number does is predicted by the model, and looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

from conformance.catalogue import catalogue, requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.malformed import pass_refused_put, refuse, state_for
from conformance.dialogue.partnered_client import KEYS, PartneredClient
from conformance.dialogue.scenario import Connect
from conformance.dialogue.schedule import Timeline
from conformance.oracle.underspecification import is_free, is_unlimited
from conformance.verdict import Deviation, NotApplicable
from reference_server.commands import COMMANDS, U32, U64, ArgumentKind
from reference_server.profiles import Profile
from reference_server.wire import BAD_FORMAT, TIMED_OUT, Reply


def _usual(verb: str) -> Sequence[str]:
    """Return numbers with which a command succeeds."""
    if verb == "put":
        return ("5", "0", "1000", "1")
    return ("", "2000000000", "0")[: len(COMMANDS[verb].kinds)]


class NumberPlace(NamedTuple):
    """The place of a number in a command, which is its argument ``position``."""

    verb: str
    position: int
    kind: ArgumentKind

    def __str__(self) -> str:
        return f"{self.verb} {self.kind.name.lower()}{self.position}"

    def text(self, number: str, job: str, tube: str) -> str:
        """Return the command with this number; other numbers are such that it succeeds."""
        arguments = [
            {ArgumentKind.JOB: job, ArgumentKind.TUBE: tube}.get(kind, usual)
            for kind, usual in zip(COMMANDS[self.verb].kinds, _usual(self.verb), strict=True)
        ]
        arguments[self.position] = number
        return " ".join([self.verb, *arguments])


PLACES = [
    NumberPlace(verb, position, kind)
    for verb, grammar in COMMANDS.items()
    for position, kind in enumerate(grammar.kinds)
    if kind is not ArgumentKind.TUBE
]
"""The numbers of all commands."""
ZEROS = "0" * 20
DIGITS = "9" * 30
VALUES = (0, 1, 7, 1023, 1024, 2**31 - 1, 2**31, U32 - 1, U32)
BEYOND = (2**32, 2**32 + 1, 2**63, U64 - 1, U64, U64 + 1, U64 + 2, int(DIGITS))
Spellings = Callable[[NumberPlace], tuple[str, ...]]
FIRST = 10**6
"""A priority; others that matter are further down, or up."""
BURIED = 12
"""Jobs that kick finds: more than 010 means in octal digits."""
SMALL = ("0", "1", "7", "100")
"""Sizes of bodies, bounds of kick and timeouts: what they do costs time."""
LIMITS = {
    ("put", 0): "put.priority-limit",
    ("put", 1): "put.delay-limit",
    ("put", 2): "put.ttr-limit",
    ("put", 3): "put.body-size-excludes-crlf",
    ("release", 1): "release.priority-limit",
    ("release", 2): "release.delay-limit",
    ("bury", 1): "bury.priority-limit",
    ("kick", 0): "kick.bound",
    ("reserve-with-timeout", 0): "reserve.timeout-zero",
    ("pause-tube", 1): "pause-tube.delay-limit",
}
"""The requirements that say what a number may be."""
EFFECTS = {**LIMITS, ("delete", 0): "delete.entirely"}
"""The requirements that are broken where a number is understood, and has no effect."""

SHOWN = {
    ("put", 0): "pri",
    ("put", 1): "delay",
    ("put", 2): "ttr",
    ("release", 1): "pri",
    ("release", 2): "delay",
    ("bury", 1): "pri",
    ("pause-tube", 1): "pause",
}
"""The keys of statistics that show a number."""
OTHERS = frozenset(KEYS) - {*SHOWN.values()}


def _is_ttr(place: NumberPlace) -> bool:
    """Return whether 0 becomes another number, as another requirement says."""
    return place[:2] == ("put", 2)


def _ids(place: NumberPlace) -> tuple[str, ...]:
    """Return the id of a job, and others of no job."""
    return ("{0}", "{1}", "{2}", str(U64)) if place.kind is ArgumentKind.JOB else ()


def _values(place: NumberPlace) -> tuple[str, ...]:
    """Return numbers that are well-formed, apart from ids."""
    match place.kind:
        case ArgumentKind.JOB:
            return ()
        case ArgumentKind.SIZE | ArgumentKind.COUNT | ArgumentKind.TIMEOUT:
            return SMALL
    return tuple(str(value) for value in VALUES if value or not _is_ttr(place))


def _with_zeros(place: NumberPlace) -> tuple[str, ...]:
    match place.kind:
        case ArgumentKind.JOB:
            return ("0{0}", "00{0}", f"{ZEROS}{{0}}")
        case ArgumentKind.SIZE | ArgumentKind.COUNT | ArgumentKind.TIMEOUT:
            return ("00", "007", "010", f"{ZEROS}7")
    # They grow, as a second pause need not shorten the first.
    return (*("00",) * (not _is_ttr(place)), "007", f"{ZEROS}7", "010", f"{ZEROS}{U32}")


def _beyond(place: NumberPlace) -> tuple[str, ...]:
    """Return numbers that are too large."""
    match place.kind:
        case ArgumentKind.JOB:
            return ("{3}", *(str(number) for number in BEYOND if number > U64))
        case ArgumentKind.PRIORITY | ArgumentKind.SECONDS:
            return tuple(map(str, BEYOND))
    return ()


def _no_decimals(place: NumberPlace) -> tuple[str, ...]:
    """Return numbers of other notations; read as such, they name no job of others."""
    if place.kind is ArgumentKind.JOB:
        return ("0x0", "0x{0:x}", "0{0}e0", "0{0}.0", "0_{0}", "0,{0}", "{0}x", "{4}", "{5}")
    return ("0x10", "1e3", "1.0", "1_000", "1,0", "7x", "\u0667", "\uff17")


def _negative(place: NumberPlace) -> tuple[str, ...]:
    return ("-{0}",) if place.kind is ArgumentKind.JOB else ("-1",)


def _with_plus(place: NumberPlace) -> tuple[str, ...]:
    return ("+{0}", "+00{0}") if place.kind is ArgumentKind.JOB else ("+0", "+1")


def _behind_a_blank(place: NumberPlace) -> tuple[str, ...]:
    return (" {0}" if place.kind is ArgumentKind.JOB else " 7",)


def _before_a_blank(place: NumberPlace) -> tuple[str, ...]:
    is_last = place.position == len(COMMANDS[place.verb].kinds) - 1
    if place.verb == "put" or not is_last:
        return ()
    return ("{0} " if place.kind is ArgumentKind.JOB else "7 ",)


def _strictly(spellings: Spellings) -> Spellings:
    """Return spellings of numbers that are not read as C reads them."""
    return lambda place: spellings(place) if place.kind.is_number else ()


def _limit(place: NumberPlace) -> str:
    return LIMITS[place[:2]]


def _refusal(place: NumberPlace) -> str:
    """Return the requirement that too large a number breaks."""
    by_itself = place.verb in ("put", "pause-tube")
    return _limit(place) if by_itself else f"{place.verb}.bad-format"


def _always(slug: str) -> Callable[[NumberPlace], str]:
    return lambda _: slug


def _rows(
    *classes: tuple[str, Spellings, Callable[[NumberPlace], str]],
) -> list[ParameterSet]:
    """Return each place with the spellings of each class, under the requirement that says it."""
    return [
        pytest.param(
            place,
            spellings(place),
            marks=requirement(slug_of(place), catalogue()[slug_of(place)].clause),
            id=f"{name}: {place}",
        )
        for name, spellings, slug_of in classes
        for place in PLACES
        if spellings(place)
    ]


def _lines(
    client: Connection, profile: Profile, place: NumberPlace, spellings: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the spellings that the profile says something of, and the commands with them."""
    client.needs(place.verb.encode())
    all_lines = [(text, place.text(text, "{0}", client.tube)) for text in spellings]
    lines = [
        (text, line)
        for text, line in all_lines
        if not is_free(line.format(*[U64] * 6).encode(), profile)
        and not (
            place.kind is ArgumentKind.SECONDS
            and is_unlimited(line.format(*[0] * 6).encode(), profile)
        )
    ]
    if not lines:
        raise NotApplicable(f"profile {profile.name} leaves open how {place.verb} reads them")
    return lines


# ------------------------------------------------------------ numbers


class _Numbers:
    """Numbers sent to the target and its partner; ``about`` asks for a job's statistics."""

    def __init__(self, client: Connection, profile: Profile) -> None:
        self.client = PartneredClient(client, profile)
        self.about = f"{profile.stats_of_job} {{0}}"
        self._tube = client.tube
        self._reserves = client.ask_for_job
        self._pri = FIRST

    def job_in(self, state: str) -> int:
        """Make a job in this state, and return its id."""
        # More urgent than all that may be left.
        self._pri -= 1
        job = int(self.client.prepare(f"put {self._pri} 0 1000 1\r\na").args[0])
        if state != "ready":
            self.client.prepare(self._reserves)
        if state == "buried":
            self.client.prepare(f"bury {{0}} {self._pri}", job)
        return job

    def order(self, number: int, job: int) -> None:
        """Look whether a ready job comes between those of the next priorities."""
        near = [
            int(self.client.prepare(f"put {other} 0 1000 1\r\na").args[0])
            for other in (number + 1, number - 1)
            if 0 <= other <= U32
        ]
        for _ in (job, *near):
            self.client.observe(self._reserves)
        self._delete(*near)

    def says(self, place: NumberPlace, text: str, line: str) -> None:
        """Say a number, and look up what it has done."""
        self._say(place, text, line, self.client.says)

    def names(self, place: NumberPlace, text: str, line: str) -> None:
        """Do as :meth:`says` for an id: only which job it names is under test."""
        self._say(place, text, line, self.client.observe)

    def accepts(self, place: NumberPlace, text: str, line: str) -> bool:
        """Do as :meth:`says`, unless it is refused with BAD_FORMAT; then return False."""
        return self._say(place, text, line, self.client.accepts)

    def _say(
        self, place: NumberPlace, text: str, line: str, say: Callable[..., Reply | bool]
    ) -> bool:
        jobs: list[int] = []
        if place.kind is ArgumentKind.COUNT:
            jobs = [self.job_in("buried") for _ in range(BURIED)]
        elif place.verb != "put":
            # The tube that pause-tube names is there, as it has a job.
            jobs = [self.job_in(state_for(place.verb))]
        if place.verb == "put":
            line += f"\r\n{'a' * (int(text) if place.kind is ArgumentKind.SIZE else 1)}"
        named = [jobs[0], jobs[0] + 2**31, jobs[0] + 2**32] if jobs else []
        try:
            if not say(line, *named):
                self._delete(*jobs)
                return False
            jobs += [self.client.newest] if place.verb == "put" else []
            self._look(place, int(text) if text.isdecimal() else 0, jobs)
        except Deviation as deviation:
            effect, step = EFFECTS.get(place[:2]), deviation.step
            # Another reply to the command itself may be that to a number that is not understood.
            if effect and (step.command != place.verb or step.came in step.words):
                deviation.suspects += (effect,)
            raise
        self._delete(*jobs)
        return True

    def _look(self, place: NumberPlace, number: int, jobs: Sequence[int]) -> None:
        """Look up what a number has done."""
        tested = {*OTHERS, SHOWN.get(place[:2], "")}
        if place.verb == "pause-tube" and number:
            # How a pause of 0 seconds is reported is unspecified.
            self.client.observe(f"stats-tube {self._tube}", tested=tested)
        for job in jobs:
            self.client.observe(self.about, job, tested=tested)
        if place.verb == "put":
            self.client.observe("peek {0}", *jobs)
        if place.kind is ArgumentKind.PRIORITY:
            if place.verb != "put":
                self.client.prepare("kick 1")
            self.order(number, *jobs)

    def _delete(self, *jobs: int) -> None:
        for job in jobs:
            self.client.prepare("delete {0}", job)


@pytest.mark.parametrize(
    ("place", "spellings"), _rows(("id", _ids, _always("protocol.integers-are-decimal")))
)
def test_an_id_names_one_job(
    client: Connection, profile: Profile, place: NumberPlace, spellings: tuple[str, ...]
) -> None:
    numbers = _Numbers(client, profile)
    for text, line in _lines(client, profile, place, spellings):
        numbers.names(place, text, line)


@pytest.mark.parametrize(
    ("place", "spellings"),
    _rows(
        ("plain", _values, _limit),
        ("blank", _strictly(_behind_a_blank), _always("protocol.several-blanks")),
    ),
)
def test_a_number_and_what_it_does(
    client: Connection, profile: Profile, place: NumberPlace, spellings: tuple[str, ...]
) -> None:
    if place.kind is ArgumentKind.SECONDS:
        client.minds_time()
    numbers = _Numbers(client, profile)
    for text, line in _lines(client, profile, place, spellings):
        numbers.says(place, text, line)


def _with_each(
    client: Connection, new_client: Connect, place: NumberPlace, spellings: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it was taken, for what it is, or refused with BAD_FORMAT."""
    if place.kind is ArgumentKind.SECONDS:
        client.minds_time()
    numbers = _Numbers(client, client.profile)
    for text, line in _lines(client, client.profile, place, spellings):
        if place.verb == "put":
            client = new_client()
            numbers = _Numbers(client, client.profile)
        is_taken = numbers.accepts(place, text, line)
        if not is_taken and place.verb == "put":
            pass_refused_put(client)
        yield line, is_taken


@pytest.mark.parametrize(
    ("place", "spellings"),
    _rows(("decimal value", _with_zeros, _always("protocol.integers-are-decimal"))),
)
def test_a_number_with_leading_zeros_that_is_taken_has_its_decimal_value(
    client: Connection, new_client: Connect, place: NumberPlace, spellings: tuple[str, ...]
) -> None:
    for _ in _with_each(client, new_client, place, spellings):
        pass


@pytest.mark.parametrize(
    ("place", "spellings"),
    _rows(("zeros", _with_zeros, _always("protocol.leading-zeros"))),
)
def test_a_number_may_have_leading_zeros(
    client: Connection, new_client: Connect, place: NumberPlace, spellings: tuple[str, ...]
) -> None:
    try:
        refused = [
            line
            for line, is_taken in _with_each(client, new_client, place, spellings)
            if not is_taken
        ]
    except Deviation as deviation:
        # Which number it is taken for is not asked here.
        deviation.owner = deviation.owner or "protocol.integers-are-decimal"
        raise
    if refused:
        raise Deviation(f"{refused[0]!r} to be taken", str(BAD_FORMAT), conclusive=True)


@requirement("protocol.integers-are-decimal", catalogue()["protocol.integers-are-decimal"].clause)
def test_a_timeout_with_a_leading_zero_has_its_decimal_value(
    client: Connection, clock: Timeline
) -> None:
    clock.can_wait(11)
    waiting = client.send("reserve-with-timeout 010")
    clock.advance(9)
    if client.is_owed:
        clock.advance(1)
        waiting.expect(TIMED_OUT)
    else:
        # It may be refused, but not end as if it were eight.
        waiting.expect_now(BAD_FORMAT)


# ------------------------------------------------------------ what is no number


def _in_other_digits(number: int, zero: str) -> str:
    return "".join(chr(ord(zero) + int(digit)) for digit in str(number))


@pytest.mark.parametrize(
    ("place", "spellings"),
    _rows(
        ("beyond", _strictly(_beyond), _refusal),
        ("no decimal", _strictly(_no_decimals), _always("protocol.integers-are-decimal")),
        ("negative", _strictly(_negative), _always("protocol.integers-are-nonnegative")),
        ("plus", _strictly(_with_plus), _always("protocol.plus-sign")),
        ("blank behind", _strictly(_before_a_blank), _always("protocol.blank-at-the-end")),
    ),
)
def test_what_is_no_number_does_nothing(
    client: Connection,
    new_client: Connect,
    profile: Profile,
    place: NumberPlace,
    spellings: tuple[str, ...],
) -> None:
    job = client.job_in(state_for(place.verb))
    before = client.stats_job(job)
    texts = (_in_other_digits(job, zero) for zero in ("\u0660", "\uff10"))
    jobs = (job, job + 2**31, job + 2**32, job + 2**64, *texts)
    for _, line in _lines(client, profile, place, spellings):
        # How many replies a put gets that is refused, is open.
        refuse(new_client() if place.verb == "put" else client, line.format(*jobs))
    after = client.stats_job(job)
    for key in ("state", "pri", "delay", "ttr"):
        assert before.get(key) == after.get(key)
