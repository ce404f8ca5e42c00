"""The folder in which the reference server keeps its jobs, whenever the server ends."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from conformance.target.address import ask, connect, visit
from conformance.target.failing_calls import FailingCalls
from conformance.target.launch import Launched
from conformance.target.transport import wait_for
from reference_server import binlog as module
from reference_server.binlog import Binlog, BinlogError, KeptState
from reference_server.engine import Engine, RecordingLink
from reference_server.keeping import Observed
from reference_server.model import Model
from reference_server.serve import Server, main
from reference_server.state import JobState, KeptJob
from tests.servers import needs_strace

COMMAND = f"{sys.executable} -m reference_server -p {{port}} -b {{binlog}}"


def _job(id: int, body: bytes = b"a", state: JobState = JobState.READY, place: int = 0) -> KeptJob:
    return KeptJob(id, "default", body, state, 2**32 - 1, 0, 60, 7, 9, place, 1, 2, 3, 4, 5)


@contextmanager
def _opened(folder: Path, every: float | None = None) -> Iterator[Binlog]:
    binlog = Binlog(folder, every)
    try:
        yield binlog
    finally:
        binlog.close()


def _crashed(folder: Path, other: Path) -> Path:
    """Copy a folder as a server leaves it that is killed."""
    shutil.rmtree(other, ignore_errors=True)
    return Path(shutil.copytree(folder, other))


def _history(folder: Path) -> list[KeptState]:
    """Write 20 transactions, and return what is kept after each; the last is left in the log."""
    states = [KeptState([], 1)]
    with _opened(folder) as binlog:
        kept = binlog.load().jobs
        for id in range(1, 21):
            added = [_job(id, b"b" * (id % 3) * 3000)]
            gone = [id // 2] * (id % 4 == 0)
            changed = [job._replace(pri=id) for job in kept[:1] if job.id not in gone]
            binlog.write(added + changed, gone, id + 1)
            others = {job.id for job in changed} | {*gone}
            kept = [*changed, *(job for job in kept if job.id not in others), *added]
            states.append(KeptState(sorted(kept), id + 1))
        _crashed(folder, folder.with_name("crashed"))
    return states


def test_whatever_is_left_of_the_log_is_the_state_after_some_transaction(tmp_path: Path) -> None:
    (folder := tmp_path / "kept").mkdir()
    states = _history(folder)
    crashed = folder.with_name("crashed")
    log = (crashed / "jobs.db-wal").read_bytes()
    reached = 0
    for length in [*range(0, len(log), 1536), len(log)]:
        torn = _crashed(crashed, tmp_path / "torn")
        (torn / "jobs.db-wal").write_bytes(log[:length])
        with _opened(torn) as binlog:
            state = states.index(binlog.load())
        assert state >= reached
        reached = state
    assert reached == len(states) - 1


def test_no_damaged_job_is_ever_handed_out(tmp_path: Path) -> None:
    (folder := tmp_path / "kept").mkdir()
    states = _history(folder)
    whole, random, refused = (folder / "jobs.db").read_bytes(), Random(1), 0
    for _ in range(80):
        data = bytearray(whole)
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        damaged = _crashed(folder, tmp_path / "damaged")
        (damaged / "jobs.db").write_bytes(data)
        try:
            with _opened(damaged) as binlog:
                assert binlog.load() == states[-1]
        except BinlogError:
            refused += 1
    assert refused > 20


def test_jobs_that_are_missing_are_missed(tmp_path: Path) -> None:
    _history(tmp_path)
    database = sqlite3.connect(tmp_path / "jobs.db")
    database.execute("DELETE FROM jobs WHERE id = 7")
    database.commit()
    database.close()
    with pytest.raises(BinlogError, match="jobs are missing"), _opened(tmp_path) as binlog:
        binlog.load()


def test_a_folder_has_one_server(tmp_path: Path) -> None:
    with _opened(tmp_path), pytest.raises(BinlogError, match="another server keeps its jobs in"):
        Binlog(tmp_path, 0)
    with _opened(tmp_path) as binlog:
        assert binlog.load() == KeptState([], 1)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("jobs.db", b"not a database at all " * 50, "damaged, or no database of ours"),
        ("jobs.db", None, "is a database of another program, or version"),
        ("binlog.1", b"\7\0\0\0", "has the binlog of another server"),
    ],
)
def test_what_is_not_ours_is_left_alone(
    tmp_path: Path, name: str, data: bytes | None, told: str
) -> None:
    file = tmp_path / name
    if data is None:
        with sqlite3.connect(file) as database:
            database.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY)")
    else:
        file.write_bytes(data)
    before = file.read_bytes()
    with pytest.raises(BinlogError, match=told):
        Binlog(tmp_path, 0)
    assert file.read_bytes() == before


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["-p", "0", "-b", str(tmp_path / "none")])
    assert ended.value.code == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_buried_jobs_come_back_in_their_order(tmp_path: Path) -> None:
    with _opened(tmp_path) as binlog:
        binlog.load()
        jobs = [_job(id, state=JobState.BURIED, place=10 - id) for id in (1, 2, 3)]
        binlog.write(jobs, (), 4)
    with _opened(tmp_path) as binlog:
        assert binlog.load() == KeptState(jobs[::-1], 4)


@pytest.mark.parametrize(("every", "mode"), [(0, 2), (0.05, 1), (None, 0)])
def test_how_often_it_syncs(tmp_path: Path, every: float | None, mode: int) -> None:
    with _opened(tmp_path, every) as binlog:
        assert binlog._database.execute("PRAGMA synchronous").fetchone() == (mode,)
        binlog.load()
        binlog.write([_job(1)], (), 2)
        assert binlog.is_synced == (mode != 1)


def test_what_was_written_is_synced_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    now = 100.0
    monkeypatch.setattr(module, "sync_data", synced.append)
    monkeypatch.setattr("reference_server.keeping.time.monotonic", lambda: now)
    binlog = Binlog(tmp_path, 0.05)
    server = Server(binlog=binlog)
    link = RecordingLink()
    conn = server.engine.connect(link)
    assert server.before_wait() is None
    server.engine.receive(conn, b"put 0 0 60 1\r\na\r\n")
    assert server.before_wait() == pytest.approx(0.05)
    assert link.sent == b"INSERTED 1\r\n"
    now += 0.03
    server.engine.receive(conn, b"put 0 0 60 1\r\na\r\n")
    assert server.before_wait() == pytest.approx(0.02)
    assert not synced
    now += 0.03
    server.before_wait()
    assert len(synced) == 1
    assert server.before_wait() is None
    server.close()


@dataclass
class _Journal:
    works: bool = True
    is_behind: bool = False
    is_full: bool = False
    written: list[bool] = field(default_factory=list)

    def catch_up(self) -> bool:
        self.is_behind = not self.works
        self.written.append(self.works)
        return self.works


def test_nobody_is_told_of_what_is_not_written() -> None:
    journal = _Journal()
    engine = Engine(Model(), lambda: 0, journal=journal)
    one, other = RecordingLink(), RecordingLink()
    first, second = engine.connect(one), engine.connect(other)
    engine.receive(first, b"list-tube-used\r\n")
    assert one.sent == b"USING default\r\n"
    journal.is_behind = True
    engine.receive(first, b"put 0 0 60 1\r\na\r\nquit\r\n")
    # Whoever asks would tell of it, too.
    engine.receive(second, b"peek 1\r\n")
    assert (one.sent, one.is_closed, other.sent) == (b"USING default\r\n", False, b"")
    assert engine.catch_up()
    assert one.sent.endswith(b"INSERTED 1\r\n")
    assert one.is_closed
    assert other.sent == b"FOUND 1 1\r\na\r\n"


def test_while_nothing_can_be_written_nothing_is_handled() -> None:
    journal = _Journal(works=False, is_behind=True)
    model = Model()
    engine = Engine(model, lambda: 0, journal=journal)
    link = RecordingLink()
    conn = engine.connect(link)
    assert not engine.catch_up()
    engine.receive(conn, b"put 0 0 60 1\r\na\r\n")
    assert (link.sent, len(model.jobs)) == (b"", 0)
    journal.works = True
    assert engine.catch_up()
    assert link.sent == b"INSERTED 1\r\n"


@dataclass
class _Changes:
    """A journal of the changes of a model."""

    model: Observed
    works: bool = False
    is_full: bool = False

    @property
    def is_behind(self) -> bool:
        return bool(self.model.changed)

    def catch_up(self) -> bool:
        if self.works:
            self.model.changed.clear()
        return self.works


def test_what_is_handled_when_it_can_be_written_again_is_written_at_once() -> None:
    model = Observed()
    journal = _Changes(model)
    engine = Engine(model, lambda: 0, journal=journal)
    link = RecordingLink()
    conn = engine.connect(link)
    engine.receive(conn, b"put 0 0 60 1\r\na\r\n")
    assert not engine.catch_up()
    engine.receive(conn, b"put 0 0 60 1\r\nb\r\n")
    journal.works = True
    assert engine.catch_up()
    assert link.sent == b"INSERTED 1\r\nINSERTED 2\r\n"


@needs_strace
def test_what_could_not_be_synced_is_told_once_and_synced_later(tmp_path: Path) -> None:
    with (
        Launched(f"{COMMAND} -f 1", values={"binlog": tmp_path}) as server,
        visit(server.address, 10) as client,
    ):
        # SQLite syncs the first of all by itself.
        assert ask(client, b"put 0 0 60 1\r\na", 10).word == "INSERTED"
        failing = FailingCalls([Path("/proc", str(server.process.pid))], ["fdatasync"], "EIO")
        assert ask(client, b"put 0 0 60 1\r\nb", 10).word == "INSERTED"
        wait_for([], 1)
        assert failing.end() > 1
        assert server.said().count("cannot sync") == 1
        assert "Traceback" not in server.said()


def test_a_full_disk_refuses_jobs_and_nothing_else(tmp_path: Path) -> None:
    with Launched(f"{COMMAND} -f 0", values={"binlog": tmp_path}) as server:
        with connect(server.address, 10) as sock, sock.makefile("rb") as replies:

            def ask(data: bytes, lines: int = 1) -> list[bytes]:
                sock.sendall(data)
                return [replies.readline().rstrip() for _ in range(lines)]

            put = b"put 0 0 60 1\r\na\r\n"
            assert ask(put * 3, 3) == [b"INSERTED 1", b"INSERTED 2", b"INSERTED 3"]
            infinite = resource.RLIM_INFINITY
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (40_000, infinite))
            assert ask(put) == [b"OUT_OF_MEMORY"]
            assert ask(b"reserve\r\n", 2) == [b"RESERVED 1 1", b"a"]
            for _ in range(20):
                assert ask(b"release 1 0 100\r\nkick-job 1\r\nreserve-job 1\r\n", 4)[:2] == [
                    b"RELEASED",
                    b"KICKED",
                ]
            assert ask(b"bury 1 7\r\ndelete 2\r\n", 2) == [b"BURIED", b"DELETED"]
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (infinite, infinite))
            assert ask(put)[0].startswith(b"INSERTED")
        server.signal(signal.SIGKILL)
        server.process.wait()
    with _opened(tmp_path) as binlog:
        jobs = binlog.load().jobs
    assert [(job.id, job.state.value, job.pri) for job in jobs] == [
        *[(3, "ready", 0), (5, "ready", 0), (1, "buried", 7)]
    ]


def test_what_was_answered_outlasts_a_kill(tmp_path: Path) -> None:
    bodies = [b"", b"a" * 65535, b"\0\r\n"]
    with (
        Launched(COMMAND, values={"binlog": tmp_path}) as server,
        connect(server.address, 10) as sock,
        sock.makefile("rb") as replies,
    ):
        for body in bodies:
            sock.sendall(b"put 7 0 60 %d\r\n%b\r\n" % (len(body), body))
            assert replies.readline().startswith(b"INSERTED")
        server.signal(signal.SIGKILL)
        server.process.wait()
    with _opened(tmp_path) as binlog:
        assert [job.body for job in binlog.load().jobs] == bodies
