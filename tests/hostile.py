"""Hostile and broken targets, and what a default run costs on each: a table in Markdown.

``python -m tests.hostile [NAME …]``, or ``python -m tests.hostile --faults 1/20`` for the reference
server with each of its faults, or some of them, beside runs on the one without.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from reference_server.faults import FAULTS
from tests import ROOT
from tests.servers import HOSTILE, REFERENCE_COMMAND, changed_server

LIMIT = 600
"""Seconds after which a run is ended."""

MOST_TIMES, MORE_SECONDS, MOST_MEMORY = 1.5, 10, 250
"""The bound of a run on a fault, as times that of a run without, and seconds more; megabytes."""
BESIDE = 5
"""Faults after which a server without one is measured again, as the load may be another."""
_COLUMNS = ("target", "s", "CPU s", "MB", "lines", "exit code", "load")

_ENCODE = """
    import itertools
    from reference_server.wire import Reply
    plain, count = Reply.encode, itertools.count(1)

    def encode(self):
        {body}

    Reply.encode = encode
"""
CHANGES: Mapping[str, str] = {
    "conforms": "",
    "does not answer pause-tube": "Model._pause_tube = lambda self, *_: None",
    "does not answer stats": "Model._stats = lambda self, *_: None",
    "does not answer list-tube-used": "Model._list_tube_used = lambda self, *_: None",
    "does not answer put": "Model._put = lambda self, *_: None",
    "never sends DEADLINE_SOON": "Model._safe_until = lambda self, conn: None",
    "kick loses the priority": """
        def kick(self, job):
            self._dequeue(job)
            job.pri = 0
            job.kicks += 1
            self._make_ready(job)
        Model._kick_one = kick
    """,
    "junk behind each reply": _ENCODE.format(body='return plain(self) + b"junk\\r\\n"'),
    "dies every 300 replies": _ENCODE.format(
        body="return plain(self) if next(count) < 300 else os._exit(1)"
    ),
    "announces a gigabyte": _ENCODE.format(
        body='return b"OK 1073741824\\r\\n" if self.word == "OK" else plain(self)'
    ),
    "line feeds only": _ENCODE.format(body='return plain(self).replace(b"\\r", b"")'),
    "says UNKNOWN_COMMAND to all": _ENCODE.format(body='return b"UNKNOWN_COMMAND\\r\\n"'),
    "crashes at pause-tube": "Model._pause_tube = lambda self, *_: os.abort()",
    "hangs at kick": """
        import time
        Model._kick = lambda self, *_: time.sleep(10**6)
    """,
    "markup and broken YAML": HOSTILE,
    "each reply twice": _ENCODE.format(body="return 2 * plain(self)"),
    "ignores half-close": "serve.Engine.eof = lambda self, conn: None",
    "escape sequences in stats": _ENCODE.format(
        body='return b"OK 9\\r\\n\\x1b[2J\\x1b[31m\\r\\n" if self.word == "OK" else plain(self)'
    ),
}
"""Changes of the reference server."""
TALKS: Mapping[str, str] = {
    "hangs up at once": "return",
    "says nothing": "time.sleep(10**6)",
    "floods": 'while True: self.wfile.write(b"USING default\\r\\n" * 1000)',
    "one byte a second": """
        while self.rfile.readline():
            for byte in b"USING default\\r\\n":
                self.wfile.write(bytes([byte]))
                time.sleep(1)
    """,
    "speaks HTTP": """
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 400 Bad Request\\r\\nContent-Length: 0\\r\\n\\r\\n")
    """,
    "hangs up at each second line": """
        self.rfile.readline()
        self.wfile.write(b"USING default\\r\\n")
        self.rfile.readline()
    """,
}
"""Servers of their own: what they do with a connection."""


class Cost(NamedTuple):
    """The costs of a run: seconds, seconds of CPU, megabytes at the peak, lines, the exit code."""

    seconds: float
    cpu: float
    memory: float
    lines: int
    status: int


def command(name: str, folder: Path) -> str:
    """Return the command that starts a target."""
    if name in CHANGES:
        return changed_server(folder, CHANGES[name])
    script = folder / "talks.py"
    body = textwrap.indent(textwrap.dedent(TALKS[name]), " " * 8)
    script.write_text(
        "import socketserver, sys, time\n"
        "class Handler(socketserver.StreamRequestHandler):\n"
        f"    def handle(self):\n{body}\n"
        "class Server(socketserver.ThreadingTCPServer):\n"
        "    allow_reuse_address = daemon_threads = True\n"
        "    def handle_error(self, *_): pass\n"
        "Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()\n"
    )
    return f"{sys.executable} {script} {{host}} {{port}}"


def cost(name: str) -> Cost:
    """Run the suite on a target, and return what it cost."""
    with tempfile.TemporaryDirectory() as folder:
        return _cost(command(name, Path(folder)), folder)


def _cost(launch: str, folder: str) -> Cost:
    with tempfile.TemporaryFile() as output:
        asked = ["run", f"--launch={launch}", "-p", "no:cacheprovider"]
        start = time.monotonic()
        process = subprocess.Popen(
            ["timeout", str(LIMIT), sys.executable, "-m", "conformance", *asked],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        lines = output.read().count(b"\n")
    cpu = used.ru_utime + used.ru_stime
    return Cost(seconds, cpu, used.ru_maxrss / 1000, lines, process.returncode)


def cost_of_fault(name: str) -> Cost:
    """Run the suite on the reference server with a fault; the empty name is none."""
    more = f" --fault {name}" if name else ""
    with tempfile.TemporaryDirectory() as folder:
        return _cost(f"{REFERENCE_COMMAND}{more}", folder)


def _row(name: str, it: Cost, *more: str) -> None:
    load = f"{os.getloadavg()[0]:.1f}"
    told = (f"{it.seconds:.0f}", f"{it.cpu:.0f}", f"{it.memory:.0f}", str(it.lines))
    print("|", " | ".join((name, *told, str(it.status), load, *more)), "|", flush=True)


def _head(*columns: str) -> None:
    print("|", " | ".join(columns), "|")
    print("| --- |", " | ".join("--:" for _ in columns[1:]), "|", flush=True)


def of_faults(part: int, parts: int) -> None:
    """Print what each fault of this part costs, and how much more that is than without one."""
    _head(*_COLUMNS, "of plain", "within")
    names = sorted(FAULTS)[part - 1 :: parts]
    for start in range(0, len(names), BESIDE):
        plain = cost_of_fault("")
        _row("(no fault)", plain, "", "")
        for name in names[start : start + BESIDE]:
            it = cost_of_fault(name)
            quick = it.seconds <= MOST_TIMES * plain.seconds + MORE_SECONDS
            within = "yes" if quick and it.memory <= MOST_MEMORY else "NO"
            _row(name, it, f"{it.seconds / plain.seconds:.2f}", within)


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(text)
    return int(part), int(parts)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*CHANGES, *TALKS])
    parser.add_argument("--faults", type=_part, metavar="PART/PARTS", help="such as 1/20")
    asked = parser.parse_args()
    if asked.faults:
        of_faults(*asked.faults)
        return 0
    _head(*_COLUMNS)
    for name in asked.names:
        _row(name, cost(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
