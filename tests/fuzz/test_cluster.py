"""Campaigns on a real cluster: what workers find is put together, whoever of them is lost."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import Client

from conformance.__main__ import main
from conformance.console import explore as exploring
from conformance.console.explore import Explored, Far
from conformance.oracle.diagnosis import Diagnosis
from conformance.random_testing.steps import Ask
from conformance.run.options import Options
from conformance.run.transferred_files import HandedOver
from conformance.small_worlds.world import WORLDS
from conformance.transcript import Entry as Message
from conformance.transcript import Transcript
from fuzz.campaign_findings import Filed
from fuzz.entries import dumps
from fuzz.guidance import CorpusEntry
from fuzz.hostile import Progress
from fuzz.sliced_campaign import SlicedCampaign
from fuzz.slices import Beat, FirstSight, SharedKnowledge, SliceOutcome
from reference_server.profiles import NEWEST
from reports.words import counted
from tests import ROOT, made
from tests.servers import REFERENCE_COMMAND

PATIENCE = 60.0
SHORT_SLICES = """
import sys
import fuzz.sliced_campaign
from conformance.__main__ import main
fuzz.sliced_campaign.SECONDS = 1.5
sys.exit(main(sys.argv[1:]))
"""


def until(is_so: Callable[[], object]) -> None:
    """Wait for something that comes for certain."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


class Machines:
    """A scheduler and its workers, each of which may be killed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "scheduler.json"
        local = ("--scheduler-file", str(self._file), "--host", "127.0.0.1", "--no-dashboard")
        self._local, self._folder = local, folder
        self._all = [self._start("scheduler", "--port", "0")]
        until(self._file.exists)
        self.workers = [self._work(), self._work()]
        self.client = Client(scheduler_file=str(self._file))
        self.client.wait_for_workers(2, timeout=PATIENCE)
        self.address: str = self.client.scheduler.address

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *command, *self._local],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _work(self) -> subprocess.Popen[bytes]:
        worker = self._start("worker", "--nthreads", "1", "--no-nanny")
        self._all.append(worker)
        return worker

    def end(self) -> None:
        self.client.close()
        for process in self._all:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("cluster"))
    yield machines
    machines.end()


def test_a_lost_client_and_a_lost_worker_lose_nothing(
    machines: Machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    findings, corpus = tmp_path / "findings", tmp_path / "corpus"
    command = ["fuzz", "--launch", REFERENCE_COMMAND, "--cluster", machines.address]
    command += [
        "--findings",
        str(findings),
        "--corpus",
        str(corpus),
        "--coverage",
        "off",
        "--time",
        "60",
    ]
    client = subprocess.Popen([sys.executable, "-c", SHORT_SLICES, *command], cwd=ROOT)
    until(lambda: len(machines.client.list_datasets()) == 2)
    client.kill()
    client.wait()
    left = machines.client.list_datasets()
    lost = machines.workers[0]
    lost.send_signal(signal.SIGKILL)
    lost.wait()
    futures = [machines.client.get_dataset(name) for name in left]
    outcomes: list[SliceOutcome] = machines.client.gather(futures)
    assert len({outcome.worker for outcome in outcomes}) == 1
    del futures
    capfd.readouterr()
    assert main([*command[:-1], "1"]) == 0
    said = capfd.readouterr().out
    assert f"taking over {counted(len(left), 'slice')}" in said
    assert not list(findings.iterdir())
    assert all(outcome.known.inputs for outcome in outcomes)
    inputs = {path.read_bytes() for path in corpus.iterdir() if path.is_file()}
    assert all(outcome.known.inputs <= inputs for outcome in outcomes)
    assert machines.client.list_datasets() == ()


def test_what_workers_cannot_start_is_told(
    machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["fuzz", "--launch", "/nonexistent {port}", "--coverage", "off", "--time", "20"]
    assert main([*command, "--cluster", machines.address]) == 4
    said = capfd.readouterr()
    assert "cannot run '/nonexistent'" in said.err


def test_a_world_is_explored_on_a_worker(
    machines: Machines,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exploring, "WORLDS", WORLDS[:1])
    monkeypatch.setattr(exploring, "LARGER", ())
    assert main(["explore", "--cluster", machines.address, "--time", "120"]) == 0
    assert "1 of 1 world explored" in capfd.readouterr().out


def test_a_matrix_on_a_cluster(
    machines: Machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    servers = tmp_path / "servers.yaml"
    servers.write_text('ours: [-k, put.delay-limit]\nnone: [--launch, "/nonexistent {port}"]\n')
    out = tmp_path / "out"
    command = ["compare", "--run", str(servers), "-o", str(out)]
    assert main([*command, "--cluster", machines.address]) == 0
    said = capfd.readouterr()
    assert "ours: reference server" in said.out
    assert "none: no results: " in said.err
    assert (out / "comparison.html").exists()
    before = (out / "ours" / "results.json").stat().st_mtime_ns
    servers.write_text("ours: [-k, put.delay-limit]\n")
    assert main(command) == 0
    assert (out / "ours" / "results.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fuzz", "--cluster", "tcp://127.0.0.1:1"], "no scheduler answers at tcp://127.0.0.1:1"),
        (["compare", "--cluster", "tcp://127.0.0.1:1"], "--cluster needs --run"),
        (["fuzz", "--cluster", "x", "--jobs", "2"], "--cluster and --jobs exclude each other"),
        (["explore", "--cluster", "x", "--jobs", "2"], "--cluster and --jobs exclude each other"),
        (["compare"], "give results, or --run FILE"),
        (["compare", "--run", "none.yaml", "-o", "out"], "cannot read none.yaml"),
    ],
)
def test_what_cannot_be_done(
    arguments: list[str],
    sentence: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("conformance.run.cluster._REACH", 0.3)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 4
    assert sentence in capfd.readouterr().err


# ---------------------------------------------------------------- put together

FILED = Filed(
    Diagnosis("a", "b"),
    Transcript([Message("A", ">", b"a", 0)]),
    Path("/far/a/transcript"),
    "reproduced 3 of 3",
)
OUTCOME = SliceOutcome(
    "tcp://one",
    7,
    "beanstalkd 1.13",
    made.TARGET,
    NEWEST,
    Progress(10, 20, 0.5),
    1,
    2,
    SharedKnowledge(frozenset({b"use a\r\n"}), frozenset({("USING",)}), frozenset({("use",)})),
    (FILED,),
    HandedOver("/far", {"a finding/transcript": b"first"}),
    ("the rest is in /far/a",),
)


def campaign(folder: Path) -> SlicedCampaign:
    begun = SlicedCampaign(Options(None, None, "auto"), 0, folder / "found", folder / "corpus")
    begun._mine |= {7, 8}
    return begun


def test_what_workers_tell_can_be_sent() -> None:
    for told in (OUTCOME, FirstSight("tcp://one", 7, FILED.transcript)):
        # A transcript has a lock of its own.
        assert repr(pickle.loads(pickle.dumps(told))) == repr(told)


def test_two_workers_find_together_what_each_has_found(tmp_path: Path) -> None:
    begun = campaign(tmp_path)
    other = replace(
        OUTCOME,
        worker="tcp://two",
        seed=8,
        known=SharedKnowledge(frozenset({b"use b\r\n"})),
        found=(FILED, replace(FILED, diagnosis=Diagnosis("another", "b"))),
        files=HandedOver(
            "/far", {"a finding/transcript": b"second", "another/transcript": b"third"}
        ),
    )
    for outcome in (OUTCOME, other, OUTCOME):
        begun._merge(outcome)
    assert begun.known == OUTCOME.known | other.known
    assert {
        path.read_bytes() for path in (tmp_path / "corpus").iterdir() if path.is_file()
    } == begun.known.inputs
    filed = {path.name: (path / "transcript").read_bytes() for path in begun._findings.iterdir()}
    assert filed == {"a finding": b"first", "another": b"third"}
    assert len(begun.found) == 2
    assert all(f"; {begun._findings}/a/transcript" in line for line, _ in begun.updates[0].found)
    assert begun.updates[0].health == (f"the rest is in {begun._findings}/a",)
    assert [update.progress.cases for update in begun.updates] == [20, 10]
    assert [len(update.found) for update in begun.updates] == [1, 2]
    assert [(update.undecided, update.unjudged) for update in begun.updates] == [(2, 4), (1, 2)]


def test_entries_that_reach_nothing_more_are_not_handed_out(tmp_path: Path) -> None:
    begun = campaign(tmp_path)
    first, second, both = (CorpusEntry([Ask(1, b"stats\r\n")] * n, n) for n in (1, 2, 3))
    for worker, entry in (("tcp://one", both), ("tcp://two", first), ("tcp://two", second)):
        known = SharedKnowledge(entries=frozenset({dumps(entry)}))
        begun._merge(replace(OUTCOME, worker=worker, known=known))
    assert begun._all_known().entries == {dumps(first), dumps(second)}
    assert len(list((tmp_path / "corpus" / "programs").iterdir())) == 3
    assert begun.updates[-1].edges == 1


def test_what_a_lost_worker_has_seen_stays_as_it_was_seen(tmp_path: Path) -> None:
    begun = campaign(tmp_path)
    for worker, seed in (("tcp://one", 7), ("tcp://lost", 7), ("tcp://one", 9)):
        begun._hear(FirstSight(worker, seed, Transcript([Message(worker, ">", b"a", seed)])))
    assert len(list((tmp_path / "found").glob("unreduced-*"))) == 2
    begun._merge(OUTCOME)
    left = list((tmp_path / "found").glob("unreduced-*"))
    assert len(left) == 1
    begun._hear(Beat("tcp://one", 8, "beanstalkd 1.13", Progress(5, 5, 0.1)))
    assert sum(update.progress.cases for update in begun.updates) == 15


def test_what_was_found_elsewhere_is_filed_here_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploring, "FOLDER", tmp_path / "findings")
    test = made.case("protocol.any-transition", reason="it; replay /tmp/elsewhere/a/transcript")
    found = Explored("world", test=test)
    far = Far(found, HandedOver("/tmp/elsewhere", {"a/transcript": b"first"}))
    again = Far(found, far.files._replace(data={"a/transcript": b"second"}))
    (filed,) = filter(None, [far.filed().test])
    assert filed.reason.endswith(f"replay {tmp_path}/findings/a/transcript")
    again.filed()
    assert (tmp_path / "findings" / "a" / "transcript").read_bytes() == b"first"
