"""The catalogue is complete: every sentence of the documents is tested, or listed with a reason."""

from __future__ import annotations

import gzip
from collections import defaultdict
from pathlib import Path

import pytest

from conformance.catalogue import catalogue
from reference_server import profiles
from tests.sentences import PROFILES, Sentence, differences, documents, of_manual, split, untestable

INSTALLED = Path("/usr/share/doc/beanstalkd/protocol.txt.gz")
MANUAL = Path("/usr/share/man/man1/beanstalkd.1.gz")
SPOKEN: defaultdict[Sentence, list[str]] = defaultdict(list)
for name, kept in documents().items():
    for sentence in kept:
        SPOKEN[sentence] += PROFILES[name]
SENTENCES = list(SPOKEN)


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
        or all(catalogue()[slug].missing_in(profile) for profile in SPOKEN[sentence])
    ]
    assert wrong == []


def test_every_requirement_of_level_must_is_cited_by_a_sentence() -> None:
    cited = {slug for sentence in SENTENCES for slug in sentence.by}
    must = {
        slug
        for slug, requirement in catalogue().items()
        if "must" in dict(requirement.levels).values()
    }
    assert must - cited == set()


@pytest.mark.parametrize("profile", profiles.PROFILES)
def test_what_is_a_must_in_a_profile_is_said_by_a_document_of_that_profile(profile: str) -> None:
    said = {
        slug
        for document, spoken in PROFILES.items()
        if profile in spoken
        for sentence in documents()[document]
        for slug in sentence.by
    }
    must = {
        slug
        for slug, requirement in catalogue().items()
        if not requirement.missing_in(profile) and requirement.judged_by(profile).level == "must"
    }
    assert sorted(must - said) == []


@pytest.mark.skipif(not INSTALLED.exists(), reason="the text of the protocol is not installed")
def test_the_installed_protocol_text_is_the_one_that_is_kept() -> None:
    text = gzip.decompress(INSTALLED.read_bytes()).decode()
    assert list(differences("protocol-1.12", text)) == []


@pytest.mark.skipif(not MANUAL.exists(), reason="the manual of beanstalkd is not installed")
def test_the_installed_manual_is_the_one_that_is_kept() -> None:
    page = gzip.decompress(MANUAL.read_bytes()).decode()
    assert list(differences("manual-1.12", of_manual(page))) == []


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
