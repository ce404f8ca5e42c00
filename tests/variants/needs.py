"""Servers that do something else than ours when they get no memory and no descriptors."""

from __future__ import annotations

import os
import socket

from reference_server import wire
from reference_server.listening import Listeners
from reference_server.model import Model
from reference_server.reserve import RESERVE
from reference_server.state import Client
from reference_server.wire import Reply, RequestReader
from tests.variants.variant import Variant

SMALL = 200
"""Bytes of a body for which there is always room."""


class _HangsUp(Listeners):
    """Hangs up at once on clients that cannot be accepted, by a descriptor kept for that."""

    spare: int | None = None

    def accepts(self, listener: socket.socket, events: int) -> None:
        if self.spare is None:
            self.spare = os.open(os.devnull, os.O_RDONLY)
        super().accepts(listener, events)

    def fails(self, listener: socket.socket) -> None:
        assert self.spare is not None
        os.close(self.spare)
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            pass
        finally:
            self.spare = os.open(os.devnull, os.O_RDONLY)
        self.loop.again(listener.fileno())


class _Confesses(Model):
    """Answers INTERNAL_ERROR to bodies that have no room."""

    def _refuse(self, conn: Client) -> Reply:
        super()._refuse(conn)
        return wire.INTERNAL_ERROR


class _TakesSmall(RequestReader):
    def _refuse(self) -> None:
        assert self._body is not None
        if self._body > SMALL:
            super()._refuse()


class _Buries(Model):
    """A small job that has no room in a queue is buried."""

    def _body(self, conn: Client, data: bytes | None) -> Reply:
        reply = super()._body(conn, data)
        if reply.word != "INSERTED" or RESERVE.has_room:
            return reply
        job = self.jobs[int(str(reply.args[0]))]
        self._dequeue(job)
        self._make_buried(job)
        return reply._replace(word="BURIED")


NEEDS = (
    Variant("a client that cannot be accepted is hung up on", listeners=_HangsUp),
    Variant("without memory a put is answered internal error", model=_Confesses),
    Variant("without memory small jobs are buried", model=_Buries, reader=_TakesSmall),
)
