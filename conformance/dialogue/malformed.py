"""Lines that a target must refuse, sent so that it can, whenever it does so."""

from __future__ import annotations

import re

from conformance.dialogue.connection import Connection
from reference_server.wire import BAD_FORMAT, CRLF, UNKNOWN_COMMAND, Reply

_PUT = re.compile(rb"put(?: [^ ]+){3,} ([0-9]{1,2})")


def refuse(client: Connection, line: str, *allowed: Reply) -> None:
    """Expects that a line is malformed, or one of the replies ``allowed``.

    No text says that a put is refused before its body has come, nor whether what was to be the
    body is then read as a command.
    """
    data, replies = line.encode(), allowed or (BAD_FORMAT,)
    size = _PUT.fullmatch(data)
    if size is None:
        client.send(data).expect(*replies)
        return
    client.needs(data)
    client.raw(data + CRLF + b"a" * int(size[1]) + CRLF).expect(*replies)
    behind = client.raw(client.ping, replies=2)
    if behind.expect(client.pong, UNKNOWN_COMMAND, BAD_FORMAT) != client.pong:
        behind.nth(1).expect(client.pong)
