"""Small worlds: all of each is known and taken, and only what is wrong is told."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.console.explore import explore
from conformance.random_testing.exploration import Exploration
from conformance.run.options import Options
from conformance.small_worlds import recorded_tour, tours
from conformance.small_worlds.alphabet import Action
from conformance.small_worlds.cache import digest
from conformance.small_worlds.comparison import DifferentReply, ReplyComparison, with_plain_lines
from conformance.small_worlds.graph import Explorer
from conformance.small_worlds.recorded_tour import RecordedTour
from conformance.small_worlds.tour import Tour
from conformance.small_worlds.tour_time import LONGER, SPARE, Allowance, TourTime
from conformance.small_worlds.tours import tour_of
from conformance.small_worlds.view import StateView
from conformance.small_worlds.visit import Visit, worlds_for
from conformance.small_worlds.world import WORLDS, World
from conformance.target.builtin import BuiltIn
from conformance.target.launched_target import LaunchedTarget
from conformance.target.starvation import CpuTime
from conformance.target.target import Remote
from conformance.tests.test_small_worlds import test_any_transition as any_transition
from conformance.transcript import Transcript
from conformance.verdict import Deviation, Inconclusive, NotTestable
from reference_server.faults import FAULTS, Fault
from reference_server.model import Model
from reference_server.profiles import NEWEST, PROFILES, Profile
from reference_server.state import Client, Job
from reference_server.wire import Put, Reply
from reports.results import read_results
from reports.verdicts import Verdict
from reports.worlds import stretches
from tests import ROOT
from tests.machine import ThisMachine
from tests.parts import sample
from tests.servers import BEANSTALKD_COMMAND, changed_server, needs_beanstalkd
from tests.variants.gallery import SERVED
from tests.variants.times import MILLISECOND, late_at_random

SMALL = ("times of jobs", "two that wait", "draining")


def _world(name: str) -> World:
    return next(world for world in WORLDS if world.name == name)


# ---------------------------------------------------------------- worlds and tours


# What a client that only looks can delete is not the same in these.
@pytest.mark.parametrize("profile", [PROFILES[name] for name in ("0.6", "1.0", "1.4", "1.13")])
def test_a_tour_takes_every_transition(profile: Profile) -> None:
    for name in SMALL:
        if (world := _world(name)).is_of(profile):
            tour = RecordedTour(world, profile)
            turns = itertools.chain.from_iterable(tour.segments())
            taken = [number for turn in turns for number in turn.reached]
            assert sorted(taken) == list(range(tour.graph.transitions))


def test_states_are_the_same_whoever_is_in_them() -> None:
    # There is no job, a ready one or a buried one, or any one of the clients holds it.
    for clients, states in ((1, 3 * 2 + 1), (2, 3 * 3 + 2)):
        world = World("one job", clients=clients, jobs=1, puts=((0, 0, 9),))
        assert len(Explorer(world, NEWEST, 1000).explore().numbers) == states


def test_a_path_to_each_state_is_as_short_as_any() -> None:
    graph = Explorer(_world("times of jobs"), NEWEST, 1000).explore()
    lengths = [len(graph.path(state)) for state in range(len(graph.edges))]
    assert lengths == sorted(lengths)
    last = graph.transitions - 1
    assert graph.path_through(last)[-1] == graph.edges[-1][-1][0]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty cache; no tour is shipped."""
    monkeypatch.setattr(tours, "shipped_tour", lambda *_: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_tour_is_written_down_once(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    world = _world("times of jobs")
    first = tour_of(world, NEWEST)
    whole = list(RecordedTour(world, NEWEST).segments())
    assert len(whole) > 2
    assert next(first.segments()) == whole[0]
    first.keep()
    with monkeypatch.context() as patched:
        patched.delattr(recorded_tour, "Explorer")
        again = tour_of(world, NEWEST)
        segments = again.segments()
        with monkeypatch.context() as unmade:
            unmade.delattr(Tour, "walk")
            assert next(segments) == whole[0]
        assert list(segments) == whole[1:]
        again.keep()
        assert list(tour_of(world, NEWEST).segments()) == whole
    (kept,) = cache.rglob("*.tour")
    kept.write_bytes(b"torn")
    assert list(tour_of(world, NEWEST).segments()) == whole
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert list(tour_of(world, NEWEST).segments()) == whole


@pytest.mark.usefixtures("cache")
def test_a_walk_that_is_interrupted_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tour = tour_of(_world("times of jobs"), NEWEST)
    segments = tour.segments()
    next(segments)
    take = Tour.take

    def interrupted(self: Tour, seen: StateView, action: Action) -> None:
        take(self, seen, action)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Tour, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(segments)
    tour.keep()
    again = tour_of(_world("times of jobs"), NEWEST)
    assert list(again.segments()) == list(RecordedTour(_world("times of jobs"), NEWEST).segments())


def test_the_documents_name_all_worlds_and_tours_leave_nothing_out() -> None:
    page = (ROOT / "docs" / "small-worlds.md").read_text(encoding="utf-8")
    for world in WORLDS:
        tour = tour_of(world, NEWEST)
        count = tour.graph.transitions
        assert f"| {world.name} | {len(tour.graph.edges):,} | {count:,} |" in page
        turns = itertools.chain.from_iterable(tour.segments())
        assert len({number for turn in turns for number in turn.reached}) == count
        # Other tests, and runs of the suite, need not write it down again.
        tour.keep()


def test_a_tour_is_found_again_by_other_processes() -> None:
    code = (
        "import sys; from conformance.small_worlds.cache import digest;"
        "from conformance.small_worlds.world import WORLDS;"
        "from reference_server.profiles import NEWEST;"
        "print(digest(WORLDS[0], NEWEST, sys.maxsize))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert told == {f"{digest(WORLDS[0], NEWEST, sys.maxsize)}\n"}


# ---------------------------------------------------------------- what may differ


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (b"INSERTED 1\r\n", b"INSERTED 7\r\n"),
        (b"OK 16\r\n---\n- a\n- b\n- c\n\r\n", b"OK 16\r\n---\n- c\n- a\n- b\n\r\n"),
        (b"OK 17\r\n---\nid: 1\nage: 0\n\r\n", b"OK 17\r\n---\nid: 1\nage: 2\n\r\n"),
        (b"OK 10\r\n---\nid: 1\n\r\n", b'OK 12\r\n---\n"id": 1\n\r\n'),
    ],
)
def test_what_no_two_servers_have_in_common_is_alike(mine: bytes, theirs: bytes) -> None:
    ReplyComparison(alone=True).check(mine, theirs)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (b"INSERTED 1\r\n", b"INSERTED 0\r\n"),
        (b"INSERTED 1\r\n", b"BURIED\r\n"),
        (b"OK 12\r\n---\n- a\n- b\n\r\n", b"OK 13\r\n---\n- a\n- b\n\r\n"),
        (b"OK 12\r\n---\n- a\n- b\n\r\n", b"OK 8\r\n---\n- a\n\r\n"),
        (b"OK 15\r\n---\nkicks: 1\n\r\n", b"OK 15\r\n---\nkicks: 2\n\r\n"),
        (b"NOT_FOUND\r\n", b"NOT_FOUND\r\nUSING default\r\n"),
    ],
)
def test_what_differs_is_seen(mine: bytes, theirs: bytes) -> None:
    with pytest.raises(DifferentReply):
        ReplyComparison(alone=True).check(mine, theirs)


def test_jobs_are_called_as_they_were_when_they_were_put() -> None:
    comparison = ReplyComparison(alone=True)
    comparison.check(b"INSERTED 1\r\n", b"INSERTED 7\r\n")
    comparison.check(b"RESERVED 1 1\r\na\r\n", b"RESERVED 7 1\r\na\r\n")
    with pytest.raises(DifferentReply):
        comparison.check(b"RESERVED 1 1\r\na\r\n", b"RESERVED 1 1\r\na\r\n")


WRITTEN = b"---\ncmd-put: %(puts)d\npid: %(pid)d\n"


@pytest.mark.parametrize(
    "layout",
    [
        WRITTEN,
        b'---\n\n"cmd-put":   %(puts)d\npid: "%(pid)d"\n',
        b"pid: %(pid)d\ncmd-put: %(puts)d\nmore: 1\n",
        b'{"pid": %(pid)d, "cmd-put": %(puts)d}',
    ],
)
def test_what_was_counted_before_stays_the_same_in_any_layout(layout: bytes) -> None:
    def stats(layout: bytes, puts: int, pid: int) -> bytes:
        body = layout % {b"puts": puts, b"pid": pid}
        return b"OK %d\r\n%b\r\n" % (len(body), body)

    comparison = ReplyComparison(alone=True)
    comparison.check(stats(WRITTEN, 1, 1), stats(layout, 11, 99))
    comparison.check(stats(WRITTEN, 2, 1), stats(layout, 12, 99))
    with pytest.raises(DifferentReply):
        comparison.check(stats(WRITTEN, 3, 1), stats(layout, 12, 99))


@pytest.mark.parametrize(
    ("came", "plain"),
    [
        (b"USING a\r\nOK 12\r\n---\r\nid: 1\r\n\r\n", b"USING a\r\nOK 10\r\n---\nid: 1\n\r\n"),
        (b"OK 8\r\n---\r\n- \r\nTOUCHED\r\n", b"OK 7\r\n---\n- \r\nTOUCHED\r\n"),
        # It has not come as a whole.
        (b"TOUCHED\r\nOK 12\r\n---\r\nid:", b"TOUCHED\r\n"),
        (b"FOUND 1 5\r\n---\r\n\r\n", b"FOUND 1 5\r\n---\r\n\r\n"),
    ],
)
def test_lines_of_documents_may_end_with_cr_lf(came: bytes, plain: bytes) -> None:
    assert with_plain_lines(came) == plain


# ---------------------------------------------------------------- the time for tours


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> ThisMachine:
    return ThisMachine(monkeypatch)


def _taken(machine: ThisMachine, seconds: float, starved: float = 0.0) -> int:
    """Take 100 transitions, each in so many seconds, as far as an allowance has room for them."""
    allowance = Allowance(5.0, 20.0, 100)
    allowance.watch(CpuTime)
    while allowance.taken < 100 and not allowance.is_over:
        machine.now += seconds
        machine.kept += starved
        allowance.taken += 1
    return allowance.taken


def test_tours_that_fit_in_are_taken_to_the_end(machine: ThisMachine) -> None:
    assert _taken(machine, 0.15) == 100


def test_a_slow_target_gets_no_more_than_a_part_of_the_time(machine: ThisMachine) -> None:
    assert _taken(machine, 0.25) == 5.0 / 0.25 + 1


def test_a_busy_machine_costs_time_and_no_transitions(machine: ThisMachine) -> None:
    assert _taken(machine, 1.5, starved=1.4) == 100


def test_what_is_not_of_the_tours_takes_none_of_their_time(machine: ThisMachine) -> None:
    allowance = Allowance(5.0, 20.0, 100)
    with allowance.uncounted():
        machine.now += 60
    assert not allowance.is_over
    machine.now += 6
    assert allowance.is_over


# ---------------------------------------------------------------- targets


class _LastFirst(Model):
    """Serves the client that has waited least."""

    def _serve(self, job: Job) -> None:
        waiting = list(job.tube.waiting)
        conn = waiting[-1]
        self._stop_waiting(conn)
        self._outputs.append((conn.id, self._give(job, conn)))


def _visited(
    fault: Fault, name: str, tour_time: TourTime | None = None
) -> tuple[Visit, Deviation | None]:
    tour_time = tour_time or TourTime(time.monotonic() + 60)
    with closing(BuiltIn(fault=fault)) as target:
        visit = Visit(tour_of(_world(name), NEWEST), target, Exploration(1), tour_time)
        found = visit.run()
        said = None if found is None else Exploration(1).deviation(found, Transcript())
        return visit, said


def _shared(server: BuiltIn) -> Remote:
    """Return a server as one that others may use, too."""
    assert isinstance(server.address, tuple)
    return Remote(":".join(map(str, server.address)))


def test_a_server_that_chooses_otherwise_is_judged_on_the_way() -> None:
    end = time.monotonic() + 60
    tour_time = TourTime(end)
    fault = Fault("", "last first", model=_LastFirst)
    visit, deviation = _visited(fault, "two that wait", tour_time)
    assert deviation is None
    assert not visit.left
    # That took no time from other worlds.
    assert tour_time.spare < SPARE
    assert tour_time.end_of_judging - LONGER >= end + SPARE - tour_time.spare


def test_a_shared_server_that_chooses_otherwise_is_not_judged() -> None:
    _, lingering = SERVED["tubes-are-deleted-a-tenth-of-a-second-late"]
    with closing(BuiltIn(fault=lingering)) as server:
        remote = _shared(server)
        (world,) = worlds_for(remote, [_world("two tubes")])
        tour_time = TourTime(time.monotonic() + 60)
        visit = Visit(tour_of(world, NEWEST), remote, Exploration(1), tour_time)
        with pytest.raises(NotTestable, match="needs --launch"):
            visit.run()


def test_a_pause_of_zero_may_take_effect_after_the_walk_that_it_ends() -> None:
    late = Fault("", "timers late", model=late_at_random(80 * MILLISECOND))
    tour_time = TourTime(time.monotonic() + 12)
    _, deviation = _visited(late, "one that waits", tour_time)
    assert deviation is None


def test_a_job_that_is_reserved_before_its_put_is_answered_is_known_by_its_id() -> None:
    class Gaps(_LastFirst):
        def _put(self, conn: Client, put: Put) -> None:
            self.next_id += 7
            super()._put(conn, put)

    visit, deviation = _visited(Fault("", "ids with gaps", model=Gaps), "two that wait")
    assert deviation is None
    assert not visit.left


def test_a_deviation_is_shown_on_a_short_way() -> None:
    class TouchCounts(Model):
        def _touch(self, conn: Client, id: int) -> Reply:
            if id in conn.reserved:
                self.jobs[id].kicks += 1
            return super()._touch(conn, id)

    tour = tour_of(_world("times of jobs"), NEWEST)
    with closing(BuiltIn(fault=Fault("", "touch counts", model=TouchCounts))) as target:
        found = Visit(tour, target, Exploration(1), TourTime(time.monotonic() + 60)).run()
    assert found is not None
    assert "kicks: 1" in found.violation.observed
    lines = found.shown.render().count(" > ")
    assert lines < 20


def test_the_map_shows_what_was_taken_and_what_deviates() -> None:
    fault = next(f for f in FAULTS.values() if f.requirement == "protocol.any-transition")
    visit, deviation = _visited(fault, "two that wait")
    assert deviation is not None
    rows = visit.seen().commands
    assert "".join(rows.values()).count("!") == rows["touch"].count("!") == 1
    assert [part.kind for part in stretches("11 0!")] == ["taken", "left", "deviates"]


@pytest.mark.parametrize(
    "name",
    [name for name, fault in FAULTS.items() if fault.requirement == "protocol.any-transition"],
)
def test_a_fault_that_only_tours_find_is_found(name: str) -> None:
    with closing(BuiltIn(fault=FAULTS[name])) as target, pytest.raises(Deviation):
        any_transition(target, Transcript(), Exploration(100))


@pytest.mark.campaign
@needs_beanstalkd
def test_a_run_takes_all_transitions_with_an_empty_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delattr(recorded_tour, "Explorer")
    monkeypatch.setattr(Allowance, "is_over", False)
    exploration = Exploration(Options("", "", "auto").examples)
    with closing(LaunchedTarget(BEANSTALKD_COMMAND)) as target:
        assert any_transition(target, Transcript(), exploration) == ""
    assert len(exploration.worlds) == len(WORLDS)
    assert all(world.taken == world.transitions for world in exploration.worlds)


@pytest.mark.parametrize("examples", sample([1, 5], 2))
def test_a_shared_server_is_left_as_it_was(examples: int) -> None:
    # With one example, there is no time for the end of a walk.
    with closing(BuiltIn()) as server:
        remote = _shared(server)
        exploration = Exploration(examples)
        with contextlib.suppress(Inconclusive):
            any_transition(remote, Transcript(), exploration)
        assert len(exploration.worlds) == len(worlds_for(remote, WORLDS)) < len(WORLDS)
        deadline = time.monotonic() + 5
        while len(server._server.engine.model.tubes) > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [tube.name for tube in server._server.engine.model.tubes] == ["default"]
        assert not server._server.engine.model.jobs


def test_explore_says_how_far_it_came_and_goes_on_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("conformance.console.explore.LARGER", ())
    monkeypatch.setattr("conformance.console.explore.WORLDS", [_world(name) for name in SMALL])
    first = CliRunner().invoke(explore, ["--time=60"], standalone_mode=False)
    assert "3 of 3 worlds explored" in first.output, first.output
    assert first.return_value == 0
    again = CliRunner().invoke(explore, ["--time=60", "--resume"], standalone_mode=False)
    assert "0 of 0 worlds explored" in again.output


def test_explore_adds_its_worlds_to_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("conformance.console.explore.LARGER", ())
    server = changed_server(tmp_path, "Model._pause_tube = lambda *_: Reply('PAUZED')")
    names = ("two tubes", "draining")
    for name in names:
        monkeypatch.setattr("conformance.console.explore.WORLDS", [_world(name)])
        words = [f"--launch={server}", "--time=60", "--report=out", "--resume"]
        done = CliRunner().invoke(explore, words, standalone_mode=False)
        assert "report: out/report.html" in done.output, done.output
    results = read_results(Path("out", "results.json"))
    verdicts = {test.id: test.verdict for test in results.tests}
    assert [verdicts[f"explore::{name}"] for name in names] == [Verdict.FAIL, Verdict.PASS]
    assert [world.name for world in results.worlds] == [*names]
    assert results.verdict.word == "does not conform"
