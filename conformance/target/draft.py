"""Drafts the dialect of a fork by asking it; nothing on the server is changed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml

from conformance import yamlish
from conformance.target.address import ask, visit
from conformance.target.profile_detection import quotes_strings
from conformance.target.target import Target
from reference_server.commands import COMMANDS
from reference_server.dialect import NOBODYS
from reference_server.dialect_file import NEEDED, REFUSALS
from reference_server.events import Connected
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.wire import BARE, CRLF, Command, ProtocolError, Reply

REASON = "seen by probing; say why"
LONGEST_NAME, LONGEST_LINE = 1000, 8192
"""Bytes up to which limits are looked for."""
_NOBODY = next(iter(NOBODYS.values()))
_PROBES = {"pause-tube": f"pause-tube {_NOBODY} 0".encode(), "kick": b"kick 0"}
"""Harmless lines for commands without a probe: other clients may wait for their effect."""
_REFUSED = {
    "UNKNOWN_COMMAND": b"conformance-unknown",
    "BAD_FORMAT": b"delete x",
    "NOT_FOUND": b"delete 0",
}
"""Lines that every server refuses, by what it says."""
_STATISTICS = {"stats": b"stats", "stats-tube": b"stats-tube default"}


class DialectDraft:
    """The draft of a dialect, which extends the profile that the target resembles most."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._profile = target.profile
        self._limit = target.limits.probe
        self._unknown = self._line(_REFUSED["UNKNOWN_COMMAND"])
        self._malformed = self._line(_REFUSED["BAD_FORMAT"])

    def text(self, name: str) -> str:
        """Return the file; raises OSError, EOFError, and ProtocolError where it cannot go on."""
        bodies, expected = self._statistics(), _keys_of(self._profile)
        reported = {of: yamlish.dictionary(body) for of, body in bodies.items()}
        keys = [f"{of}.{key}" for of in reported for key in reported[of] if key not in expected[of]]
        gone = [f"{of}.{key}" for of in reported for key in expected[of] if key not in reported[of]]
        values = {f"{of}.{key}": value for of in reported for key, value in reported[of].items()}
        counted = [key.removeprefix("stats.cmd-") for key in keys if key.startswith("stats.cmd-")]
        missing = list(self._missing())
        gone = [key for key in gone if key.partition("cmd-")[2] not in missing]
        parts: dict[str, Any] = {
            "commands": {verb: {"reason": REASON} for verb in counted if verb not in COMMANDS},
            "without": dict.fromkeys([v for v in missing if v not in NEEDED] + gone, REASON),
            "limits": dict(self._limits(reported.get("stats", {}))),
            "replies": {word: {"text": t, "reason": REASON} for word, t in self._texts()},
            "yaml-quotes": self._quotes(bodies.values()),
            "keys": {key: {"value": _plain(values[key]), "reason": REASON} for key in keys},
        }
        document = {"name": name, "extends": self._profile.name}
        document |= {key: part for key, part in parts.items() if part}
        needed = [verb for verb in missing if verb in NEEDED]
        notes = [f"# It has no {verb}, without which little can be tested.\n" for verb in needed]
        head = f"# A draft from {self._target.label}: look at each entry, and say why it is so.\n"
        return head + "".join(notes) + yaml.safe_dump(document, sort_keys=False, width=100)

    def _missing(self) -> Iterator[str]:
        """Yield the commands of the profile that the target does not know."""
        for verb, grammar in COMMANDS.items():
            probe = _PROBES.get(verb, grammar.probe)
            if probe is None or verb not in self._profile.commands:
                continue
            said = self._line(probe)
            if said == self._unknown != b"":
                yield verb

    def _quotes(self, bodies: Iterable[bytes]) -> dict[str, object]:
        """Return the entry about quotes, empty if they are as in the profile."""
        quoted = quotes_strings(bodies)
        if quoted in (None, self._profile.yaml_quotes):
            return {}
        return {"value": quoted, "reason": REASON}

    def _statistics(self) -> dict[str, bytes]:
        """Return the statistics that can be read, by command."""
        found: dict[str, bytes] = {}
        for of, line in _STATISTICS.items():
            with (
                contextlib.suppress(ProtocolError, EOFError, TimeoutError, ValueError),
                visit(self._target.address, self._limit) as transport,
            ):
                body = ask(transport, line, self._limit).body or b""
                yamlish.dictionary(body)
                found[of] = body
        return found

    def _limits(self, stats: dict[str, str]) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the limits that are not those of the profile."""
        profile = self._profile
        name = _most(LONGEST_NAME, lambda n: self._takes(b"stats-tube " + b"n" * n))
        if name not in (0, profile.max_name):
            yield "max-name", {"value": name, "reason": REASON}
        line = _most(LONGEST_LINE, lambda n: self._takes(b"delete ".ljust(n - 2, b"0")))
        expected = profile.max_line + max((name or profile.max_name) - profile.max_name, 0)
        # Where no limit is found, it need not be one.
        if (
            profile.skips_long_lines
            and profile.max_line <= line < LONGEST_LINE
            and line != expected
        ):
            yield "max-line", {"value": line, "reason": REASON}
        size = stats.get("max-job-size", "")
        if size.isdecimal() and 0 < int(size) != profile.max_job_size:
            yield "max-job-size", {"value": int(size), "reason": REASON}

    def _takes(self, line: bytes) -> bool:
        return self._line(line) not in (b"", self._malformed)

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Yield the refusals that the target words otherwise."""
        for word, line in _REFUSED.items():
            said = self._line(line)
            if said and said not in BARE and word in REFUSALS and said.isascii():
                yield word, said.decode()

    def _line(self, line: bytes) -> bytes:
        """Return the line that the target answers with; empty if it says nothing."""
        data, end = b"", time.monotonic() + self._limit
        with visit(self._target.address, self._limit) as transport:
            transport.send(line + CRLF)
            while CRLF not in data:
                more = transport.receive_within(end - time.monotonic())
                if not more and (transport.ended or time.monotonic() >= end):
                    return b""
                data += more
        return data.partition(CRLF)[0]


def _most(limit: int, takes: Callable[[int], bool]) -> int:
    """Return the largest number up to a limit that is taken; 0 if not even a small one is."""
    low, high = 32, limit
    if not takes(low):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if takes(middle) else (low, middle - 1)
    return low


def _keys_of(profile: Profile) -> dict[str, list[str]]:
    """Return the keys of statistics that a profile has, by command."""
    model = Model(profile)
    model.step(Connected(), 0, 1)
    found = {}
    for of, line in _STATISTICS.items():
        arguments = line.decode().split(" ")[1:]
        ((_, reply),) = model.step(Command(of, tuple(arguments)), 0, 1)
        assert isinstance(reply, Reply)
        found[of] = list(yamlish.dictionary(reply.body or b""))
    return found


def _plain(value: str) -> str | int:
    """Return a value of statistics as YAML has it best."""
    return int(value) if value.isdecimal() else value
