"""Speed of judging on beanstalkd, beside what the same machine does unjudged, in one run.

``python -m tests.bench_judging``
"""

from __future__ import annotations

import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from conformance.random_testing.exploration import Exploration
from conformance.random_testing.session import Session
from conformance.small_worlds.comparison import ReplyComparison
from conformance.small_worlds.player import TourPlayer
from conformance.small_worlds.recording import Turn
from conformance.small_worlds.tours import tour_of
from conformance.small_worlds.world import WORLDS
from conformance.target.address import connect, visit
from conformance.target.launched_target import LaunchedTarget
from conformance.target.target import Target
from conformance.tests.test_stateful import test_any_conversation
from conformance.transcript import Transcript
from fuzz import player
from fuzz.campaign import ProgramCampaign
from fuzz.corpus import Pool
from fuzz.fuzzer import Fuzzer
from fuzz.program import BRISK, Writer
from fuzz.recorded_program import recorded_programs
from reference_server.events import Connected
from reference_server.model import Model
from reference_server.wire import Body, Put
from tests.servers import BEANSTALKD_COMMAND

ROUNDS = 5
HOSTILE = 5.0
"""Seconds of hostile bytes in a round."""
LIMIT = 30.0
"""Seconds within which everything is answered."""
BURST = 256


def round_trips(target: Target, seed: int) -> int:
    """Bare requests and replies, one by one."""
    with visit(target.address, LIMIT) as client:
        for _ in range(20_000):
            client.send(b"list-tube-used\r\n")
            client.receive_within(LIMIT)
    return 20_000


def generator(target: Target, seed: int) -> int:
    """Return commands of the second gear, pipelined, their replies read and not looked at."""
    model = Model()
    model.step(Connected(), 0, 1)
    for _ in range(50):
        model.step(Put(0, 0, 60, 1), 0, 1)
        model.step(Body(b"a"), 0, 1)
    writer = Writer(Random(seed), BRISK, lambda id: id)
    count = 0
    with connect(target.address, LIMIT) as sock:
        reader = threading.Thread(target=_drain, args=(sock,))
        reader.start()
        for _ in range(400):
            burst = bytearray()
            for _ in range(BURST):
                step = writer.ask(model, 1, 1)
                text = step.text if step.job is None else step.text % step.job
                # Nobody may wait.
                burst += b"reserve-with-timeout 0\r\n" if text.startswith(b"reserve") else text
                count += 1
            sock.sendall(burst)
        sock.shutdown(socket.SHUT_WR)
        reader.join()
        # What it has put must not slow down what follows.
        target.restart()
    return count


def _drain(sock: socket.socket) -> None:
    while sock.recv(2**20):
        pass


def _judged(run: Callable[[], object]) -> int:
    count = 0
    real = Session.ask

    def counted(*args: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        real(*args, **options)

    with mock.patch.object(Session, "ask", counted):
        run()
    return count


def second_gear(target: Target, seed: int) -> int:
    """Return programs of the second gear, where nothing is timed, judged."""

    def run() -> None:
        exploration = Exploration(1, seed, profile=target.probe())
        brisk = partial(player.second_gear, brisk=True)
        if ProgramCampaign(exploration, target, brisk).run(20) is not None:
            raise AssertionError("beanstalkd is not as it is thought to be")

    return _judged(run)


def rules(target: Target, seed: int) -> int:
    """Return the rule-based machine, judged."""
    exploration = Exploration(20, seed, profile=target.probe())
    return _judged(lambda: test_any_conversation(target, Transcript(), exploration))


def hostile(target: Target, seed: int) -> int:
    """Return cases of hostile bytes, judged; each has several commands."""
    exploration = Exploration(1, seed, profile=target.probe())
    return Fuzzer(exploration, target, Pool()).run(HOSTILE).progress.cases


class _Unjudged(ReplyComparison):
    """Takes any reply; of jobs it learns the ids, as they are part of what is sent."""

    def check(self, mine: bytes, theirs: bytes) -> None:
        if b"INSERTED " in mine:
            super().check(mine, mine)


def _played(target: Target, segments: Iterable[Iterable[Turn]], comparison: ReplyComparison) -> int:
    player = TourPlayer(target, comparison)
    target.restart()
    count = 0
    for segment in segments:
        count += sum(len(turn.steps) for turn in player.play(segment))
    player.close()
    return count


def _tour(target: Target) -> Iterator[Iterable[Turn]]:
    world = next(world for world in WORLDS if world.name == "two clients")
    # As in a run, turns are unpacked while the target replies.
    return tour_of(world, target.probe()).segments()


def tour(target: Target, seed: int) -> int:
    """Return the tour of a small world, each reply compared with the one that was written down."""
    return _played(target, _tour(target), ReplyComparison(alone=True))


def tour_unjudged(target: Target, seed: int) -> int:
    """Return the same, the replies read and not looked at."""
    return _played(target, _tour(target), _Unjudged(alone=True))


def _programs(target: Target) -> Sequence[Sequence[Turn]]:
    return [program.turns for program in recorded_programs(target.probe())]


def programs(target: Target, seed: int) -> int:
    """Return recorded programs, each reply compared with the one that was written down."""
    return _played(target, _programs(target), ReplyComparison(alone=True))


def programs_unjudged(target: Target, seed: int) -> int:
    """Return the same, the replies read and not looked at."""
    return _played(target, _programs(target), _Unjudged(alone=True))


MEASURED = (
    *(round_trips, generator, tour_unjudged, tour, programs_unjudged, programs),
    *(rules, second_gear, hostile),
)
COMPARED = ("round_trips", "rules", "tour_unjudged", "programs_unjudged")


def main() -> int:
    """Print commands a second, medians of all rounds."""
    rates: dict[str, list[float]] = {measure.__name__: [] for measure in MEASURED}
    for seed in range(ROUNDS):
        for measure in MEASURED:
            target = LaunchedTarget(BEANSTALKD_COMMAND, "real")
            start = time.perf_counter()
            rates[measure.__name__].append(measure(target, seed) / (time.perf_counter() - start))
            target.close()
    medians = {name: statistics.median(measured) for name, measured in rates.items()}
    for name, rate in medians.items():
        ratios = [f"{rate / medians[other]:.2f} times the {other}" for other in COMPARED]
        print(f"{name}: {rate:,.0f}/s, {', '.join(ratios)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
