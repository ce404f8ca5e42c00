"""Parses the output of strace into operations on the folder of a server's jobs."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from conformance.durability.operations import (
    Create,
    HardLink,
    Operation,
    Rename,
    Resize,
    SendBytes,
    Sync,
    Timed,
    Unlink,
    Write,
)
from conformance.target.system_calls import STRING, Phase, SystemCall, SystemCalls, unescaped
from conformance.verdict import NotTestable
from reference_server.state import SECOND

CALLS = (
    *("open", "openat", "creat", "close", "dup", "dup2", "dup3", "fcntl", "clone", "clone3"),
    *("fork", "vfork", "read", "readv", "lseek", "write", "writev", "pwrite64", "pwritev"),
    *("pwritev2", "sendto", "sendmsg", "ftruncate", "truncate", "fallocate", "rename"),
    *("renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "fsync", "fdatasync"),
    *("sync", "syncfs", "mmap", "msync", "copy_file_range", "io_uring_setup", "io_submit"),
)
"""The system calls that are recorded."""
_NUMBERED = re.compile(r"(AT_FDCWD|\d+)<((?:->|[^<>])*)>")
_FLAG_KEEPS_SIZE = "FALLOC_FL_KEEP_SIZE"


def arguments(output: str) -> list[str]:
    """Return the words that run a command under strace, which writes to ``output``."""
    plain = ["strace", "-f", "-ttt", "-yy", "-xx", "-s", "16777216", "--seccomp-bpf"]
    return [*plain, "-e", "signal=none", "-e", f"trace={','.join(CALLS)}", "-o", output, "--"]


@dataclass
class _Open:
    """An open file of the folder; ``offset`` is where it is read and written next."""

    file: int
    offset: int = 0
    appends: bool = False
    synced: bool = False


@dataclass
class Reader:
    """Reads the calls of a server; ``folder`` is absolute, ``place`` matches its own sockets."""

    folder: str
    place: re.Pattern[str]
    mapped: set[str] = field(default_factory=set)
    """Paths of files that are written through memory, which strace does not see."""
    _names: dict[str, int] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    _tables: dict[str, dict[str, _Open]] = field(default_factory=dict)
    _calls: SystemCalls = field(default_factory=SystemCalls)

    def read(self, lines: Iterable[str]) -> Iterator[Timed]:
        """Yield the operations; raise NotTestable if they cannot all be known."""
        for call in self._calls.read(lines):
            table = self._table(call.process)
            is_close = call.name == "close"
            if call.phase is Phase.BEGUN:
                if is_close and (closed := _NUMBERED.match(call.arguments)):
                    # Another thread may get its number before that has ended.
                    table.pop(closed[1], None)
            elif call.result != -1 and not (is_close and call.phase is Phase.RESUMED):
                for operation in self._operations(call):
                    yield Timed((call.at or 0) / SECOND, operation)

    def _table(self, process: str) -> dict[str, _Open]:
        """Return the open files of a process; one that is new has those of its parent."""
        if process not in self._tables:
            begun = self._calls.begun.items()
            parents = [one for one, call in begun if call.name.startswith("clone")]
            self._tables[process] = self._tables[parents[-1]] if parents else {}
        return self._tables[process]

    def _operations(self, call: SystemCall) -> Iterator[Operation]:
        process, name, given, returned = call.process, call.name, call.arguments, str(call.result)
        if name in _OPENS:
            yield from self._open(process, given, returned, call.rest)
        elif name in ("clone", "clone3", "fork", "vfork"):
            table = self._tables[process]
            shared = "CLONE_FILES" in given
            self._tables.setdefault(returned, table if shared else dict(table))
        elif name in ("rename", "renameat", "renameat2", "link", "linkat"):
            yield from self._name(name, given)
        elif name in ("unlink", "unlinkat"):
            yield from self._unlink(given)
        elif name == "truncate":
            (path, *_), size = self._paths(given), int(given.rpartition(", ")[2])
            if path in self._names:
                yield self._resize(self._names[path], size)
        elif name == "sync":
            yield Sync(None)
        elif name in ("io_uring_setup", "io_submit", "pwritev2"):
            raise NotTestable(f"it writes by {name}, of which strace shows nothing")
        elif name == "msync" and self.mapped:
            raise NotTestable("it writes its files through memory, which strace does not show")
        else:
            yield from self._by_number(process, name, given, returned)

    # ------------------------------------------------------------ names

    def _relative(self, path: str) -> str | None:
        """Return a path below the folder; "" for the folder itself, None for any other."""
        path = os.path.normpath(path)
        if path == self.folder:
            return ""
        return os.path.relpath(path, self.folder) if path.startswith(self.folder + "/") else None

    def _paths(self, given: str) -> list[str]:
        """Return the paths below the folder that a call names; "" for others."""
        bases = [_decoded(path) for _, path in _NUMBERED.findall(STRING.sub("", given))]
        found = []
        for number, (text, _) in enumerate(STRING.findall(given)):
            base = bases[min(number, len(bases) - 1)] if bases else os.getcwd()
            found.append(self._relative(os.path.join(base, _decoded(text))) or "")
        return found

    def _open(self, process: str, given: str, returned: str, rest: str) -> Iterator[Operation]:
        match = re.match(r"<((?:[^<>])*)>", rest)
        path = self._relative(_decoded(match[1])) if match else None
        table = self._tables[process]
        if path is None:
            table.pop(returned, None)
            return
        if path == "" or "O_DIRECTORY" in given:
            table[returned] = _Open(0)
            return
        if path not in self._names:
            number = self._names[path] = len(self._sizes) + 1
            self._sizes[number] = 0
            yield Create(number, path)
        number = self._names[path]
        if "O_TRUNC" in given and self._sizes[number]:
            yield self._resize(number, 0)
        synced = "O_SYNC" in given or "O_DSYNC" in given
        table[returned] = _Open(number, 0, "O_APPEND" in given, synced)

    def _name(self, name: str, given: str) -> Iterator[Operation]:
        old, new = self._paths(given)
        if old not in self._names and not new:
            return
        if old not in self._names or not new:
            raise NotTestable("it moves files into its folder, or out of it")
        if name.startswith("link"):
            self._names[new] = self._names[old]
            yield HardLink(old, new)
        else:
            self._names[new] = self._names.pop(old)
            yield Rename(old, new)

    def _unlink(self, given: str) -> Iterator[Operation]:
        for path in self._paths(given):
            if self._names.pop(path, None) is not None:
                yield Unlink(path)

    # ------------------------------------------------------------ open files

    def _by_number(self, process: str, name: str, given: str, returned: str) -> Iterator[Operation]:
        numbers = _NUMBERED.findall(STRING.sub('""', given))
        if not numbers:
            return
        number, place = numbers[0]
        table = self._tables[process]
        if name in ("write", "writev", "sendto", "sendmsg") and self.place.search(place):
            yield SendBytes(int(returned))
        elif name == "copy_file_range" and len(numbers) > 1 and numbers[1][0] in table:
            raise NotTestable(f"it writes by {name}, of which strace shows no bytes")
        elif number in table:
            yield from self._on_file(table, number, name, given, returned)
        elif self._relative(_decoded(place)) and name not in ("close", "mmap"):
            raise NotTestable(f"strace has not shown where it has opened {_decoded(place)}")

    def _on_file(
        self, table: dict[str, _Open], number: str, name: str, given: str, returned: str
    ) -> Iterator[Operation]:
        opened = table[number]
        if name == "close":
            del table[number]
        elif name in ("dup", "dup2", "dup3") or (name == "fcntl" and "F_DUPFD" in given):
            table[returned] = opened
        elif name in ("read", "readv"):
            opened.offset += int(returned)
        elif name == "lseek":
            opened.offset = int(returned)
        elif name == "mmap":
            if "MAP_SHARED" in given and "PROT_WRITE" in given:
                self.mapped |= {path for path, file in self._names.items() if file == opened.file}
        elif name in ("fsync", "fdatasync"):
            if any(self._names.get(path) == opened.file for path in self.mapped):
                raise NotTestable("it writes its files through memory, which strace does not show")
            yield Sync(opened.file)
        elif name == "syncfs":
            yield Sync(None)
        elif change := _CHANGES.get(name):
            yield from change(self, opened, given, int(returned))

    def _write(self, opened: _Open, given: str, count: int) -> Iterator[Operation]:
        if opened.appends:
            opened.offset = self._sizes[opened.file]
        yield self._written(opened, opened.offset, given, count)
        opened.offset += count

    def _pwrite(self, opened: _Open, given: str, count: int) -> Iterator[Operation]:
        numbers = re.findall(r"-?\b\d+\b", STRING.sub("", given))
        offset = int(numbers[-1])
        if opened.appends:
            offset = self._sizes[opened.file]
        yield self._written(opened, offset, given, count)

    def _written(self, opened: _Open, offset: int, given: str, count: int) -> Write:
        texts = STRING.findall(given)
        if any(cut for _, cut in texts):
            raise NotTestable("it writes more at once than strace shows")
        data = b"".join(unescaped(text) for text, _ in texts)[:count]
        self._sizes[opened.file] = max(self._sizes[opened.file], offset + count)
        return Write(opened.file, offset, data, opened.synced)

    def _truncate(self, opened: _Open, given: str, _: int) -> Iterator[Operation]:
        yield self._resize(opened.file, int(given.rpartition(", ")[2]))

    def _allocate(self, opened: _Open, given: str, _: int) -> Iterator[Operation]:
        mode, offset, length = given.split(", ")[1:]
        start, end = int(offset), int(offset) + int(length)
        if "PUNCH_HOLE" in mode or "ZERO_RANGE" in mode:
            yield Write(opened.file, start, bytes(min(end, self._sizes[opened.file]) - start))
        elif mode != "0" and mode != _FLAG_KEEPS_SIZE:
            raise NotTestable(f"it changes its files by fallocate with {mode}")
        if _FLAG_KEEPS_SIZE not in mode and end > self._sizes[opened.file]:
            yield self._resize(opened.file, end)

    def _resize(self, file: int, size: int) -> Resize:
        self._sizes[file] = size
        return Resize(file, size)


def _decoded(path: str) -> str:
    return unescaped(path).decode(errors="replace")


_OPENS = ("open", "openat", "creat")
_Change = Callable[[Reader, _Open, str, int], Iterator[Operation]]
_CHANGES: dict[str, _Change] = {
    "write": Reader._write,
    "writev": Reader._write,
    "pwrite64": Reader._pwrite,
    "pwritev": Reader._pwrite,
    "ftruncate": Reader._truncate,
    "fallocate": Reader._allocate,
}
"""The calls that change an open file."""
