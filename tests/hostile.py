"""Hostile and broken targets, and what a default run costs on each: a table in Markdown.

``python -m tests.hostile [NAME …]``
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

from tests.servers import HOSTILE, changed_server

LIMIT = 600
"""Seconds after which a run is ended."""

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


def cost(name: str, *options: str) -> Cost:
    """Run the suite on a target, and return what it cost."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        launch = command(name, Path(folder))
        asked = ["run", f"--launch={launch}", "-p", "no:cacheprovider", *options]
        start = time.monotonic()
        process = subprocess.Popen(
            ["timeout", str(LIMIT), sys.executable, "-m", "conformance", *asked],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
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


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*CHANGES, *TALKS])
    print("| target | s | CPU s | MB | lines | exit code |")
    print("| --- | --: | --: | --: | --: | --: |", flush=True)
    for name in parser.parse_args().names:
        it = cost(name)
        told = f"{it.seconds:.0f} | {it.cpu:.0f} | {it.memory:.0f} | {it.lines} | {it.status}"
        print(f"| {name} | {told} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
