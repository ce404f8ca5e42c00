"""A client of the target and of a partner, the model, which predicts each reply."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from conformance import yamlish
from conformance.dialogue.connection import Connection
from conformance.dialogue.exchange import Exchange, observation
from conformance.usual_answers import key_requirement
from conformance.verdict import Deviation, OutcomeKind, Step
from reference_server.model import Model
from reference_server.partner import Partner
from reference_server.profiles import Profile
from reference_server.wire import BAD_FORMAT, CRLF, NOT_FOUND, Reply

KEYS = (
    *("state", "pri", "delay", "ttr", "reserves", "releases", "buries", "kicks"),
    *("pause", "cmd-pause-tube", "current-jobs-ready", "current-jobs-buried"),
)
"""Of the statistics of jobs and tubes, the values that no time changes."""


class PartneredClient:
    """A client of the target and of its partner, in which there are no other jobs and tubes."""

    def __init__(self, client: Connection, profile: Profile) -> None:
        self._client = client
        self._ids: dict[int, int] = {}
        self.newest = 0
        """The id of the job that was put last."""
        self._partner: Partner[str] = Partner(Model(profile), itertools.count(0, 1000).__next__)
        self._partner.connect("client")
        if profile.has_tubes:
            for line in (f"use {client.tube}", f"watch {client.tube}", "ignore default"):
                self._predicted(line.encode() + CRLF)

    def says(self, text: str, *jobs: int) -> Reply:
        """Send a line under test, or a put with its body, to both, and expect the same reply.

        Return the reply; for statistics, return those of the model. ``jobs`` are ids of the
        target, or of no job, that are inserted into the text.
        """
        exchange = self._client.send(_filled(text, jobs))
        return self._judged(exchange, text, self._prediction(text, jobs))

    def accepts(self, text: str, *jobs: int) -> bool:
        """Do as :meth:`says`; return False if the target refuses the line with BAD_FORMAT."""
        exchange = self._client.send(_filled(text, jobs))
        if exchange.any_reply() == BAD_FORMAT:
            return False
        self._judged(exchange, text, self._prediction(text, jobs))
        return True

    def prepare(self, text: str, *jobs: int) -> Reply:
        """Do as :meth:`says` for a line that the test needs, but does not test."""
        exchange = self._client.prepare(_filled(text, jobs))
        return self._judged(exchange, text, self._prediction(text, jobs))

    def observe(self, text: str, *jobs: int, tested: Collection[str] = KEYS) -> Reply:
        """Do as :meth:`says` for a line by which the test observes what it tests.

        A wrong value of a key that is not ``tested`` breaks the requirement of that key.
        """
        line, predicted = _filled(text, jobs), self._prediction(text, jobs)
        role = self._client.observation(line)
        if predicted == NOT_FOUND:
            role = observation(line, f"{text.split()[0]}.not-found")
        return self._judged(self._client.send(line, role), text, predicted, tested)

    def _prediction(self, text: str, jobs: Sequence[int]) -> Reply:
        own = [self._ids.get(job, job) for job in jobs]
        return self._predicted(_filled(text, own).encode() + CRLF)

    def _judged(
        self, exchange: Exchange, text: str, predicted: Reply, tested: Collection[str] = KEYS
    ) -> Reply:
        if predicted.word == "INSERTED":
            reply = exchange.reply("INSERTED")
            self.newest = int(reply.args[0])
            self._ids[self.newest] = int(predicted.args[0])
            return reply
        if predicted.word == "OK":
            _compare(predicted, exchange.dictionary(), text.split()[0], tested)
            return predicted
        names = {own: job for job, own in self._ids.items()}
        if predicted.word in ("RESERVED", "FOUND"):
            job, *others = predicted.args
            predicted = predicted._replace(args=(names[int(job)], *others))
        return exchange.expect(predicted)

    def _predicted(self, data: bytes) -> Reply:
        self._partner.send("client", data)
        (reply,) = self._partner.replies("client")
        return reply


def _filled(text: str, jobs: Sequence[int]) -> str:
    """Return a text with ids of jobs put into it."""
    return text.format(*jobs)


def _compare(
    predicted: Reply, observed: Mapping[str, str], command: str, tested: Collection[str]
) -> None:
    """Raise Deviation if statistics differ in a value that they should share."""
    for key, value in yamlish.dictionary(predicted.body or b"").items():
        if key in KEYS and key in observed and observed[key] != value:
            step = Step(OutcomeKind.WRONG_VALUE, command, subject=key)
            deviation = Deviation(
                f"{key} to be {value}", f"{key} is {observed[key]}"[:100], step=step
            )
            deviation.suspects = (key_requirement(command, key),)
            deviation.owner = "" if key in tested else deviation.suspects[0]
            raise deviation
