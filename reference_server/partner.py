"""The model beside a target: its clients send what the target's clients send.

Whoever tests a server by comparison needs this: the same bytes go to both, and the replies of the
model say what the target should answer. What differs from one use to the next (which ids the target
gives, which numbers no model can know) is decided where replies are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from reference_server.engine import Engine, RecordingLink
from reference_server.model import Model
from reference_server.state import Client
from reference_server.wire import Reply, ReplyReader, RequestReader

Name = TypeVar("Name", bound=Hashable)


class _Client:
    """A client of the model: the number that it has there, its bytes, and a reader of replies."""

    def __init__(self, engine: Engine) -> None:
        self.link = RecordingLink()
        self.reader = ReplyReader.of(engine.model.profile)
        self.number = engine.connect(self.link)


class Partner(Generic[Name]):
    """A model whose clients have names.

    ``clock`` gives the time of each event in nanoseconds; ``reader`` understands requests.
    """

    def __init__(
        self,
        model: Model,
        clock: Callable[[], int],
        reader: type[RequestReader] = RequestReader,
    ) -> None:
        self.model = model
        self._engine = Engine(model, clock, reader)
        self._clients: dict[Name, _Client] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def connected(self) -> dict[Name, Client]:
        """Return the clients as the model has them, unless it has hung up on them."""
        connections = self.model.connections
        return {
            name: connections[client.number]
            for name, client in self._clients.items()
            if not client.link.is_closed
        }

    def connect(self, name: Name) -> None:
        """Let a client connect; an earlier one of this name leaves."""
        self.close(name)
        self._clients[name] = _Client(self._engine)

    def send(self, name: Name, data: bytes) -> int:
        """Let a client send bytes; return how many are held back while it waits for a reply."""
        return self._engine.receive(self._clients[name].number, data)

    def half_close(self, name: Name) -> None:
        """Let a client send nothing more."""
        self._engine.eof(self._clients[name].number)

    def close(self, name: Name) -> None:
        """Let a client leave, if it is connected."""
        if (client := self._clients.pop(name, None)) is not None:
            self._engine.lost(client.number)

    def is_closed(self, name: Name) -> bool:
        """Tell whether the model has ended a connection."""
        return self._clients[name].link.is_closed

    def tick(self) -> None:
        """Let timers fire that are due by now."""
        self._engine.tick()

    def drain(self) -> None:
        """Let the server accept no more jobs."""
        self._engine.drain()

    def names(self) -> list[Name]:
        """Return the clients that have not left, even if the model has hung up on them."""
        return list(self._clients)

    def unread(self) -> int:
        """Return how many bytes of replies clients have not read."""
        return sum(len(client.link.sent) for client in self._clients.values())

    def received(self, name: Name) -> bytes:
        """Return the bytes of replies that a client has not read yet."""
        return self._clients[name].link.sent

    def read(self, name: Name) -> bytes:
        """Return these bytes, once."""
        link = self._clients[name].link
        data, link.sent = link.sent, b""
        return data

    def replies(self, name: Name) -> Iterator[Reply]:
        """Yield the replies that a client has not read yet, once."""
        reader = self._clients[name].reader
        reader.receive(self.read(name))
        while (reply := reader.next_reply()) is not None:
            yield reply
