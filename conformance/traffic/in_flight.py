"""Requests in flight: what each may do to jobs and tubes from when it was sent to its reply.

Requests of a client that has disconnected may still take effect, for a time.
"""

from __future__ import annotations

from conformance.traffic import jobs as job_states
from conformance.traffic.conversation import OWN, Asked, Conversation, waits
from conformance.traffic.jobs import NAMING, Request
from conformance.traffic.knowledge import GRACE, Knowledge
from reference_server.wire import Command


class InFlight:
    """Notes requests when they are sent, answered, or left behind."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known

    # ------------------------------------------------------------ sent

    def begins(
        self, conversation: Conversation, asked: Asked, command: Command, is_clear: bool
    ) -> None:
        """Note what a command may do from now on."""
        verb, number, conn = command.verb, asked.number, conversation.conn
        tubes, now = self._known.tubes, self._known.now
        if verb in OWN and is_clear:
            asked.expected = conversation.own_reply(command, self._known.profile)
        elif verb in NAMING and isinstance(command.args[0], int):
            self._names(conversation, asked, command.args[0], is_clear)
        elif waits(verb):
            asked.is_waiting = True
            asked.watched = conversation.watched
            tubes.begins_waiting(number, conn, asked.watched, now)
        elif verb == "kick" and asked.args and asked.args[0] != 0:
            tubes.begins_kick(number, conn, asked.tube, now)
        elif verb == "pause-tube" and isinstance(command.args[0], str):
            self._known.tube(command.args[0]).pauses += 1
        elif verb == "list-tubes":
            asked.watched = conversation.known_tubes()

    def _names(self, conversation: Conversation, asked: Asked, id: int, is_clear: bool) -> None:
        numbers = [number for number in asked.args[1:] if isinstance(number, int)]
        pri, delay = (*numbers, 0, 0)[:2]
        request = Request(asked.number, conversation.conn, asked.verb, asked.at, pri, delay)
        jobs = self._known.jobs
        job = jobs.followed.get(id)
        if job is None:
            asked.about = request
            jobs.add_strays([(id, request)])
            return
        label = job.label
        if job.ready_since and job.tube is not None and asked.verb not in job_states.LOOKING:
            self._known.tube(job.tube).remove(job)
        if is_clear:
            asked.about = request
            job.asked(request)
        else:
            job.forget()
        jobs.changed(job, label, self._known.number)

    # ------------------------------------------------------------ answered

    def ends(self, asked: Asked, keeps_kick: bool = False) -> None:
        """Note that a command is no longer in flight."""
        known = self._known
        if asked.is_waiting:
            known.tubes.ends_waiting(asked.number, asked.watched)
        elif asked.verb == "kick" and not keeps_kick:
            self.ends_kick(asked, True)
        elif asked.verb == "pause-tube" and asked.args and isinstance(asked.args[0], str):
            seconds = asked.args[1] if len(asked.args) > 1 else 0
            known.tube(asked.args[0]).paused(seconds if isinstance(seconds, int) else 0, known.now)

    def ends_kick(self, asked: Asked, has_kicked: bool) -> None:
        """Note that a kick is no longer in flight; ``has_kicked``: it may have kicked jobs."""
        known = self._known
        known.tubes.ends_kick(asked.number, asked.tube, known.number, has_kicked)

    def unfollow(self, asked: Asked) -> None:
        """Forget the state of the job that a command names, if it names one."""
        if asked.about is not None:
            self._known.jobs.unfollow(_id(asked), asked.about, self._known.number)

    # ------------------------------------------------------------ left behind

    def leaves(self, conn: int) -> None:
        """Forget a connection; what it has asked may still take effect."""
        known = self._known
        conversation = known.conversations.pop(conn, None)
        if conversation is None:
            return
        asked = [*conversation.asked]
        for one in asked:
            if one.is_waiting:
                known.loses_a_waiter()
            if one.number in known.jobs.puts:
                known.jobs.puts.discard(one.number)
                known.jobs.has_lost_puts = True
            self.ends(one, keeps_kick=True)
        if any(one.about or one.verb == "kick" for one in asked):
            known.departed.append((known.now, asked))

    def drops(self, conn: int, why: str) -> None:
        """Judge nothing more of a connection."""
        known = self._known
        if conn not in known.unseen or conn in known.conversations:
            self.leaves(conn)
            known.loses_sight(conn, why)

    def expires(self) -> None:
        """Forget requests of clients that have gone long ago."""
        departed = self._known.departed
        while departed and departed[0][0] < self._known.now - GRACE:
            for asked in departed.popleft()[1]:
                if asked.verb == "kick":
                    self.ends_kick(asked, True)
                if asked.about is not None:
                    self._forgets(_id(asked), asked.about)

    def _forgets(self, id: int, request: Request) -> None:
        known, jobs = self._known, self._known.jobs
        if (job := jobs.followed.get(id)) is not None:
            label = job.label
            jobs.fold(job, lambda: job.expires(request, known), request)
            jobs.changed(job, label, known.number)
        jobs.drop_stray(id, request)


def _id(asked: Asked) -> int:
    """Return the job that a command names."""
    (id, *_) = asked.args
    assert isinstance(id, int)
    return id
