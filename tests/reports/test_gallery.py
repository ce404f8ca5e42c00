"""The gallery: which servers it has, and what its results tell of them."""

from __future__ import annotations

import re

import pytest

from reports.gallery.anonymity import anonymous
from reports.gallery.servers import GalleryServer, results_of, servers
from reports.gallery.table import server_table
from reports.results import read_results
from reports.verdicts import Verdict
from tests.made import case, evidence, requirement, results

NAMES = [name for name in servers() if results_of(name).exists()]
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


@pytest.mark.parametrize("name", NAMES)
def test_results_name_no_folder_of_the_machine(name: str) -> None:
    found = read_results(results_of(name))
    assert anonymous(found) == found
    assert not re.search("/(home|root|tmp|usr)/", found.encode())


def test_the_code_of_each_server_can_be_had_again() -> None:
    for name, server in servers().items():
        if name.startswith("reference-"):
            continue
        assert re.fullmatch("https://github.com/[^/]+/[^/]+", server.source)
        assert re.fullmatch("[0-9a-f]{40}", server.commit)


def test_what_a_server_said_names_no_folder_any_more() -> None:
    test = case("put.a", Verdict.FAIL, evidence=evidence(said=SAID))
    after = anonymous(results(requirement("put.a"), health=["x at /a/b.c:1"], tests=[test]))
    assert after.health == ["x at b.c:1"]
    kept = after.tests[0].evidence
    assert kept is not None
    assert kept.said == HEARD


def test_another_version_is_another_server() -> None:
    made = GalleryServer(label="b", version="1.12", program="b", options="", language="C").made
    assert made(results())
    assert not made(results(target=results().target.model_copy(update={"version": "1.13"})))


def test_the_table_links_the_code_that_was_run() -> None:
    labels = {"language": "C", "source": "https://h/a/b", "commit": "0123456789abcdef"}
    row = server_table([results(labels=labels)]).splitlines()[2]
    assert "| `beanstalkd 1.12` | C | [0123456789ab](https://h/a/b/tree/0123456789abcdef) |" in row
