"""The knowledge of a server that all parts of the judge share, and how far it can be trusted.

Jobs can be followed while every client is observed and the server does not restart.
Otherwise all jobs are forgotten, and the judge begins anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from conformance.traffic.alarms import Alarms
from conformance.traffic.conversation import Asked, Conversation
from conformance.traffic.job_table import JobTable
from conformance.traffic.jobs import Request
from conformance.traffic.tubes import Tubes, TubeView
from reference_server.profiles import Profile
from reference_server.state import SECOND

LATENESS = SECOND
"""Nanoseconds by which a delay may end late, besides the time of the slowest reply."""
GRACE = 60 * SECOND
"""Nanoseconds for which requests of a client that has gone may still take effect."""
BLIND = 30 * SECOND
"""Nanoseconds after signs of clients that bypass the proxy in which jobs are not followed."""
SETTLES = SECOND
"""Nanoseconds after the end of a connection that was not seen, until nothing of it is in flight."""


class Knowledge:
    """All that is known of a server by event ``number``, at ``now``.

    ``slowest``: nanoseconds of the slowest reply. ``departed``: requests of clients
    that have gone, by the time of that.
    ``unseen``: connections whose requests are not seen. ``anew``: the event by which all jobs were
    forgotten. ``idle``: the event since which a restart would not have been seen; 0 if none. Other
    arguments: see :class:`conformance.traffic.judge.TrafficJudge`.
    """

    def __init__(
        self, profile: Profile, is_shared: bool, finds_strangers: Callable[[], bool]
    ) -> None:
        self.alarms = Alarms()
        self.profile = profile
        self.deletes = profile.deletes
        self.number = self.now = 0
        self.conversations: dict[int, Conversation] = {}
        self.tubes = Tubes()
        self.jobs = JobTable(self.tubes)
        self.slowest = 0
        self.departed: deque[tuple[int, list[Asked]]] = deque()
        self.unseen: set[int] = set()
        self.unjudged = 0
        self.anew = self.idle = 0
        self._is_shared = is_shared
        self._finds_strangers = finds_strangers
        self._blind_until = 0
        self._was_blind = False
        self._lost_waiter: tuple[int, int] = (0, -GRACE)
        if is_shared:
            self.alarms.notice(0, "clients that are not seen are expected: jobs are not judged")

    # ------------------------------------------------------------ surroundings of a job

    @property
    def lateness(self) -> int:
        """Return by how many nanoseconds a delay may end late."""
        return LATENESS + self.slowest

    def may_be_taken(self, tube: str | None, since: int = 2**64) -> bool:
        """Return whether a client has waited for jobs of a tube since before an event."""
        return self.tubes.may_be_taken(tube, since)

    def may_be_kicked(self, tube: str | None, since: int) -> bool:
        """Return whether a kick may have taken effect after an event."""
        return self.tubes.may_be_kicked(tube, since)

    def is_gone(self, conn: int) -> bool:
        """Return whether a client has ended its connection, or may have."""
        conversation = self.conversations.get(conn)
        return conversation is None or conversation.has_ended or conversation.has_quit

    def has_lost_a_waiter(self, since: int) -> bool:
        """Return whether a client that waited has gone after an event, or a short time ago."""
        number, at = self._lost_waiter
        return number > since or self.now - at < GRACE

    def loses_a_waiter(self) -> None:
        """Note that a client has gone that waited."""
        self._lost_waiter = self.number, self.now

    def tube(self, name: str) -> TubeView:
        """Return the view of a tube."""
        return self.tubes.view(name, self.now)

    # ------------------------------------------------------------ what can be followed

    @property
    def is_following(self) -> bool:
        """Return whether all that happens to jobs is seen."""
        return not (self._is_shared or self.unseen or self.now < self._blind_until)

    def recovers(self) -> None:
        """Begin anew if jobs can be followed again."""
        if self._was_blind and self.is_following:
            self.begin_anew("jobs are followed again; those that exist may be in any state")

    def loses_sight(self, conn: int, why: str) -> None:
        """Note a connection whose requests are not seen."""
        self.unjudged += 1
        if self.is_following:
            self._goes_blind(why)
        self.unseen.add(conn)

    def sees_again(self, conn: int) -> None:
        """Note that a connection is seen again, or has ended."""
        self.unseen.discard(conn)
        self._blind_until = max(self._blind_until, self.now + SETTLES)

    def bypassed(self, why: str) -> None:
        """Note signs of clients that bypass the proxy."""
        if self.is_following:
            self._goes_blind(f"{why}: a client is not seen here")
        self._blind_until = self.now + BLIND

    def note_strangers(self) -> None:
        """Note that the server has connections that are not seen."""
        self.bypassed("the server has connections that are not seen")

    def _goes_blind(self, why: str) -> None:
        self.alarms.notice(self.now / SECOND, f"jobs cannot be followed: {why}")
        self._forget_jobs()
        self._was_blind = True

    def begin_anew(self, why: str) -> None:
        """Forget all jobs, and follow those that come."""
        self.alarms.notice(self.now / SECOND, why)
        self._forget_jobs()
        self._was_blind = False

    def _forget_jobs(self) -> None:
        self.anew = self.number
        self.idle = 0
        self.jobs.forget()
        in_flight = (asked for one in self.conversations.values() for asked in one.asked)
        self.jobs.add_strays(_named(in_flight))
        self.jobs.add_strays(_named(asked for _, all in self.departed for asked in all))

    def is_explained(self) -> bool:
        """Return whether a restart, or a client that bypasses the proxy, explains a reply."""
        if self.idle:
            self.begin_anew("the server may have restarted while no client was connected")
            return True
        if self._finds_strangers():
            self.note_strangers()
            return True
        return False


def _named(requests: Iterable[Asked]) -> Iterator[tuple[int, Request]]:
    """Yield the jobs that requests name, and what they ask about them."""
    for one in requests:
        if one.about is not None and isinstance(one.args[0], int):
            yield one.args[0], one.about
