"""Worker processes: they belong to this run, send it messages, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from multiprocessing.queues import SimpleQueue
from multiprocessing.sharedctypes import Synchronized

from conformance.target.footprint import FOOTPRINT

TopicMessage = tuple[str, object]
"""A topic, and a message on it."""
_outlet: SimpleQueue[TopicMessage] | None = None
"""The queue to the process that has started this worker; None elsewhere."""


def worker_processes(count: int) -> tuple[ProcessPoolExecutor, SimpleQueue[TopicMessage]]:
    """Return so many processes, which end with this one even if killed, and their messages."""
    context = multiprocessing.get_context("spawn")
    outlet: SimpleQueue[TopicMessage] = context.SimpleQueue()
    arguments = FOOTPRINT.run, context.Value("i", 0), outlet
    return ProcessPoolExecutor(count, context, _begin, arguments), outlet


def send_message(topic: str, message: object) -> None:
    """Send a message on a topic, from a worker to the process that hands out its jobs."""
    if _outlet is not None:
        _outlet.put((topic, message))
        return
    from distributed import get_worker

    get_worker().log_event(topic, pickle.dumps(message))


def worker_name() -> str:
    """Return the name of this worker, which no other has."""
    if _outlet is not None:
        return f"process {os.getpid()}"
    from distributed import get_worker

    return str(get_worker().address)


def _begin(run: str, started: Synchronized[int], outlet: SimpleQueue[TopicMessage]) -> None:
    global _outlet
    _outlet = outlet
    with started.get_lock():
        started.value += 1
        FOOTPRINT.join(run, started.value)
    # Ctrl-C is for the process that has started this worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_await_end, args=(parent.sentinel,), daemon=True).start()


def _await_end(sentinel: int) -> None:
    wait([sentinel])
    # It waits for more work, which nobody gives it any more. Its servers end with it.
    os._exit(1)
