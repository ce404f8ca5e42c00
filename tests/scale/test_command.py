"""The command ``scale``, run as users run it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jsonschema
import pytest

from conformance import yamlish
from conformance.__main__ import main
from conformance.scale.measuring import CostPoint, Effort, ScaleCampaign, Subject
from conformance.scale.populated_server import Taken
from conformance.scale.results import lines, results
from conformance.scale.workloads import WORKLOADS, Growth
from conformance.target.address import ask, connect
from conformance.target.launch import Launched
from conformance.target.transport import Transport
from reference_server.model import Model
from reports.scale import Scale, read_scale, scale_page, schema
from tests import ROOT
from tests.command_line import command, refuses
from tests.run.test_interruption import HEARD
from tests.scale.cost_faults import BuriedJobsAreCounted
from tests.scale.counted_server import CountedServer
from tests.servers import BEANSTALKD, REFERENCE_COMMAND, needs_beanstalkd

LAUNCH = f"{BEANSTALKD} -l {{host}} -p {{port}}"
QUICK = ("--only=buried jobs", "--up-to=1000", "--seconds=60")


def stats(server: Launched) -> dict[str, str]:
    with Transport(connect(server.address, 5.0)) as client:
        return yamlish.dictionary(ask(client, b"stats", 5.0).body or b"")


def left(server: Launched) -> list[str]:
    """Return the counts of jobs and tubes that are not those of an empty server."""
    found = stats(server)
    counts = {key: found[key] for key in found if key.startswith("current-jobs-")}
    return [key for key, count in counts.items() if count != "0"] + (
        [] if found["current-tubes"] == "1" else ["tubes"]
    )


@needs_beanstalkd
def test_a_launched_server_is_measured_beside_another_and_reported(tmp_path: Path) -> None:
    baseline = tmp_path / "known.yaml"
    options = ("--beside", LAUNCH, "--name=<b>mine", f"--baseline={baseline}", *QUICK)
    done = command(
        *("scale", "--launch", LAUNCH, *options, f"--report={tmp_path}", "--update-baseline")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "costs of <b>mine by those of beanstalkd" in done.stdout
    [file] = tmp_path.glob("*scale.json")
    jsonschema.validate(json.loads(file.read_text()), schema())
    found = read_scale(file)
    assert [server.name for server in found.servers] == ["<b>mine", "beanstalkd"]
    assert found.servers[0].unit == "CPU time"
    assert found.servers[0].curves
    assert found.servers[0].memory
    assert found.ratios
    [page] = tmp_path.glob("*scale.html")
    text = page.read_text()
    assert "&lt;b&gt;mine" in text
    assert "<b>mine" not in text
    assert not re.search(r"(?:src|href)=", text)
    assert "buried jobs" in baseline.read_text()


@needs_beanstalkd
def test_a_growth_that_is_worse_than_the_baseline_fails(tmp_path: Path) -> None:
    baseline = tmp_path / "known.yaml"
    # Reserved jobs are in a list, which has always been linear.
    baseline.write_text(
        "'touch, reserved jobs': {largest: 10000, exponent: 0, high: 0, factor_high: 1}\n"
    )
    only = ("--only=reserved jobs", "--up-to=10000", "--seconds=20")
    done = command("scale", "--launch", LAUNCH, f"--baseline={baseline}", *only)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "worse than the baseline: touch, reserved jobs: the exponent is" in done.stdout


def test_nothing_is_left_on_a_server_of_others() -> None:
    with Launched(REFERENCE_COMMAND) as server:
        where = "{}:{}".format(*server.address)
        grows = [f"--only={one}" for one in ("tubes", "waiting connections")]
        done = command("scale", f"--target={where}", "--seconds=10", "--up-to=100", *grows)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "time of commands" in done.stdout
        assert left(server) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_measurement_reports_what_it_has_and_leaves_nothing(
    number: signal.Signals,
) -> None:
    with Launched(REFERENCE_COMMAND) as server:
        where = "{}:{}".format(*server.address)
        words = ["scale", f"--target={where}", "--seconds=60"]
        run = subprocess.Popen(
            [sys.executable, "-c", HEARD.format("conformance"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        end = time.monotonic() + 60
        while int(stats(server)["cmd-kick"]) == 0 and time.monotonic() < end:
            time.sleep(0.1)
        run.send_signal(number)
        said, _ = run.communicate(timeout=60)
        assert run.returncode == 2, said
        assert left(server) == []
        assert "nothing was left on the server" in said
        assert "not measured: tubes: interrupted" in said
        assert "interrupted" in said
        assert "Traceback" not in said


def test_no_launched_server_outlives_an_interrupt() -> None:
    size = 60_000 + os.getpid() % 5_000
    launch = f"{REFERENCE_COMMAND.partition(' [')[0]} -z {size}"
    run = subprocess.Popen(
        [sys.executable, "-c", HEARD.format("conformance"), "scale", "--launch", launch],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    def servers() -> list[str]:
        found = subprocess.run(["pgrep", "-f", f"port [0-9]+ -z {size}"], capture_output=True)
        return found.stdout.decode().split()

    end = time.monotonic() + 60
    while not servers() and time.monotonic() < end:
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert run.returncode == 2, said
    while servers() and time.monotonic() < end:
        time.sleep(0.1)
    assert servers() == []
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--target=a:1", "--launch=b {port}"), "exclude each other"),
        (("--target=a:1", "--beside=b {port}"), "it needs --launch"),
        (("--launch=b",), "no place for the address"),
        (("--beside=b",), "no place for the address"),
        (("--update-baseline",), "needs --baseline FILE"),
        (("--show=a.json",), "needs --report FOLDER"),
        (("--seconds=0",), "is not in the range"),
        (("--up-to=5",), "is not in the range"),
        (("--only=mistakes",), "is not one of"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scale", *arguments]) == 4
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--baseline=/no/such/file",), "cannot read the baseline"),
        (("--report=/tmp", "--show=/no/such/file"), "cannot read /no/such/file"),
        (("--launch=/no/such/program {port}",), "cannot run"),
        (("--target=127.0.0.1:1",), "Connection refused"),
    ],
)
def test_what_is_not_there_is_refused(arguments: tuple[str, ...], sentence: str) -> None:
    refuses(command("scale", *arguments), sentence)


def test_a_server_of_another_protocol_is_refused() -> None:
    program = "import socketserver as s; s.TCPServer(('{host}', {port}), s.BaseRequestHandler)"
    launch = f'{sys.executable} -c "{program}.serve_forever()"'
    refuses(command("scale", f"--launch={launch}"), "does not answer stats")


# ---------------------------------------------------------------- results and page


def test_the_schema_is_that_of_the_code() -> None:
    kept = (ROOT / "reports" / "scale.schema.json").read_text()
    assert json.loads(kept) == schema(), "python -m reports.scale"


def test_a_page_shows_several_measurements() -> None:
    rows = [row for row in WORKLOADS if row.grows is Growth.BURIED and "kick 1" in row.cycle]
    subjects = [
        Subject(name, "", partial(CountedServer, model), False)
        for name, model in (("<slow>", BuriedJobsAreCounted), ("usual", Model))
    ]
    effort = Effort(1000.0, 270, fewest=2, most=2, factor=3, batch=1000.0)
    campaign = ScaleCampaign(subjects, effort, workloads=rows)
    campaign.run()
    found = results(campaign, {}, is_interrupted=True)
    told = "\n".join(lines(found))
    assert "! kick" in told
    assert "costs of <slow> by those of usual" in told
    page = scale_page([found, Scale.model_validate_json(found.encode())])
    assert page.count("<svg") > 1
    assert "warm-3" in page
    assert "interrupted" in page
    assert "<slow>" not in page


def test_a_point_where_we_were_too_slow_has_no_throughput() -> None:
    busy = CostPoint()
    for _ in range(3):
        busy.add(Taken(times=10, cost=0.01, waited=0.0, seconds=0.1, own=0.09))
    assert busy.is_limited_by_us
    fast = CostPoint()
    for _ in range(3):
        fast.add(Taken(times=10, cost=0.08, waited=0.0, seconds=0.1, own=0.09))
    assert not fast.is_limited_by_us
