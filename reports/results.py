"""``results.json``: the findings of a run as data; its schema is generated from here.

All times are in seconds. ``python -m reports.results`` prints the JSON Schema, which is kept in
``reports/results.schema.json``.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from reports.files import named
from reports.verdicts import DEVIATIONS, Level, Verdict

MAX_BYTES = 64 << 20
"""Longer files are not read."""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Word = Literal["conforms", "does not conform", "incomplete", "no verdict"]
Text = Annotated[str, Field(max_length=100_000)]


class ResultsError(Exception):
    """A file is not the results of a run; the text says why, in one sentence."""


class _Data(BaseModel):
    # Each run of a few tests would wait for the validators of all of it.
    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, defer_build=True)


class SuiteRecord(_Data):
    """The suite that ran, and where."""

    version: Text
    python: Text
    platform: Text


class Run(_Data):
    """The circumstances of the run."""

    date: AwareDatetime
    """When it ended."""
    seconds: Seconds
    seed: int
    """Where random conversations began."""
    examples: Count
    """Random conversations of each kind."""
    fuzz_time: Seconds
    """Seconds for which hostile bytes were tried."""
    lateness: Seconds
    """Seconds that a timer of the target may have been late under a real clock."""
    strict: bool
    """Set if de-facto requirements failed the run, too."""
    exit_code: int
    """0: the gate is open."""
    arguments: list[Text]
    """The options that name the target again."""


class Departure(_Data):
    """A difference between a fork's protocol and the profile that it extends."""

    what: Text
    reason: Text


class DialectRecord(_Data):
    """The protocol of a fork, as its own profile describes it."""

    extends: Text
    """The profile of the protocol that it begins with."""
    told: Text
    """The dialect in a few words, as "1.13 without pause-tube"."""
    departures: list[Departure]


CLIENT_LIBRARY = "client library"
"""The label of a target that is no server."""


class TargetRecord(_Data):
    """The server under test, or the client library."""

    title: Text = ""
    """The name that the user has given it, if any."""
    label: Text
    """The name of the program, or the address."""
    version: Text
    """As its stats give it."""
    profile: Text
    """The version of the protocol that it was judged by."""
    profile_reason: Text
    """Why by this one."""
    dialect: DialectRecord | None = None
    """There if the profile is that of a fork."""
    clock: Literal["real", "moved"]
    """The kind of time: the tests waited in real time, or moved the clock of the target."""
    clock_reason: Text
    """Why the clock was not moved, if it should have been."""

    @property
    def name(self) -> str:
        """The target in a table's head."""
        return self.title or f"{self.label} {self.version}".strip()

    @property
    def is_client(self) -> bool:
        """Tell whether it is a client library."""
        return self.label == CLIENT_LIBRARY

    @property
    def stage(self) -> str:
        """The profile of the protocol: of a fork, the one that its own extends."""
        return self.dialect.extends if self.dialect else self.profile


class CommandTrait(_Data):
    """A command of the profile, as the survey found it before the first test."""

    name: Text
    answer: Literal["works", "unknown", "wrong reply", "no reply", "disconnected"]
    observed: Text = ""
    """The observation, unless it works."""


class Conclusion(_Data):
    """The verdict of the target."""

    word: Word
    sentence: Text
    must_broken: Count
    """Requirements of level must that are not met."""
    non_strict: Count
    """Requirements of level de-facto that are not met."""
    tested: Count
    """Requirements of level must that were tested."""
    applicable: Count
    """Requirements of level must that the profile has."""
    not_offered: Count = 0
    """Requirements of level must that the target leaves out on purpose, as its profile says."""


class KnownRecord(_Data):
    """The entry of a deviation in the baseline."""

    reason: Text
    link: Text


class RequirementRecord(_Data):
    """One requirement of the catalogue, and its verdict."""

    slug: Annotated[str, Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$", max_length=200)]
    level: Level
    section: Text
    source: Text
    """The document that the clause is from."""
    clause: Text
    profiles: Text
    """The profiles that it belongs to, in words."""
    verdict: Verdict
    reason: Text
    """Why the verdict is not simply a pass; of a quirk, the variant that was seen."""
    tests: Count
    """The number of its tests that were run or left out."""
    known: KnownRecord | None = None
    """There if the baseline lists just this verdict."""
    blocked_by: list[Text] = []
    """The requirements that are broken where tests of this one had not come to it."""

    @property
    def deviates(self) -> bool:
        """Return whether it is not met."""
        return self.verdict in DEVIATIONS


class DrawnMessage(_Data):
    """A row of a diagram: a message on the wire, or what happened to a connection."""

    kind: Literal["sent", "received", "event", "left out"]
    client: Text = ""
    """Its connection; empty for what concerns the server, or several."""
    text: Text
    """The bytes, escaped and cut; of messages that are left out, how many they are."""
    time: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """Seconds of the target's clock since the first message; None if nobody knows."""
    order: Count = 0
    """The place of its command in the order that explains most; 0 if that was not searched for."""


class JobStretch(_Data):
    """A job in one state.

    Places are rows: 3 is at the fourth message, 2.5 halfway between the third and the fourth.
    """

    job: Text
    state: Literal["ready", "reserved", "delayed", "buried"]
    holder: Text = ""
    """The connection that has reserved it."""
    begin: Seconds
    end: Seconds


class Diagram(_Data):
    """A conversation in space and time, as data: ``reports.diagrams`` draws it."""

    messages: Annotated[list[DrawnMessage], Field(min_length=1, max_length=200)]
    jobs: Annotated[list[JobStretch], Field(max_length=500)] = []
    wrong: Count | None = None
    """The row that shows the deviation; None if nothing is wrong."""
    expected: Text = ""
    observed: Text = ""
    note: Text = ""
    """A remark for the reader, such as how many jobs are not shown."""


class Evidence(_Data):
    """The evidence of a deviation."""

    transcript: list[Text]
    """The lines on the wire, bytes escaped; the one that shows the deviation begins with ">"."""
    expected: Text
    observed: Text
    said: Text
    """The last that the program printed, if the suite had started it."""
    reproduce: Text
    """The command that runs the test again."""
    kept: Annotated[str, Field(pattern=r"^([\w-][\w.-]*/[\w-][\w.-]*)?$", max_length=500)] = ""
    """The file with the whole transcript, as seen from the report."""
    diagram: Diagram | None = None
    """None if there is no message to draw."""


class CauseRecord(_Data):
    """The features that failures with one cause share: forms, without numbers and names."""

    command: Text
    """The one that was answered wrongly; empty if that is unknown."""
    expected: Text
    observed: Text


class Test(_Data):
    """The result of one test."""

    id: Text
    """As pytest finds it with ``--pyargs``; of crashes, ``durability::`` and what they show."""
    requirements: Annotated[list[str], Field(min_length=1)]
    """The requirements that it tests; the first one names it."""
    verdict: Verdict
    reason: Text
    seconds: Seconds
    known: bool
    """Set if the baseline lists this deviation."""
    blocked_by: list[Text] = []
    """The requirements that are broken where it had not come to its own."""
    cause: CauseRecord | None = None
    """There if it is a deviation whose cause is recognised."""
    evidence: Evidence | None = None


class Bucket(_Data):
    """The number of measurements of at most ``upto``, and more than the bucket before."""

    upto: Seconds
    count: Count


class Measured(_Data):
    """A distribution of durations."""

    count: Count
    median: Seconds
    p90: Seconds
    p99: Seconds
    longest: Seconds
    buckets: list[Bucket]
    """In order of ``upto``, without empty ones."""

    @model_validator(mode="after")
    def _holds_all(self) -> Self:
        if not self.count or sum(bucket.count for bucket in self.buckets) != self.count:
            raise ValueError("the buckets do not hold all measurements")
        return self


class Timings(_Data):
    """The speed of the target, as the suite saw it: the machine's own delays are in it."""

    latency: Measured | None = None
    """From the last command that was sent to the reply that was waited for."""
    lateness: Measured | None = None
    """From when a timer was due to the reply that it caused; under a real clock only."""


class VitalsRecord(_Data):
    """The resources that a server took which the suite had started."""

    memory: Count
    """Bytes, at most."""
    descriptors: Count
    """Open at a time, at most."""
    cpu: Seconds
    """CPU time, in all."""


class WorldRecord(_Data):
    """A small world, and how much of it was explored."""

    name: Text
    states: Count
    transitions: Count
    taken: Count
    """Transitions that were taken on the target, with all of the state compared after each."""
    commands: dict[Text, Text]
    """For each command a character a state: 1 if all of its transitions there were taken, 0 if not,
    ! if one deviates; a blank where it has none."""


class CrashPart(_Data):
    """A part of the crashes that were tried: a conversation, damaged files, clients at work."""

    name: Text
    kind: Text
    """The things that were tried, as "states of the disk"."""
    tried: Count
    said: Text
    """More about them, such as their number of each kind."""
    rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """The number that was tried in a second; None if it was not measured."""


class Crashes(_Data):
    """The crashes of the target that were tried. What they have shown is among the tests."""

    parts: list[CrashPart]
    untried: list[Text] = []
    """The parts that were not tried, and why."""


class LeftLines(_Data):
    """Lines of a source file that were not run, with none between that was."""

    first: Count
    last: Count
    text: Text


class LeftBranches(_Data):
    """A line of a source file that was run, but not on all of its branches."""

    line: Count
    taken: Count
    branches: Count
    text: Text


class SourceFile(_Data):
    """A file of the target's source: how much of it was run, and what was not."""

    name: Text
    lines: Count
    lines_taken: Count
    branches: Count
    branches_taken: Count
    left: list[LeftLines] = []
    left_branches: list[LeftBranches] = []


class SourceCoverage(_Data):
    """The coverage of the target's own source."""

    files: list[SourceFile] = []
    lost: Count = 0
    """Servers that were ended by a signal: what they ran is not counted."""
    reason: Text = ""
    """Why nothing could be read; empty if it could."""


class Results(_Data):
    """A run of the suite on one target."""

    format: Literal["beanstalk-conformance"] = "beanstalk-conformance"
    version: Literal[1] = 1
    """Of this format; it changes when a reader of the old one would go wrong."""
    suite: SuiteRecord
    run: Run
    target: TargetRecord
    verdict: Conclusion
    health: list[Text] = []
    """Remarks on the target, such as memory that it keeps: no matter for any verdict."""
    vitals: VitalsRecord | None = None
    """None if the suite had not started the server."""
    commands: list[CommandTrait] = []
    """The commands of the profile; empty if the target was not surveyed."""
    labels: dict[Text, Text] = {}
    """More about the run: os, platform, hostname, commit, and labels of the user."""
    worlds: list[WorldRecord] = []
    """The small worlds that were explored."""
    crashes: Crashes | None = None
    """None unless the target was crashed."""
    source: SourceCoverage | None = None
    """None unless the run was asked for the coverage of the target's source."""
    gone: list[str]
    """Known deviations of the baseline that were looked for and not found."""
    requirements: list[RequirementRecord]
    """All requirements of the catalogue, in the order of the protocol text."""
    tests: list[Test]
    """All tests that were run or left out."""
    timings: Timings

    @model_validator(mode="after")
    def _refers_to_its_own(self) -> Self:
        known = {requirement.slug for requirement in self.requirements}
        named = {*self.gone, *(slug for test in self.tests for slug in test.requirements)}
        if unknown := named - known:
            raise ValueError(f"{min(unknown)[:200]} is not among the requirements")
        return self

    @property
    def deviations(self) -> list[RequirementRecord]:
        """The requirements that are not met, worst first."""
        found = [requirement for requirement in self.requirements if requirement.deviates]
        return sorted(found, key=lambda requirement: DEVIATIONS.index(requirement.verdict))

    def file(self, name: str) -> str:
        """Return the name of a file of the report: it begins with the name of the target."""
        return named(self.target.title, name)

    def encode(self) -> str:
        """Return the text of ``results.json``."""
        return self.model_dump_json(indent=1, exclude_none=True) + "\n"


def content_of(path: Path) -> bytes:
    """Return the content of a file, uncompressed if it ends in ``.gz``; raises ResultsError."""
    opened = gzip.open if path.suffix == ".gz" else Path.open
    try:
        with opened(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ResultsError(f"cannot read {path}: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ResultsError(f"{path} is longer than {MAX_BYTES >> 20} MiB")
    return data


def read_results(path: Path) -> Results:
    """Return the results in a file; raises :class:`ResultsError`."""
    data = content_of(path)
    try:
        return Results.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"]) or "the file"
        raise ResultsError(f"{path} is not the results of a run: {where}: {first['msg']}") from None


def schema() -> dict[str, Any]:
    """Return the JSON Schema of ``results.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Results.model_json_schema(mode="serialization"),
    }


if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
