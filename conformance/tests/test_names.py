"""Section "Protocol", continued: the names of tubes."""

from collections.abc import Iterator

import pytest

from conformance.catalogue import requirement
from conformance.dialogue.connection import Connection
from conformance.dialogue.partnered_client import PartneredClient
from conformance.dialogue.scenario import Connect
from reference_server.profiles import Profile
from reference_server.wire import BAD_FORMAT, NOT_FOUND, USING, Reply


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
@pytest.mark.parametrize("name", ["aZ09", "a-b", "+", "/", ";", ".", "$", "_", "(", ")", "0", "a-"])
def test_a_name_may_contain(connect: Connect, profile: Profile, name: str) -> None:
    client = connect()
    is_name = set(name.encode()) <= set(profile.name_chars)
    client.send(f"use {name}").expect(USING(name) if is_name else BAD_FORMAT)


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
@pytest.mark.parametrize("byte", [b"!", b"#", b",", b":", b"@", b"[", b"{", b"~", b"\x80"])
def test_a_name_may_not_contain(client: Connection, byte: bytes) -> None:
    client.send(b"use a" + byte + b"b").expect(BAD_FORMAT)


def _other_bytes(profile: Profile) -> Iterator[bytes]:
    # A CR or LF is the line's end, not the name's matter; NUL ends a line in C.
    for byte in range(1, 256):
        if byte not in profile.name_chars and byte not in b"\r\n":
            yield bytes([byte])


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
@pytest.mark.parametrize(
    ("form", "errors"),
    [
        *((form, [BAD_FORMAT]) for form in (b"use a%bb", b"watch %ba", b"ignore a%b")),
        (b"stats-tube a%bb", [BAD_FORMAT, NOT_FOUND]),
    ],
)
def test_no_other_byte_may_be_in_a_name(
    client: Connection, profile: Profile, form: bytes, errors: list[Reply]
) -> None:
    for line in client.each([form % byte + b"\r\n" for byte in _other_bytes(profile)]):
        line.expect(*errors)


@requirement(
    "protocol.name-characters",
    "Names, in this protocol, are ASCII strings. They may contain letters (A-Z and a-z), "
    'numerals (0-9), hyphen ("-"), plus ("+"), slash ("/"), semicolon (";"), dot ("."), '
    'dollar-sign ("$"), underscore ("_"), and parentheses ("(" and ")")',
)
def test_each_byte_that_may_be_in_a_name(client: Connection, profile: Profile) -> None:
    names = [f"{client.tube}{chr(byte)}" for byte in profile.name_chars]
    lines = [f"use {name}\r\n".encode() for name in names]
    for name, line in zip(names, client.each(lines), strict=True):
        line.expect(USING(name))


@requirement(
    "protocol.name-ends-at-white-space",
    "They are terminated by white space (either a space char or end of line).",
)
def test_a_name_ends_at_a_blank(client: Connection, profile: Profile) -> None:
    client.needs(b"pause-tube")
    both = PartneredClient(client, profile)
    both.prepare("put 0 0 1000 1\r\na")
    both.says(f"pause-tube {client.tube} 1000")
    both.observe(f"stats-tube {client.tube}", tested=("pause",))
    both.says(f"pause-tube {client.tube}x 1000")


@requirement("protocol.name-case-counts", "They may contain letters (A-Z and a-z)")
def test_tubes_whose_names_differ_in_case_are_different(client: Connection) -> None:
    lower, upper = f"{client.tube}-tube", f"{client.tube}-TUBE"
    client.use(lower)
    client.put(b"a")
    client.use(upper)
    client.peek_ready().expect(NOT_FOUND)
    assert client.stats_tube(lower)["current-jobs-ready"] == "1"
