"""The gallery: which servers it has, and what its results tell of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.gallery.anonymity import anonymous
from reports.gallery.clients import GalleryClient, client_results_of, clients
from reports.gallery.servers import GalleryServer, results_of, servers
from reports.gallery.table import table
from reports.results import CauseRecord, read_results
from reports.verdicts import Verdict
from tests.made import case, evidence, requirement, results

NAMES = [name for name in servers() if results_of(name).exists()]
CLIENTS = [name for name in clients() if client_results_of(name).exists()]
FILES = [*map(results_of, NAMES), *map(client_results_of, CLIENTS)]
SAID = r"""main.c:7
/home/a.b/src-1/main.c:7: in f
\x09/usr/lib/a.go:2
 from '/opt/x/y.rb': GET http://h/a/b and 1/2"""
HEARD = r"""main.c:7
main.c:7: in f
\x09a.go:2
 from 'y.rb': GET http://h/a/b and 1/2"""


@pytest.mark.parametrize("name", NAMES)
def test_results_are_of_the_server_that_the_list_names(name: str) -> None:
    found, server = read_results(results_of(name)), servers()[name]
    assert server.made(found)
    assert found.labels == server.origin
    assert found.target.label == server.label.replace(" ", "-")


@pytest.mark.parametrize("name", CLIENTS)
def test_results_are_of_the_library_that_the_list_names(name: str) -> None:
    found, client = read_results(client_results_of(name)), clients()[name]
    assert found.target.is_client
    assert (found.target.title, found.target.version) == (name, client.version)
    assert found.labels == client.origin
    assert found.run.arguments == ["--", *client.command]
    passed = [test for test in found.tests if test.verdict is Verdict.PASS]
    assert passed
    assert [test for test in passed if test.evidence is not None] == []


def test_the_gallery_has_client_libraries_and_they_are_small() -> None:
    assert len(CLIENTS) >= 7
    assert sum(client_results_of(name).stat().st_size for name in CLIENTS) < 400_000


def test_a_library_that_is_not_installed_has_no_version() -> None:
    made = GalleryClient(version="1", language="C", find="/nowhere/program", driver="d")
    assert made.found_version() == ""
    assert made.model_copy(update={"find": "false"}).found_version() == ""
    assert made.model_copy(update={"find": "echo 1"}).found_version() == "1"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_results_name_no_folder_of_the_machine(path: Path) -> None:
    found = read_results(path)
    assert anonymous(found) == found
    assert not re.search("/(home|root|tmp|usr)/", found.encode())


def test_the_code_of_each_server_can_be_had_again() -> None:
    for name, server in servers().items():
        if name.startswith("reference-"):
            continue
        assert re.fullmatch("https://github.com/[^/]+/[^/]+", server.source)
        assert re.fullmatch("[0-9a-f]{40}", server.commit)


def test_what_a_server_said_names_no_folder_any_more() -> None:
    cause = CauseRecord(command="", expected="it goes on", observed="crashed: /a/b.rb:5: error")
    test = case("put.a", Verdict.FAIL, evidence=evidence(said=SAID), cause=cause)
    after = anonymous(results(requirement("put.a"), health=["x at /a/b.c:1"], tests=[test]))
    assert after.health == ["x at b.c:1"]
    kept, last_words = after.tests[0].evidence, after.tests[0].cause
    assert kept is not None
    assert kept.said == HEARD
    assert last_words is not None
    assert last_words.observed == "crashed: b.rb:5: error"


def test_another_version_is_another_server() -> None:
    made = GalleryServer(label="b", version="1.12", program="b", options="", language="C").made
    assert made(results())
    assert not made(results(target=results().target.model_copy(update={"version": "1.13"})))


def test_the_table_links_the_code_that_was_run() -> None:
    labels = {"language": "C", "source": "https://h/a/b", "commit": "0123456789abcdef"}
    row = table("server", [results(labels=labels)]).splitlines()[2]
    assert "| `beanstalkd 1.12` | C | [0123456789ab](https://h/a/b/tree/0123456789abcdef) |" in row
    labels = {"language": "C", "source": "https://github.com/a/b"}
    row = table("library", [results(labels=labels)]).splitlines()[2]
    assert "| C | [a/b](https://github.com/a/b) |" in row
