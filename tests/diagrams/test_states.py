"""The pictures of the states of jobs and clients."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from conformance.diagrams.states import PICTURES, Position, StateChange, drawn
from tests import ROOT


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_documentation_are_up_to_date(name: str) -> None:
    shown = (ROOT / "docs" / "diagrams" / name).read_text(encoding="utf-8")
    assert shown == PICTURES[name], "python -m conformance.diagrams.states docs/diagrams"
    assert f"(diagrams/{name})" in (ROOT / "docs" / "reference-server.md").read_text()


def test_each_change_is_an_arrow_with_its_events() -> None:
    places = {"one": Position(100, 200), "two": Position(300, 200), "three": Position(200, 300)}
    changes = [
        StateChange("begin", "", "one"),
        StateChange("go", "one", "two"),
        StateChange("run", "one", "two"),
        StateChange("return", "two", "one"),
        StateChange("end", "one", "gone"),
        StateChange("end", "two", "gone"),
        StateChange("end", "three", "gone"),
    ]
    picture = drawn("Two states", changes, places)
    texts = [element.text for element in ET.fromstring(picture).iter() if element.text]
    assert {"begin", "go", "run", "return", "one", "two"} <= {*texts}
    assert "in each other state: end → gone" in texts
    assert picture.count(" Q") == 3
