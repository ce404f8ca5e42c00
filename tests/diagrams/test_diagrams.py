"""Diagrams: what they show of a conversation, and that nothing of a target gets into their SVG."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from itertools import islice
from pathlib import Path
from typing import Literal

import pytest

from conformance.diagrams.diagram import MOST_CLIENTS, Wrong, diagram_of, diagram_of_order
from conformance.reading import parse
from conformance.transcript import Transcript, letters
from reference_server.profiles import NEWEST
from reports.diagrams import drawing
from reports.html import picture
from reports.results import Diagram, DrawnMessage, JobStretch
from tests import ROOT
from tests.command_line import command

DIAGRAMS = ROOT / "docs" / "diagrams"
DELAYED = r"""
A > put 0 2 60 5\r\nhello\r\n
A < INSERTED 7\r\n
B > reserve\r\n
+ 2s
B < RESERVED 7 5\r\nhello\r\n
B > bury 7 1\r\n
B < BURIED\r\n
A > kick 1\r\n
A < KICKED 2\r\n
"""
TWICE = r"""
A > put 0 0 60 1\r\na\r\n
B > reserve-with-timeout 0\r\n
A < INSERTED 1\r\n
C > reserve-with-timeout 0\r\n
B < RESERVED 1 1\r\na\r\n
C < RESERVED 1 1\r\na\r\n
"""


def drawn(text: str, wrong: Wrong | None = None) -> Diagram:
    diagram = diagram_of(parse(text), NEWEST, wrong)
    assert diagram is not None
    return diagram


def texts(svg: str) -> list[str]:
    """Return all texts of a picture, which must be well-formed."""
    root = ET.fromstring(svg)
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_nothing_is_deduced_of_a_crowd() -> None:
    put = "A > put 0 0 60 1\\r\\na\\r\\n\nA < INSERTED 1\\r\\n\n"
    crowd = islice(letters(), MOST_CLIENTS + 1)
    assert drawn(put).jobs
    assert not drawn(put + "".join(f"{letter} > list-tubes\\r\\n\n" for letter in crowd)).jobs


def test_the_states_of_a_job_are_those_of_the_model() -> None:
    found = drawn(DELAYED, Wrong(8, "KICKED 1\\r\\n", "KICKED 2\\r\\n"))
    assert [(one.state, one.holder, one.begin, one.end) for one in found.jobs] == [
        ("delayed", "", 0, 3),
        ("reserved", "B", 3, 4),
        ("buried", "", 4, 6),
        ("ready", "", 6, 7),
    ]
    assert found.messages[3].time == 2
    assert found.wrong == 7


def test_a_timer_that_ends_between_messages_is_there() -> None:
    text = r"""
A > put 0 0 1 1\r\na\r\n
A < INSERTED 1\r\n
B > reserve\r\n
B < RESERVED 1 1\r\na\r\n
+ 2s
B > list-tube-used\r\n
B < USING default\r\n
A > peek-ready\r\n
A < FOUND 1 1\r\na\r\n
"""
    reserved = next(one for one in drawn(text).jobs if one.state == "reserved")
    assert reserved.begin == 2
    assert reserved.end == pytest.approx(3.5)


def test_the_wrong_message_is_red_and_beside_the_expected_one() -> None:
    shown = drawing(drawn(DELAYED, Wrong(8, "KICKED 1\\r\\n", "KICKED 2\\r\\n")))
    wrong = [label for label in shown.labels if "wrong" in label.kind]
    expected = [label for label in shown.labels if "expected" in label.kind]
    assert [label.text for label in wrong] == ["✕ KICKED 2\\r\\n"]
    assert [label.text for label in expected] == ["expected KICKED 1\\r\\n"]
    assert 0 < expected[0].y - wrong[0].y < 40
    assert {stroke.kind for stroke in shown.strokes} >= {"wrong", "expected"}


def test_a_reply_that_never_came_is_named() -> None:
    found = drawn("A > put 0 0 60 1\\r\\na\\r\\n\n", Wrong(0, "INSERTED …", "nothing within 5 s"))
    told = texts(picture(found))
    assert {"observed nothing within 5 s", "expected INSERTED …"} <= {*told}


@pytest.mark.parametrize(("seconds", "is_marked"), [(1, False), (3, False), (4, True), (9e8, True)])
def test_waits_are_to_scale_or_marked(seconds: float, is_marked: bool) -> None:
    text = f"A > reserve\\r\\n\n+ {seconds:.0f}s\nA < TIMED_OUT\\r\\n\n"
    shown = drawing(drawn(text))
    breaks = [stroke for stroke in shown.strokes if stroke.kind == "break"]
    assert len(breaks) == (2 if is_marked else 0)
    assert any("not to scale" in label.text for label in shown.labels) == is_marked
    plain = drawing(drawn("A > reserve\\r\\n\nA < TIMED_OUT\\r\\n\n"))
    assert shown.height - plain.height == pytest.approx(24 * min(seconds, 3))


def test_the_longest_order_is_shown_and_what_does_not_fit() -> None:
    found = diagram_of_order(parse(TWICE), NEWEST)
    assert found is not None
    assert [message.order for message in found.messages] == [1, 2, 1, 0, 2, 0]
    assert found.wrong == 5
    assert found.expected == "TIMED_OUT\\r\\n"
    points = [dot for dot in drawing(found).dots if dot.text]
    assert [dot.text for dot in points] == ["1", "2"]
    assert points[0].y < points[1].y


def test_an_allowed_order_has_nothing_wrong() -> None:
    allowed = TWICE.rsplit("C <", 1)[0] + "C < TIMED_OUT\\r\\n"
    found = diagram_of_order(parse(allowed), NEWEST)
    assert found is not None
    assert found.wrong is None
    assert {message.order for message in found.messages} == {1, 2, 3}


def test_the_middle_of_a_long_conversation_is_left_out() -> None:
    transcript = Transcript()
    for number in range(3_000):
        transcript.add("A", ">", b"list-tube-used\r\n", number / 1000)
        transcript.add("A", "<", b"USING default\r\n", number / 1000)
    found = diagram_of(transcript, NEWEST, Wrong(5_001, "USING x\\r\\n", "USING default\\r\\n"))
    assert found is not None
    assert len(found.messages) < 50
    left = [message.text for message in found.messages if message.kind == "left out"]
    assert left == ["4,974 messages", "996 messages"]
    assert found.messages[found.wrong or 0].text == "USING default\\r\\n"
    assert len(picture(found)) < 50_000


def test_long_messages_are_cut() -> None:
    transcript = Transcript()
    transcript.add("A", ">", b"put 0 0 60 900000\r\n" + b"\x00<" * 450_000 + b"\r\n", 0.0)
    found = diagram_of(transcript, NEWEST)
    assert found is not None
    assert len(found.messages[0].text) < 1000
    assert found.messages[0].text.endswith("more bytes")


EVIL = "</style></text></svg><script>alert(1)</script>\"'&<img src=x>"


def test_nothing_of_a_target_gets_into_the_svg() -> None:
    message = DrawnMessage(kind="received", client=EVIL, text=EVIL, time=0)
    stretch = JobStretch(job=EVIL, state="ready", holder=EVIL, begin=0, end=5)
    found = Diagram(
        messages=[message] * 3, jobs=[stretch], wrong=1, expected=EVIL, observed=EVIL, note=EVIL
    )
    svg = picture(found)
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()}
    known = {"svg", "title", "style", "rect", "polyline", "polygon", "circle", "text"}
    assert tags <= known


def test_bytes_of_a_target_are_escaped() -> None:
    transcript = Transcript()
    transcript.add("A", ">", b"peek 1\r\n", 0.0)
    transcript.add("A", "<", b"\x00\x1b[31m\xff<script>\xef\xbf\xbe\r\n", 0.0)
    found = diagram_of(transcript, NEWEST, Wrong(1, "\x1b[1m\ufffe", "\x00"))
    assert found is not None
    assert ET.fromstring(picture(found)) is not None
    assert "\x1b" not in picture(found)
    assert "\x00" not in picture(found)


@pytest.mark.parametrize("seed", range(20))
def test_any_data_can_be_drawn(seed: int) -> None:
    chance = random.Random(seed)
    kinds: tuple[Literal["sent", "received", "event", "left out"], ...]
    kinds = ("sent", "received", "event", "left out")
    messages = [
        DrawnMessage(
            kind=chance.choice(kinds),
            client=chance.choice(("", "A", "B", "AA")),
            text="x" * chance.randrange(90),
            time=chance.choice((None, chance.uniform(-9, 9e9))),
            order=chance.randrange(6),
        )
        for _ in range(chance.randrange(1, 12))
    ]
    jobs = [
        JobStretch(job="1", state="buried", begin=chance.uniform(0, 99), end=chance.uniform(0, 99))
    ]
    found = Diagram(messages=messages, jobs=jobs, wrong=chance.randrange(15), expected="a")
    shown = drawing(found)
    assert 0 < shown.width < 5_000
    assert 0 < shown.height < 5_000
    assert all(box.height >= 0 for box in shown.boxes)
    ET.fromstring(picture(found))


@pytest.mark.parametrize("file", sorted(DIAGRAMS.glob("*.transcript")), ids=lambda file: file.stem)
def test_the_diagrams_of_the_documentation_are_up_to_date(file: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.svg"
    done = command("draw", str(file), "-o", str(made))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert made.read_text() == file.with_suffix(".svg").read_text()


def test_each_diagram_of_the_documentation_is_shown() -> None:
    root = DIAGRAMS.parent.parent
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert len([*DIAGRAMS.glob("*.svg")]) == 5
    for file in DIAGRAMS.glob("*.svg"):
        assert f"diagrams/{file.name})" in text
