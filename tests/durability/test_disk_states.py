"""The disk of a server, and the states that a crash may leave of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from conformance.durability.crashes import Crash, CrashKind, crashes, points, safe
from conformance.durability.disk import BLOCK, Content, Disk, digest, write_out
from conformance.durability.operations import (
    Create,
    Operation,
    Rename,
    Resize,
    SendBytes,
    Sync,
    Timed,
    Unlink,
    Write,
)

LOG = "log.1"


def timed(*operations: Operation) -> list[Timed]:
    return [Timed(float(second), operation) for second, operation in enumerate(operations)]


def states(*operations: Operation, kind: CrashKind) -> list[dict[str, bytes]]:
    """Return the files of each different state of a kind."""
    found: dict[str, Crash] = {}
    for crash in crashes(timed(*operations), power=True):
        if crash.kind is kind:
            found.setdefault(digest(crash.files), crash)
    return [{path: c.bytes() for path, c in one.files.items()} for one in found.values()]


# ------------------------------------------------------------ the disk


@pytest.mark.parametrize("offset", [0, 5, BLOCK - 3, 2 * BLOCK])
def test_content_is_as_it_was_written(offset: int) -> None:
    content = Content.of(b"abc").written(offset, b"wxyz")
    expected = bytearray(max(3, offset + 4))
    expected[:3] = b"abc"
    expected[offset : offset + 4] = b"wxyz"
    assert content.bytes() == expected
    assert content.resized(offset + 2).resized(offset + 4).bytes()[offset:] == b"wx\0\0"


def test_files_are_written_out_with_their_zeros(tmp_path: Path) -> None:
    content = Content.of(b"a" + bytes(3 * BLOCK) + b"b").resized(4 * BLOCK)
    write_out({"sub/log": content}, tmp_path)
    assert (tmp_path / "sub" / "log").read_bytes() == content.bytes()


def test_a_disk_does_what_operations_do() -> None:
    disk = Disk()
    for operation in (
        Create(1, "a"),
        Write(1, 2, b"xy"),
        Rename("a", "b"),
        Create(2, "a"),
        Unlink("b"),
        Write(1, 0, b"lost"),
        Resize(2, 3),
    ):
        disk.apply(operation)
    assert {path: content.bytes() for path, content in disk.files().items()} == {"a": b"\0\0\0"}


# ------------------------------------------------------------ crashes


def test_a_server_that_is_killed_leaves_each_prefix() -> None:
    found = states(Create(1, LOG), Write(1, 0, b"ab"), Write(1, 2, b"cd"), kind=CrashKind.KILLED)
    assert found == [{LOG: b""}, {LOG: b"ab"}, {LOG: b"abcd"}]


def test_a_write_is_torn_at_each_byte_and_a_long_one_at_each_sector() -> None:
    assert states(Create(1, LOG), Write(1, 0, b"abc"), kind=CrashKind.TORN) == [
        {LOG: b"a"},
        {LOG: b"ab"},
    ]
    long = states(Create(1, LOG), Write(1, 500, b"x" * 1100), kind=CrashKind.TORN)
    assert [len(one[LOG]) for one in long] == [512, 1024, 1536]


def test_what_is_synced_is_not_lost() -> None:
    found = states(
        Create(1, LOG), Write(1, 0, b"ab"), Sync(1), Write(1, 2, b"cd"), kind=CrashKind.POWER
    )
    # Before it was synced, all of it may be lost; afterwards only what came later.
    assert found == [{}, {LOG: b""}, {LOG: b"\0\0"}, {LOG: b"ab"}]


def test_blocks_are_lost_apart_from_each_other() -> None:
    found = states(
        *(Create(1, LOG), Write(1, 0, b"a" * BLOCK), Sync(1)),
        *(Write(1, 0, b"b" * BLOCK), Write(1, BLOCK, b"c" * BLOCK)),
        kind=CrashKind.POWER,
    )
    old, new, later = b"a" * BLOCK, b"b" * BLOCK, b"c" * BLOCK
    assert {LOG: old + later} in found  # The later block without the earlier one.
    assert {LOG: new} in found
    assert {LOG: new + bytes(BLOCK)} in found


def test_a_new_file_may_be_there_empty_where_the_old_one_is_gone() -> None:
    operations = (
        *(Create(1, "old"), Write(1, 0, b"jobs"), Sync(1)),
        *(Create(2, "new"), Write(2, 0, b"jobs"), Unlink("old"), Sync(2)),
    )
    assert {"new": b""} in states(*operations, kind=CrashKind.POWER)
    synced = (*operations[:5], Sync(2), *operations[5:])
    assert {"new": b""} not in states(*synced, kind=CrashKind.POWER)


MANY = [
    op for n in range(9) for op in (Create(n, f"{n}"), Write(n, 0, b"a"), SendBytes(1), Sync(n))
]


def test_of_many_operations_some_of_each_kind_are_tried() -> None:
    operations = timed(*MANY)
    chosen = points(operations, 8, 2)
    kinds = Counter(type(operations[number].operation) for number in chosen)
    assert kinds == {Create: 2, Write: 2, Sync: 2}
    assert min(chosen) >= 8
    assert len(operations) - 1 in chosen
    found = [crash.at for crash in crashes(operations, True, among=chosen)]
    assert {*found} <= {at + more for at in chosen for more in (0, 1)}
    assert {crash.at for crash in crashes(operations, True)} == {*range(1, len(operations) + 1)}


def test_of_many_losses_at_a_point_a_few_are_tried() -> None:
    operations = timed(*(Write(1, n * BLOCK, b"a") for n in range(50)), Sync(1))
    lost = [c for c in crashes(operations, True, among={50}) if c.kind is CrashKind.POWER]
    assert 5 <= len(lost) <= 20
    assert len([c for c in crashes(operations, True) if c.kind is CrashKind.POWER]) > 150


def test_a_write_that_is_synced_at_once_cannot_be_lost() -> None:
    assert safe(timed(Create(1, LOG), Write(1, 0, b"a"), Write(1, 1, b"b", synced=True))) == [
        *(0, 0, 0, 3),
    ]
