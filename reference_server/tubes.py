"""The life of tubes: made when referred to, gone when nothing keeps them; use, watch and pauses.

The text does not say when a tube goes that nothing keeps. Here it goes at once; ``open_times`` says
that it may linger, so that whoever looks may still see it, and whoever names it revive it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sortedcontainers import SortedList

from reference_server import stats, wire
from reference_server.state import SECOND, Alarm, Bag, Connection, Timer, Tube
from reference_server.wire import Reply

COUNTED = frozenset(("total-jobs", "cmd-delete", "cmd-pause-tube"))
"""What stats-tube tells of all that a tube has seen."""
NOTHING = frozenset[str]()


class Loose(Reply):
    """A reply of which some part is open.

    ``free``: words that may come instead, tubes that may be listed, keys of any value.
    """

    free: frozenset[str]


class Tubes:
    """The part of the model that knows which tubes there are, and who refers to them."""

    now: int
    tubes: Bag[Tube]
    choose: Callable[[Sequence[Any]], Any]
    open_times = False
    """Whether what the text gives no time for may happen later than here, or earlier."""
    gone: dict[str, tuple[int, int]]
    """The pause of each tube that may linger, and when it ends; only with ``open_times``."""
    has_guessed = False
    """Whether a choice was made of which nothing need have told since."""
    _by_name: dict[str, Tube]
    _timers: SortedList[Alarm]

    def may_be_paused(self, name: str) -> bool:
        """Whether a tube of this name, if it lingers, is paused."""
        return self.gone.get(name, (0, 0))[1] > self.now

    def forget_gone(self) -> None:
        """No tube lingers any more, and none has."""
        self.gone.clear()
        self.has_guessed = False
        for tube in self.tubes:
            tube.reborn = False

    def _loose(self, reply: Reply, free: frozenset[str]) -> Reply:
        if not free:
            return reply
        loose = Loose(*reply)
        loose.free = free
        return loose

    def _tube(self, name: str) -> Tube:
        tube = self._by_name.get(name)
        if tube is None:
            tube = self._by_name[name] = Tube(name, reborn=name in self.gone)
            self.tubes.add(tube)
            self._revive(tube)
        return tube

    def _revive(self, tube: Tube) -> None:
        """Lets a tube go on with the pause that it had, if it is the one that was there before."""
        if self.may_be_paused(tube.name):
            self.has_guessed = True
            if self.choose(("gone", "there")) == "there":
                self._pause(tube, *self.gone[tube.name])
        self.gone.pop(tube.name, None)

    def _deref(self, tube: Tube) -> None:
        tube.refs -= 1
        if not tube.refs:
            if self.open_times:
                self.gone[tube.name] = tube.pause, tube.unpause_at
            self._end_pause(tube)
            self.tubes.remove(tube)
            del self._by_name[tube.name]

    def _list_tubes(self, _: Connection) -> Reply:
        return self._loose(wire.OK(stats.names(self.tubes)), frozenset(self.gone))

    def _add_watch(self, conn: Connection, tube: Tube) -> None:
        conn.watch.add(tube)
        tube.watching += 1
        tube.refs += 1

    def _remove_watch(self, conn: Connection, tube: Tube) -> None:
        conn.watch.remove(tube)
        tube.watching -= 1
        self._deref(tube)

    def _use(self, conn: Connection, name: str) -> Reply:
        tube = self._tube(name)
        tube.refs += 1
        conn.use.using -= 1
        self._deref(conn.use)
        conn.use = tube
        tube.using += 1
        return wire.USING(name)

    def _watch(self, conn: Connection, name: str) -> Reply:
        tube = self._tube(name)
        if tube not in conn.watch:
            self._add_watch(conn, tube)
        return wire.WATCHING(len(conn.watch))

    def _ignore(self, conn: Connection, name: str) -> Reply:
        tube = self._by_name.get(name)
        if tube is not None and tube in conn.watch:
            if len(conn.watch) == 1:
                return wire.NOT_IGNORED
            self._remove_watch(conn, tube)
        return wire.WATCHING(len(conn.watch))

    def _pause_tube(self, _: Connection, name: str, delay: int) -> Reply:
        # A pause of 0 ends at the next instant, so that clients who wait are served.
        length = delay * SECOND or 1
        tube = self._by_name.get(name)
        if tube is None:
            if name not in self.gone or self.choose(("NOT_FOUND", "PAUSED")) == "NOT_FOUND":
                return wire.NOT_FOUND
            self.gone[name] = length, self.now + length
            return wire.PAUSED
        self._end_pause(tube)
        self._pause(tube, length, self.now + length)
        tube.pauses += 1
        return wire.PAUSED

    def _pause(self, tube: Tube, length: int, end: int) -> None:
        tube.pause = length
        tube.unpause_at = end
        self._timers.add((end, Timer.PAUSE, tube.name))

    def _end_pause(self, tube: Tube) -> None:
        if tube.pause:
            self._timers.remove((tube.unpause_at, Timer.PAUSE, tube.name))
            tube.pause = 0
