"""Tasks: units of work with a name, several of which are done at a time."""

from __future__ import annotations

import itertools
import multiprocessing
import queue
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any, Generic, Protocol, TypeVar

from conformance.run.workers import TopicMessage, worker_processes

LOOK = 0.5
"""Seconds between two checks for messages of workers."""
Result = TypeVar("Result")


class Task(Generic[Result]):
    """A unit of work with a unique name, its function and its result."""

    def __init__(self, name: str, work: Callable[[], Result] | None = None) -> None:
        self.name = name
        self.work = work
        self.result: Result | None = None
        self.error: Exception | None = None

    def outcome(self) -> Result:
        """Return the result; raises what the work has raised."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class _Messages(Protocol):
    """A queue of messages from workers."""

    def empty(self) -> bool: ...

    def get(self) -> TopicMessage: ...


class Backend(ABC, Generic[Result]):
    """The place where tasks are done: this process, others, or a cluster.

    ``messages``: those that its workers send.
    """

    def __init__(self, messages: _Messages) -> None:
        self._pending: dict[Future[Result], Task[Result]] = {}
        self._messages = messages
        self._heard: dict[str, Callable[[Any], None]] = {}

    @property
    @abstractmethod
    def slots(self) -> int:
        """The number of tasks that are handed out at a time."""

    @abstractmethod
    def _submit(self, task: Task[Result]) -> Future[Result]:
        """Hand out a task."""

    @abstractmethod
    def _ended(self) -> Iterable[Future[Result]]:
        """Return the finished futures, perhaps none; wait for a limited time only."""

    def _taken(self, task: Task[Result]) -> None:
        """Forget a task, as its result was taken."""

    def left(self) -> list[str]:
        """Take over the tasks that an earlier client has left; return their names."""
        return []

    @abstractmethod
    def number(self) -> int:
        """Return the number of the next task, of all clients for the same work."""

    def hear(self, topic: str, heard: Callable[[Any], None]) -> None:
        """Let :meth:`done` call a function with each message on a topic, earlier ones included."""
        self._heard[topic] = heard

    def end_work(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on each worker that outlives this client."""

    def close(self) -> None:
        """Hand out nothing more, and give up what is not done."""

    def each(self, tasks: Iterable[Task[Result]]) -> Iterator[Task[Result]]:
        """Do these tasks, except those that an earlier client has left; yield all that are done.

        A task is asked for when it can be handed out.
        """
        begun = {*self.left()}
        left = (task for task in tasks if task.name not in begun)
        return self.done(lambda: next(left, None))

    def done(
        self,
        next_task: Callable[[], Task[Result] | None],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[Task[Result]]:
        """Yield tasks in the order of their ends, with a result or an error.

        ``next_task`` gives what is to be done; None if there is nothing left to do. A result is
        given up when the next one is asked for: then it must have been kept.
        ``meanwhile`` is called again and again.
        """
        has_more = True
        while has_more or self._pending:
            meanwhile()
            slots = self.slots
            while has_more and len(self._pending) < slots:
                task = next_task()
                has_more = task is not None
                if task is not None:
                    self._pending[self._submit(task)] = task
            ended = self._ended()
            while not self._messages.empty():
                topic, message = self._messages.get()
                self._heard.get(topic, lambda _: None)(message)
            for future in ended:
                task = self._pending[future]
                try:
                    task.result = future.result()
                except Exception as error:
                    # Whatever went wrong on a worker, or with it too often.
                    task.error = error
                yield task
                del self._pending[future]
                self._taken(task)


class _LocalBackend(Backend[Result]):
    """A backend on this machine, which has one client."""

    def __init__(self, messages: _Messages) -> None:
        super().__init__(messages)
        self._numbers = itertools.count()

    def number(self) -> int:
        return next(self._numbers)


class InProcess(_LocalBackend[Result]):
    """This process, which does one task after the other: that costs no start."""

    slots = 1

    def __init__(self) -> None:
        super().__init__(queue.SimpleQueue())

    def _submit(self, task: Task[Result]) -> Future[Result]:
        assert task.work is not None
        future: Future[Result] = Future()
        try:
            future.set_result(task.work())
        except Exception as error:
            future.set_exception(error)
        return future

    def _ended(self) -> Iterable[Future[Result]]:
        return list(self._pending)


class Processes(_LocalBackend[Result]):
    """So many processes; ``waiting`` tasks more are handed out, so that none of them is idle."""

    def __init__(self, count: int, waiting: int = 0) -> None:
        self._pool, messages = worker_processes(count)
        super().__init__(messages)
        self._slots = count + waiting

    @property
    def slots(self) -> int:
        return self._slots

    def _submit(self, task: Task[Result]) -> Future[Result]:
        assert task.work is not None
        try:
            return self._pool.submit(task.work)
        except BrokenExecutor as error:
            future: Future[Result] = Future()
            future.set_exception(error)
            return future

    def _ended(self) -> Iterable[Future[Result]]:
        return list(wait(self._pending, LOOK, FIRST_COMPLETED).done)

    def close(self) -> None:
        if self._pending:
            # They would go on with what nobody takes any more.
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)
