"""The small worlds as data: the number of clients, tubes and jobs in each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from conformance.target.footprint import NAMES
from reference_server.profiles import Profile

HOME = f"{NAMES}{0:08x}-{0:05}"
"""The tube that stands for one of our own, all of which have names of the same length."""
LONG = 1000
"""Seconds of times that never end in a world without time."""
Put = tuple[int, int, int]
"""Priority, delay and TTR of a put, the last two in seconds."""


@dataclass(frozen=True, slots=True)
class World:
    """A world: so many ``clients`` and ``jobs``, and these ``tubes``, are there at most.

    ``puts``: the jobs that may be put. ``priorities``, ``delays``: of jobs that are released or
    buried, in seconds. ``pauses``: of tubes, in seconds. ``waiting``: how many clients may wait for
    a job. ``timeouts``: for which they may wait, in seconds; None: for ever. ``errors``: lines that
    change nothing. ``roles``: which clients are producers and workers makes states differ.
    ``timed``: time passes. ``drains``: the server accepts no jobs any more. ``leaves``: clients
    come and go. ``home``: a tube that every client uses and watches in place of default, if any.
    """

    name: str
    clients: int
    jobs: int
    puts: tuple[Put, ...]
    tubes: tuple[str, ...] = ("default",)
    priorities: tuple[int, ...] = (0,)
    delays: tuple[int, ...] = (0,)
    pauses: tuple[int, ...] = ()
    waiting: int = 0
    timeouts: tuple[int | None, ...] = ()
    errors: bool = False
    roles: bool = False
    timed: bool = False
    drains: bool = False
    leaves: bool = True
    home: str = ""

    def is_of(self, profile: Profile) -> bool:
        """Tell whether a profile has the features of the world, and a text describes them."""
        if len(self.tubes) > 1 and not profile.has_tubes:
            return False
        if any(self.timeouts) and not profile.has_timeouts:
            return False
        return not self.drains or "stats.draining" not in profile.lacks

    def at(self, home: str) -> World:
        """Return the same world in tubes of its own, which begin with this name."""
        tubes = (home, *(f"{home}-{tube}" for tube in self.tubes[1:]))
        return replace(self, home=home, tubes=tubes)

    @property
    def greeting(self) -> list[bytes]:
        """The lines that each client begins with."""
        tube = self.home.encode()
        lines = [b"use %b\r\n" % tube, b"watch %b\r\n" % tube, b"ignore default\r\n"]
        return lines if tube else []

    @property
    def unknown(self) -> str:
        """The name of a tube that is not there."""
        return f"{self.tubes[0]}-unknown"


_PLAIN = ((10, 0, LONG),)
_DELAYED = ((10, 0, LONG), (10, LONG, LONG))
_UNEQUAL = ((10, 0, LONG), (5, 0, LONG))
_TIMED = ((0, 0, 3), (0, 2, 3))

WORLDS = (
    World(
        "one client",
        clients=1,
        jobs=1,
        puts=((0, 0, LONG), (2000, LONG, 0)),
        priorities=(0, 2000),
        delays=(0, LONG),
        errors=True,
        roles=True,
    ),
    World("two clients", clients=2, jobs=2, puts=_DELAYED, priorities=(10,), delays=(0, LONG)),
    World("three jobs", clients=1, jobs=3, puts=_UNEQUAL, priorities=(10,), leaves=False),
    World("two tubes", clients=1, jobs=1, puts=_PLAIN, tubes=("default", "other"), pauses=(LONG,)),
    World(
        "one that waits",
        clients=2,
        jobs=1,
        puts=_PLAIN,
        delays=(0, LONG),
        pauses=(LONG,),
        waiting=1,
        timeouts=(None, LONG),
    ),
    World("two that wait", clients=3, jobs=1, puts=_PLAIN, waiting=2, timeouts=(None,)),
    World("times of jobs", clients=1, jobs=1, puts=_TIMED, delays=(0, 2), timed=True, leaves=False),
    World(
        "times to wait",
        clients=1,
        jobs=1,
        puts=_TIMED,
        timed=True,
        waiting=1,
        timeouts=(None, 2),
        leaves=False,
    ),
    World("draining", clients=1, jobs=1, puts=_PLAIN, drains=True),
)
"""The worlds of the default run."""
LARGER = (
    World(
        "times of a pause",
        clients=1,
        jobs=1,
        puts=((0, 0, 9),),
        pauses=(2,),
        timed=True,
        waiting=1,
        timeouts=(None,),
        leaves=False,
    ),
    World(
        "times of all",
        clients=1,
        jobs=1,
        puts=_TIMED,
        delays=(0, 2),
        pauses=(2,),
        timed=True,
        waiting=1,
        timeouts=(None, 2),
    ),
    World("times of two jobs", clients=2, jobs=2, puts=_TIMED[:1], timed=True, leaves=False),
    World(
        "two clients, two priorities",
        clients=2,
        jobs=2,
        puts=((10, 0, LONG), (5, 0, LONG), (10, LONG, LONG)),
        priorities=(10, 5),
        delays=(0, LONG),
        errors=True,
    ),
    World("three jobs, some delayed", clients=1, jobs=3, puts=(*_UNEQUAL, _DELAYED[1])),
    World(
        "two clients, two tubes",
        clients=2,
        jobs=1,
        puts=_PLAIN,
        tubes=("default", "other"),
        pauses=(LONG,),
    ),
    World(
        "two clients, two tubes, three jobs",
        clients=2,
        jobs=3,
        puts=_UNEQUAL,
        tubes=("default", "other"),
        waiting=1,
        timeouts=(None,),
    ),
)
"""Worlds that take longer, the smallest first."""


def at_home(data: bytes, own: str) -> bytes:
    """Return what is written down with a tube of our own, if any, where ``HOME`` stands."""
    return data.replace(HOME.encode(), own.encode()) if own else data
