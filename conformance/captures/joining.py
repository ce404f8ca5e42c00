"""Joining: the point from which a conversation is understood that is not seen from its start.

A request may begin where a segment of the client does, and a reply where one of the server does.
The first replies may answer requests that nobody has seen: their number, the lag, is the smallest
with which each reply fits its request. It is certain after many replies of several kinds, or when
both sides have been silent more than once.
"""

from __future__ import annotations

from typing import NamedTuple

from conformance.traffic.conversation import command_of, may_end, waits, words_for
from conformance.traffic.requests import StreamReader, plain_lines
from reference_server.profiles import Profile
from reference_server.wire import CRLF, Body, ProtocolError, ReplyReader

MATCHES = 32
"""Replies that fit their requests, of at least ``KINDS`` kinds, until the lag is certain."""
KINDS = 3
SILENCE = 10**9 // 2
"""Nanoseconds within which servers answer."""
_SILENCES, _MATCHES_THEN = 2, 4
"""Silences, and replies that fit, which are enough, too."""
_MOST_MESSAGES = 2_000
_MOST_BYTES = 4 << 20


class _Request(NamedTuple):
    words: frozenset[str]
    begin: int
    waits: bool


class _SplitReplies(ReplyReader):
    @property
    def is_between(self) -> bool:
        """Return whether no reply has come in part."""
        return self._head is None and not self._buffer


class Joining:
    """Listens to a conversation until it is understood.

    ``unanswered``: then, the bytes of all requests that have no reply yet.
    """

    def __init__(self, profile: Profile) -> None:
        self.unanswered = b""
        self._profile = profile
        self._plain = plain_lines(profile)
        self._replies = _SplitReplies.of(profile)
        self._is_in_step = True
        self._last = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Wait for a segment that begins a request."""
        self._reader: StreamReader | None = None
        self._sent = bytearray()
        self._requests: list[_Request] = []
        self._words: list[str] = []
        self._lag = 0
        self._silences: set[int] = set()
        """The numbers of replies after which nothing was said for a while."""

    # ------------------------------------------------------------ what is said

    def sent(self, at: int, data: bytes) -> None:
        """Take a segment of the client."""
        self._last = at
        if self._reader is None:
            line, end, _ = data.partition(CRLF)
            if not (end and self._plain.fullmatch(line)):
                return
            self._reader = StreamReader(self._profile)
        self._sent += data
        begin = self._reader.understood
        for request, _, is_clear, remarks in self._reader.read(data, 0):
            if request is None or not is_clear or remarks or may_end(request):
                self._begin_anew()
                return
            if not isinstance(request, Body):
                command = command_of(request)
                is_waiting = command is not None and waits(command.verb)
                self._requests.append(_Request(words_for(request, True), begin, is_waiting))
            begin = self._reader.understood
        if len(self._requests) > _MOST_MESSAGES or len(self._sent) > _MOST_BYTES:
            self._begin_anew()

    def received(self, at: int, data: bytes) -> bool:
        """Take a segment of the server; return whether the conversation is understood now."""
        self._last = at
        if not self._is_in_step:
            self._replies, self._is_in_step = _SplitReplies.of(self._profile), True
        self._replies.receive(data)
        try:
            while (reply := self._replies.next_reply()) is not None:
                if self._reader is not None:
                    self._words.append(reply.word)
                    self._align()
        except ProtocolError:
            self._is_in_step = False
            self._begin_anew()
            return False
        if len(self._words) > _MOST_MESSAGES:
            self._begin_anew()
            return False
        matching = self._words[self._lag :]
        is_certain = len(matching) >= MATCHES and len({*matching}) >= KINDS
        return is_certain and self._ends()

    def is_silent(self, now: int) -> bool:
        """Return whether it is understood, as nothing has been said for long enough."""
        count = len(self._words) - self._lag
        if now - self._last < SILENCE or count <= 0:
            return False
        unanswered = self._requests[count:]
        if unanswered and not unanswered[0].waits:
            # This server is slow, or what belongs together was not found yet.
            self._silences.clear()
            return False
        self._silences.add(len(self._words))
        return len(self._silences) >= _SILENCES and count >= _MATCHES_THEN and self._ends()

    # ------------------------------------------------------------ what belongs together

    def _align(self) -> None:
        """Find the smallest lag with which all replies fit, after another one."""
        if self._fits(len(self._words) - 1):
            return
        while not all(map(self._fits, range(self._lag, len(self._words)))):
            self._lag += 1

    def _fits(self, place: int) -> bool:
        """Return whether a reply is one of its request, or of a request that was not seen."""
        number = place - self._lag
        if number < 0:
            return True
        return number < len(self._requests) and self._words[place] in self._requests[number].words

    def _ends(self) -> bool:
        """Keep what is unanswered; return False if a reply has only come in part."""
        if self._reader is None or not self._replies.is_between:
            return False
        answered = len(self._words) - self._lag
        begin = self._requests[answered].begin if answered < len(self._requests) else None
        if begin is None:
            begin = self._reader.understood
        self.unanswered = bytes(self._sent[begin:])
        return True
