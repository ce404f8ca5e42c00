"""The corpus of a grey box keeps what reaches something new, and varies what reaches rare edges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from conformance.random_testing.shrinking import has_quirk
from conformance.random_testing.steps import Ask, Leave, Step, Wait
from fuzz.edges import classed, count, edges, marked
from fuzz.entries import Shelf, dumps, loads
from fuzz.guidance import CorpusEntry, Guidance, union
from fuzz.judgeable_steps import judgeable
from fuzz.scout import turns_of
from fuzz.variation import MOST, Variation
from reference_server.profiles import NEWEST

PUT = Ask(1, b"put 0 0 120 5\r\nhello\r\n", tag=7)
PROGRAM: list[Step] = [
    PUT,
    Ask(1, b"peek %d\r\n", job=7),
    Ask(2, b"use a%%b\r\n", cuts=(3,)),
    Leave(2, True),
]


def test_counts_of_one_class_are_the_same_and_others_are_not() -> None:
    for alike in ((4, 7), (8, 15), (16, 31), (32, 127), (128, 255)):
        low, high = (classed(bytes((0, number))) for number in alike)
        assert low == high
    assert len({classed(bytes((number,))) for number in range(256)}) == 9


def test_edges_are_told_by_number_whatever_their_counts() -> None:
    reached = classed(bytes((0, 1, 0, 200)))
    assert edges(reached) == [1, 3]
    assert count(reached) == 2
    assert edges(marked((5, 90))) == [5, 90]


def test_another_class_of_a_known_edge_is_news() -> None:
    guidance = Guidance()
    assert guidance.keep(CorpusEntry(PROGRAM, classed(b"\1\0")))
    assert not guidance.keep(CorpusEntry(PROGRAM, classed(b"\1\0")))
    assert guidance.keep(CorpusEntry(PROGRAM, classed(b"\2\0")))
    assert guidance.edges == 1


def test_an_edge_is_new_and_how_often_it_is_taken_is_not() -> None:
    guidance = Guidance()
    assert guidance.has_new_edge(classed(b"\1\0"))
    guidance.keep(CorpusEntry(PROGRAM, classed(b"\1\0")))
    assert not guidance.has_new_edge(classed(b"\2\0"))
    assert guidance.has_new_edge(classed(b"\2\1"))


def test_what_is_not_reached_again_flickers_in_the_end() -> None:
    guidance = Guidance()
    timer, real = marked([3]), marked([4])
    for _ in range(3):
        assert guidance.new_edges(timer | real) == timer | real
        guidance.note_missing(timer)
    assert guidance.new_edges(timer | real) == real
    guidance.keep(CorpusEntry(PROGRAM, timer | real))
    assert guidance.entries[0].reached == real


def test_programs_that_reach_what_few_reach_are_varied_more_often() -> None:
    guidance = Guidance()
    usual, rare = CorpusEntry([PUT], marked([1])), CorpusEntry(PROGRAM, marked([1, 2]))
    for entry in (usual, rare):
        guidance.keep(entry)
    for _ in range(50):
        guidance.note(usual.reached)
    chance = Random(1)
    picked = Counter(len(guidance.pick(chance).program) for _ in range(40))
    assert picked[len(PROGRAM)] > 30


def test_a_new_edge_is_followed_up_at_once() -> None:
    guidance = Guidance()
    for number in range(50):
        guidance.keep(CorpusEntry([PUT] * (number + 1), marked([number])))
    chance = Random(1)
    picked = Counter(len(guidance.pick(chance).program) for _ in range(100))
    assert picked[50] > 30


def test_a_union_reaches_all_with_short_programs_first() -> None:
    mine = [CorpusEntry(PROGRAM, marked([1, 2])), CorpusEntry([PUT], marked([1]))]
    yours = [CorpusEntry([PUT, PUT], marked([2])), CorpusEntry([PUT], marked([1]))]
    together = union([*mine, *yours])
    assert [len(entry.program) for entry in together] == [1, 2]
    assert together[0].reached | together[1].reached == marked([1, 2])


def test_an_entry_is_the_same_when_it_is_read_again() -> None:
    entry = CorpusEntry([*PROGRAM, Wait(0.5), Ask(1, b"\xff\0\r\n")], marked([700]))
    assert loads(dumps(entry)) == entry


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"reached": "x", "steps": []}', '{"steps": 1}'])
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"entry|Expecting|invalid"):
        loads(text)


def test_entries_are_shared_by_a_folder_and_others_files_let_alone(tmp_path: Path) -> None:
    mine, yours = Shelf(tmp_path), Shelf(tmp_path)
    (tmp_path / "other.json").write_text("{", encoding="utf-8")
    entry = CorpusEntry(PROGRAM, marked([1]))
    mine.put(entry)
    assert list(mine.new_entries()) == []
    assert list(yours.new_entries()) == [entry]
    assert list(yours.new_entries()) == []


def test_turns_are_what_is_sent_in_one_go() -> None:
    program: list[Step] = [
        PUT,
        PUT,
        PUT._replace(apart=True),
        Ask(2, b"stats\r\n"),
        # It does not wait for the replies to the step before.
        Ask(1, b"stats\r\n", apart=True, hasty=True),
        Leave(2, False),
    ]
    assert [end for end, _ in turns_of(program)] == [2, 3, 5, 6]


def test_variations_are_many_and_can_be_written_to_a_target() -> None:
    vary = Variation(Random(3), [PUT, Ask(1, b"bury %d 0\r\n", job=1)])
    made = [vary(PROGRAM, [PUT, *PROGRAM]) for _ in range(1000)]
    assert len({str(steps) for steps in made}) > 600
    assert PROGRAM not in made
    assert max(map(len, made)) <= MOST
    for steps in made:
        for step in steps:
            if isinstance(step, Ask) and step.job is not None:
                assert b"1" in step.text % 1
    assert sum(not has_quirk(steps, NEWEST) for steps in made) > 500


@pytest.mark.parametrize(
    "text",
    [
        b"quit\r\n",
        b"stats",
        b"put 0 0 9 5\r\nx",
        b"x" * 300 + b"\r\n",
        b"st\rats\r\n",
        b"kick 1x\r\n",
    ],
)
def test_what_nobody_can_judge_is_left_out_of_what_is_judged(text: bytes) -> None:
    program: list[Step] = [PUT, Ask(1, text), Ask(1, b"delete %d\r\n", job=7), Leave(1, False)]
    assert judgeable(program, NEWEST) == [PUT, *program[2:]]


def test_clients_that_are_judged_are_in_haste_while_few_commands_are_open() -> None:
    ask = Ask(1, b"list-tube-used\r\n")
    hasty = Ask(2, b"list-tube-used\r\n", apart=True, hasty=True)
    few, many = [ask] * 3 + [hasty], [ask] * 30 + [hasty, hasty]
    assert judgeable(few, NEWEST) == few
    # The first waits for the thirty; the second, for nothing but the first.
    assert judgeable(many, NEWEST) == [*many[:-2], hasty._replace(hasty=False), hasty]
