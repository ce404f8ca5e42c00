"""A server that counts its edges as AFL++'s runtime does, whichever compilers are installed."""

from __future__ import annotations

import zlib
from pathlib import Path

from tests.servers import changed_server

_COUNTS = """
import ctypes
import zlib

SIZE = {size}
if {tells} and "AFL_DUMP_MAP_SIZE" in os.environ:
    print(SIZE)
    sys.exit(255)
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
counters = [0] * SIZE
if "__AFL_SHM_ID" in os.environ:
    start = libc.shmat(int(os.environ["__AFL_SHM_ID"]), None, 0)
    counters = (ctypes.c_ubyte * SIZE).from_address(start)
plain, answer, history = Model._command, Model._delete, {{}}
SECRET = ["reserve-job", "bury", "kick-job", "reserve-job", "touch", "delete"]


def count(name):
    edge = zlib.crc32(name.encode()) % SIZE
    counters[edge] = counters[edge] % 255 + 1


def command(self, conn, command):
    count(command.verb)
    if command.args and command.args[0] in self.jobs:
        done = history.setdefault(command.args[0], [])
        done.append(command.verb)
        stages = sum(done[:n] == SECRET[:n] for n in range(1, len(SECRET) + 1))
        for stage in range(stages):
            count(f"stage {{stage}}")
    return plain(self, conn, command)


def delete(self, conn, id):
    reply = answer(self, conn, id)
    return reply._replace(word="BURIED") if history.get(id) == SECRET else reply


count("main")
Model._command, Model._delete = command, delete
"""
STAGES = 6
"""The commands about one job in a row, each with an edge of its own, behind which a bug is."""


def edge_of(name: str) -> int:
    """Return the number of an edge of such a server of 4096 edges."""
    return zlib.crc32(name.encode()) % 4096


def instrumented_server(folder: Path, tells: bool = True, size: int = 4096) -> str:
    """Return the command of a reference server that counts edges, and tells how many if asked."""
    return changed_server(folder, _COUNTS.format(tells=tells, size=size))
