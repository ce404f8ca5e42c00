"""The states that a target may be in, as far as later replies can distinguish them."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from conformance.oracle.renaming import rename
from conformance.oracle.unspecified_model import UnspecifiedModel
from conformance.transcript import Counters
from conformance.verdict import Inconclusive
from reference_server.events import Connected, Hangup, Output
from reference_server.profiles import Profile
from reference_server.state import SECOND, Job, JobState, kept
from reference_server.wire import Command, Put, Reply

T = TypeVar("T")

EARLY = SECOND // 100
"""The most that the clocks of target and tester may differ, in nanoseconds."""

MAX_BRANCHES = 64
"""Outcomes of one transition beyond which the oracle gives up."""

NAMING = ("INSERTED", "RESERVED", "FOUND")
"""Replies that name a job first of all."""

Transition = Callable[["State"], list[Output]]
"""Something that may happen in a state, and the replies that it causes."""


class Undecided(Exception):
    """The model was asked to choose where one outcome was taken to be certain."""


def decided(options: Sequence[T]) -> T:
    """Return the only option; raise :class:`Undecided` if there are several."""
    if len(options) > 1:
        raise Undecided
    return options[0]


def guess(options: Sequence[T]) -> T:
    """Return the first of several ids, as the reply will reveal the id; or the only option."""
    return options[0] if isinstance(options[0], int) else decided(options)


def revealed_choice(reply: Reply, options: Sequence[T]) -> T | None:
    """Return the choice that a reply reveals: a job's id, or a word; None if it reveals none."""
    values = (reply.word, *reply.args[:1]) if reply.word in NAMING else (reply.word,)
    return next((option for option in options if option in values), None)


class ReplyCause(NamedTuple):
    """The cause of a reply: a command sent at a time, in nanoseconds, or a timer."""

    at: int
    is_timer: bool = False


class State:
    """One state that the target may be in: how far each client is handled, and what it is owed."""

    __slots__ = ("cause", "done", "guessed", "model", "owed", "since")

    def __init__(self, model: UnspecifiedModel) -> None:
        self.model = model
        self.done: dict[int, int] = {}
        self.owed: dict[int, list[Reply]] = {}
        self.cause = ReplyCause(0)
        """The cause of what is owed next."""
        self.since: dict[int, ReplyCause] = {}
        """The cause of the first reply that a client is owed, or was owed last."""
        self.guessed: set[int] = set()
        """Ids that no reply has revealed yet."""

    def connect(self, conn: int) -> None:
        """Let a client connect; no time passes, as timers that are due may have fired before."""
        self.model.handle(Connected(), self.model.now, conn)
        self.done[conn] = 0
        self.owed[conn] = []

    def saved(self) -> bytes:
        """Return all of it, to be given to :func:`restored` as often as needed."""
        return pickle.dumps(
            (self.model, self.done, self.owed, self.guessed, self.cause, self.since),
            pickle.HIGHEST_PROTOCOL,
        )

    def apply(
        self, transition: Transition, choose: Callable[[Sequence[Any]], Any] = decided
    ) -> None:
        """Let a transition happen, the model's choices made by ``choose``."""
        self.model.choose = choose
        self.owe(transition(self))
        self.model.choose = decided

    def owe(self, outputs: Iterable[Output]) -> None:
        """Note what the target must send now."""
        for receiver, reply in outputs:
            if not isinstance(reply, Hangup):
                owed = self.owed[receiver]
                if not owed:
                    self.since[receiver] = self.cause
                owed.append(reply)

    def bind(self, owed: Reply, seen: Reply) -> None:
        """Give a job whose id was guessed its observed id."""
        if owed.word != seen.word or owed.word not in NAMING:
            return
        guess, id = int(owed.args[0]), int(seen.args[0])
        if guess in self.guessed:
            self._give_id(guess, id)

    def _give_id(self, guess: int, id: int) -> None:
        """Give a job its id, unless the target has given it to another."""
        if guess != id:
            self.free(id)
            if id in self.model.jobs:
                return
            self._rename(guess, id)
        self.guessed.remove(id)

    def given(self, conn: int, seen: Reply) -> None:
        """Note that a client has got the reply that it was owed."""
        owed = self.owed[conn].pop(0)
        if self.guessed:
            self.bind(owed, seen)

    def meanings(self, id: int) -> Iterator[State]:
        """Yield a state for each job that the target may mean by a guessed id, and for none."""
        saved = self.saved()
        for job in (None, *sorted(self.guessed & self.model.jobs.keys())):
            copy = restored(saved)
            if job is None:
                copy.free(id)
            else:
                copy._give_id(job, id)
            yield copy

    def free(self, id: int) -> None:
        """Give a job whose id was guessed another, as the guess was wrong."""
        if id in self.guessed:
            # The job itself may be gone, and its reply is still owed.
            new = max(self.model.next_id, *self.model.jobs, *self.guessed) + 1
            self._rename(id, new)
            self.model.next_id = new + 1

    def _rename(self, old: int, new: int) -> None:
        if old in self.model.jobs:
            rename(self.model, old, new)
        for conn, replies in self.owed.items():
            self.owed[conn] = [
                reply._replace(args=(new, *reply.args[1:]))
                if reply.word in NAMING and reply.args[0] == old
                else reply
                for reply in replies
            ]
        self.guessed.discard(old)
        self.guessed.add(new)

    def branches(self, transition: Transition, reply: Reply | None = None) -> Iterator[State]:
        """Yield the states after a transition, one for each way in which the model may choose.

        ``reply``: it reveals some of the choices.
        """
        saved = self.saved()
        decisions: list[list[int]] = [[]]
        for _ in range(MAX_BRANCHES):
            if not decisions:
                return
            copy = restored(saved)
            decider = _Decider(decisions.pop(), reply)
            copy.apply(transition, decider)
            decisions += decider.others()
            yield copy
        raise Inconclusive(f"more than {MAX_BRANCHES} things may come of one command")

    def key(self) -> object:
        """Return the same for all states that nothing which follows can tell apart."""
        model = self.model
        jobs = tuple(
            (*_visible(job), job.tube.name, job.reserver and job.reserver.id)
            for _, job in sorted(model.jobs.items())
        )
        tubes = frozenset(
            (
                *(tube.name, tube.refs, tube.pause and _about(tube.unpause_at)),
                *(tuple(tube.buried), tube.total_jobs, tube.deletes, tube.pauses),
            )
            for tube in model.tubes
        )
        conns = tuple(
            (
                *(conn.id, conn.use.name, frozenset(tube.name for tube in conn.watch)),
                *(conn.waiting, _about(conn.timeout_at), conn.half_closed),
            )
            for conn in model.connections.values()
        )
        owed = tuple((conn, tuple(replies)) for conn, replies in self.owed.items() if replies)
        counters = frozenset(model.commands.items())
        numbers = model.timeouts, model.next_id, tuple(self.done.items())
        gone = frozenset(model.gone.items()), frozenset(model.reborn), frozenset(model.refused)
        late = tuple((_about(at), tube) for at, _, tube in model.services)
        return jobs, tubes, conns, owed, counters, numbers, frozenset(self.guessed), gone, late


def restored(saved: bytes) -> State:
    """Return a state as it was when it was saved."""
    model, *rest = pickle.loads(saved)
    state = State(model)
    state.done, state.owed, state.guessed, state.cause, state.since = rest
    return state


def new_model(profile: Profile) -> UnspecifiedModel:
    """Return the model of a fresh server, with its unspecified choices."""
    return UnspecifiedModel(profile, EARLY, decided)


def counted_by(model: UnspecifiedModel) -> Counters:
    """Return what a model has counted."""
    stats = {f"cmd-{verb}": count for verb, count in model.commands.items()}
    stats |= {
        "total-jobs": model.total_jobs,
        "job-timeouts": model.timeouts,
        # One is there already, of whatever moves the clock.
        "total-connections": model.total_connections - 1,
    }
    (default,) = (tube for tube in model.tubes if tube.name == "default")
    of_default = {
        "total-jobs": default.total_jobs,
        "cmd-delete": default.deletes,
        "cmd-pause-tube": default.pauses,
    }
    texts = [{key: str(value) for key, value in counts.items()} for counts in (stats, of_default)]
    return Counters(texts[0], texts[1], model.next_id)


def adopt(model: UnspecifiedModel, counters: Counters) -> None:
    """Set the counters of a model; see :func:`counted_by`."""
    stats, of_default, model.next_id = counters
    for key, value in stats.items():
        if key.startswith("cmd-"):
            model.commands[key.removeprefix("cmd-")] = int(value)
    model.total_jobs = int(stats["total-jobs"])
    model.timeouts = int(stats["job-timeouts"])
    model.total_connections = int(stats["total-connections"])
    (default,) = model.tubes
    default.total_jobs = int(of_default["total-jobs"])
    # Old profiles do not have all of them.
    default.deletes = int(of_default.get("cmd-delete", 0))
    default.pauses = int(of_default.get("cmd-pause-tube", 0))


def restarted(state: State) -> list[State]:
    """Return the states after an end and a new start: the target has its jobs still, or none."""
    states = []
    for remembers in (True, False):
        model = new_model(state.model.profile)
        model.now = state.model.now
        if remembers:
            model.remember(map(kept, state.model.jobs.values()), state.model.next_id)
        states.append(State(model))
    return states


class Frontier:
    """A queue of states, each of them once; more may be added during iteration."""

    def __init__(self, states: Iterable[State]) -> None:
        self.states = list(states)

    def __iter__(self) -> Iterator[State]:
        seen: set[object] = set()
        while self.states:
            state = self.states.pop()
            if self.states or seen:
                key = state.key()
                if key in seen:
                    continue
                seen.add(key)
            yield state


def has_tie(model: UnspecifiedModel, conn: int) -> bool:
    """Tell whether the first two delays in a client's used tube end too close to tell apart."""
    delayed = model.connections[conn].use.delayed
    return any(b[0] - a[0] <= model.tie for a, b in itertools.pairwise(delayed))


def is_open(model: UnspecifiedModel, event: object) -> bool:
    """Tell whether the outcome of an event depends on a time that the text leaves open."""
    if isinstance(event, Put):
        return event.size > model.max_job_size
    if not isinstance(event, Command):
        return False
    if event.verb == "pause-tube":
        return event.args[0] in model.gone
    return event.verb in ("use", "watch") and model.may_be_paused(str(event.args[0]))


def after(
    state: State, transition: Transition, only: bool, reply: Reply | None = None
) -> Iterable[State]:
    """Return the states after a transition; ``reply`` reveals some of the model's choices.

    ``only``: nothing else may come next, nor have come before, and the model is not thought to
    choose; raises :class:`Undecided` if it does.
    """
    # A job that becomes ready may go to one of several clients that wait.
    if not only or state.model.waiting > 1:
        return state.branches(transition, reply)
    state.apply(transition, decided if reply is None else _Decider((), reply, sure=True))
    return (state,)


def take_id(state: State, conn: int, inserted: Reply | None) -> None:
    """Let a job have the id that the target gives it, or one that it may have given."""
    model = state.model
    incoming = model.connections[conn].incoming
    if incoming is None:
        return
    id = incoming.id if inserted is None else int(inserted.args[0])
    if inserted is not None:
        state.free(id)
    if id in model.jobs:
        id = max(*model.jobs, model.next_id)
    others = [
        other
        for client in model.connections.values()
        if (other := client.incoming) is not None and other is not incoming
    ]
    for other in others:
        if other.id == id:
            other.id = incoming.id
    incoming.id = id
    if inserted is None:
        state.guessed.add(id)
    following = max([id, *(other.id for other in others)]) + 1
    if following > model.next_id:
        model.next_id = following
    elif inserted is not None and following < model.next_id:
        # The target's ids are smaller than was guessed.
        model.next_id = max([following - 1, *model.jobs]) + 1


def _about(time: int | None) -> int | None:
    """Round a point in time as exactly as the clocks of target and tester agree."""
    return None if time is None else (time + EARLY // 2) // EARLY


def _visible(job: Job) -> tuple[object, ...]:
    """Return what can be seen of a job, now or later."""
    timed = job.state in (JobState.RESERVED, JobState.DELAYED)
    return (
        *(job.id, job.state, job.pri, job.delay, timed and _about(job.deadline)),
        *(job.reserves, job.timeouts, job.releases, job.buries, job.kicks),
    )


class _Decider:
    """An answer to the model's choices: from a reply, or from a list, then the first option.

    It notes how many options there were. ``sure``: it raises :class:`Undecided` instead.
    """

    def __init__(self, decisions: Sequence[int], reply: Reply | None, sure: bool = False) -> None:
        self._decisions = decisions
        self._reply = reply
        self._sure = sure
        self.sizes: list[int] = []

    def __call__(self, options: Sequence[Any]) -> Any:
        choice = None if self._reply is None else revealed_choice(self._reply, options)
        if choice is not None:
            return choice
        if self._sure:
            # Whichever id it is, the reply is another.
            return guess(options)
        number = len(self.sizes)
        self.sizes.append(len(options))
        return options[self._decisions[number] if number < len(self._decisions) else 0]

    def others(self) -> Iterator[list[int]]:
        """Yield the decisions that were not taken."""
        for number in range(len(self._decisions), len(self.sizes)):
            taken = [*self._decisions, *[0] * (number - len(self._decisions))]
            for option in range(1, self.sizes[number]):
                yield [*taken, option]
