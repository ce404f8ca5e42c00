"""The judge of live traffic: events in, alarms out.

It decides what the requests and replies of all connections decide, whatever the order in which the
server came to them; see :mod:`conformance.traffic.jobs` for that of one job. Memory is bounded:
deleted jobs are forgotten, and beyond a limit it begins anew.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from conformance import yamlish
from conformance.oracle.reply_comparison import difference
from conformance.oracle.underspecification import Open
from conformance.traffic import jobs as job_states
from conformance.traffic.alarms import About, Alarm, Alarms
from conformance.traffic.conversation import (
    OWN,
    Asked,
    Conversation,
    command_of,
    may_end,
    waits,
    words_for,
)
from conformance.traffic.events import ENDS, Event, Kind
from conformance.traffic.jobs import NAMING, Job, Possibility
from conformance.traffic.jobs import Request as JobRequest
from conformance.traffic.requests import Remark, Understood
from conformance.traffic.tubes import PassedOver, TubeView
from reference_server.events import Connected
from reference_server.model import Model
from reference_server.profiles import NEWEST, Profile
from reference_server.state import SECOND
from reference_server.wire import Body, Command, ProtocolError, Put, Reply, escape

BODY_LIMIT = 1 << 22
"""Bytes of a body that are read; a longer one is skipped, and not compared."""
MAX_JOBS = 200_000
"""Jobs beyond which the judge begins anew."""
MAX_DELETED = 50_000
"""Deleted jobs that are remembered."""
MAX_HELD = 10_000
MAX_TUBES = 20_000
LATENESS = SECOND
"""Nanoseconds by which a delay may end late, besides the time of the slowest reply."""
GRACE = 60 * SECOND
"""Nanoseconds for which requests of a client that has gone may still take effect."""
BLIND = 30 * SECOND
"""Nanoseconds after signs of clients that bypass the proxy in which jobs are not followed."""
SETTLES = SECOND
"""Nanoseconds after the end of a connection that was not seen, until nothing of it is in flight."""
SHOWN = 200
"""Bytes of a message that an alarm shows."""


class TrafficJudge:
    """Judges events in their order; ``alarms`` has what it finds.

    ``is_shared``: other clients use the server, which no event shows. ``finds_strangers``: called
    before an alarm that such a client would explain; returns whether there is one.
    """

    def __init__(
        self,
        profile: Profile = NEWEST,
        is_shared: bool = False,
        finds_strangers: Callable[[], bool] = lambda: False,
    ) -> None:
        self.alarms = Alarms()
        self.profile = profile
        self.deletes = profile.deletes
        self.number = 0
        self.now = 0
        self.conversations: dict[int, Conversation] = {}
        self.jobs: dict[int, Job] = {}
        self.tubes: dict[str, TubeView] = {}
        self.labels: Counter[str] = Counter()
        """Jobs by state."""
        self.requests = self.replies = self.unjudged = self.blurred_count = 0
        self._is_shared = is_shared
        self._finds_strangers = finds_strangers
        limit = max(profile.max_job_size, BODY_LIMIT)
        self._reading = (
            replace(profile, max_job_size=limit) if profile.skips_big_bodies else profile
        )
        self._orders_tubes = profile.first_in_first_out
        self._slowest = 0
        self._unseen: set[int] = set()
        self._blind_until = 0
        self._was_blind = False
        self._anew = 0
        self._known_from = 2**64
        """The first id of a job that must have been seen."""
        self._highest = 0
        self._deleted: OrderedDict[int, int] = OrderedDict()
        self._strays: dict[int, list[JobRequest]] = {}
        """Requests in flight that name jobs which are not followed."""
        self._puts: dict[int, Asked] = {}
        self._has_lost_puts = False
        self._wide_waiters: dict[int, int] = {}
        """Requests of clients that wait for jobs of tubes that are not known."""
        self._wide_kicks: dict[int, int] = {}
        self._kicked = 0
        self._lost_waiter: tuple[int, int] = (0, -GRACE)
        self._departed: deque[tuple[int, int, list[Asked]]] = deque()
        self._ends: deque[tuple[int, int, str, tuple[str, ...]]] = deque(maxlen=64)
        """Connections that the server has ended without a reason: event, time, name, context."""
        self._accepted, self._refused = -1, 2**64
        self._last_close = 0
        self._idle = 0
        """The event since which a restart of the server would not have been seen; 0 if none."""
        self._templates = _templates(profile)
        if is_shared:
            self.alarms.notice(0, "clients that are not seen are expected: jobs are not judged")

    # ------------------------------------------------------------ surroundings of a job

    @property
    def lateness(self) -> int:
        """Return by how many nanoseconds a delay may end late."""
        return LATENESS + self._slowest

    def may_be_taken(self, tube: str | None, since: int = 2**64) -> bool:
        """Return whether a client has waited for jobs of a tube since before an event."""
        if next(iter(self._wide_waiters), since) < since:
            return True
        if tube is None:
            return any(one.waiters for one in self.tubes.values())
        view = self.tubes.get(tube)
        return view is not None and next(iter(view.waiters), since) < since

    def may_be_kicked(self, tube: str | None, since: int) -> bool:
        """Return whether a kick may have taken effect after an event."""
        if self._wide_kicks or self._kicked > since:
            return True
        if tube is None:
            return any(one.kicks or one.kicked > since for one in self.tubes.values())
        view = self.tubes.get(tube)
        return view is not None and (bool(view.kicks) or view.kicked > since)

    def is_gone(self, conn: int) -> bool:
        """Return whether a client has ended its connection, or may have."""
        conversation = self.conversations.get(conn)
        return conversation is None or conversation.has_ended or conversation.has_quit

    def has_lost_a_waiter(self, since: int) -> bool:
        """Return whether a client that waited has gone after an event, or a short time ago."""
        number, at = self._lost_waiter
        return number > since or self.now - at < GRACE

    # ------------------------------------------------------------ events

    @property
    def is_following(self) -> bool:
        """Return whether all that happens to jobs is seen."""
        return not (self._is_shared or self._unseen or self.now < self._blind_until)

    def take(self, event: Event) -> None:
        """Judge the next event."""
        self.number += 1
        self.now = max(self.now, event.at)
        if self._was_blind and self.is_following:
            self._begin_anew("jobs are followed again; those that exist may be in any state")
        kind, conn = event.kind, event.conn
        conversation = self.conversations.get(conn)
        if kind is Kind.OPENED:
            self._opens(conn, event.data.decode("latin-1"))
        elif kind is Kind.SENT and conversation is not None:
            self._sent(conversation, event.data, event.at)
        elif kind is Kind.RECEIVED and conversation is not None:
            self._received(conversation, event.data)
        elif kind is Kind.CLIENT_ENDED and conversation is not None:
            conversation.has_ended = True
            conversation.recent.append(("!", b"half-closes"))
        elif kind is Kind.SERVER_ENDED and conversation is not None:
            self._server_ends(conversation)
        elif kind in ENDS:
            self._closes(conn, kind is Kind.RESET and event.data == b"server")
        elif kind is Kind.DROPPED:
            self._drops(conn, event.data.decode("latin-1") or "the judge lags behind")
        elif kind is Kind.JOINED:
            self._joins(conn, event.data.decode("latin-1"))
        if self._departed and self._departed[0][0] < self.now - GRACE:
            self._expire()

    def _opens(self, conn: int, name: str) -> None:
        conversation = self.conversations[conn] = Conversation.of(conn, name, self._reading)
        conversation.opened = self.number

    def _joins(self, conn: int, name: str) -> None:
        """Judge a connection from here on, though its tubes and jobs are unknown."""
        self._opens(conn, name)
        self.conversations[conn].is_known = False
        if conn in self._unseen:
            self.unjudged -= 1
            self._is_seen_again(conn)

    def _is_seen_again(self, conn: int) -> None:
        self._unseen.discard(conn)
        self._blind_until = max(self._blind_until, self.now + SETTLES)

    def _drops(self, conn: int, why: str) -> None:
        """Judge nothing more of a connection."""
        if conn not in self._unseen or conn in self.conversations:
            self.unjudged += 1
            self._leave(conn)
            self._loses_sight(conn, why)

    def _closes(self, conn: int, by_server: bool) -> None:
        self._last_close = self.now
        conversation = self.conversations.get(conn)
        self._leave(conn)
        if not self.conversations:
            self._idle = self.number
        if by_server and conversation is not None and self.is_following:
            self._begin_anew(f"the server has reset {conversation.name}; it may have restarted")
        if conn in self._unseen:
            self._is_seen_again(conn)

    def _leave(self, conn: int) -> None:
        """Forget a connection; what it has asked may still take effect."""
        conversation = self.conversations.pop(conn, None)
        if conversation is None:
            return
        asked = [*conversation.asked]
        for one in asked:
            if one.is_waiting:
                self._lost_waiter = self.number, self.now
            if one.put is not None and self._puts.pop(one.number, None) is not None:
                self._has_lost_puts = True
            self._unregister(one, keeps_kick=True)
        if any(one.about or one.verb == "kick" for one in asked):
            self._departed.append((self.now, conn, asked))

    def _expire(self) -> None:
        """Forget requests of clients that have gone long ago."""
        while self._departed and self._departed[0][0] < self.now - GRACE:
            for asked in self._departed.popleft()[2]:
                if asked.verb == "kick":
                    self._end_kick(asked, True)
                if asked.about is not None:
                    self._forget_request(asked)

    def _forget_request(self, asked: Asked) -> None:
        assert asked.about is not None
        id = asked.args[0]
        assert isinstance(id, int)
        if (job := self.jobs.get(id)) is not None:
            label = job.label
            about = asked.about
            self._fold(job, lambda: job.expires(about, self), about)
            self._changed(job, label)
        self._drop_stray(id, asked.about)

    def _drop_stray(self, id: int, request: JobRequest) -> None:
        strays = self._strays.get(id)
        if strays is not None:
            strays[:] = [one for one in strays if one is not request]
            if not strays:
                del self._strays[id]

    def _server_ends(self, conversation: Conversation) -> None:
        conversation.recent.append(("!", b"closed by the server"))
        is_due = conversation.has_ended or conversation.has_quit
        if is_due or not conversation.is_clear:
            return
        # A server that is started again ends all connections: that is no finding.
        context = _context(conversation)
        self._ends.append((self.number, self.now, conversation.name, context))
        if self.is_following:
            self._begin_anew(f"the server has ended {conversation.name}; it may have restarted")

    # ------------------------------------------------------------ what can be followed

    def _loses_sight(self, conn: int, why: str) -> None:
        """Note a connection whose requests are not seen."""
        if self.is_following:
            self._goes_blind(why)
        self._unseen.add(conn)

    def _goes_blind(self, why: str) -> None:
        self.alarms.notice(self.now / SECOND, f"jobs cannot be followed: {why}")
        self._forget_jobs()
        self._was_blind = True

    def _bypassed(self, why: str) -> None:
        """Note signs of clients that bypass the proxy."""
        if self.is_following:
            self._goes_blind(f"{why}: a client is not seen here")
        self._blind_until = self.now + BLIND

    def note_strangers(self) -> None:
        """Note that the server has connections that are not seen."""
        self._bypassed("the server has connections that are not seen")

    def _begin_anew(self, why: str) -> None:
        self.alarms.notice(self.now / SECOND, why)
        self._forget_jobs()
        self._was_blind = False

    def _forget_jobs(self) -> None:
        self._anew = self.number
        self._idle = 0
        self._known_from = 2**64
        self._highest = 0
        self._has_lost_puts = False
        self._accepted, self._refused = -1, 2**64
        self.jobs.clear()
        self.labels.clear()
        self._deleted.clear()
        self._strays.clear()
        for view in self.tubes.values():
            view.ready.clear()
            view.job_count = view.given = 0
        in_flight = [one.asked for one in self.conversations.values()]
        for asked in (*in_flight, *(asked for _, _, asked in self._departed)):
            for one in asked:
                if one.about is not None and isinstance(one.args[0], int):
                    self._strays.setdefault(one.args[0], []).append(one.about)

    # ------------------------------------------------------------ requests

    def _sent(self, conversation: Conversation, data: bytes, at: int) -> None:
        conversation.recent.append((">", data[:SHOWN]))
        for understood in conversation.reader.read(data, len(conversation.asked)):
            for remark in understood.remarks:
                self._remark(conversation, remark)
            conversation.is_clear &= understood.is_clear
            if understood.request is not None:
                self.number += 1
                self._asks(conversation, understood, at)

    def _asks(self, conversation: Conversation, understood: Understood, at: int) -> None:
        request = understood.request
        assert request is not None
        if isinstance(request, Body):
            if conversation.asked and conversation.asked[-1].awaits_body:
                asked = conversation.asked[-1]
                asked.body, asked.awaits_body = request, False
                asked.at = at
            return
        self.requests += 1
        if may_end(request):
            conversation.has_quit = True
            return
        is_clear = understood.is_clear
        command = command_of(request)
        asked = Asked(self.number, at, "", words=words_for(request, is_clear))
        asked.tube = conversation.tube
        conversation.asked.append(asked)
        if isinstance(request, Put):
            asked.verb, asked.put, asked.awaits_body = "put", request, True
            asked.floor = self._highest
            self._puts[asked.number] = asked
        elif command is not None:
            asked.verb, asked.args = command.verb, command.args
            self._register(conversation, asked, command, is_clear)
        if isinstance(request, Open):
            # What it means to the server is not known.
            conversation.is_known = False

    def _register(
        self, conversation: Conversation, asked: Asked, command: Command, is_clear: bool
    ) -> None:
        """Note what a command may do from now on."""
        verb = command.verb
        if verb in OWN and is_clear:
            asked.expected = conversation.own_reply(command, self.profile)
        elif verb in NAMING and isinstance(command.args[0], int):
            self._names(conversation, asked, command.args[0], is_clear)
        elif waits(verb):
            asked.is_waiting = True
            asked.watched = conversation.watched
            if asked.watched is None:
                self._wide_waiters[asked.number] = conversation.conn
            for tube in asked.watched or ():
                self._tube(tube).waiters[asked.number] = conversation.conn
        elif verb == "kick" and asked.args and asked.args[0] != 0:
            kicks = self._wide_kicks if asked.tube is None else self._tube(asked.tube).kicks
            kicks[asked.number] = conversation.conn
        elif verb == "pause-tube" and isinstance(command.args[0], str):
            self._tube(command.args[0]).pauses += 1
        elif verb == "list-tubes":
            asked.watched = conversation.known_tubes()

    def _names(self, conversation: Conversation, asked: Asked, id: int, is_clear: bool) -> None:
        numbers = [number for number in asked.args[1:] if isinstance(number, int)]
        pri, delay = (*numbers, 0, 0)[:2]
        request = JobRequest(asked.number, conversation.conn, asked.verb, asked.at, pri, delay)
        job = self.jobs.get(id)
        if job is None:
            asked.about = request
            self._strays.setdefault(id, []).append(request)
            return
        label = job.label
        if job.ready_since and job.tube is not None and asked.verb not in job_states.LOOKING:
            self._tube(job.tube).remove(job)
        if is_clear:
            asked.about = request
            job.asked(request)
        else:
            job.forget()
        self._changed(job, label)

    def _tube(self, name: str) -> TubeView:
        view = self.tubes.get(name)
        if view is None:
            if len(self.tubes) >= MAX_TUBES:
                idle = [
                    name
                    for name, one in self.tubes.items()
                    if one.is_idle and one.paused_until < self.now
                ]
                for other in idle:
                    del self.tubes[other]
            view = self.tubes[name] = TubeView(name)
        return view

    def _unregister(self, asked: Asked, keeps_kick: bool = False) -> None:
        """Note that a command is no longer in flight."""
        if asked.is_waiting:
            self._wide_waiters.pop(asked.number, None)
            for tube in asked.watched or ():
                if (view := self.tubes.get(tube)) is not None:
                    view.waiters.pop(asked.number, None)
        elif asked.verb == "kick" and not keeps_kick:
            self._end_kick(asked, True)
        elif asked.verb == "pause-tube" and asked.args and isinstance(asked.args[0], str):
            seconds = asked.args[1] if len(asked.args) > 1 else 0
            self._tube(asked.args[0]).paused(seconds if isinstance(seconds, int) else 0, self.now)

    def _end_kick(self, asked: Asked, has_kicked: bool) -> None:
        view = None if asked.tube is None else self._tube(asked.tube)
        kicks = self._wide_kicks if view is None else view.kicks
        if kicks.pop(asked.number, None) is not None and has_kicked:
            if view is None:
                self._kicked = self.number
            else:
                view.kicked = self.number

    # ------------------------------------------------------------ replies

    def _received(self, conversation: Conversation, data: bytes) -> None:
        conversation.recent.append(("<", data[:SHOWN]))
        reader = conversation.replies
        reader.receive(data)
        try:
            while (reply := reader.next_reply()) is not None:
                self.number += 1
                self.replies += 1
                self._replies(conversation, reply)
                if self.conversations.get(conversation.conn) is not conversation:
                    return
        except ProtocolError as error:
            self._wrong(conversation, "framing", "a reply of the protocol", str(error))
            self._drops(conversation.conn, f"the replies to {conversation.name} make no sense")

    def _replies(self, conversation: Conversation, reply: Reply) -> None:
        if not conversation.asked:
            said = "the end" if conversation.has_quit else "no reply without a request"
            self._wrong(conversation, "unasked", said, str(reply))
            self._drops(conversation.conn, f"replies to {conversation.name} are out of step")
            return
        asked = conversation.asked.popleft()
        self._puts.pop(asked.number, None)
        if not (asked.is_waiting or asked.awaits_body):
            took = min(self.now - asked.at, 5 * SECOND)
            self._slowest = max(self._slowest, took)
        if reply.word not in asked.words:
            self._odd_word(conversation, asked, reply)
        else:
            self._judge(conversation, asked, reply)
        self._unregister(asked)
        if self._ends:
            self._judge_ends(conversation, asked)

    def _odd_word(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        if asked.about is not None:
            self._unfollow(asked)
        expected = str(asked.expected) if asked.expected else " or ".join(sorted(asked.words))
        self._wrong(conversation, f"{asked.verb or 'malformed'} {reply.word}", expected, str(reply))

    def _unfollow(self, asked: Asked) -> None:
        """Forget the state of the job that a command names."""
        assert asked.about is not None
        id = asked.args[0]
        assert isinstance(id, int)
        self._drop_stray(id, asked.about)
        if (job := self.jobs.get(id)) is not None:
            label = job.label
            job.forget()
            job.blurred = [one for one in job.blurred if one is not asked.about]
            self._changed(job, label)

    def _judge(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        verb, word = asked.verb, reply.word
        if word in ("OUT_OF_MEMORY", "INTERNAL_ERROR"):
            # It is not known what has been done all the same.
            if verb in OWN:
                conversation.is_known = False
            if asked.about is not None:
                self._unfollow(asked)
            if asked.put is not None:
                self._has_lost_puts = True
        elif asked.expected is not None:
            self._compare(conversation, asked, reply)
        elif asked.put is not None:
            self._judge_put(conversation, asked, reply)
        elif word == "OK":
            self._judge_report(conversation, asked, reply)
        elif asked.about is not None:
            self._judge_about(conversation, asked, reply)
        elif asked.is_waiting:
            self._judge_wait(conversation, asked, reply)
        elif verb == "kick":
            self._judge_kick(conversation, asked, reply)
        elif verb.startswith("peek-"):
            self._judge_peek(conversation, asked, reply)
        elif verb in NAMING and word in ("RESERVED", "FOUND"):
            self._compare_id(conversation, asked, reply)
        self._note_held(conversation, asked, reply)

    def _compare(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        assert asked.expected is not None
        if (other := difference(asked.expected, reply, alone=True)) is not None:
            self._wrong(conversation, f"{asked.verb} reply", *other)

    def _compare_id(self, conversation: Conversation, asked: Asked, reply: Reply) -> bool:
        if reply.args[:1] == asked.args[:1]:
            return True
        self._wrong(conversation, f"{asked.verb} id", f"{reply.word} {asked.args[0]} …", str(reply))
        return False

    def _note_held(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        if reply.word == "RESERVED" and isinstance(reply.args[0], int):
            if len(conversation.held) < MAX_HELD:
                conversation.held.add(reply.args[0])
        elif reply.word in ("DELETED", "RELEASED", "BURIED") and asked.about is not None:
            id = asked.args[0]
            if isinstance(id, int) and len(conversation.held) < MAX_HELD:
                conversation.held.discard(id)

    # ------------------------------------------------------------ put

    def _judge_put(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        assert asked.put is not None
        put, body, word = asked.put, asked.body, reply.word
        if word == "JOB_TOO_BIG":
            if put.size <= self._accepted:
                size = self._accepted
                said = f"INSERTED: a body of {size} bytes was accepted before"
                self._wrong(conversation, "put too big", said, str(reply), unless_explained=True)
            self._refused = min(self._refused, put.size)
            return
        if body is None:
            if asked.awaits_body and word != "DRAINING":
                self._wrong(conversation, "put early", "no reply before its body", str(reply))
            return
        is_right = body.data is not None
        is_read = put.size <= self._reading.max_job_size
        if is_read and not is_right and word != "EXPECTED_CRLF":
            self._wrong(conversation, "put end", "EXPECTED_CRLF", str(reply))
        elif is_right and word == "EXPECTED_CRLF":
            self._wrong(conversation, "put end", "INSERTED", str(reply))
        elif word == "INSERTED":
            self._accepted = max(self._accepted, put.size)
            if put.size >= self._refused:
                said = f"JOB_TOO_BIG, as for a body of {self._refused} bytes"
                self._wrong(conversation, "put too big", said, str(reply), unless_explained=True)
            self._inserted(conversation, asked, reply)
        elif word == "BURIED":
            self._has_lost_puts = True

    def _inserted(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        id = reply.args[0]
        assert isinstance(id, int)
        assert asked.put is not None
        if not self.is_following:
            return
        if asked.number <= self._anew:
            self._meets(conversation, JobRequest(0, 0, "put", asked.at), id, reply)
            return
        known = self.jobs.get(id)
        deleted = self._deleted.get(id, -1)
        is_new = deleted < 0 and known is None
        is_early = deleted > asked.number or (known is not None and known.first > asked.number)
        if not (is_new or is_early):
            said = "INSERTED with an id that no job had before"
            self._wrong(conversation, "put id", said, str(reply), unless_explained=True)
            return
        if id <= asked.floor:
            said = f"INSERTED with an id above {asked.floor}"
            self._wrong(conversation, "put order", said, str(reply), unless_explained=True)
            return
        if id > self._highest > 0:
            # A server that was started again would begin at 1, or have kept its jobs.
            self._idle = 0
        self._highest = max(self._highest, id)
        self._known_from = min(self._known_from, id)
        if deleted > 0:
            return
        if len(self.jobs) >= MAX_JOBS:
            self._begin_anew(f"there are more than {MAX_JOBS:,} jobs: they are forgotten")
            return
        put, data = asked.put, asked.body.data if asked.body else None
        body = None if data is None else (len(data), hash(data))
        if known is not None:
            if known.body not in (None, body):
                said = f"the body that job {id} was shown with before"
                self._wrong(conversation, "put body", said, "another body", unless_explained=True)
            known.body, known.tube = body, asked.tube
            known.ttr, known.delay = max(put.ttr, 1), put.delay
            return
        job = Job(id, self.number, asked.tube, body, max(put.ttr, 1), put.delay, {put.pri})
        strays = self._strays.pop(id, None)
        if strays is not None:
            job.blurred += strays
        elif put.delay:
            delay = put.delay * SECOND
            soonest, latest = asked.at + delay, self.now + delay
            since = asked.number
            job.possible = [Possibility(job_states.DELAYED, 0, soonest, latest, since)]
            job.is_fresh = True
        else:
            job.possible = [Possibility(job_states.READY, 0, asked.at, 0, asked.number)]
            job.is_fresh = True
        self._follow(job)
        if strays is None and not put.delay and job.tube is not None:
            self._tube(job.tube).add(job, self.number)

    def _follow(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.labels[job.label] += 1
        if job.tube is not None:
            self._tube(job.tube).job_count += 1

    def _changed(self, job: Job, label: str) -> None:
        """Note that a job may have changed; forget it if it certainly was deleted."""
        if self.jobs.get(job.id) is not job:
            return
        if job.is_gone:
            self._unlist(job)
            del self.jobs[job.id]
            self.labels[label] -= 1
            if job.tube is not None:
                self._tube(job.tube).job_count -= 1
            self._deleted[job.id] = self.number
            if len(self._deleted) > MAX_DELETED:
                self._deleted.popitem(last=False)
        elif job.label != label:
            self.labels[label] -= 1
            self.labels[job.label] += 1

    def _unlist(self, job: Job) -> None:
        """Note that a job is not certainly ready any more."""
        if job.ready_since and job.tube is not None:
            self._tube(job.tube).remove(job)
        job.ready_since = 0
        job.passed_over = None

    # ------------------------------------------------------------ replies about a job

    def _judge_about(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge a reply to a command that names a job."""
        request, id = asked.about, asked.args[0]
        assert request is not None
        assert isinstance(id, int)
        self._drop_stray(id, request)
        if reply.word in ("RESERVED", "FOUND") and not self._compare_id(conversation, asked, reply):
            return
        self._about(conversation, request, id, reply, reply.word)

    def _about(
        self, conversation: Conversation, request: JobRequest, id: int, reply: Reply, word: str
    ) -> None:
        if not self.is_following:
            return
        job = self.jobs.get(id)
        if job is None:
            if word != "NOT_FOUND":
                self._meets(conversation, request, id, reply)
            return
        if request not in job.pending and request not in job.blurred:
            # It was met in between.
            return
        label, before = job.label, self._expectation(job)
        if not self._fold(job, lambda: job.answered(request, word, self), request):
            self._contradicts(conversation, job, request.verb, before, reply)
        elif reply.body is not None and word in ("RESERVED", "FOUND"):
            self._compare_body(conversation, job, reply)
        if word in ("RELEASED", "BURIED") and request.verb in ("release", "bury"):
            job.has_priority_of(request, self.number)
        self._changed(job, label)

    def _fold(
        self, job: Job, take: Callable[[], bool | None], request: JobRequest | None = None
    ) -> bool:
        """Take a reply about a job; forget its state if it may be in too many."""
        try:
            return take() is not False
        except job_states.TooManyPossibilities:
            self._unlist(job)
            job.forget()
            job.blurred = [one for one in job.blurred if one is not request]
            self.blurred_count += 1
            return True

    def _expectation(self, job: Job) -> str:
        states = sorted(job.states)
        return f"a reply about job {job.id}, which is {' or '.join(states)}"

    def _contradicts(
        self, conversation: Conversation, job: Job, verb: str, expected: str, reply: Reply
    ) -> None:
        self._unlist(job)
        kind = f"{verb} {reply.word}"
        self._wrong(conversation, kind, expected, f"{reply} to {verb}", unless_explained=True)

    def _meets(
        self, conversation: Conversation, request: JobRequest, id: int, reply: Reply
    ) -> Job | None:
        """Take a reply that shows a job which is not followed; return it, if it is now."""
        deleted = self._deleted.get(id, -1)
        if deleted >= 0:
            if deleted < request.number:
                said = f"nothing about job {id}, which was deleted"
                kind = f"{request.verb} deleted"
                self._wrong(conversation, kind, said, str(reply), unless_explained=True)
            return None
        is_new = request.verb != "put" and id > self._known_from
        if is_new and not (self._puts or self._has_lost_puts):
            self._bypassed(f"job {id} was put by nobody")
            return None
        if id >= 2**63 or len(self.jobs) >= MAX_JOBS:
            return None
        job = Job(id, self.number)
        if reply.word == "DELETED":
            self._deleted[id] = self.number
            return None
        if reply.body is not None and reply.word != "OK":
            job.body = len(reply.body), hash(reply.body)
        job.blurred += self._strays.pop(id, ())
        self._follow(job)
        return job

    def _compare_body(self, conversation: Conversation, job: Job, reply: Reply) -> None:
        assert reply.body is not None
        body = len(reply.body), hash(reply.body)
        if job.body is None:
            job.body = body
        elif job.body != body:
            expected = f"job {job.id} with the {job.body[0]} bytes that it was put with"
            observed = f"{reply.word} with {_differs(job.body[0], reply.body)}"
            self._wrong(conversation, "body", expected, observed, unless_explained=True)

    # ------------------------------------------------------------ reserve

    def _judge_wait(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        word = reply.word
        if word == "RESERVED":
            self._reserved(conversation, asked, reply)
        elif word == "DEADLINE_SOON":
            holds = conversation.held or not conversation.is_known
            if not holds:
                said = "no DEADLINE_SOON for a client that holds no job"
                self._wrong(conversation, "deadline", said, str(reply))
        elif word == "TIMED_OUT" and not conversation.has_ended:
            self._timed_out(conversation, asked, reply)

    def _timed_out(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        seconds = asked.args[0] if asked.args else None
        if asked.verb == "reserve" or seconds is None:
            self._wrong(conversation, "reserve timeout", "RESERVED, or no reply yet", str(reply))
        elif isinstance(seconds, int):
            early = job_states.EARLY + seconds * SECOND // 1000
            passed = self.now - asked.at
            if passed + early < seconds * SECOND:
                expected = f"no reply before {seconds} s"
                observed = f"{reply} after {passed / SECOND:.3f} s"
                self._wrong(conversation, "early timeout", expected, observed)
            self._passes_over(conversation, asked, asked.watched or (), None, reply)

    def _reserved(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        id = reply.args[0]
        assert isinstance(id, int)
        if not self.is_following:
            return
        request = JobRequest(asked.number, conversation.conn, asked.verb, asked.at)
        job = self.jobs.get(id)
        if job is None:
            job = self._meets(conversation, request, id, reply)
            if job is None:
                return
        label, before = job.label, self._expectation(job)
        self._was_passed_over(job, asked)
        place = self._place(job)
        if not self._fold(job, lambda: job.reserved(request, self)):
            self._contradicts(conversation, job, asked.verb, before, reply)
        else:
            self._compare_body(conversation, job, reply)
            self._compare_tube(conversation, job, asked, reply)
            if job.tube is not None:
                self._tube(job.tube).given = self.number
        self._unlist(job)
        if place is not None:
            self._passes_over(conversation, asked, asked.watched or (), place, reply, job.tube)
        self._changed(job, label)

    def _compare_tube(
        self, conversation: Conversation, job: Job, asked: Asked, reply: Reply
    ) -> None:
        if asked.watched is not None and job.tube is not None and job.tube not in asked.watched:
            expected = f"a job of {' or '.join(asked.watched)}"
            observed = f"{reply}, which is in {job.tube}"
            self._wrong(conversation, "reserve tube", expected, observed, unless_explained=True)

    def _place(self, job: Job) -> tuple[int, int] | None:
        """Return the place of a job in its queue; None if it is not certain."""
        if not job.is_fresh or job.pris is None or len(job.pris) != 1:
            return None
        (pri,) = job.pris
        return pri, job.id if self.profile.first_in_first_out else 0

    def _passes_over(
        self,
        conversation: Conversation,
        asked: Asked,
        tubes: Iterable[str],
        place: tuple[int, int] | None,
        reply: Reply,
        tube: str | None = None,
    ) -> None:
        """Mark jobs that seem to be passed over by a reply."""
        for name in tubes:
            view = self.tubes.get(name)
            if view is None or not view.ready:
                continue
            is_open = name == tube or (view.given and view.is_known_open(asked.at))
            if not is_open or (tube is not None and name != tube and not self._orders_tubes):
                continue
            for id in view.before(place):
                job = self.jobs.get(id)
                if job is None or not 0 < job.ready_since < asked.number:
                    continue
                if job.passed_over is None:
                    alarm = self._alarm(
                        conversation,
                        "server",
                        f"{asked.verb} order",
                        f"job {id}, which was ready in {name}, before others",
                        str(reply),
                    )
                    job.passed_over = PassedOver(asked.number, self.number, alarm)
                return

    def _was_passed_over(self, job: Job, asked: Asked) -> None:
        """Raise the alarm about a job that was ready when it was passed over."""
        passed = job.passed_over
        if not isinstance(passed, PassedOver) or not isinstance(passed.about, Alarm):
            return
        was_ready = (
            job.ready_since
            and asked.number > passed.observed
            and job.states == {job_states.READY}
            and not self.may_be_taken(job.tube, passed.observed)
            and not self.has_lost_a_waiter(job.ready_since)
        )
        if was_ready and not self._is_explained():
            self.alarms.add(passed.about)

    # ------------------------------------------------------------ others

    def _judge_kick(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        count = reply.args[0] if reply.args else None
        bound = asked.args[0] if asked.args else 0
        if not isinstance(count, int) or (isinstance(bound, int) and count > bound):
            self._wrong(conversation, "kick count", f"KICKED with at most {bound}", str(reply))
        self._end_kick(asked, count != 0)

    def _judge_peek(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        state = asked.verb.removeprefix("peek-")
        tubes = () if asked.tube is None else (asked.tube,)
        if not self.is_following:
            return
        if reply.word == "NOT_FOUND":
            if state == job_states.READY:
                self._passes_over(conversation, asked, tubes, None, reply, asked.tube)
            return
        id = reply.args[0]
        assert isinstance(id, int)
        request = JobRequest(asked.number, conversation.conn, asked.verb, asked.at)
        job = self.jobs.get(id)
        if job is None:
            self._meets(conversation, request, id, reply)
            return
        label, before = job.label, self._expectation(job)
        if not self._fold(job, lambda: job.shown(state, request, self)):
            self._contradicts(conversation, job, asked.verb, before, reply)
        else:
            self._compare_body(conversation, job, reply)
            if asked.tube is not None and job.tube not in (None, asked.tube):
                observed = f"{reply}, which is in {job.tube}"
                said = f"a job of {asked.tube}"
                self._wrong(conversation, "peek tube", said, observed, unless_explained=True)
            if state == job_states.READY and (place := self._place(job)) is not None:
                self._passes_over(conversation, asked, tubes, place, reply, asked.tube)
        self._changed(job, label)

    def _judge_report(self, conversation: Conversation, asked: Asked, reply: Reply) -> None:
        """Judge statistics and lists: their form, and what is certain of their values."""
        verb = asked.verb
        template = self._templates.get(verb)
        if template is None:
            return
        if (other := difference(template, reply, fresh=False)) is not None:
            self._wrong(conversation, f"{verb} form", *other)
            if asked.about is not None:
                self._unfollow(asked)
            return
        if verb == "list-tubes":
            told = {*yamlish.names(reply.body or b"")}
            if lost := {*(asked.watched or ())} - told:
                self._wrong(conversation, "list-tubes", f"OK with {min(lost)}", str(reply))
            return
        values = yamlish.dictionary(reply.body or b"")
        if verb == "stats-tube" and values.get("name") != asked.args[0]:
            said = f"OK with name: {asked.args[0]}"
            self._wrong(conversation, "stats-tube name", said, f"name: {values.get('name')}")
        elif verb == "stats" and "current-connections" in values:
            self._count_connections(asked, values["current-connections"])
        elif asked.about is not None:
            self._judge_statistics(conversation, asked, reply, values)

    def _count_connections(self, asked: Asked, told: str) -> None:
        seen = len(self.conversations) + len(self._unseen - self.conversations.keys())
        is_calm = asked.at - self._last_close > 5 * SECOND
        if is_calm and told.isdecimal() and len(told) < 10 and int(told) > seen:
            self._bypassed(f"the server has {told} connections, and {seen} are seen")

    def _judge_statistics(
        self, conversation: Conversation, asked: Asked, reply: Reply, values: dict[str, str]
    ) -> None:
        id, request = asked.args[0], asked.about
        assert isinstance(id, int)
        assert request is not None
        self._drop_stray(id, request)
        job = self.jobs.get(id)
        known: dict[str, set[str]] = {"id": {str(id)}}
        if job is not None and (request in job.pending or request in job.blurred):
            if job.tube is not None:
                known["tube"] = {job.tube}
            if job.pris is not None and job.repriced < request.number:
                known["pri"] = {str(pri) for pri in job.pris}
            if job.ttr is not None:
                known["ttr"] = {str(job.ttr)}
        for key, allowed in known.items():
            if key in values and values[key] not in allowed:
                expected = f"OK with {key}: {' or '.join(sorted(allowed))}"
                observed = f"OK with {key}: {values[key]}"
                kind = f"stats-job {key}"
                self._wrong(conversation, kind, expected, observed, unless_explained=True)
        state = values.get("state", "")
        self._about(conversation, request, id, reply, f"OK {state}")

    def _judge_ends(self, conversation: Conversation, asked: Asked) -> None:
        """Judge connections that the server has ended, as it goes on serving others."""
        number, at, name, context = self._ends[0]
        if asked.number < number or self.now - at < SECOND:
            return
        self._ends.popleft()
        if conversation.opened < number:
            self.alarms.add(
                Alarm(
                    "server",
                    "ended",
                    at / SECOND,
                    name,
                    "an open connection",
                    "its end",
                    context=context,
                )
            )

    # ------------------------------------------------------------ alarms

    def _is_explained(self) -> bool:
        """Return whether a restart, or a client that bypasses the proxy, explains a reply."""
        if self._idle:
            self._begin_anew("the server may have restarted while no client was connected")
            return True
        if self._finds_strangers():
            self.note_strangers()
            return True
        return False

    def _wrong(
        self,
        conversation: Conversation,
        kind: str,
        expected: str,
        observed: str,
        unless_explained: bool = False,
    ) -> None:
        """Raise an alarm about the server, unless something else may explain it."""
        if not conversation.is_clear:
            why = f"{conversation.name} has sent lines that servers read in different ways"
            self._drops(conversation.conn, why)
            return
        if unless_explained and (not self.is_following or self._is_explained()):
            return
        self.alarms.add(self._alarm(conversation, "server", kind, expected, observed))

    def _remark(self, conversation: Conversation, remark: Remark) -> None:
        about: About = "client" if remark.is_certain else "suspicion"
        observed = f"{remark.what} (byte {remark.place:,} of the connection)"
        alarm = self._alarm(conversation, about, remark.what, "", observed)
        self.alarms.add(replace(alarm, shown=remark.shown))

    def _alarm(
        self, conversation: Conversation, about: About, kind: str, expected: str, observed: str
    ) -> Alarm:
        at = self.now / SECOND
        context = _context(conversation)
        return Alarm(
            about, kind, at, conversation.name, expected[:400], observed[:400], "", context
        )


def _context(conversation: Conversation) -> tuple[str, ...]:
    """Return the last messages of a connection."""
    return tuple(
        f"{direction} {data.decode() if direction == '!' else escape(data)}"
        for direction, data in conversation.recent
    )


def _differs(size: int, body: bytes) -> str:
    if len(body) != size:
        return f"{len(body)} bytes"
    return f"other bytes: {escape(body[:40])}"


def _templates(profile: Profile) -> dict[str, Reply]:
    """Return statistics and lists as they may be, to compare their form."""
    model = Model(profile)
    model.step(Connected(), 0, 1)
    model.step(Put(0, 0, 1, 0), 0, 1)
    model.step(Body(b""), 0, 1)
    found: dict[str, Reply] = {}
    for command in (
        Command("stats"),
        Command("stats-tube", ("default",)),
        Command("stats-job", (1,)),
        Command("list-tubes"),
    ):
        if command.verb in profile.commands and not profile.id_is_optional:
            for _, reply in model.step(command, 0, 1):
                if isinstance(reply, Reply):
                    found[command.verb] = reply
    return found
