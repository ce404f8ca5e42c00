"""The servers that the tests run: Debian's beanstalkd and ours."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from conformance.target.clock import clear_leftovers, faketime_library
from conformance.target.failing_allocations import fiu_libraries
from conformance.target.starvation import Starvation, Starved
from reference_server.faults import Fault
from reference_server.model import Model
from reference_server.wire import Put, Request, RequestReader

BEANSTALKD = shutil.which("beanstalkd")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
GCC = shutil.which("gcc")
STRACE = shutil.which("strace")
TCPDUMP = shutil.which("tcpdump")
TSHARK = shutil.which("tshark")
FAKETIME = faketime_library()
LIBFIU = fiu_libraries()

BEANSTALKD_COMMAND = f"{BEANSTALKD} -l {{host}} -p {{port}} [-z {{max_job_size}}] [-b {{binlog}}]"
REFERENCE_COMMAND = (
    f"{sys.executable} -m reference_server --host {{host}} --port {{port}} [-z {{max_job_size}}]"
)

HOSTILE = """
    import itertools
    from reference_server.wire import Reply

    plain = Reply.encode
    script = b"<script>document.title='executed'</script>"
    bodies = itertools.cycle([
        b'---\\nversion: "' + script + b'"\\nname: "</pre><img src=x onerror="\\n',
        b"---\\n- " + script + b"\\n" * 1_000_000,
        b"---\\nversion: \\xff\\xfe\\x80\\n\\xc3\\x28: \\xed\\xa0\\x80\\n",
        b"--- {[<img src=x onerror=alert(1)>: *a &a !!python/object \\x00\\n",
    ])

    def hostile(self):
        match self.word:
            case "OK":
                body = next(bodies)
                return b"OK %d\\r\\n%b\\r\\n" % (len(body), body)
            case "FOUND" | "RESERVED":
                return plain(self._replace(body=script))
            case "USING":
                return b"USING " + script + b"\\r\\n"
            case "NOT_FOUND":
                return b"NOT_FOUND\\x00\\xff" + script + b"\\r\\n"
        return plain(self)

    Reply.encode = hostile
    print("</script>" + script.decode() + "\\x1b[31m\\x00", flush=True)
"""
"""Markup, control characters, broken YAML and a megabyte of it, wherever a reply has room."""

KEEPS = """
    plain, kept = Model._connect, []

    def connect(self, number):
        kept.append(b"x" * 2_000_000)
        return plain(self, number)

    Model._connect = connect
"""
"""Some memory is kept for each client."""

needs_beanstalkd = pytest.mark.skipif(BEANSTALKD is None, reason="beanstalkd is not installed")
needs_gcc = pytest.mark.skipif(GCC is None, reason="gcc is not installed")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")
needs_tcpdump = pytest.mark.skipif(TCPDUMP is None, reason="tcpdump is not installed")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed")
needs_libfiu = pytest.mark.skipif(not LIBFIU, reason="fiu-utils is not installed")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
needs_faketime = pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not installed")


def creeping() -> dict[str, str]:
    """Return the environment in which a clock moves a microsecond each time it is looked at.

    It must not stand still: beanstalkd loses timers of connections that fall due in the same
    instant, which cannot be seen where time flows.
    """
    clear_leftovers()
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "@2026-01-01 00:00:00 i0.000001"}


class OneAtATime(RequestReader):
    """Forgets what arrives together with a request, but for a job's body."""

    def next_request(self) -> Request | None:
        request = super().next_request()
        if request is not None and not isinstance(request, Put):
            self._buffer.clear()
        return request


def silent_at(command: str) -> Fault:
    """Return the fault of a server that never answers a command."""

    def never(*_: object) -> None:
        return None

    method = f"_{command.replace('-', '_')}"
    return Fault("", "silent", model=type("Silent", (Model,), {method: never}))


def let_nobody_starve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a busy machine for an idle one: else a wait goes on for longer, and proves nothing."""
    monkeypatch.setattr(Starvation, "since", lambda *_: Starved(0.0, 0.0, 0.0, 0.0))


def shell_with(folder: Path, marks: bytes) -> Path:
    """Return a shell that has these bytes in its program, too."""
    program = folder / "program"
    program.write_bytes(Path(shutil.which("sh") or "").read_bytes() + marks)
    program.chmod(0o755)
    return program


def changed_server(folder: Path, change: str) -> str:
    """Return the command of a reference server whose code ``change`` has changed."""
    script = folder / "changed_server.py"
    script.write_text(
        "import os, sys\n"
        "from reference_server import serve\n"
        "from reference_server.model import Model, SECOND\n"
        "from reference_server.wire import Reply\n"
        f"{textwrap.dedent(change)}\nsys.exit(serve.main())\n"
    )
    return f"{sys.executable} {script} --host {{host}} --port {{port}}"
