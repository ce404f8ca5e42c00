"""Jobs on a Dask cluster: submitted as workers are free, and kept until a result is taken.

The results of what is handed out are published, under the name of the work. So the cluster keeps
them for the next client of that name, if this one is lost. What a lost worker had to do, or has
done and not handed over, Dask has another worker do.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from conformance.run.tasks import LOOK, Backend, Result, Task
from conformance.run.workers import TopicMessage
from conformance.usage import refuse

if TYPE_CHECKING:
    from distributed import Client, Future

_REACH = 10
"""Seconds until a scheduler is given up that does not answer."""
_ABANDONED = 60.0
"""Seconds without any worker after which nothing more is waited for."""


class Cluster(Backend[Result]):
    """The workers of a scheduler, for one kind of work.

    ``name``: that of the work. Clusters with one name share it.
    """

    def __init__(self, address: str, name: str) -> None:
        # Dask puts messages in from a thread of its own.
        self._received: queue.SimpleQueue[TopicMessage] = queue.SimpleQueue()
        super().__init__(self._received)
        try:
            from distributed import Client
        except ImportError:
            raise refuse(
                "a cluster needs Dask: pip install 'beanstalk-conformance[cluster]'"
            ) from None
        try:
            self._client: Client = Client(address, timeout=_REACH)
        except (OSError, ValueError) as error:
            raise refuse(f"no scheduler answers at {address}: {error}") from None
        self._name = name
        self._seen = time.monotonic()

    @property
    def slots(self) -> int:
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except OSError as error:
            raise refuse(f"the scheduler is lost: {error}") from None
        threads: int = sum(worker["nthreads"] for worker in workers)
        self._seen = time.monotonic() if threads else self._seen
        if time.monotonic() - self._seen > _ABANDONED:
            raise refuse(f"the cluster has had no worker for {_ABANDONED:g} seconds")
        return threads

    def left(self) -> list[str]:
        beginning = f"{self._name}-"
        for name in self._client.list_datasets():
            if name.startswith(beginning):
                future = self._client.get_dataset(name)
                self._pending[future] = Task(name.removeprefix(beginning))
        return [task.name for task in self._pending.values()]

    def number(self) -> int:
        number: int = self._client.get_metadata([self._name], default=0)
        self._client.set_metadata([self._name], number + 1)
        return number

    def _submit(self, task: Task[Result]) -> Future:
        name = f"{self._name}-{task.name}"
        future = self._client.submit(task.work, key=name, pure=False)
        self._client.publish_dataset(**{name: future})
        return future

    def _ended(self) -> Iterable[Future]:
        from distributed import wait

        if not self._pending:
            time.sleep(LOOK)
            return ()
        try:
            waited = wait(list(self._pending), timeout=LOOK, return_when="FIRST_COMPLETED")
        except TimeoutError:
            return ()
        return list(waited.done)

    def _taken(self, task: Task[Result]) -> None:
        self._client.unpublish_dataset(f"{self._name}-{task.name}")

    def hear(self, topic: str, heard: Callable[[Any], None]) -> None:
        super().hear(topic, heard)

        def receive(event: bytes) -> None:
            self._received.put((topic, pickle.loads(event)))

        self._client.subscribe_topic(topic, lambda event: receive(event[1]))
        for _, event in self._client.get_events(topic):
            receive(event)

    def end_work(self, function: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(Exception):
            # Those that are lost need not.
            self._client.run(function, *arguments, on_error="ignore")

    def close(self) -> None:
        self._client.close(timeout=_REACH)
