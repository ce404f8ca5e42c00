"""A bug of the reference server: parts that it has in place of the right ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from reference_server.binlog import Binlog
from reference_server.connection import ServedConnection
from reference_server.keeping import Keeper
from reference_server.listening import Listeners
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.wire import RequestReader


def _same(profile: Profile) -> Profile:
    return profile


@dataclass(frozen=True, slots=True)
class Fault:
    """A bug: the model, codec, sockets, profile or binlog of a server that has it."""

    requirement: str
    summary: str
    model: type[Model] = Model
    reader: type[RequestReader] = RequestReader
    connection: type[ServedConnection] | None = None
    listeners: type[Listeners] = Listeners
    profile: Callable[[Profile], Profile] = _same
    binlog: type[Binlog] = Binlog
    keeper: type[Keeper] = Keeper
    verb: str = ""
    """The command that alone it changes; empty if it may change any."""

    @property
    def name(self) -> str:
        """Return its name: what it does, in a word with hyphens."""
        return re.sub("[^a-z0-9]+", "-", self.summary.lower()).strip("-")


NO_FAULT = Fault("", "no fault")
