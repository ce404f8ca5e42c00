"""No false alarm: conforming servers that differ from beanstalkd pass at level must."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from reference_server.profiles import NEWEST, PROFILES
from tests.faults import FILES
from tests.parts import part_of, sample
from tests.variants.gallery import SERVED, VARIANTS
from tests.variants.judging import judge
from tests.variants.matrix import WAYS, command, run
from tests.variants.needs import NEEDS
from tests.variants.old import OF_OLD
from tests.variants.variant import Variant

QUICK = [name for name, variant in VARIANTS.items() if not variant.slow]
"""Variants that are quick to run in this process."""


@pytest.mark.campaign
@pytest.mark.parametrize("old", OF_OLD, ids=lambda old: f"{old[0]}: {old[1].summary}")
def test_a_variant_that_conforms_to_an_old_profile_passes(old: tuple[str, Variant]) -> None:
    profile, variant = old
    assert judge(variant, PROFILES[profile]).broken == []


@pytest.mark.parametrize("name", sample(QUICK, 27))
def test_a_variant_that_conforms_passes(name: str) -> None:
    variant = VARIANTS[name]
    judgement = judge(variant)
    assert judgement.broken == []
    # A slow one does not get through all that is made up in so short a time.
    assert [told for told in judgement.undecided if "reached only" not in told] == []
    assert judgement.non_strict <= variant.non_strict


def test_variants_are_non_strict_only_where_the_text_is_silent() -> None:
    judged = {name: rule.judged_by(NEWEST.name) for name, rule in catalogue().items()}
    for variant in VARIANTS.values():
        names = {name for name in variant.non_strict if not name.startswith("protocol.any-")}
        assert {judged[name].level for name in names} <= {"de-facto"}, variant.summary


def test_there_are_enough_variants() -> None:
    assert len(VARIANTS) >= 60


@pytest.mark.parametrize("name", sample([one.name for one in NEEDS], len(NEEDS)))
def test_a_variant_without_memory_or_descriptors_passes(name: str) -> None:
    came = run(name, "real", ["-k", "exhaustion and (put or descriptors)"])
    assert came.wrong_in_a_part == [], name
    assert "not run exhaustion.descriptors-connected: " not in came.wrong


@pytest.mark.parametrize("way", WAYS)
def test_a_variant_that_runs_as_a_server_passes(way: str) -> None:
    """Only a few tests; ``python -m tests.variants`` runs all, with all variants."""
    name = next(name for name, (_, variant) in SERVED.items() if not variant.slow)
    files = " or ".join(part_of(FILES, "0/15"))
    came = run(name, way, ["--examples=5", "--fuzz-time=2", "-k", files])
    assert came.wrong_in_a_part == [], f"{name}, {way}"


_BREAKS_OFF = r"""
  A > put 7 0 1000 5\r\nxxxxx\r\nreserve\r\n
  A ! resets
  B > reserve-with-timeout 0\r\n
"""


def test_the_end_of_a_client_that_holds_a_job_may_be_noticed_late(tmp_path: Path) -> None:
    file = tmp_path / "transcript"
    file.write_text(_BREAKS_OFF.strip("\n"))
    launch = command("notices-ends-20-milliseconds-later")
    asked = [sys.executable, "-m", "conformance", "replay", str(file), "--launch", launch]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
