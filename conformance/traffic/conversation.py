"""One connection: its requests, the replies that it must get, and what it alone decides.

The tube in use and the watch list concern nobody else. So the model, with this client alone,
gives the exact replies to such commands.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cache

from conformance.oracle.underspecification import Open
from conformance.traffic.jobs import Request as JobRequest
from conformance.traffic.requests import StreamReader
from reference_server.commands import COMMANDS, WAITING
from reference_server.events import Close, Connected
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.wire import Body, Command, Malformed, Put, Reply, ReplyReader, escape

OWN = frozenset(("use", "watch", "ignore", "list-tube-used", "list-tubes-watched"))
"""The commands whose replies depend on this client alone."""
RECENT = 12
"""Messages of a connection that an alarm shows."""
_SHORTAGE = ("OUT_OF_MEMORY", "INTERNAL_ERROR")
"""Words that any command may be answered with when the server lacks something."""
_DEFAULT = ("default",)


@dataclass(slots=True, eq=False)
class Asked:
    """A request that awaits its reply, sent by the ``number``-th event at ``at`` nanoseconds.

    ``about``: the request about a job that it names. ``expected``: the only reply, if it has one.
    ``tube``: the tube in use, None if unknown. ``watched``: likewise, of a command that waits; of
    list-tubes, those that must be listed.
    """

    number: int
    at: int
    verb: str
    args: tuple[int | str | None, ...] = ()
    put: Put | None = None
    body: Body | None = None
    words: frozenset[str] = frozenset()
    expected: Reply | None = None
    about: JobRequest | None = None
    tube: str | None = "default"
    watched: tuple[str, ...] | None = None
    is_waiting: bool = False
    awaits_body: bool = False
    floor: int = 0
    """Of a put: the highest id that was given before it was sent."""
    owed: tuple[str, int] = ("", 0)
    """The reply that is due, and when the server had last said something to the client then."""
    owed_from: int = 0
    """The time for which others had been served then; -1 if it was reported."""


@dataclass(slots=True, eq=False)
class Conversation:
    """A connection that is judged. ``is_known``: so are its tubes."""

    conn: int
    name: str
    reader: StreamReader
    replies: ReplyReader
    is_known: bool = True
    is_clear: bool = True
    """All its lines so far are read in one way by all servers."""
    asked: deque[Asked] = field(default_factory=deque)
    held: set[int] = field(default_factory=set)
    """The jobs that it may hold."""
    recent: deque[tuple[str, bytes]] = field(default_factory=lambda: deque(maxlen=RECENT))
    has_ended: bool = False
    """Its client sends nothing more."""
    has_quit: bool = False
    is_answered: bool = False
    """Its server sends nothing more."""
    is_blocked: bool = False
    """Its client does not read, so that nothing more of the server is taken."""
    opened: int = 0
    """The event that has begun it."""
    heard: int = 0
    """Nanoseconds of the time at which its server has said something, or it has begun."""
    model: Model | None = None

    @classmethod
    def of(cls, conn: int, name: str, profile: Profile) -> Conversation:
        """Return a connection that has just begun."""
        return cls(conn, name, StreamReader(profile), ReplyReader.of(profile))

    @property
    def tube(self) -> str | None:
        """Return the tube in use after all that was sent."""
        if not self.is_known:
            return None
        return "default" if self.model is None else self.model.connections[1].use.name

    @property
    def watched(self) -> tuple[str, ...] | None:
        """Return the watch list after all that was sent."""
        if not self.is_known:
            return None
        if self.model is None:
            return _DEFAULT
        return tuple(tube.name for tube in self.model.connections[1].watch)

    def own_reply(self, command: Command, profile: Profile) -> Reply | None:
        """Return the only reply to a command about its own tubes; None if it is not known."""
        if not self.is_known:
            return None
        if self.model is None:
            self.model = Model(profile)
            self.model.step(Connected(), 0, 1)
        ((_, reply),) = self.model.step(command, 0, 1)
        return reply if isinstance(reply, Reply) else None

    @property
    def context(self) -> tuple[str, ...]:
        """Return its last messages, as an alarm shows them."""
        return tuple(
            f"{direction} {data.decode() if direction == '!' else escape(data)}"
            for direction, data in self.recent
        )

    def known_tubes(self) -> tuple[str, ...]:
        """Return the tubes that it keeps alive."""
        used = () if self.tube is None else (self.tube,)
        return (*used, *(self.watched or ()))


@cache
def words_of(verb: str, is_clear: bool) -> frozenset[str]:
    """Return the words that a command may be answered with."""
    more = () if is_clear else ("BAD_FORMAT", "UNKNOWN_COMMAND", "NOT_FOUND")
    return (
        frozenset((*COMMANDS[verb].replies, *_SHORTAGE, *more))
        if verb in COMMANDS
        else (frozenset(("OK", *_SHORTAGE, *more)))
    )


def words_for(request: object, is_clear: bool) -> frozenset[str]:
    """Return the words that a request may be answered with."""
    if isinstance(request, Open):
        return frozenset().union(*(words_for(option, False) for option in request.options))
    if isinstance(request, Malformed):
        more = () if is_clear else ("BAD_FORMAT", "UNKNOWN_COMMAND", "NOT_FOUND")
        return frozenset((request.reply.word, *_SHORTAGE, *more))
    if isinstance(request, Command):
        return words_of(request.verb, is_clear)
    if isinstance(request, Put):
        return words_of("put", is_clear)
    return frozenset()


def command_of(request: object) -> Command | None:
    """Return the command that a request is, if it is one whatever else it may be taken for."""
    if isinstance(request, Open):
        request = request.options[0]
    return request if isinstance(request, Command) else None


def may_end(request: object) -> bool:
    """Return whether the server may end the connection for a request."""
    options = request.options if isinstance(request, Open) else (request,)
    return any(isinstance(one, Close) or one == Command("quit") for one in options)


def waits(verb: str) -> bool:
    """Return whether the reply to a command may come much later."""
    return verb in WAITING
