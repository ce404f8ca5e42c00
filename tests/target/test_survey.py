"""The survey: what is measured of a target before its first test."""

from __future__ import annotations

import contextlib
import itertools
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.dialogue.connection import Connection
from conformance.run.runner import Overlapped, run
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.limits import USUAL, Limits
from conformance.target.target import Remote
from conformance.target.traits import Failure, Traits
from conformance.tests import test_put_draining
from conformance.transcript import Transcript
from conformance.verdict import Deviation, OutcomeKind, Step, TargetLost
from reference_server.engine import Engine
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.profiles import LIST_TUBE_USED, NEWEST, PROFILES, Profile
from reference_server.state import SECOND, Client, Tube
from reference_server.wire import UNKNOWN_COMMAND, Body, Malformed, Reply, Request, RequestReader
from tests.command_line import suite
from tests.servers import REFERENCE_COMMAND, OneAtATime, changed_server, silent_at

QUICK = Limits(reply=0.5, alive=0.5, probe=1.0, detection=0.5)


@contextlib.contextmanager
def _surveyed(fault: Fault, limits: Limits = QUICK) -> Iterator[BuiltIn]:
    with contextlib.closing(BuiltIn(fault=fault, limits=limits)) as target:
        target.probe(NEWEST)
        yield target


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_nothing_is_unusual_about_the_reference_server(profile: Profile) -> None:
    with contextlib.closing(BuiltIn(profile)) as target:
        target.probe(profile)
        traits = target.traits
    assert [line for line in traits.in_words() if not line.startswith("slow")] == []
    assert traits.defect is None
    assert set(traits.latencies) == profile.commands
    usual = Traits(profile=profile)
    unmeasured = replace(traits, latencies={}, max_body=None, sync_line=LIST_TUBE_USED)
    unmeasured = replace(unmeasured, neutral_line=None)
    assert replace(unmeasured, ends_waiting=True) == usual


def test_a_server_that_never_rests_is_said_to_use_a_cpu() -> None:
    (fault,) = (one for one in FAULTS.values() if one.requirement == "endurance.idle-cpu-unused")
    command = f"{REFERENCE_COMMAND} --fault {fault.name}"
    # While others have the CPUs, it is taken to rest.
    for _ in range(10):
        with contextlib.closing(LaunchedTarget(command, "real")) as target:
            target.probe()
            unusual = target.traits.in_words()
        if unusual:
            break
    assert "uses a CPU all the time, though nobody sends anything" in unusual


def test_the_survey_leaves_nothing_behind() -> None:
    with contextlib.closing(BuiltIn()) as target:
        target.probe()
        model = target._server.engine.model
        assert not model.jobs
        assert [tube.name for tube in model.tubes] == ["default"]


@pytest.mark.parametrize("verb", ["bury", "touch", "stats-job", "list-tubes", "kick", "pause-tube"])
def test_a_silent_command_blocks_what_needs_it_and_costs_no_time_again(verb: str) -> None:
    with _surveyed(silent_at(verb)) as target:
        assert set(target.traits.unusable) == {verb}
        assert target.traits.unusable[verb].step.kind is OutcomeKind.NO_REPLY
        lines = {"bury": "bury 1 0", "touch": "touch 1", "kick": "kick 1"}
        line = lines.get(
            verb, {"pause-tube": "pause-tube a 0", "stats-job": "stats-job 1"}.get(verb, verb)
        )

        def sends(client: Connection) -> None:
            client.send(line)

        outcome = run(sends, {"client": None}, target)
    assert isinstance(outcome.error, Deviation)
    # It was not sent again.
    assert outcome.is_surveyed
    assert outcome.transcript is target.traits.unusable[verb].transcript
    assert outcome.error.owner.partition(".")[0] == verb
    # The bytes of the survey prove it.
    assert any(entry.data.startswith(verb.encode()) for entry in outcome.transcript.entries)


class _AnswersNoPut(Model):
    def _end_put(self, conn: Client, body: Body) -> None:
        pass


def test_a_test_that_changes_the_blame_leaves_that_of_the_survey() -> None:
    parts = {"own_server": None, "client": None, "new_client": None}
    with _surveyed(Fault("", "silent", _AnswersNoPut)) as target:
        outcome = run(test_put_draining.test_in_drain_mode_put_is_refused, parts, target)
    assert isinstance(outcome.error, Deviation)
    assert outcome.error.owner == "put.inserted"


def test_for_what_the_survey_has_found_no_server_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sends(client: Connection) -> None:
        client.send("bury 1 0")

    with _surveyed(silent_at("bury")) as target:
        monkeypatch.setattr(target, "fresh", lambda **_: pytest.fail("started"))
        overlapped = Overlapped([("sends", sends, {"client": None})], target)
        assert overlapped.outcome("sends").is_surveyed
        assert overlapped.alone("sends") is None


class _Unknown(RequestReader):
    def parse(self, line: bytes) -> Request:
        return Malformed(UNKNOWN_COMMAND) if line.startswith(b"kick-job") else super().parse(line)


def test_a_command_that_is_not_known() -> None:
    with _surveyed(Fault("", "other", reader=_Unknown)) as target:
        (failure,) = target.traits.unusable.values()
        assert (failure.step.command, failure.step.came) == ("kick-job", "UNKNOWN_COMMAND")


def test_pipelining_is_probed_even_where_stats_are_not_answered() -> None:
    silent = silent_at("stats")
    fault = Fault("", "other", model=silent.model, reader=OneAtATime)
    with _surveyed(fault) as target:
        assert not target.traits.pipelines
        assert set(target.traits.unusable) == {"stats"}
    with _surveyed(silent) as target:
        assert target.traits.pipelines


def test_ends_of_connections_that_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "eof", lambda *_: None)
    with _surveyed(Fault("", "other")) as target:
        assert not target.traits.ends_connections
        assert not target.traits.ends_waiting
        assert target.end_timeout(5.0) < 0.1

        def waits(client: Connection) -> None:
            client.send("reserve")

        assert run(waits, {"client": None}, target).error is None


def test_clients_that_wait_on_after_a_half_close() -> None:
    with _surveyed(FAULTS["a-client-that-half-closes-goes-on-waiting"]) as target:
        assert target.traits.ends_connections
        assert not target.traits.ends_waiting


def test_a_tube_that_stays() -> None:
    class Keeps(Model):
        def _deref(self, tube: Tube) -> None:
            """Keep it."""

    with _surveyed(Fault("", "other", Keeps)) as target:
        assert target.traits.keeps_tubes


class KeepsStats(Model):
    """Its statistics are those of half a second ago, by its own clock, which tests may move."""

    _kept: tuple[int, Reply] | None = None

    def _stats(self, conn: Client) -> Reply:
        now = super()._stats(conn)
        if self._kept is None or self.now - self._kept[0] > SECOND // 2:
            self._kept = self.now, now
        return self._kept[1]


def test_statistics_that_are_kept_for_a_while_are_renewed_by_a_clock_that_is_moved() -> None:
    with contextlib.closing(BuiltIn(fault=Fault("", "keeps", model=KeepsStats))) as target:
        target.probe()
        assert target.traits.renews_stats


@pytest.mark.parametrize("limit", [1000, 16_384, 65_534])
def test_a_limit_of_bodies_that_stats_do_not_tell(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(BuiltIn(max_job_size=limit, limits=QUICK)) as target:
        stats = target._server.engine.model.__class__
        monkeypatch.setattr(stats, "max_job_size", limit, raising=False)
        target.traits = replace(target.traits, max_body=None)
        monkeypatch.setattr(target, "_recognised", lambda: NEWEST)
        target.probe()
        found = target.traits.max_body
        assert found is not None
        assert limit - 64 <= found <= limit
        assert not target._server.engine.model.jobs


def test_a_server_of_one_client_at_a_time_is_surveyed() -> None:
    """It answers the next client when the first has left; no client waits for ever."""
    with contextlib.closing(BuiltIn(limits=USUAL)) as real:
        lock = threading.Lock()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with lock, real.connect() as server:
                    while data := self.request.recv(2**16):
                        server.send(data)
                        self.request.sendall(server.receive_within(0.3))
                        if server.ended:
                            break

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as serial:
            threading.Thread(target=serial.serve_forever, daemon=True).start()
            target = Remote(f"127.0.0.1:{serial.server_address[1]}")
            target.probe()
            serial.shutdown()
    assert not target.traits.unusable


SLOW = """
    import time
    plain = Model._reserve
    def slow(self, conn, timeout):
        time.sleep(0 if timeout is None else 0.4)
        return plain(self, conn, timeout)
    Model._reserve = slow
"""


def test_no_timeout_is_shorter_than_twice_the_slowest_reply(tmp_path: Path) -> None:
    limits = replace(USUAL, reply=0.6)
    with contextlib.closing(
        LaunchedTarget(changed_server(tmp_path, SLOW), "real", limits=limits)
    ) as target:
        target.probe()
        assert not target.traits.unusable
        assert target.traits.slowest("reserve-with-timeout") >= 0.4
        assert target.timeout("reserve-with-timeout") >= 0.8
        assert target.raced_timeout("reserve-with-timeout") >= 0.8
        target.traits = replace(target.traits, latencies={"put": 0.1, "kick": 0.2})
        assert target.timeout("put") == limits.reply
        assert target.short_timeout(0.1) == 0.4


@pytest.mark.parametrize(
    ("does", "kind"),
    [("os.abort()", OutcomeKind.CRASHED), ("time.sleep(10**6)", OutcomeKind.HANGS)],
)
def test_of_all_commands_only_the_one_is_blamed_that_ends_the_server(
    tmp_path: Path, does: str, kind: OutcomeKind
) -> None:
    change = f"import time\nModel._kick = lambda self, *_: {does}"
    with contextlib.closing(
        LaunchedTarget(changed_server(tmp_path, change), "real", limits=QUICK)
    ) as target:
        target.probe()
        assert {verb: f.outage and f.outage.kind for verb, f in target.traits.unusable.items()} == {
            "kick": kind
        }
        assert target.outage() is None


ENDS_AFTER_KICK = """
    kick, command = Model._kick, Model._command
    def remembers(self, conn, bound):
        self.kicker = conn
        return kick(self, conn, bound)
    def ends(self, conn, request):
        if request.verb != "list-tube-used" and getattr(self, "kicker", conn) is not conn:
            os.abort()
        command(self, conn, request)
    Model._kick, Model._command = remembers, ends
"""
ENDS_WITH_A_HOLDER = """
    from reference_server.wire import TIMED_OUT
    reserve, close = Model._reserve, Model._close
    def without_a_word(self, conn, timeout):
        reserve(self, conn, timeout)
        return TIMED_OUT
    def ends(self, conn):
        if conn.reserved:
            os.abort()
        close(self, conn)
    Model._reserve, Model._close = without_a_word, ends
"""


@pytest.mark.parametrize("change", [ENDS_AFTER_KICK, ENDS_WITH_A_HOLDER])
def test_a_command_is_not_blamed_for_what_another_client_has_done_before(
    tmp_path: Path, change: str
) -> None:
    command = changed_server(tmp_path, change)
    with contextlib.closing(LaunchedTarget(command, "real", limits=QUICK)) as target:
        target.probe()
        assert target.traits.unusable == {}
        assert target.outage() is None


HANGS_AT_THE_END = """
    import time
    serve.Engine.eof = lambda self, conn: time.sleep(10**6)
"""


def test_a_server_that_hangs_when_its_first_client_leaves_is_told_at_once(tmp_path: Path) -> None:
    with contextlib.closing(LaunchedTarget(changed_server(tmp_path, HANGS_AT_THE_END))) as target:
        target.probe()

        def any_test(client: Connection) -> None:
            raise AssertionError("it was run")

        outcomes = [run(any_test, {"client": None}, target) for _ in range(2)]
    for outcome in outcomes:
        assert isinstance(outcome.error, TargetLost)
        assert outcome.error.outage.kind is OutcomeKind.HANGS
        assert outcome.error.owner == "protocol.close-ends-connection"
        assert [entry.direction for entry in outcome.transcript.entries] == [">", "<", "!", ">"]


def test_times_of_the_survey_are_those_of_the_slowest_reply() -> None:
    traits = Traits(latencies=dict(zip("ab", itertools.count(1.0), strict=False)))
    assert (traits.slowest("a"), traits.slowest("c"), traits.slowest()) == (1.0, 0.0, 2.0)


@pytest.mark.parametrize("surplus", [b"junk\r\n", b"USING default\r\n", b"\0" * 3])
def test_a_server_that_sends_more_than_its_replies_breaks_their_order(
    surplus: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Reply.encode
    with contextlib.closing(BuiltIn(limits=QUICK)) as target:
        monkeypatch.setattr(target, "_recognised", lambda: NEWEST)
        monkeypatch.setattr(Reply, "encode", lambda reply: plain(reply) + surplus)
        target.probe()
    assert target.traits.defect is not None
    assert target.traits.defect.step.kind is OutcomeKind.EXTRA_REPLY
    assert target.traits.defective == "protocol.serial-replies"


def test_what_the_survey_finds_is_printed(tmp_path: Path) -> None:
    change = "Model._touch = lambda self, *_: None"
    launch = f"--launch={changed_server(tmp_path, change)}"
    done = suite(launch, "--clock=real", "-vv", "-k", "test_quit_closes")
    assert "survey: touch: no reply within 5 seconds" in done.stdout


def test_a_run_on_a_server_that_serves_one_client_only_has_a_verdict(tmp_path: Path) -> None:
    done = suite("--launch", changed_server(tmp_path, HANGS_AT_THE_END), "-k", "quit or test_use")
    assert done.returncode == 1
    assert "fail: protocol.close-ends-connection; blocks " in done.stdout
    assert "1 must requirement broken" in done.stdout


def test_commands_that_do_not_work_are_told_by_what_is_wrong_with_them() -> None:
    def failure(kind: OutcomeKind, came: str = "") -> Failure:
        return Failure(Step(kind, came=came), "a reply", "something else", Transcript())

    unusable = {
        "touch": failure(OutcomeKind.WRONG_REPLY, "UNKNOWN_COMMAND"),
        "bury": failure(OutcomeKind.WRONG_REPLY, "UNKNOWN_COMMAND"),
        "stats": failure(OutcomeKind.NO_REPLY),
        "kick": failure(OutcomeKind.DISCONNECTED),
        "peek": failure(OutcomeKind.WRONG_REPLY, "BAD_FORMAT"),
    }
    assert Traits(unusable=unusable).commands_in_words() == (
        "20 of 25 work; unknown: touch, bury; no reply: stats; disconnected: kick;"
        " wrong reply: peek"
    )
    assert Traits().commands_in_words() == ""
