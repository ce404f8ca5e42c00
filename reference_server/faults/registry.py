"""Named bugs, each bound to the requirement that it breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from reference_server.binlog import Binlog
from reference_server.connection import ServedConnection
from reference_server.events import Event, Output
from reference_server.fault import NO_FAULT as NO_FAULT
from reference_server.fault import Fault as Fault
from reference_server.keeping import Keeper
from reference_server.listening import Listeners
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.state import Client
from reference_server.wire import Body, Command, Put, Reply, Request, RequestReader

FAULTS: dict[str, Fault] = {}
"""All faults by name."""

_KINDS: Mapping[type, str] = {
    Model: "model",
    RequestReader: "reader",
    ServedConnection: "connection",
    Listeners: "listeners",
    Binlog: "binlog",
    Keeper: "keeper",
}
"""The parts of a server, and the fields of a fault that they are in."""


class Remembered(ServedConnection):
    """A client that its server finds again when something happens to another one."""

    all: ClassVar[list[Remembered]] = []

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.all.append(self)


C = TypeVar(
    "C",
    type[Model],
    type[RequestReader],
    type[ServedConnection],
    type[Listeners],
    type[Binlog],
    type[Keeper],
)
Answer = Callable[[Model, Client, Command, Reply], Reply | None]


def add(fault: Fault) -> None:
    """Register a fault of several parts; raise ValueError if another one has its name."""
    if fault.name in FAULTS:
        raise ValueError(f"two faults are called {fault.name}")
    FAULTS[fault.name] = fault


def fault(requirement: str, summary: str) -> Callable[[C], C]:
    """Register a class of model, reader, sockets, binlog or keeper as a fault."""

    def register(cls: C) -> C:
        kind = next(name for base, name in _KINDS.items() if issubclass(cls, base))
        part: dict[str, Any] = {kind: cls}
        add(Fault(requirement, summary, **part))
        return cls

    return register


def profiled(requirement: str, summary: str, change: Callable[[Profile], Profile]) -> None:
    """Register a fault that is another profile."""
    add(Fault(requirement, summary, profile=change))


def asked(requirement: str, summary: str, verb: str, change: Callable[..., Request]) -> None:
    """Register a fault that takes ``verb`` for something else: ``change(*arguments)``."""

    class ChangesRequests(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            if isinstance(event, Command) and event.verb == verb:
                event = change(*event.args)
            elif isinstance(event, Put) and verb == "put":
                event = change(*event)
            return super().step(event, now, conn)

    add(Fault(requirement, summary, model=ChangesRequests, verb=verb))


def answered(requirement: str, summary: str, verb: str, change: Answer) -> None:
    """Register a fault that answers ``verb`` differently: ``change(model, conn, command, reply)``.

    None leaves the reply as it is.
    """

    class Answered(Model):
        def step(self, event: Event, now: int, conn: int = 0) -> list[Output]:
            outputs = super().step(event, now, conn)
            if not (isinstance(event, Command) and event.verb == verb):
                if not (isinstance(event, Body) and verb == "put"):
                    return outputs
                event = Command("put", (None if event.data is None else len(event.data),))
            client = self.connections[conn]
            return [
                (receiver, change(self, client, event, reply) or reply)
                if receiver == conn and isinstance(reply, Reply)
                else (receiver, reply)
                for receiver, reply in outputs
            ]

    add(Fault(requirement, summary, model=Answered, verb=verb))


def parsed(requirement: str, summary: str, change: Callable[[bytes], Request | None]) -> None:
    """Register a fault that reads lines differently; None leaves a line's meaning as it is."""

    class Parsed(RequestReader):
        def parse(self, line: bytes) -> Request:
            return change(line) or super().parse(line)

    add(Fault(requirement, summary, reader=Parsed))


def takes(requirement: str, summary: str, line: bytes, request: Request) -> None:
    """Register a fault that takes one line (without CR LF) for something else."""
    parsed(requirement, summary, lambda other: request if other == line else None)


def takes_like(
    requirement: str, summary: str, pattern: bytes, make: Callable[..., Request | None]
) -> None:
    """Register a fault that takes lines of a pattern for the command that ``make`` returns."""

    def parse(line: bytes) -> Request | None:
        match = re.fullmatch(pattern, line)
        return None if match is None else make(*map(int, match.groups()))

    parsed(requirement, summary, parse)


def edited(pattern: str, new: str) -> Answer:
    """Return a change of replies: the first match of ``pattern`` in the body is replaced."""

    def change(_: Model, __: Client, ___: Command, reply: Reply) -> Reply | None:
        return None if reply.body is None else _with_text(reply, reply.body, pattern, new)

    return change


def with_value(reply: Reply, key: str, value: object) -> Reply:
    """Return a reply of statistics in which a key has this value."""
    assert reply.body is not None
    return _with_text(reply, reply.body, f"^{key}: .*$", f"{key}: {value}")


def _with_text(reply: Reply, body: bytes, pattern: str, new: str) -> Reply:
    body = re.sub(pattern.encode(), new.encode(), body, count=1, flags=re.MULTILINE)
    return reply._replace(body=body)


def says(requirement: str, summary: str, verb: str, pattern: str, new: str) -> None:
    """Register a fault in the text of a reply; see :func:`edited`."""
    answered(requirement, summary, verb, edited(pattern, new))


def always_says(requirement: str, summary: str, verb: str, key: str, value: str) -> None:
    """Register a fault that reports the same value of a key whatever it is."""
    says(requirement, summary, verb, f"^{key}: .*$", f"{key}: {value}")
