"""A model that is told all that a client tells a target, and predicts each reply to it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from conformance import yamlish
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Exchange
from conformance.verdict import Deviation
from reference_server.engine import Engine
from reference_server.model import Model
from reference_server.profiles import Profile
from reference_server.wire import BAD_FORMAT, CRLF, Reply, ReplyReader

KEYS = (
    *("state", "pri", "delay", "ttr", "reserves", "releases", "buries", "kicks"),
    *("pause", "cmd-pause-tube", "current-jobs-ready", "current-jobs-buried"),
)
"""Of the statistics of jobs and tubes, the values that no time changes."""


class Twin:
    """A client of a target, and of a model; its tube, and its jobs, are the only ones there."""

    congested = False

    def __init__(self, client: Connection, profile: Profile) -> None:
        self._client = client
        self._profile = profile
        self._ids: dict[int, int] = {}
        self.newest = 0
        """The id of the job that was put last."""
        self._reader = ReplyReader.of(profile)
        self._engine = Engine(Model(profile), itertools.count(0, 1000).__next__)
        self._number = self._engine.connect(self)
        if profile.has_tubes:
            for line in (f"use {client.tube}", f"watch {client.tube}", "ignore default"):
                self._predicted(line.encode() + CRLF)

    def write(self, data: bytes) -> None:
        """Take a reply of the model."""
        self._reader.receive(data)

    def close(self) -> None:
        """Take the end of the model's connection."""

    def says(self, text: str, *jobs: int) -> Reply:
        """Say a line that is under test, or a put with its body, to both; expect the same reply.

        Return it; of statistics, return what the model tells.
        ``jobs`` are ids of the target, or of no job, which are put into the text.
        """
        return self._judged(self._client.send(_filled(text, jobs)), text, jobs)

    def accepts(self, text: str, *jobs: int) -> bool:
        """Do as :meth:`says`, unless the target refuses it with BAD_FORMAT; then return False."""
        exchange = self._client.send(_filled(text, jobs))
        if exchange.any_reply() == BAD_FORMAT:
            return False
        self._judged(exchange, text, jobs)
        return True

    def prepare(self, text: str, *jobs: int) -> Reply:
        """Do as :meth:`says` for a line that the test needs, but does not test."""
        return self._judged(self._client.prepare(_filled(text, jobs)), text, jobs)

    def observe(self, text: str, *jobs: int) -> Reply:
        """Do as :meth:`says` for a line by which the test observes what it tests."""
        return self._judged(self._client.observe(_filled(text, jobs)), text, jobs)

    def _judged(self, exchange: Exchange, text: str, jobs: Sequence[int]) -> Reply:
        own = [self._ids.get(job, job) for job in jobs]
        predicted = self._predicted(_filled(text, own).encode() + CRLF)
        if predicted.word == "INSERTED":
            reply = exchange.reply("INSERTED")
            self.newest = int(reply.args[0])
            self._ids[self.newest] = int(predicted.args[0])
            return reply
        if predicted.word == "OK":
            _compare(predicted, exchange.dictionary())
            return predicted
        names = {own: job for job, own in self._ids.items()}
        if predicted.word in ("RESERVED", "FOUND"):
            job, *others = predicted.args
            predicted = predicted._replace(args=(names[int(job)], *others))
        return exchange.expect(predicted)

    def _predicted(self, data: bytes) -> Reply:
        self._engine.receive(self._number, data)
        reply = self._reader.next_reply()
        assert reply is not None, f"the model does not answer {data!r}"
        return reply


def _filled(text: str, jobs: Sequence[int]) -> str:
    """Return a text with ids of jobs put into it."""
    return text.format(*jobs)


def _compare(predicted: Reply, told: Mapping[str, str]) -> None:
    """Raise Deviation if statistics differ in a value that they should share."""
    for key, value in yamlish.dictionary(predicted.body or b"").items():
        if key in KEYS and key in told and told[key] != value:
            raise Deviation(f"{key} to be {value}", f"{key} is {told[key]}"[:100])
