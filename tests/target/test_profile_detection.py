"""Which profile a target is judged by, on servers that are like no version of beanstalkd."""

from __future__ import annotations

import contextlib
import socketserver
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.random_testing.session import Session
from conformance.random_testing.snapshot import GarbledReply, counted
from conformance.run.runner import run
from conformance.target.address import TargetError
from conformance.target.builtin import BuiltIn
from conformance.target.limits import USUAL
from conformance.target.profile_detection import known_line
from conformance.tests import test_stats_counters
from conformance.verdict import Deviation
from reference_server.events import Event, Output
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.state import Client
from reference_server.wire import UNKNOWN_COMMAND, Command, Malformed, Reply, Request, RequestReader
from tests.servers import silent_at

ALL = "as it has all that is asked for"
MODERN = ("use", "watch", "list-tubes", "touch", "kick-job", "reserve-job", "stats-tube")


def _refuses(*verbs: str) -> type[RequestReader]:
    """Return a reader that does not know some commands."""
    known = {verb.encode() for verb in verbs}

    class Refuses(RequestReader):
        def parse(self, line: bytes) -> Request:
            if line.partition(b" ")[0] in known:
                return Malformed(UNKNOWN_COMMAND)
            return super().parse(line)

    return Refuses


def _quits(verb: str) -> type[RequestReader]:
    """Return a reader that takes a command for the end."""

    class Quits(RequestReader):
        def parse(self, line: bytes) -> Request:
            return Command("quit") if line.startswith(verb.encode()) else super().parse(line)

    return Quits


def _statistics(change: Callable[[bytes], bytes]) -> type[Model]:
    """Return a model that tells all statistics in another form."""

    class Changed(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            outputs = super().step(event, now, conn)
            if not (isinstance(event, Command) and event.verb.startswith("stats")):
                return outputs
            return [
                (to, reply._replace(body=change(reply.body)))
                if isinstance(reply, Reply) and reply.body is not None
                else (to, reply)
                for to, reply in outputs
            ]

    return Changed


def _seen(profile: Profile, version: str = "dev", **parts: Any) -> tuple[str, str]:
    server = BuiltIn(replace(profile, version=version), fault=Fault("", "other", **parts))
    try:
        return server.probe().name, server.profile_reason
    finally:
        server.close()


@pytest.mark.parametrize("version", ["dev", "0.1", "1.4.6"])
@pytest.mark.parametrize("verb", MODERN)
def test_a_server_without_one_command_is_no_older_server(verb: str, version: str) -> None:
    name, reason = _seen(NEWEST, version, reader=_refuses(verb))
    assert name == "1.13"
    gaps = {"kick-job": "the newest, as no profile fits: it has no kick-job, but quoted strings"}
    assert reason.startswith(gaps.get(verb, ALL))


@pytest.mark.parametrize("version", ["dev", "0.1", "0.6"])
def test_a_modern_server_without_any_tubes_is_not_one_of_old(version: str) -> None:
    verbs = (*(NEWEST.commands - PROFILES["0.6"].commands), "stats")
    expected = "the newest, as no profile fits: it has no tubes, and is not like 0.6"
    server = BuiltIn(NEWEST, fault=Fault("", "other", reader=_refuses(*verbs)))
    server.version = version
    assert server.probe() == replace(NEWEST, neutral=b"peek 0")
    assert server.profile_reason == expected
    server.close()


@pytest.mark.parametrize("version", ["dev", "1.11"])
def test_a_server_that_reads_lines_of_0_6_in_part_only(version: str) -> None:
    name, _ = _seen(PROFILES["0.6"], version, reader=_refuses("peek"))
    assert name == ("1.13" if version == "dev" else "1.10")
    assert _seen(PROFILES["0.6"], "0.6", reader=_refuses("peek")) == ("0.6", "as its stats say")


@pytest.mark.parametrize(
    ("profile", "seen"),
    [
        *((name, (name, f"as it has no {lacks}")) for name, lacks in (
            *(("0.6", "use"), ("1.0", "touch"), ("1.2", "cmd-pause-tube in stats-tube")),
            *(("1.4.3", "underscores in names"), ("1.4", "binlog-records-migrated in stats")),
            ("1.5", "kick-job"),
            *(("1.8", "hostname in stats"), ("1.10", "reserve-job")),
            ("1.12", "quoted strings in stats"),
        )),
        # Nothing that can be asked for shows the difference.
        ("1.9", ("1.10", "as it has no reserve-job")),
        ("1.13", ("1.13", ALL)),
    ],
)  # fmt: skip
def test_the_reason_names_what_came_next(profile: str, seen: tuple[str, str]) -> None:
    assert _seen(PROFILES[profile]) == seen


@pytest.mark.parametrize(
    "garbage",
    [b"", b"garbage", b"- a\n- b\n", b"\xff\0\r\n", b"---\nname: a\nname: b\n"],
)
def test_statistics_that_cannot_be_read_are_no_reason(garbage: bytes) -> None:
    seen = _seen(NEWEST, model=_statistics(lambda _: garbage))
    assert seen == ("1.13", "the newest, as its stats cannot be read")


def test_what_hangs_up_on_a_command_does_not_know_it() -> None:
    assert _seen(PROFILES["1.8"], reader=_quits("kick-job")) == ("1.5", "as it has no kick-job")


def test_a_version_holds_unless_something_newer_is_seen() -> None:
    assert _seen(PROFILES["1.4"], "1.12") == ("1.12", "as its stats say")
    assert _seen(PROFILES["1.9"], "1.9") == ("1.9", "as its stats say")
    assert _seen(PROFILES["1.10"], "1.8") == ("1.10", "as it has no reserve-job")
    assert _seen(NEWEST, "1.4.6") == ("1.13", ALL)


@pytest.mark.parametrize(
    ("profile", "version", "text"),
    [
        *(("0.6", "0.3", "the text of 0.6"), ("0.6", "0.6", None), ("0.6", "0.7", None)),
        *(("1.0", "0.9", "the text of 0.11 to 1.1"), ("1.0", "0.11", None), ("1.0", "1.0", None)),
    ],
)
def test_a_server_that_is_older_than_the_text_is_told_so(
    profile: str, version: str, text: str | None
) -> None:
    name, reason = _seen(PROFILES[profile], version)
    assert name == profile
    older = f", but it is older than {text}, so that what deviates may be due to that"
    assert reason == "as its stats say" + (older if text else "")


def test_a_server_that_hangs_up_at_stats_is_one_if_it_knows_other_commands() -> None:
    server = BuiltIn(fault=Fault("", "other", reader=_quits("stats")))
    with contextlib.closing(server):
        assert server.probe() is NEWEST
        assert server.profile_reason.startswith("the newest, as it hangs up when asked for")
        assert server.sync_line == b"list-tube-used"
        with pytest.raises(TargetError, match="stats: it closes the connection"):
            counted(server, NEWEST)


def test_a_server_that_is_silent_at_stats_is_one_if_it_knows_other_commands() -> None:
    with contextlib.closing(BuiltIn(fault=silent_at("stats"))) as server:
        server.limits = replace(USUAL, probe=0.2, detection=1.5)
        assert server.probe() is NEWEST
        assert server.profile_reason.startswith("the newest, as it does not answer when asked for")


def test_a_server_that_is_silent_at_the_usual_command_is_not_taken_for_gone() -> None:
    with contextlib.closing(BuiltIn(fault=silent_at("list-tube-used"))) as server:
        server.limits = replace(USUAL, detection=1.5, alive=1.5)
        assert server.probe() == replace(NEWEST, neutral=b"peek 0")
        assert server.sync_line == b"peek 0"
        assert server.outage() is None


class _RepeatsReplies(socketserver.StreamRequestHandler):
    """Answers three commands, and answers those about jobs once more, a moment later."""

    def handle(self) -> None:
        for line in self.rfile:
            if line == b"list-tubes-watched\r\n":
                self.wfile.write(b"OK 4\r\n- a\n\r\n")
            elif line in (b"peek 0\r\n", b"delete 0\r\n"):
                for _ in range(2):
                    self.wfile.write(b"NOT_FOUND\r\n")
                    time.sleep(0.2)


def test_a_line_that_is_answered_twice_is_not_sent_to_synchronise() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _RepeatsReplies) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        found = known_line(("127.0.0.1", server.server_address[1]), 5.0)
        server.shutdown()
    assert found == (b"list-tubes-watched", None)


@pytest.mark.parametrize(
    ("profile", "line", "neutral"),
    [
        ("1.13", None, b"list-tube-used"),
        ("1.13", b"list-tube-used", b"list-tube-used"),
        ("1.13", b"use default", b"list-tube-used"),
        ("1.13", b"peek 0", b"peek 0"),
        ("0.6", b"list-tube-used", b"peek 0"),
    ],
)
def test_only_a_command_that_changes_nothing_is_neutral(
    profile: str, line: bytes | None, neutral: bytes
) -> None:
    assert PROFILES[profile].asking(line).neutral == neutral


def test_of_a_server_that_is_silent_at_the_usual_command_only_that_is_broken() -> None:
    """Whatever is asked instead is counted by it, and is no deviation."""
    with contextlib.closing(BuiltIn(fault=silent_at("list-tube-used"))) as server:
        server.limits = replace(USUAL, reply=1.0, detection=1.5, alive=1.5)
        server.probe()
        verbs = ("peek", "peek-ready", "list-tube-used")
        outcomes = {
            verb: run(
                test_stats_counters.test_stats_counts_each_command,
                dict.fromkeys(("alone", "server", "client", "profile"), None) | {"verb": verb},
                server,
            ).error
            for verb in verbs
        }
        session = Session(server, server.profile)
        session.ask(1, b"stats\r\n")
        session.finish()
    assert [outcomes["peek"], outcomes["peek-ready"]] == [None, None]
    assert isinstance(outcomes["list-tube-used"], Deviation)


def test_it_is_told_which_reply_was_none_where_counters_are_asked_for() -> None:
    class Drains(Model):
        def _body(self, conn: Client, data: bytes | None) -> Reply:
            return Reply("server error: DRAINING", ())

    with contextlib.closing(BuiltIn(fault=Fault("", "other", model=Drains))) as server:
        server.probe()
        with pytest.raises(GarbledReply, match="error: DRAINING, instead of a reply to put") as no:
            counted(server, NEWEST)
        assert no.value.expected == "a reply of the protocol"


def test_a_server_that_hangs_up_at_many_commands_is_not_taken_for_gone() -> None:
    class Quits(_quits("stats"), _quits("list-tube")):  # type: ignore[misc]
        pass

    server = BuiltIn(fault=Fault("", "other", reader=Quits))
    with contextlib.closing(server):
        server.probe()
        assert server.outage() is None
