"""Clients that work, each with jobs and a tube of its own, until the server is killed."""

from __future__ import annotations

import contextlib
import random
import threading
import time

from conformance.durability.expected_jobs import AllJobs, ExpectedJobs
from conformance.durability.scene_transcript import SceneTranscript, Spoken
from conformance.durability.scenes import DELAY, Say, put
from conformance.target.address import Address, connect, next_reply
from conformance.target.limits import Limits
from conformance.target.transport import Transport
from reference_server.profiles import Profile
from reference_server.wire import ProtocolError, Reply, ReplyReader

_HELD = 12
"""Jobs of a client from which on it deletes rather than puts."""


class LoadClient(threading.Thread):
    """A client that says one command after the other, which the model hears, too.

    ``spoken`` are its commands, of which the last one may have no reply. ``refused`` says at which
    reply it could not go on, as it is not the one that is due.
    """

    def __init__(
        self, where: Address, number: int, seed: str, profile: Profile, limits: Limits
    ) -> None:
        super().__init__(daemon=True)
        self.tube = f"load-{number}"
        self.ids: dict[str, int] = {}
        self.story = ExpectedJobs(profile, None)
        self.spoken: list[Spoken] = []
        self.refused = ""
        self._name = f"{seed}-{number}"
        self._random = random.Random(self._name)
        self._held: list[str] = []
        self._transport = Transport(connect(where, limits.probe))
        self._reader = ReplyReader.of(profile)
        self._reply_limit = limits.reply

    def run(self) -> None:
        """Say commands until the server is gone."""
        with self._transport, contextlib.suppress(OSError, EOFError, ProtocolError):
            for line in (f"use {self.tube}", f"watch {self.tube}", "ignore default"):
                self._say(Say(line))
            while not self.refused:
                self._say(self._step())

    def _step(self) -> Say:
        """Return the next command, one that has an effect as often as not."""
        chosen, jobs = self._random, self.story.moments[-1].jobs
        kind = chosen.randrange(10)
        if self._held and kind < 6:
            job = chosen.choice(self._held)
            pri, delay = chosen.randrange(5), chosen.choice((0, 0, DELAY))
            lines = (f"release {{{job}}} {pri} {delay}", f"bury {{{job}}} {pri}")
            return Say(chosen.choice((*lines, f"delete {{{job}}}", f"touch {{{job}}}")))
        if len(jobs) > _HELD:
            return Say(f"delete {{{chosen.choice([*jobs])}}}")
        if kind < 8:
            name = f"{self._name}-{len(self.ids)}"
            body = name.encode() * chosen.choice((1, 5, 40))
            return put(name, body, chosen.randrange(5), chosen.choice((0, 0, 0, DELAY)))
        return Say(chosen.choice(("reserve-with-timeout 0", "kick 2")))

    def _say(self, step: Say) -> None:
        request = step.encoded(self.ids)
        begun = time.time()
        due = self.story.say(step, begun)
        self.spoken.append(Spoken(step, 0, 0, begun, 0.0, ""))
        self._transport.send(request)
        reply = self._reply()
        if step.job and reply.word == "INSERTED":
            self.ids[step.job] = int(reply.args[0])
        id, took = self.ids.get(step.job, 0), time.time() - begun
        self.spoken[-1] = Spoken(step, id, 0, begun, took, str(reply))
        if reply.word != due.word or reply.body != due.body:
            self.refused = f"it answers {step.line!r} with {reply}, not {due}"
        self._follow(step, reply)

    def _follow(self, step: Say, reply: Reply) -> None:
        """Note which jobs it holds now."""
        if reply.word == "RESERVED":
            held = [name for name, id in self.ids.items() if id == int(reply.args[0])]
            self._held += held
        elif step.verb in ("release", "bury", "delete"):
            name = step.line.split("{")[1].split("}")[0]
            self._held = [held for held in self._held if held != name]

    def _reply(self) -> Reply:
        end = time.monotonic() + self._reply_limit
        return next_reply(self._transport, self._reader, end)

    @property
    def known(self) -> int:
        """The number of commands that were answered."""
        return sum(bool(one.reply) for one in self.spoken)

    @property
    def transcript(self) -> SceneTranscript:
        """Its commands so far."""
        return SceneTranscript(self.spoken)

    @property
    def window(self) -> tuple[AllJobs, AllJobs]:
        """Return how its jobs are without the command on its way, and with it."""
        moments = self.story.moments
        return moments[self.known], moments[-1]
