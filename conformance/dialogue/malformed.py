"""Malformed lines, sent so that the target can refuse them at any point."""

from __future__ import annotations

import re
from collections.abc import Iterator

from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Exchange, Role
from conformance.dialogue.scaled_lines import scaled
from conformance.oracle.underspecification import names_nothing
from conformance.usual_answers import SURVIVES_ERRORS
from conformance.verdict import NotApplicable
from reference_server.commands import COMMANDS
from reference_server.profiles import Profile
from reference_server.wire import (
    BAD_FORMAT,
    CRLF,
    EXPECTED_CRLF,
    JOB_TOO_BIG,
    NOT_FOUND,
    UNKNOWN_COMMAND,
    Reply,
)

_PUT = re.compile(rb"put(?: [^ ]+){3,} ([0-9]{1,2})")
_WORD = re.compile("[a-z-]+")
_STATES = {
    **dict.fromkeys(("release", "bury", "touch"), "reserved"),
    **dict.fromkeys(("kick", "kick-job"), "buried"),
}
"""The states in which commands find a job; others find a ready one."""


def state_for(verb: str) -> str:
    """Return the state in which a command finds a job."""
    return _STATES.get(verb, "ready")


def completed(client: Connection, line: str) -> str:
    """Return a line with the client's tube, and a new job that the command would find.

    So one error alone is due: a command for a job that is not there may be answered NOT_FOUND,
    whatever else is wrong with it, and so may one for a tube without jobs where use creates none.
    """
    verb = _WORD.match(line)
    job = 0
    if "{job}" in line and verb is not None:
        client.needs(verb[0].encode())
        job = client.job_in(state_for(verb[0]))
    elif "{tube}" in line:
        client.put(b"a")
    return line.format(job=job, tube=client.tube)


def refuse(client: Connection, line: str, *allowed: Reply) -> None:
    """Expect that a line is malformed, or one of the replies ``allowed``.

    No text says that a put is refused before its body has come, nor whether what was to be the
    body is then read as a command; nor how large an id may be.
    """
    data = scaled(line.encode(), client.profile)
    replies = allowed or tuple(_refusals(data, client.profile))
    for added in client.profile.dialect.added:
        if line.startswith(added.verb):
            raise NotApplicable(f"profile {client.profile.name} has a command {added.verb}")
    if not data.startswith(b"put "):
        client.send(data).expect(*replies)
        return
    client.needs(data)
    size = _PUT.fullmatch(data)
    if size is not None:
        client.raw(data + CRLF + b"a" * int(size[1]) + CRLF).expect(*replies)
    else:
        refused = client.raw(data + CRLF)
        if not client.is_answered(soon=True):
            # It reads a line as the body first.
            client.raw(b"a" + CRLF, replies=0)
        refused.expect(*replies)
    pass_refused_put(client)


def _refusals(data: bytes, profile: Profile) -> Iterator[Reply]:
    yield BAD_FORMAT
    if names_nothing(data, profile):
        yield NOT_FOUND
    word, _, argument = data.partition(b" ")
    if not argument.strip() and COMMANDS[word.decode()].kinds:
        # The word alone may be unknown.
        yield UNKNOWN_COMMAND


def pass_refused_put(client: Connection) -> None:
    """Read on after a put that was refused: its body may be read as a command, or be skipped."""
    _next_answer(client, Role(SURVIVES_ERRORS)).expect(client.pong)


def put_without_end(client: Connection, end: bytes = b"bb") -> None:
    """Put a body without CR LF after it, as set-up, and synchronise again.

    A line end follows, for servers that skip to the next one.
    """
    role = Role("put.expected-crlf")
    client.raw(b"put 0 0 60 1\r\na" + end + CRLF, role=role).expect(EXPECTED_CRLF)
    skips = Role("put.expected-crlf-skips-body-and-two-bytes")
    _next_answer(client, skips).reply(client.pong.word)


def _next_answer(client: Connection, role: Role) -> Exchange:
    """Send the next command; skip one error, which is the answer to what was left over."""
    answer = client.raw(client.ping, role=role)
    is_error = answer.any_reply() in (UNKNOWN_COMMAND, BAD_FORMAT)
    return client.one_more(role) if is_error else answer


def refuse_body(client: Connection, body: bytes, profile: Profile) -> None:
    """Expect that a body is too big.

    Where commands may be read in it once it is refused, only a server that waits for it gets it.
    """
    refused = client.raw(b"put 0 0 60 %d\r\n" % len(body))
    if profile.skips_big_bodies or not client.is_answered():
        client.raw(body + CRLF, replies=0)
    refused.expect(JOB_TOO_BIG)
