"""``python -m tests.load``: measures the load of remote runs on beanstalkd, and writes it down."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict

from conformance import yamlish
from conformance.run.load import FILE, QUICK, WHOLE, Load
from conformance.target.address import ask, visit
from conformance.target.launched_target import LaunchedTarget
from tests.servers import BEANSTALKD_COMMAND

KINDS = {QUICK: ["--quick"], WHOLE: []}
"""The options of the runs."""


def measure(*options: str) -> tuple[Load, str]:
    """Run the suite on a new beanstalkd as on a server of others; return its load and output."""
    with closing(LaunchedTarget(BEANSTALKD_COMMAND, "real")) as server:
        assert isinstance(server.address, tuple)
        host, port = server.address
        command = [sys.executable, "-m", "conformance", "run", f"--target={host}:{port}"]
        begun = time.monotonic()
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", *options], capture_output=True, text=True
        )
        seconds = time.monotonic() - begun
        assert done.returncode in (0, 1), done.stdout + done.stderr
        with visit(server.address, 5.0) as client:
            stats = yamlish.dictionary(ask(client, b"stats", 5.0).body or b"")
    commands = sum(int(count) for key, count in stats.items() if key.startswith("cmd-"))
    jobs, connections = int(stats["total-jobs"]), int(stats["total-connections"])
    return Load(commands, connections, jobs, round(seconds)), done.stdout + done.stderr


if __name__ == "__main__":
    loads = {kind: asdict(measure(*options)[0]) for kind, options in KINDS.items()}
    FILE.write_text(json.dumps(loads, indent=1) + "\n", encoding="utf-8")
