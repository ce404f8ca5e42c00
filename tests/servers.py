"""The servers that the tests run: Debian's beanstalkd and ours, with a clock that stands still."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

BEANSTALKD = shutil.which("beanstalkd")
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)

REFERENCE_COMMAND = f"{sys.executable} -m reference_server --host {{host}} --port {{port}}"
BEANSTALKD_COMMAND = f"{BEANSTALKD} -l {{host}} -p {{port}}"


def frozen() -> dict[str, str]:
    """The environment in which a program sees the same instant for ever."""
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "2026-01-01 00:00:00"}
