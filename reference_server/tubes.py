"""The life of tubes: made when referred to, gone when nothing keeps them; use, watch and pauses."""

from __future__ import annotations

from sortedcontainers import SortedList

from reference_server import wire
from reference_server.state import SECOND, Alarm, Bag, Connection, Timer, Tube
from reference_server.wire import Reply


class Tubes:
    """The part of the model that knows which tubes there are, and who refers to them."""

    now: int
    tubes: Bag[Tube]
    _by_name: dict[str, Tube]
    _timers: SortedList[Alarm]

    def _tube(self, name: str) -> Tube:
        tube = self._by_name.get(name)
        if tube is None:
            tube = self._by_name[name] = Tube(name)
            self.tubes.add(tube)
        return tube

    def _deref(self, tube: Tube) -> None:
        tube.refs -= 1
        if not tube.refs:
            self._end_pause(tube)
            self.tubes.remove(tube)
            del self._by_name[tube.name]

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
        tube = self._by_name.get(name)
        if tube is None:
            return wire.NOT_FOUND
        self._end_pause(tube)
        # A pause of 0 ends at the next instant, so that clients who wait are served.
        tube.pause = delay * SECOND or 1
        tube.unpause_at = self.now + tube.pause
        tube.pauses += 1
        self._timers.add((tube.unpause_at, Timer.PAUSE, name))
        return wire.PAUSED

    def _end_pause(self, tube: Tube) -> None:
        if tube.pause:
            self._timers.remove((tube.unpause_at, Timer.PAUSE, tube.name))
            tube.pause = 0
