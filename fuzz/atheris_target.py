"""The function that Atheris calls with bytes, as ClusterFuzzLite and OSS-Fuzz run it.

As a program, it fuzzes the reference server, whose code Atheris instruments; or, if the environment
names one, a server that is launched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache

LAUNCH = "BEANSTALK_CONFORMANCE_LAUNCH"
"""The variable with the command of a server to launch."""


@cache
def _judge() -> Callable[[bytes], None]:
    # Imported late: what is imported while Atheris looks is instrumented.
    from conformance.run.options import Options
    from fuzz.engine import judge

    options = Options(None, os.environ.get(LAUNCH), "auto")
    options.check()
    return judge(options.target())


def TestOneInput(data: bytes) -> None:
    """Play the program that bytes choose; raises Violation if the target is wrong."""
    _judge()(data)


def main() -> None:
    """Hand over to Atheris, with the options of libFuzzer."""
    import atheris

    watches: AbstractContextManager[object] = (
        nullcontext()
        if LAUNCH in os.environ
        else atheris.instrument_imports(include=["reference_server"])
    )
    with watches:
        _judge()
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
