"""The folder in which a server keeps its jobs: an SQLite database in WAL mode, a row for each.

A transaction is appended to the write-ahead log, and is there as a whole or not at all, whenever
the server ends. What is in the log goes into the database from time to time. The lock on the
database ends with the process that has it.

SQLite finds torn writes of its log, but no damage in the database. So each row has a checksum, and
one row has the number of jobs and the exclusive or of their checksums.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from reference_server.disk_reserve import DiskReserve
from reference_server.state import JobState, KeptJob
from reference_server.system import file_limit, sync_data, sync_folder

_APPLICATION, _VERSION = 0x6265616E, 1
"""The application id that marks a database as ours ("bean" in ASCII), and its version."""
_FILE = "jobs.db"
_STATES = tuple(JobState)
_NUMBERS = struct.Struct("<B11q")
_CHECKSUM = struct.Struct("<I")
_LOG_PAGES = 256
"""Pages in the log from which on they go into the database."""
_RESERVE = 2**20
"""Bytes on the disk that are held back, so that changes of jobs can be kept when it is full."""
_LARGEST = 999_000_000
"""Bytes of a body that fit into a row of SQLite."""
_SCHEMA = f"""
    BEGIN;
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, kept BLOB, tube TEXT, body BLOB);
    CREATE TABLE total (next_id INTEGER, jobs INTEGER, checksums INTEGER);
    INSERT INTO total VALUES (1, 0, 0);
    PRAGMA application_id = {_APPLICATION};
    PRAGMA user_version = {_VERSION};
    COMMIT;
"""


class BinlogError(Exception):
    """A folder cannot keep jobs; the sentence says why."""


class KeptState(NamedTuple):
    """All that a folder keeps: its jobs, in the order of their burying, and the next id."""

    jobs: list[KeptJob]
    next_id: int


class Binlog:
    """A folder with jobs, of one server.

    ``every``: the seconds in which what was written is synced at the latest; 0 is at once, and
    None never. With another number, the caller calls :meth:`sync` when it is due.
    """

    def __init__(self, folder: str | Path, every: float | None) -> None:
        self.folder = Path(folder)
        self.every = every
        self.written = 0
        self.is_synced = True
        self._checksums: dict[int, int] = {}
        self._total = 0
        try:
            with contextlib.ExitStack() as opened:
                self._open(opened)
                self._opened = opened.pop_all()
        except sqlite3.Error as error:
            raise BinlogError(self._why(error)) from error
        except OSError as error:
            raise BinlogError(f"cannot keep jobs in {self.folder}: {error.strerror}") from error

    # ------------------------------------------------------------ opening

    def _open(self, opened: contextlib.ExitStack) -> None:
        if not self.folder.is_dir():
            raise BinlogError(f"cannot keep jobs in {self.folder}: there is no such folder")
        path = self.folder / _FILE
        if not path.exists() and next(self.folder.glob("binlog.*"), None):
            raise BinlogError(f"{self.folder} has the binlog of another server")
        self._database = opened.enter_context(
            contextlib.closing(
                sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            )
        )
        ask = self._database.execute
        # With the lock to itself, it needs no memory that it shares with others.
        ask("PRAGMA locking_mode = EXCLUSIVE")
        ask("PRAGMA synchronous = FULL")
        ask("BEGIN EXCLUSIVE").connection.rollback()
        names = {name for (name,) in ask("SELECT name FROM sqlite_master")}
        marks = ask("PRAGMA application_id").fetchone()[0], ask("PRAGMA user_version").fetchone()[0]
        if names and marks != (_APPLICATION, _VERSION):
            raise BinlogError(f"{path} is a database of another program, or version")
        ask("PRAGMA journal_mode = WAL")
        if not names:
            self._database.executescript(_SCHEMA)
            ask("PRAGMA wal_checkpoint(TRUNCATE)")
            sync_folder(self.folder)
        ask(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        ask(f"PRAGMA synchronous = {self._mode()}")
        self.max_size = self._bytes("max_page_count")
        self._log = os.open(f"{path}-wal", os.O_RDWR)
        opened.callback(os.close, self._log)
        self._reserve = DiskReserve(self.folder / "jobs.reserve")
        opened.callback(self._reserve.close)

    def _mode(self) -> str:
        if self.every is None:
            return "OFF"
        return "NORMAL" if self.every else "FULL"

    def _why(self, error: sqlite3.Error) -> str:
        """Return what is wrong with the database, in a sentence."""
        path = self.folder / _FILE
        if "locked" in str(error):
            return f"another server keeps its jobs in {self.folder}"
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
            return f"cannot keep jobs in {self.folder}: {error}"
        return f"{path} is damaged, or no database of ours: {error}"

    # ------------------------------------------------------------ reading

    def load(self) -> KeptState:
        """Return all that is kept; raise BinlogError if any of it is damaged."""
        try:
            return self._load()
        except (sqlite3.Error, ValueError, struct.error) as error:
            raise BinlogError(f"{self.folder / _FILE} is damaged: {error}") from error

    def _load(self) -> KeptState:
        ask = self._database.execute
        (found,) = ask("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise ValueError(found)
        jobs = [self._read(*row) for row in ask("SELECT id, kept, tube, body FROM jobs")]
        ((next_id, *sums),) = ask("SELECT next_id, jobs, checksums FROM total").fetchall()
        if sums != [len(jobs), self._total] or next_id <= max(self._checksums, default=0):
            raise ValueError("jobs are missing, or there are too many")
        # Some damage shows only when it is written.
        ask("UPDATE total SET next_id = next_id")
        jobs.sort(key=lambda job: (job.place, job.id))
        return KeptState(jobs, next_id)

    def _read(self, id: int, kept: bytes, tube: str, body: bytes) -> KeptJob:
        numbers = kept[: _NUMBERS.size]
        (checksum,) = _CHECKSUM.unpack(kept[_NUMBERS.size :])
        if checksum != _sum(id, numbers, tube, body):
            raise ValueError(f"job {id} is not as it was written")
        self._checksums[id] = checksum
        self._total ^= checksum
        state, *others = _NUMBERS.unpack(numbers)
        return KeptJob(id, tube, body, _STATES[state], *others)

    # ------------------------------------------------------------ writing

    def has_room(self, size: int) -> bool:
        """Return whether a job of this size can be kept, and what is then done to all jobs."""
        if size > _LARGEST:
            return False
        needed = _RESERVE + 2 * size
        limit = file_limit()
        if limit is not None and self._bytes("page_count") + needed > limit:
            return False
        return self._reserve.hold(needed)

    def _bytes(self, pragma: str) -> int:
        """Return a number of pages in bytes."""
        ask = self._database.execute
        pages, size = (ask(f"PRAGMA {name}").fetchone()[0] for name in (pragma, "page_size"))
        return int(pages * size)

    def write(self, jobs: Iterable[KeptJob], deleted: Iterable[int], next_id: int) -> None:
        """Write what has changed, all or nothing; raise OSError if that cannot be done now."""
        rows = [_row(job) for job in jobs]
        gone = [id for id in deleted if id in self._checksums]
        try:
            self._transact(rows, gone, next_id)
        except sqlite3.Error:
            # What is held back is for this.
            self._reserve.let_go()
            try:
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._transact(rows, gone, next_id)
            except sqlite3.Error as error:
                raise OSError(f"cannot write to {self.folder}: {error}") from error
        for row in rows:
            self._checksums[row.id] = row.checksum
        for id in gone:
            del self._checksums[id]
        self.written += len(rows) + len(gone)
        self.is_synced = not self.every

    def _transact(self, rows: Sequence[_Row], gone: Sequence[int], next_id: int) -> None:
        old = self._checksums
        total = self._total
        for row in rows:
            total ^= row.checksum ^ old.get(row.id, 0)
        for id in gone:
            total ^= old[id]
        added = [row for row in rows if row.id not in old]
        count = len(old) + len(added) - len(gone)
        many = self._database.executemany
        self._database.execute("BEGIN")
        try:
            many("INSERT INTO jobs VALUES (?, ?, ?, ?)", [row[:4] for row in added])
            many(
                "UPDATE jobs SET kept = ? WHERE id = ?",
                [(row.kept, row.id) for row in rows if row.id in old],
            )
            many("DELETE FROM jobs WHERE id = ?", [(id,) for id in gone])
            self._database.execute(
                "UPDATE total SET next_id = ?, jobs = ?, checksums = ?", (next_id, count, total)
            )
            self._database.execute("COMMIT")
        except sqlite3.Error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self._total = total

    def sync(self) -> None:
        """Let what was written outlast the power."""
        if not self.is_synced:
            sync_data(self._log)
            self.is_synced = True

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Leave the folder to another server."""
        self._opened.close()


class _Row(NamedTuple):
    """A job as it is written."""

    id: int
    kept: bytes
    tube: str
    body: bytes
    checksum: int


def _row(job: KeptJob) -> _Row:
    id, tube, body, state, *numbers = job
    kept = _NUMBERS.pack(_STATES.index(state), *numbers)
    checksum = _sum(id, kept, tube, body)
    return _Row(id, kept + _CHECKSUM.pack(checksum), tube, body, checksum)


def _sum(id: int, kept: bytes, tube: str, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(b"%d %b %b" % (id, kept, tube.encode())))
