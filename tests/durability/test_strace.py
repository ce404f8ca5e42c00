"""The output of strace: operations on files, and what cannot be judged by it."""

from __future__ import annotations

import re

import pytest

from conformance.durability.operations import (
    Create,
    Operation,
    Rename,
    Resize,
    SendBytes,
    Sync,
    Unlink,
    Write,
)
from conformance.durability.strace import Reader
from conformance.verdict import NotTestable

LOG = "log.1"


def hexed(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


HOSTS = hexed("/etc/hosts")
FILE = f"4<{hexed('/b/log.1')}>"
TRACE = f"""\
7 100.1 openat(AT_FDCWD<{hexed("/tmp")}>, "{hexed("/b/log.1")}", O_WRONLY|O_CREAT, 0600) = {FILE}
7 100.15 clone3({{flags=CLONE_VM|CLONE_FS|CLONE_FILES}} => {{parent_tid=[8]}}, 88) = 8
7 100.2 openat(AT_FDCWD<{hexed("/tmp")}>, "{HOSTS}", O_RDONLY) = 5<{HOSTS}>
7     100.3 write({FILE}, "{hexed("abcd")}", 4) = 4
7 100.4 lseek({FILE}, 1, SEEK_SET) = 1
8 100.5 writev({FILE}, [{{iov_base="{hexed("x")}"}}, {{iov_base="{hexed("y")}"}}], 2) = 2
7 100.6 fsync({FILE} <unfinished ...>
8 100.7 pwrite64({FILE}, "{hexed("z")}", 1, 9) = 1
7 100.8 <... fsync resumed>) = 0
7 100.9 write(6<TCP:[127.0.0.1:11300->127.0.0.1:5]>, "{hexed("OK")}", 2) = 2
7 101.0 write(6<TCP:[127.0.0.1:99->127.0.0.1:5]>, "{hexed("OK")}", 2) = 2
7 101.1 write({FILE}, "{hexed("no")}", 2) = -1 ENOSPC (No space left on device)
7 101.2 ftruncate({FILE}, 20) = 0
7 101.3 rename("{hexed("/b/log.1")}", "{hexed("/b/log.2")}") = 0
7 101.4 unlink("{hexed("/b/log.2")}") = 0
7 101.5 close({FILE}) = 0
7 101.6 +++ killed by SIGKILL +++
"""


MAPPED = f"7 1.0 mmap(NULL, 9, PROT_READ|PROT_WRITE, MAP_SHARED, {FILE}, 0) = 0x7f"


def read(trace: str) -> list[Operation]:
    reader = Reader("/b", re.compile(":11300->"))
    return [one.operation for one in reader.read(trace.splitlines())]


def test_a_number_is_free_as_soon_as_it_is_being_closed() -> None:
    again = f'7 100.5 openat(AT_FDCWD<{hexed("/tmp")}>, "{hexed("/b/log.2")}", O_CREAT) = 4'
    lines = [
        *TRACE.splitlines()[:2],
        f"8 100.4 close({FILE} <unfinished ...>",
        f"{again}<{hexed('/b/log.2')}>",
        "8 100.6 <... close resumed>) = 0",
        f'7 100.7 write(4<{hexed("/b/log.2")}>, "{hexed("a")}", 1) = 1',
    ]
    assert read("\n".join(lines))[-1] == Write(2, 0, b"a")


def test_strace_is_read() -> None:
    assert read(TRACE) == [
        Create(1, LOG),
        Write(1, 0, b"abcd"),
        Write(1, 1, b"xy"),
        Write(1, 9, b"z"),
        Sync(1),
        SendBytes(2),
        Resize(1, 20),
        Rename(LOG, "log.2"),
        Unlink("log.2"),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f'7 1.0 write({FILE}, "{hexed("a")}", 1) = 1', "has not shown where it has opened"),
        (f"{TRACE.splitlines()[0]}\n{MAPPED}\n7 1.0 fsync({FILE}) = 0", "through memory"),
        ("7 1.0 io_uring_setup(8, {flags=0}) = 5<anon_inode:[io_uring]>", "io_uring_setup"),
    ],
)
def test_what_strace_does_not_show_is_no_ground_for_a_verdict(line: str, why: str) -> None:
    with pytest.raises(NotTestable, match=why):
        read(line)
