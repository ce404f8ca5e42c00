"""The servers that the tests run: Debian's beanstalkd and ours."""

from __future__ import annotations

import shutil
import sys

import pytest

from conformance.clock import clear_leftovers, faketime_library

BEANSTALKD = shutil.which("beanstalkd")
FAKETIME = faketime_library()

BEANSTALKD_COMMAND = f"{BEANSTALKD} -l {{host}} -p {{port}} [-z {{max_job_size}}] [-b {{binlog}}]"
REFERENCE_COMMAND = (
    f"{sys.executable} -m reference_server --host {{host}} --port {{port}} [-z {{max_job_size}}]"
)

needs_beanstalkd = pytest.mark.skipif(BEANSTALKD is None, reason="beanstalkd is not installed")
needs_faketime = pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not installed")


def creeping() -> dict[str, str]:
    """The environment in which a program's clock moves a microsecond each time it is looked at.

    It must not stand still: beanstalkd loses timers of connections that fall due in the same
    instant, which cannot be seen where time flows.
    """
    clear_leftovers()
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "@2026-01-01 00:00:00 i0.000001"}
