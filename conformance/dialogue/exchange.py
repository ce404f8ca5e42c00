"""One command and its reply, with the expected and the observed one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

from conformance import yamlish
from conformance.dialogue.schedule import Arrival
from conformance.usual_answers import (
    ID_UNIQUE,
    IN_STEP,
    answer_to_malformed,
    key_requirement,
    keys_requirement,
)
from conformance.verdict import Deviation, NotOffered, OutcomeKind, Step
from reference_server.commands import COMMANDS
from reference_server.profiles import Profile
from reference_server.wire import BAD_FORMAT, OK, Reply

T = TypeVar("T")
_WORDS = frozenset(word for grammar in COMMANDS.values() for word in grammar.replies)
"""The first words of all replies, apart from errors that each command may get."""
TIMELESS = frozenset(("BAD_FORMAT", "UNKNOWN_COMMAND", "EXPECTED_CRLF", "JOB_TOO_BIG", "DRAINING"))
"""Replies that say something about what was sent, whenever that was."""


OTHER_ERRORS = frozenset(("OUT_OF_MEMORY", "INTERNAL_ERROR", "UNKNOWN_COMMAND"))
"""Errors by which a server may refuse a malformed line, though it must not."""


class Statistics(dict[str, str]):
    """The dictionary of a stats command; what is missing in it is the target's fault.

    ``left_out``: keys that a fork does not offer. ``command``: whose requirements a missing or
    malformed value breaks; empty if it breaks the requirement under test.
    """

    left_out: frozenset[str] = frozenset()
    command = ""

    def __missing__(self, key: str) -> str:
        if key in self.left_out:
            raise NotOffered(f"the profile has no {key} in the statistics")
        observed = f"only {', '.join(self)}"[:300]
        deviation = self._deviation(key, f"the key {key!r} in the statistics", observed)
        if self.command:
            # All keys that are missing are one matter.
            deviation.suspects = (keys_requirement(self.command),)
        raise deviation

    def number(self, key: str) -> int:
        """Return the value of a key that must be an integer."""
        value = self[key]
        if not value.removeprefix("-").isdecimal():
            expected = f"an integer as {key!r} in the statistics"
            raise self._deviation(key, expected, repr(value[:100]))
        return int(value)

    def _deviation(self, key: str, expected: str, observed: str) -> Deviation:
        step = Step(OutcomeKind.WRONG_VALUE, self.command, subject=key)
        deviation = Deviation(expected, observed, conclusive=True, step=step)
        deviation.owner = key_requirement(self.command, key) if self.command else ""
        return deviation


def _without_priority(reply: Reply) -> Reply:
    """Return the reply as most tests expect it; some profiles tell a job's priority, too."""
    if reply.word in ("RESERVED", "FOUND"):
        return reply._replace(args=reply.args[:1])
    return reply


def _is_of_another_job(reply: Reply, expected: Reply) -> bool:
    """Return whether a reply has the id of the expected job, but another body."""
    came = _without_priority(reply)
    return (came.word, came.args) == (expected.word, expected.args) and came.body != expected.body


def _is_of_another_command(word: str, expected: Collection[str], verb: str) -> bool:
    """Return whether only other commands than that of ``verb`` have a reply with this word.

    Where an error is expected, which each command may get, that is so of all words.
    """
    own = {*COMMANDS[verb].replies} if verb in COMMANDS else set()
    return word in _WORDS and (word not in own or own.isdisjoint(expected))


class Replies(Protocol):
    """The replies on a connection, taken one after the other."""

    @property
    def nominal(self) -> float:
        """The scenario's nominal time, in seconds."""
        ...

    @property
    def profile(self) -> Profile:
        """The profile that the target is judged by."""
        ...

    has_tested: bool
    """A command under test was sent."""

    def is_out_of_step(self, kind: OutcomeKind) -> bool:
        """Tell whether what has come may be the rest of a reply to an earlier command."""
        ...

    def command(self, index: int) -> str:
        """Return the command that the reply with this number belongs to."""
        ...

    def take(self, index: int, sent_at: float, expected: str) -> Arrival:
        """Return the reply with this number; raise Deviation if it does not come in time."""
        ...

    def has_no_reply(self, sent_at: float) -> None:
        """Expect that a command sent at ``sent_at``, which waits, has no reply yet."""
        ...


class Role(NamedTuple):
    """The part that a command has in a test: under test, in its set-up, or an observation.

    ``owner``: the requirement of the command's usual answer; empty if the command is under test,
    so that whatever is wrong breaks the test's requirement. ``answers``: the replies of an
    observation that show something about the test's requirement; any other breaks the owner, as
    all do in the set-up, where there are none. ``waits``: that no reply comes shows something, too.
    """

    owner: str = ""
    answers: frozenset[str] = frozenset()
    waits: bool = False


UNDER_TEST = Role()


def observation(line: str, owner: str) -> Role:
    """Return the role of a command line by which a test observes what it tests."""
    grammar = COMMANDS[line.partition(" ")[0]]
    answers = frozenset(grammar.replies)
    if line == "reserve":
        # Only one that does not wait times out.
        return Role("reserve.waits-for-job", answers - {"TIMED_OUT"}, waits=True)
    return Role(owner, answers, grammar.waits and not line.endswith(" 0"))


class Exchange:
    """A command that was sent, and the reply that belongs to it."""

    def __init__(
        self, connection: Replies, index: int, sent_at: float, role: Role = UNDER_TEST
    ) -> None:
        self._connection = connection
        self._index = index
        self._sent_at = sent_at
        self._role = role
        self._arrival: Arrival | None = None

    def _take(self, expected: str, *words: str) -> Arrival:
        """Return the reply; one that has been taken can be judged again.

        ``words``: the first words of the replies that are expected.
        """
        if self._arrival is None:
            try:
                self._arrival = self._connection.take(self._index, self._sent_at, expected)
            except Deviation as deviation:
                self._blame_for_time(deviation, words)
                raise
        return self._arrival

    def nth(self, number: int, role: Role = UNDER_TEST) -> Exchange:
        """Return the exchange of the reply that comes ``number`` replies later."""
        return Exchange(self._connection, self._index + number, self._sent_at, role)

    def expect(self, *allowed: Reply) -> Reply:
        """Wait for the reply and expect it to be one of these; return it."""
        expected = " or ".join(map(str, allowed))
        arrival = self._take(expected, *(reply.word for reply in allowed))
        if arrival.reply not in allowed and _without_priority(arrival.reply) not in allowed:
            deviation = self._wrong(expected, {reply.word for reply in allowed}, arrival)
            if any(_is_of_another_job(arrival.reply, reply) for reply in allowed):
                deviation.suspects = (ID_UNIQUE,)
            raise deviation
        return arrival.reply

    def expect_now(self, *allowed: Reply) -> Reply:
        """Expect the reply to a command that was pending and is answered for another's sake."""
        self._sent_at = self._connection.nominal
        return self.expect(*allowed)

    def reply(self, *words: str) -> Reply:
        """Wait for a reply that begins with one of these words, whatever else it carries."""
        expected = " or ".join(f"{word} …" for word in words)
        arrival = self._take(expected, *words)
        if arrival.reply.word not in words:
            raise self._wrong(expected, {*words}, arrival)
        return arrival.reply

    def count(self, word: str) -> int:
        """Wait for a reply of this word and a number; return the number."""
        reply = self.reply(word)
        if not reply.args:
            assert self._arrival is not None
            raise self._wrong(f"{word} <count>", {word}, self._arrival)
        return int(reply.args[0])

    def any_reply(self) -> Reply:
        """Wait for the reply, whatever it is."""
        return self._take("a reply").reply

    def _blame(self, deviation: Deviation) -> None:
        """Blame the owner of this exchange, unless what came is the rest of something before.

        If a command under test was sent before, and the replies are out of step, that is the doing
        of the command under test.
        """
        connection, owner = self._connection, self._role.owner
        if owner and not (connection.has_tested and connection.is_out_of_step(deviation.step.kind)):
            deviation.owner = owner

    def _blame_for_time(self, deviation: Deviation, words: Collection[str] = ()) -> None:
        """Blame the owner for a reply that comes too early, too late, or not at all.

        Of an observation that waits, the time shows something about the test's requirement.
        ``words``: as in :meth:`_take`.
        """
        came = deviation.step.came
        if not self._role.waits or (came and came not in self._role.answers):
            self._blame(deviation)
        deviation.step = replace(deviation.step, words=tuple(sorted({*words})))
        if _is_of_another_command(came, words, self._connection.command(self._index)):
            # Its time is not that of the reply to this command.
            deviation.suspects = (IN_STEP,)

    def _wrong(self, expected: str, words: set[str], arrival: Arrival) -> Deviation:
        """Return the deviation of an unexpected reply; ``words`` are those of the expected."""
        reply = arrival.reply
        command = self._connection.command(self._index)
        is_foreign = _is_of_another_command(reply.word, words, command)
        timeless = is_foreign or reply.word in TIMELESS or (bool(words) and words <= TIMELESS)
        step = Step(OutcomeKind.WRONG_REPLY, command, tuple(sorted(words)), reply.word)
        deviation = Deviation(
            expected, str(reply), arrival.position, conclusive=timeless, step=step
        )
        if is_foreign:
            # It may be the reply to a command before, once more or too late.
            deviation.suspects = (IN_STEP,)
        elif words == {BAD_FORMAT.word} and reply.word in OTHER_ERRORS:
            # It is refused, but by another word.
            deviation.suspects = (answer_to_malformed(self._connection.profile, step.command),)
        if self._is_repeated(reply.word):
            deviation.owner = IN_STEP
        elif reply.word not in self._role.answers:
            self._blame(deviation)
        return deviation

    def _is_repeated(self, word: str) -> bool:
        """Tell whether this word answers the command before once more, and a reply follows it.

        After a command under test, that is the doing of this command.
        """
        connection = self._connection
        if self._index == 0 or (self._role.owner and connection.has_tested):
            return False
        before, mine = (
            COMMANDS[verb].replies if (verb := connection.command(index)) in COMMANDS else ()
            for index in (self._index - 1, self._index)
        )
        is_foreign = word in before and word not in mine
        return is_foreign and connection.is_out_of_step(OutcomeKind.WRONG_REPLY)

    def is_pending(self) -> None:
        """Expect that the command has not been answered yet."""
        try:
            self._connection.has_no_reply(self._sent_at)
        except Deviation as deviation:
            self._blame_for_time(deviation)
            raise

    def dictionary(self) -> Statistics:
        """Wait for ``OK`` with a YAML dictionary, and give it as strings."""
        return Statistics(self._parsed(yamlish.dictionary, "a YAML dictionary"))

    def parsed(self) -> object:
        """Wait for ``OK`` with YAML, and give what a client's YAML library makes of it."""
        return self._parsed(yamlish.strictly, "YAML")

    def is_yaml(self) -> None:
        """Expect ``OK`` with a body that a YAML parser accepts."""
        self._parsed(yamlish.check, "YAML")

    def names(self) -> list[str]:
        """Wait for ``OK`` with a YAML list of names, and give it."""
        return self._parsed(yamlish.names, "a YAML list of names")

    def _parsed(self, parse: Callable[[bytes], T], what: str) -> T:
        body = self.reply("OK").body or b""
        try:
            return parse(body)
        except ValueError as error:
            observed = f"{error}; the reply is {OK(body)}"
            step = Step(
                OutcomeKind.WRONG_VALUE, self._connection.command(self._index), subject=what
            )
            deviation = Deviation(f"OK with {what}", observed, conclusive=True, step=step)
            # It may be the reply to another command that is answered with OK.
            deviation.owner, deviation.suspects = self._role.owner, (IN_STEP,)
            raise deviation from error
