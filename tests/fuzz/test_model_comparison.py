"""A scout compares replies with those of the model, and hands on programs where they differ."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from conformance.random_testing.steps import Ask, Leave, Step
from conformance.target.launched_target import LaunchedTarget
from fuzz.coverage import NoCoverage
from fuzz.greybox import GreyBox
from fuzz.judgeable_steps import judgeable
from fuzz.model_comparison import ModelComparison
from fuzz.scout import Discrepancy, Scout, TargetFellSilent
from fuzz.suppression import Suppression
from fuzz.variation import Variation
from reference_server.profiles import NEWEST
from tests.servers import BEANSTALKD_COMMAND, changed_server, needs_beanstalkd

PUT = Ask(1, b"put 0 0 120 1\r\na\r\n", tag=1, apart=True)
RESERVE = Ask(1, b"reserve-with-timeout 0\r\n", apart=True)
TOUCH = Ask(1, b"touch %d\r\n", job=1, apart=True)
LIST = Ask(1, b"list-tube-used\r\n", apart=True)
NO_TOUCH = "Model._touch = lambda self, conn, id: wire.NOT_FOUND"


@contextmanager
def _scout(command: str) -> Iterator[Scout]:
    target = LaunchedTarget(command, "real")
    try:
        target.profile = target.probe()
        scout = Scout(target, NoCoverage())
        yield scout
        scout.close()
    finally:
        target.close()


@contextmanager
def _changed(folder: Path, change: str) -> Iterator[Scout]:
    change = f"from reference_server import wire\n{textwrap.dedent(change)}"
    with _scout(changed_server(folder, change)) as scout:
        yield scout


@pytest.mark.parametrize(
    ("sent", "came", "difference"),
    [
        (b"put 0 0 9 1\r\na\r\npeek 7\r\n", b"INSERTED 7\r\nFOUND 7 1\r\na\r\n", None),
        (b"put 0 0 9 1\r\na\r\n", b"INSERTED 8\r\n", (0, "INSERTED", "INSERTED")),
        (b"use a\r\ntouch 1\r\n", b"USING a\r\nTOUCHED\r\n", (1, "NOT_FOUND", "TOUCHED")),
        (b"use a\r\nuse b\r\n", b"USING a\r\n", (1, "USING", "nothing")),
        (b"reserve\r\n", b"TIMED_OUT\r\n", (0, "nothing", "TIMED_OUT")),
        (b"use a\r\n", b"OK a\r\n", (0, "USING", "no reply of the protocol")),
        (b"stats\r\nuse a\r\n", b"OK 3\r\na\r\n\r\nUSING b\r\n", (1, "USING", "USING")),
        (b"stats\r\n", b"OK 2\r\n\r\n\r\n", None),
    ],
)
def test_replies_are_compared(
    sent: bytes, came: bytes, difference: tuple[int, str, str] | None
) -> None:
    comparison = ModelComparison(NEWEST, 7)
    comparison.connect(1)
    comparison.send(1, sent)
    comparison.observe(1, came)
    assert comparison.difference() == (difference and (1, *difference))


def test_a_reply_that_another_client_has_caused_is_compared() -> None:
    comparison = ModelComparison(NEWEST, 1)
    for number, line in ((1, b"reserve\r\n"), (2, b"put 0 0 9 1\r\na\r\n")):
        comparison.connect(number)
        comparison.send(number, line)
    comparison.observe(2, b"INSERTED 1\r\n")
    assert comparison.difference() == (1, 0, "RESERVED", "nothing")


VARIED: list[Step] = [
    *(PUT, RESERVE, TOUCH, LIST),
    Ask(2, b"reserve\r\n", apart=True),
    Ask(1, b"release %d 5 0\r\n", job=1, apart=True),
    Ask(3, b"put 0 0 120 3\r\nxy", apart=True, cuts=(4, 17)),
    Ask(1, b"pause-tube default 9\r\n", apart=True),
    Leave(3, False),
    Leave(2, True),
]


@needs_beanstalkd
def test_beanstalkd_replies_as_the_model_does() -> None:
    with _scout(BEANSTALKD_COMMAND) as scout:
        vary = Variation(Random(1), [])
        told = []
        for number in range(100):
            scout.play(judgeable(vary.volley(), NEWEST) if number % 2 else VARIED)
            told += scout.discrepancies
    # Lines that no text decides, and where several may be served, may be answered otherwise.
    assert len(told) < 10
    assert all("INSERTED" not in it.kind for it in told)


def test_a_turn_that_is_answered_otherwise_is_told(tmp_path: Path) -> None:
    with _changed(tmp_path, NO_TOUCH) as scout:
        for _ in range(2):
            scout.play([PUT, RESERVE, LIST, TOUCH, LIST, TOUCH])
            kind = ("touch", "TOUCHED", "NOT_FOUND")
            assert scout.discrepancies == [Discrepancy(end, kind, False) for end in (4, 6)]


def test_ids_are_known_again_after_a_reply_that_is_missing(tmp_path: Path) -> None:
    with _changed(tmp_path, "Model._touch = lambda self, conn, id: None") as scout:
        scout.play([PUT, RESERVE, TOUCH, PUT])
        assert [told.kind for told in scout.discrepancies] == [("touch", "TOUCHED", "nothing")]
        scout.play([PUT, RESERVE, LIST])
        assert scout.discrepancies == []


def test_ids_are_known_of_a_server_that_begins_elsewhere(tmp_path: Path) -> None:
    begins = """
    plain = Model.__init__

    def init(self, *asked, **more):
        plain(self, *asked, **more)
        self.next_id = 7

    Model.__init__ = init
    """
    with _changed(tmp_path, begins) as scout:
        scout.play([PUT])
        assert [told.kind for told in scout.discrepancies] == [("put", "INSERTED", "INSERTED")]
        scout.play([PUT, RESERVE, TOUCH])
        assert scout.discrepancies == []


def test_a_flood_is_the_end_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.scout._FLOOD", 2**20)
    floods = "Model._peek_ready = lambda self, conn: wire.OK(b'x' * 2**21)"
    with _changed(tmp_path, floods) as scout:
        with pytest.raises(TargetFellSilent):
            scout.play([Ask(1, b"peek-ready\r\n")])
        scout.restart()
        scout.play([PUT, RESERVE])
        assert scout.discrepancies == []


def test_a_small_program_that_is_answered_otherwise_is_handed_on_to_be_judged(
    tmp_path: Path,
) -> None:
    with _changed(tmp_path, NO_TOUCH) as scout:
        grey = GreyBox(scout, NoCoverage(), Random(1))
        grey.begin_with([[*[LIST] * 20, PUT, LIST, RESERVE, *[LIST] * 20, TOUCH, LIST]])
        about_touch = (
            program
            for program in grey.explore(60)
            if isinstance(last := program[-1], Ask) and last.text.startswith(b"touch %d")
        )
        assert next(about_touch) == [PUT, RESERVE, TOUCH]


def test_lines_whose_bugs_are_known_are_left_out(tmp_path: Path) -> None:
    with _changed(tmp_path, NO_TOUCH) as scout:
        grey = GreyBox(scout, NoCoverage(), Random(1))
        spoiled = Ask(1, b"use a b\r\n")
        grey.known = Suppression()
        grey.known.learn([b"use a b"])
        assert grey.without_known([PUT, spoiled, LIST]) == [PUT, LIST]
