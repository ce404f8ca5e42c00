"""The jobs that a server should have after each command of a conversation, by the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from conformance.durability.scenes import Say
from reference_server.keeping import observed
from reference_server.model import Model
from reference_server.partner import Partner
from reference_server.profiles import Profile
from reference_server.state import SECOND, Job, JobState
from reference_server.wire import Reply

COUNTS = ("reserves", "timeouts", "releases", "buries", "kicks")
"""The numbers that statistics count of a job."""


class JobView(NamedTuple):
    """A job as it is after a restart: then nobody holds it any more.

    ``due``: when its delay ends, in seconds since 1970; ``by``: the command that changed it last.
    """

    tube: str
    state: str
    pri: int
    ttr: int
    body: bytes
    due: float
    counts: Mapping[str, int]
    by: str


class AllJobs(NamedTuple):
    """All jobs by the names of their puts, and the buried ones of each tube in their order."""

    jobs: Mapping[str, JobView]
    buried: Mapping[str, tuple[str, ...]]


class ExpectedJobs:
    """The partner of a server; ``moments`` begins with that before the first command.

    Moments before ``begin`` commands are not kept, and have no jobs.
    """

    def __init__(self, profile: Profile, limit: int | None, begin: int = 0) -> None:
        self._begin = begin
        self._now = 0
        self._model = observed(Model)(profile, max_job_size=limit)
        self._partner: Partner[str] = Partner(self._model, lambda: self._now)
        self._names: dict[int, str] = {}
        self._views: dict[str, JobView] = {}
        self.ids: dict[str, int] = {}
        """The ids that jobs have in the model."""
        self.moments: list[AllJobs] = [AllJobs({}, {})]

    def say(self, step: Say, time: float) -> Reply:
        """Send the model a command; return its reply, as a scene never waits."""
        self._now = round(time * SECOND)
        if step.client not in self._partner:
            self._partner.connect(step.client)
        self._partner.send(step.client, step.encoded(self.ids))
        (reply,) = self._partner.replies(step.client)
        if step.job and reply.word == "INSERTED":
            self.ids[step.job] = int(reply.args[0])
            self._names[self.ids[step.job]] = step.job
        self.moments.append(self._moment(step))
        return reply

    def name(self, id: int) -> str:
        """Return the name of the job that has this id in the model."""
        return self._names[id]

    def _moment(self, step: Say) -> AllJobs:
        self._look(step.verb)
        if len(self.moments) < self._begin:
            return self.moments[0]
        tubes = self._model.tubes
        buried = {t.name: tuple(self._names[id] for id in t.buried) for t in tubes if t.buried}
        return AllJobs({**self._views}, buried)

    def _look(self, verb: str) -> None:
        """Update the views of the jobs that a command has changed."""
        model = self._model
        changed = {*model.changed, *model.counted}
        model.changed.clear()
        model.counted.clear()
        for id in changed:
            name = self._names[id]
            old, job = self._views.get(name), model.jobs.get(id)
            if job is None:
                self._views.pop(name, None)
                continue
            now = _view(job, verb)
            # That it was reserved changes nothing but what is counted.
            if old is not None and old._replace(counts=now.counts) == now._replace(by=old.by):
                now = now._replace(by=old.by)
            self._views[name] = now


def _view(job: Job, verb: str) -> JobView:
    state = "ready" if job.state is JobState.RESERVED else job.state.value
    due = job.deadline / SECOND if job.state is JobState.DELAYED else 0.0
    counts = {name: getattr(job, name) for name in COUNTS}
    return JobView(job.tube.name, state, job.pri, job.ttr, job.body, due, counts, verb)
