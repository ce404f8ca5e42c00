"""The codec of the protocol: bytes in, commands out; replies out, bytes in.

It does no I/O and keeps no jobs. All truth about framing lives here: how long a line may be, what
ends it, how a body is delimited, what is skipped after an error, and how arguments are read. Feed
bytes in any segmentation to a :class:`RequestReader` (the server's side) or a
:class:`ReplyReader` (the client's side) and take out the messages, one at a time. This is the way
of h11 and wsproto: a protocol without its transport.
"""

from __future__ import annotations

from reference_server.wire.lines import (
    OPTIONAL_ID,
    integer,
    parse_line,
)
from reference_server.wire.messages import (
    BAD_FORMAT,
    BARE,
    BURIED,
    CRLF,
    DEADLINE_SOON,
    DELETED,
    DRAINING,
    EXPECTED_CRLF,
    FOUND,
    INSERTED,
    INTERNAL_ERROR,
    JOB_TOO_BIG,
    KICKED,
    KICKED_COUNT,
    NOT_FOUND,
    NOT_IGNORED,
    OK,
    OUT_OF_MEMORY,
    PAUSED,
    RELEASED,
    RESERVED,
    TIMED_OUT,
    TOUCHED,
    UNKNOWN_COMMAND,
    USING,
    WATCHING,
    Body,
    Command,
    Malformed,
    Put,
    Reply,
    Request,
    escape,
)
from reference_server.wire.replies import (
    NotAReply,
    ProtocolError,
    ReplyReader,
)
from reference_server.wire.requests import (
    RequestReader,
)

__all__ = [
    "BAD_FORMAT",
    "BARE",
    "BURIED",
    "CRLF",
    "DEADLINE_SOON",
    "DELETED",
    "DRAINING",
    "EXPECTED_CRLF",
    "FOUND",
    "INSERTED",
    "INTERNAL_ERROR",
    "JOB_TOO_BIG",
    "KICKED",
    "KICKED_COUNT",
    "NOT_FOUND",
    "NOT_IGNORED",
    "OK",
    "OPTIONAL_ID",
    "OUT_OF_MEMORY",
    "PAUSED",
    "RELEASED",
    "RESERVED",
    "TIMED_OUT",
    "TOUCHED",
    "UNKNOWN_COMMAND",
    "USING",
    "WATCHING",
    "Body",
    "Command",
    "Malformed",
    "NotAReply",
    "ProtocolError",
    "Put",
    "Reply",
    "ReplyReader",
    "Request",
    "RequestReader",
    "escape",
    "integer",
    "parse_line",
]
