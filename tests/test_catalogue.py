"""A broken catalogue is one clear error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.catalogue import CatalogueError, catalogue, read_catalogue, requirement
from reference_server.profiles import PROFILES

TOP = "section: S\nsource: protocol-1.12\nrequirements:\n"
GOOD = "  a.b:\n    clause: it is so\n"


def _read(folder: Path, text: str) -> None:
    (folder / "01-some.yaml").write_text(text, encoding="utf-8")
    read_catalogue(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not YAML"),
        ("- 1", "must have section, source and requirements"),
        ("section: S\n", "must have section, source and requirements"),
        (TOP + "  - 1\n", "requirements must be a dictionary"),
        (TOP + "  a b:\n    clause: x\n", "'a b' is no slug"),
        (TOP + "  a.b: 1\n", "a.b: must be a dictionary"),
        (TOP + "  a.b:\n    level: must\n", "a.b: a clause is missing"),
        (TOP + GOOD + "    level: should\n", "level must be one of must, de-facto, quirk"),
        (TOP + GOOD + "    source: hearsay\n", "source must be one of"),
        (TOP + GOOD + "    since: 1.10\n", "a profile must be one of"),
        (TOP + GOOD + '    until: "2.0"\n', "a profile must be one of"),
        (TOP + GOOD + '    level: {"1.4": should}\n', "level must be one of"),
        (TOP + GOOD + '    level: {"2.0": must}\n', "a profile must be one of"),
        (TOP + GOOD + "    level: {}\n", "the oldest first"),
        (TOP + GOOD + '    level: {"1.12": must, "1.4": quirk}\n', "the oldest first"),
        (TOP + GOOD + '    since: "1.4"\n    level: {"1.4": must}\n', "since belongs to"),
        (TOP + GOOD + "    colour: red\n", "unknown key 'colour'"),
        (TOP + GOOD + "    presupposes: {a.b: c.d}\n", "presupposes names other requirements"),
        (TOP + GOOD + GOOD, "'a.b' is there twice"),
    ],
)
def test_a_broken_file_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        _read(tmp_path, text)
    assert str(caught.value).startswith("requirements/01-some.yaml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("of_c", "said"),
    [
        ("", "but there is no such requirement"),
        (
            "  c.d:\n    clause: x\n    presupposes: [e.f, a.b]\n  e.f:\n    clause: x\n",
            "but it presupposes itself",
        ),
    ],
)
def test_what_is_presupposed_is_there_and_does_not_presuppose_itself(
    tmp_path: Path, of_c: str, said: str
) -> None:
    with pytest.raises(CatalogueError, match=said):
        _read(tmp_path, TOP + GOOD + "    presupposes: c.d\n" + of_c)


def test_a_must_presupposes_a_must_that_is_as_old() -> None:
    for slug, one in catalogue().items():
        for profile in PROFILES:
            if one.missing_in(profile) is None and one.judged_by(profile).level == "must":
                for base in one.presupposes:
                    assert catalogue()[base].missing_in(profile) is None, slug
                    assert catalogue()[base].judged_by(profile).level == "must", slug


def test_a_requirement_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "02-more.yaml").write_text(TOP + GOOD, encoding="utf-8")
    with pytest.raises(CatalogueError, match=r"a\.b is in another file, too"):
        _read(tmp_path, TOP + GOOD)


def test_a_requirement_belongs_to_profiles() -> None:
    assert catalogue()["kick-job.kicked"].missing_in("1.4") == "came with profile 1.8"
    assert catalogue()["kick-job.kicked"].missing_in("1.13") is None
    assert catalogue()["kick.all-jobs"].missing_in("1.4") == "ended with profile 0.6"
    assert catalogue()["kick.all-jobs"].profiles == "until 0.6"


def test_a_requirement_may_have_a_level_of_its_own_in_each_profile() -> None:
    touch = catalogue()["touch.postpones-expiry"]
    assert touch.since == "1.2"
    assert [touch.judged_by(p).level for p in ("1.4", "1.9")] == ["de-facto", "de-facto"]
    assert [touch.judged_by(p).level for p in ("1.10", "1.13")] == ["must", "must"]
    assert touch.level == "must"
    assert touch.level_text == "de-facto, must since 1.10"


def test_a_test_shows_the_clause_of_its_requirement() -> None:
    clause = "Maximum delay is 2**32-1."
    assert requirement("put.delay-limit", clause).args == ("put.delay-limit",)


@pytest.mark.parametrize(
    ("slug", "clause", "said"),
    [
        (
            "put.delay-limit",
            "Maximum delay is 2**31-1.",
            "put.delay-limit has the clause 'Maximum delay is 2**32-1.', "
            "not 'Maximum delay is 2**31-1.'",
        ),
        ("put.delay-limits", "Maximum delay is 2**32-1.", "'put.delay-limits' is no requirement"),
    ],
)
def test_a_test_with_a_wrong_clause_is_told_the_right_one(
    slug: str, clause: str, said: str
) -> None:
    with pytest.raises(CatalogueError, match=re.escape(said)):
        requirement(slug, clause)
