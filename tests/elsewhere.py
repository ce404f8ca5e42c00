"""Other systems, simulated: our packages run without what only Linux has, or only POSIX.

``python -m tests.elsewhere SYSTEM import`` imports all modules; ``… pytest ARGUMENTS`` and
``… console ARGUMENTS`` run pytest and the console.
"""

from __future__ import annotations

import enum
import importlib
import os
import pkgutil
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from beanstalk_conformance import PACKAGES

OF_LINUX = {
    "os": "sched_getaffinity sched_setaffinity memfd_create pidfd_open",
    "select": "epoll EPOLLET EPOLLIN EPOLLRDHUP EPOLLOUT",
    "socket": "MSG_ERRQUEUE SO_PEERCRED TCP_INFO TCP_QUICKACK",
}
OF_POSIX = {
    "os": "chown fork getgid getloadavg getpgid getpgrp getsid killpg mkfifo nice pread pwrite"
    " setsid sysconf uname WNOHANG",
    "select": "poll POLLIN POLLOUT POLLERR POLLHUP POLLNVAL",
    "socket": "AF_UNIX MSG_DONTWAIT SO_REUSEPORT",
    "signal": "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGSTOP SIGTSTP SIGUSR1 SIGUSR2"
    " alarm pause setitimer pthread_kill pthread_sigmask sigwait",
}
MODULES_OF_POSIX = "curses fcntl grp pty pwd readline resource syslog termios tty"
SYSTEMS = {"macos": (OF_LINUX,), "windows": (OF_LINUX, OF_POSIX)}
# They may use what a system has; they have their own ways where it has not.
OTHERS = """
    _pytest.pytester anybadge asyncio click hypothesis.stateful jinja2 multiprocessing.queues
    multiprocessing.popen_spawn_posix platformdirs.unix pydantic pytest sortedcontainers
    xdist.plugin xdist.workermanage xdist.dsession xdist.looponfail yaml
"""


def hide(system: str) -> None:
    """Take away what another system does not have, where our packages would look for it."""
    for name in OTHERS.split():
        importlib.import_module(name)
    selectors.DefaultSelector = selectors.SelectSelector  # type: ignore[misc,assignment]
    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)
    for hidden in SYSTEMS[system]:
        for module, names in hidden.items():
            here = importlib.import_module(module)
            for name in filter(partial(hasattr, here), names.split()):
                delattr(here, name)
    if system == "windows":
        modules: dict[str, Any] = sys.modules
        modules.update(dict.fromkeys(MODULES_OF_POSIX.split()))
        known = [(one.name, one.value) for one in signal.Signals if hasattr(signal, one.name)]
        signal.Signals = enum.IntEnum("Signals", known)  # type: ignore[misc]
    _without_proc()


def _without_proc() -> None:
    """Let no file or folder of Linux' ``/proc`` and ``/dev/shm`` be seen."""

    def is_hidden(path: object) -> bool:
        return isinstance(path, (str, os.PathLike)) and str(path).startswith(("/proc", "/dev/shm"))

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *more: Any, **named: Any) -> Any:
            if is_hidden(path):
                raise FileNotFoundError(2, "No such file or directory", str(path))
            return function(path, *more, **named)

        return call

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and is_hidden(arguments[0]):
            raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))

    os.stat = guarded(os.stat)
    sys.addaudithook(audit)


def import_all() -> None:
    """Import each module of the packages, and say how many there are."""
    names = [
        found.name
        for package in PACKAGES
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    ]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    print(f"{len(names)} modules")


def main(system: str, what: str, *arguments: str) -> None:
    """Do what is asked for on another system."""
    hide(system)
    if what == "import":
        import_all()
    elif what == "pytest":
        sys.exit(importlib.import_module("pytest").main(list(arguments)))
    else:
        sys.argv = ["beanstalk-conformance", *arguments]
        sys.exit(importlib.import_module("conformance.__main__").main())


if __name__ == "__main__":
    main(*sys.argv[1:])
