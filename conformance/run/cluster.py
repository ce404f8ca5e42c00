"""Work on a Dask cluster: submitted as workers are free, and kept until a result is taken.

The results of what is handed out are published, under the name of the work. So the cluster keeps
them for the next client of that name, if this one is lost. What a lost worker had to do, or has
done and not handed over, Dask has another worker do.
"""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from conformance.usage import refuse

if TYPE_CHECKING:
    from distributed import Client, Future

_REACH = 10
"""Seconds until a scheduler is given up that does not answer."""
_LOOK = 0.5
"""Seconds after which it is looked again for workers that have come."""
_ABANDONED = 60.0
"""Seconds without any worker after which nothing more is waited for."""
Result = TypeVar("Result")


class ClusterJob(Generic[Result]):
    """A unit of work with a unique name, its function and its result."""

    def __init__(self, name: str, work: Callable[[], Result] | None = None) -> None:
        self.name = name
        self.work = work
        self.result: Result | None = None
        self.error: Exception | None = None


class Cluster(Generic[Result]):
    """The client of a cluster for one kind of work.

    ``name``: that of the work. Who has the same name takes what others have left.
    """

    def __init__(self, address: str, name: str) -> None:
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
        self._pending: dict[Future, ClusterJob[Result]] = {}

    @property
    def threads(self) -> int:
        """The number of things that the workers can do at a time."""
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except OSError as error:
            raise refuse(f"the scheduler is lost: {error}") from None
        return sum(worker["nthreads"] for worker in workers)

    def left(self) -> list[str]:
        """Take over the jobs that an earlier client has left; return their names."""
        beginning = f"{self._name}-"
        for name in self._client.list_datasets():
            if name.startswith(beginning):
                future = self._client.get_dataset(name)
                self._pending[future] = ClusterJob(name.removeprefix(beginning))
        return [job.name for job in self._pending.values()]

    def number(self) -> int:
        """Return the number of the next job, of all clients of this name."""
        number: int = self._client.get_metadata([self._name], default=0)
        self._client.set_metadata([self._name], number + 1)
        return number

    def done(
        self,
        next_job: Callable[[], ClusterJob[Result] | None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[ClusterJob[Result]]:
        """Yield jobs in the order of their ends, with a result or an error.

        ``next_job`` gives what is to be done; None if there is nothing left to do. A result is
        given up when the next one is asked for: then it must have been kept.
        ``meanwhile`` is called again and again.
        """
        has_more, seen = True, time.monotonic()
        while has_more or self._pending:
            meanwhile()
            threads = self.threads
            seen = time.monotonic() if threads else seen
            if time.monotonic() - seen > _ABANDONED:
                raise refuse(f"the cluster has had no worker for {_ABANDONED:g} seconds")
            while has_more and len(self._pending) < threads:
                job = next_job()
                has_more = job is not None
                if job is not None:
                    self._hand_out(job)
            for future in self._ended():
                job = self._pending[future]
                try:
                    job.result = future.result()
                except Exception as error:
                    # Whatever went wrong on a worker, or with it too often.
                    job.error = error
                yield job
                del self._pending[future]
                self._client.unpublish_dataset(f"{self._name}-{job.name}")

    def _ended(self) -> Iterable[Future]:
        """Return what has ended, after a while at the latest."""
        from distributed import wait

        if not self._pending:
            time.sleep(_LOOK)
            return ()
        try:
            waited = wait(list(self._pending), timeout=_LOOK, return_when="FIRST_COMPLETED")
        except TimeoutError:
            return ()
        return list(waited.done)

    def _hand_out(self, job: ClusterJob[Result]) -> None:
        name = f"{self._name}-{job.name}"
        future = self._client.submit(job.work, key=name, pure=False)
        self._client.publish_dataset(**{name: future})
        self._pending[future] = job

    def everywhere(self, function: Callable[..., object], *arguments: object) -> None:
        """Have each worker call a function."""
        with contextlib.suppress(Exception):
            # Those that are lost need not.
            self._client.run(function, *arguments, on_error="ignore")

    def hear(self, topic: str, heard: Callable[[Any], None]) -> None:
        """Call a function with each message on a topic, earlier ones included."""
        self._client.subscribe_topic(topic, lambda event: heard(pickle.loads(event[1])))
        for _, event in self._client.get_events(topic):
            heard(pickle.loads(event))

    def close(self) -> None:
        """Leave the cluster."""
        self._client.close(timeout=_REACH)


def tell(topic: str, news: object) -> None:
    """Publish a message on a topic, from a worker: the scheduler keeps it for clients."""
    from distributed import get_worker

    get_worker().log_event(topic, pickle.dumps(news))
