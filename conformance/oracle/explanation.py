"""Explanations of replies that surprise people although a conforming server gives them.

The sentences are data, in `requirements/explanations.yaml`. Here are the facts that fill them and
decide which one fits: what the model knows of the client, its tubes and the job, when the reply
comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from conformance.oracle.underspecification import Lines
from conformance.oracle.unspecified_model import UnspecifiedModel
from reference_server.commands import WAITING
from reference_server.profiles import Profile
from reference_server.state import Client, Job
from reference_server.wire import Body, Command, Put, Reply

_FILE = "requirements/explanations.yaml"
_NOTHING = "nothing"
"""The word for a reply that has not come."""
MOST = 3
"""Explanations of one transcript."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A sentence about some replies to some commands, if these facts hold."""

    commands: Sequence[str]
    replies: Sequence[str]
    says: str
    when: Mapping[str, Any]

    def of(self, command: str, reply: str, facts: Mapping[str, str]) -> str:
        """Return the sentence with its facts; empty if it does not fit."""
        if command not in self.commands or reply not in self.replies:
            return ""
        for fact, value in self.when.items():
            if fact not in facts or value not in (True, facts[fact]):
                return ""
        return self.says.format_map(facts)


@cache
def explanations() -> tuple[Explanation, ...]:
    """Return all explanations, in the order in which they are tried."""
    text = files("conformance").joinpath(_FILE).read_text(encoding="utf-8")
    return tuple(
        Explanation(one["commands"], one["replies"], one["says"], one.get("when", {}))
        for one in yaml.safe_load(text)
    )


class Explainer:
    """Listens to a conversation while it is judged, and explains replies.

    ``latest``: the last sentences, each of them once.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._talks: dict[int, _Talk] = {}
        self._deleted: set[int] = set()
        self._names: dict[int, str] = {}
        self.latest: list[str] = []

    def sent(self, conn: int, name: str, data: bytes) -> None:
        """Take what a client has sent."""
        talk = self._talks.setdefault(conn, _Talk(Lines(self._profile)))
        self._names[conn] = name
        talk.reader.read(data)

    def received(self, conn: int, replies: Sequence[Reply], model: UnspecifiedModel) -> None:
        """Take the replies that a client has got, with a state after them."""
        talk = self._talks.get(conn)
        for reply in replies if talk else ():
            assert talk is not None
            request = talk.answer()
            if isinstance(request, Command) and reply.word == "DELETED":
                self._deleted.update(id for id in request.args[:1] if isinstance(id, int))
            count = {"count": str(reply.args[0])} if reply.args else {}
            self._explain(conn, request, reply.word, model, count)

    def ended(self, model: UnspecifiedModel) -> None:
        """Explain why the last commands have no reply."""
        for conn, talk in self._talks.items():
            if conn not in model.connections:
                continue
            if missing := talk.reader.missing:
                facts = {"missing": str(missing)}
                self._explain(conn, talk.put, _NOTHING, model, facts)
            elif (request := talk.answer()) is not None:
                self._explain(conn, request, _NOTHING, model, {})

    def _explain(
        self,
        conn: int,
        request: object,
        word: str,
        model: UnspecifiedModel,
        facts: Mapping[str, str],
    ) -> None:
        command = request.verb if isinstance(request, Command) else "put"
        client = model.connections.get(conn)
        if client is None or not isinstance(request, Command | Put):
            return
        known = {**facts, "command": command, **self._facts(client, request, model)}
        said = (one.of(command, word, known) for one in explanations())
        sentence = next(filter(None, said), "")
        if sentence:
            latest = f"{'no reply' if word == _NOTHING else word}, as {sentence}"
            self.latest = [*[one for one in self.latest if one != latest][1 - MOST :], latest]

    def _facts(
        self, client: Client, request: Command | Put, model: UnspecifiedModel
    ) -> dict[str, str]:
        facts = {
            "use": client.use.name,
            "watched": " and ".join(f"`{tube.name}`" for tube in client.watch),
        }
        if isinstance(request, Put):
            return facts | {"size": str(request.size)}
        for id in request.args[:1]:
            if isinstance(id, int):
                facts |= self._of_job(id, client, model)
        if client.reserved:
            facts["held"] = str(min(client.reserved.values(), key=lambda job: job.deadline).id)
        return facts | (_of_tubes(client, model) if request.verb in WAITING else {})

    def _of_job(self, id: int, client: Client, model: UnspecifiedModel) -> dict[str, str]:
        job = model.jobs.get(id)
        if job is None:
            return {"id": str(id)} | ({"deleted": "yes"} if id in self._deleted else {})
        facts = {"id": str(id), "job": job.state.value, "ttr": str(job.ttr)}
        if job.timeouts:
            facts["timeouts"] = str(job.timeouts)
        if job.reserver is not None and job.reserver is not client:
            holder = self._names.get(job.reserver.id)
            facts |= {"holder": "other", "client": holder} if holder else {}
        return facts


@dataclass(slots=True)
class _Talk:
    """The requests of a client; the first ``answered`` of them have their replies."""

    reader: Lines
    answered: int = 0

    def answer(self) -> object:
        """Return the next request without a reply; None if there is none."""
        requests = self.reader.requests
        while self.answered < len(requests) and isinstance(requests[self.answered], Body):
            self.answered += 1
        if self.answered == len(requests):
            return None
        self.answered += 1
        return requests[self.answered - 1]

    @property
    def put(self) -> object:
        """The last request: a put whose body has not come yet."""
        return self.reader.requests[-1] if self.reader.requests else None


def _of_tubes(client: Client, model: UnspecifiedModel) -> dict[str, str]:
    """Return why a client that reserves gets no job."""
    watched = set(client.watch)
    facts: dict[str, str] = {}
    if paused := next((tube for tube in client.watch if tube.pause and tube.ready), None):
        facts["paused"] = paused.name
    jobs: list[Job] = sorted(model.jobs.values(), key=lambda job: job.id)
    for job in jobs:
        if job.tube in watched and job.state.value != "ready":
            facts |= {"waiting": job.state.value, "waiting_id": str(job.id)}
        elif job.tube not in watched and job.state.value == "ready":
            facts |= {"elsewhere": str(job.id), "tube": job.tube.name}
    return facts
