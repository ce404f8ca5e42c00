"""Worker processes that end with this one."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def worker_processes(count: int) -> ProcessPoolExecutor:
    """Return so many processes, which end with this one even if it is killed."""
    return ProcessPoolExecutor(
        count, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_await_end, args=(parent.sentinel,), daemon=True).start()


def _await_end(sentinel: int) -> None:
    wait([sentinel])
    # It waits for more work, which nobody gives it any more. Its servers end with it.
    os._exit(1)
