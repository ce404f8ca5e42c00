"""The servers that the tests run: Debian's beanstalkd and ours, with a clock that hardly moves."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

BEANSTALKD = shutil.which("beanstalkd")
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)

REFERENCE_COMMAND = f"{sys.executable} -m reference_server --host {{host}} --port {{port}}"
BEANSTALKD_COMMAND = f"{BEANSTALKD} -l {{host}} -p {{port}}"


def creeping() -> dict[str, str]:
    """The environment in which a program's clock moves a microsecond each time it is looked at.

    It must not stand still: beanstalkd loses timers of connections that fall due in the same
    instant, which cannot be seen where time flows.
    """
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "@2026-01-01 00:00:00 i0.000001"}
