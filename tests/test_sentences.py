"""The catalogue is complete: every sentence of the documents is tested, or listed with a reason."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from tests.sentences import differences, documents, split, untestable

PROFILES = {
    "protocol-1.12": ("1.12", "1.13"),
    "seed-000": ("0.6",),
    "seed-001": ("1.4", "1.10", "1.12", "1.13"),
    "seed-002": ("1.10",),
    "seed-003": ("1.4",),
    "seed-004": ("1.4",),
}
"""The profiles that each document describes."""
INSTALLED = Path("/usr/share/doc/beanstalkd/protocol.txt.gz")
SENTENCES = [sentence for kept in documents().values() for sentence in kept]


def test_every_document_is_there() -> None:
    assert set(documents()) == set(PROFILES)


def test_every_sentence_is_cited_or_untestable_and_not_both() -> None:
    reasons = untestable()
    wrong = [s for s in SENTENCES if bool(s.by) == ((s.document, s.number) in reasons)]
    assert wrong == []
    known = {(sentence.document, sentence.number) for sentence in SENTENCES}
    assert set(reasons) <= known


def test_a_sentence_is_cited_by_requirements_of_its_profile() -> None:
    wrong = [
        (sentence.document, sentence.number, slug)
        for sentence in SENTENCES
        for slug in sentence.by
        if slug not in catalogue()
        or all(catalogue()[slug].missing_in(profile) for profile in PROFILES[sentence.document])
    ]
    assert wrong == []


def test_every_requirement_of_level_must_is_cited_by_a_sentence() -> None:
    cited = {slug for sentence in SENTENCES for slug in sentence.by}
    must = {slug for slug, requirement in catalogue().items() if requirement.level == "must"}
    assert must - cited == set()


@pytest.mark.skipif(not INSTALLED.exists(), reason="the text of the protocol is not installed")
def test_the_installed_protocol_text_is_the_one_that_is_kept() -> None:
    text = gzip.decompress(INSTALLED.read_bytes()).decode()
    assert list(differences("protocol-1.12", text)) == []


def test_a_sentence_that_is_missing_or_changed_is_found() -> None:
    assert any("sentences" in line for line in differences("seed-001", "One sentence."))
    assert any("sentence 1:" in line for line in differences("seed-001", "One sentence."))
    assert any("quotes what is not in" in line for line in differences("seed-001", ""))


def test_a_text_is_split_at_sentences_items_and_headings() -> None:
    text = (
        'Heading\n-------\n\nOne. Two, e.g. this.\nThree:\n\n - "OK\\r\\n" to do so.\n - <id> is.\n'
    )
    assert split(text) == [
        *("Heading", "One.", "Two, e.g. this.", "Three:", '"OK\\r\\n" to do so.', "<id> is."),
    ]
    assert split("第一句。第二句。\n\n* 第三") == ["第一句。", "第二句。", "第三"]
