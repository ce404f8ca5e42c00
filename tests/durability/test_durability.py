"""Durability: what is judged to be wrong after a crash, and the command."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.console.durability import promised
from conformance.durability.campaign import states_of
from conformance.durability.crashes import Crash, CrashKind, crashes
from conformance.durability.expected_jobs import ExpectedJobs
from conformance.durability.findings import CrashCase, grouped
from conformance.durability.inspection import Inventory, Question, inspect
from conformance.durability.judging import JobDifference, differences
from conformance.durability.operations import (
    Create,
    Idle,
    Operation,
    SendBytes,
    Sync,
    Write,
)
from conformance.durability.recording import (
    NEVER,
    RecordingFiles,
    SceneRecording,
    record,
    usual_loss,
)
from conformance.durability.recording import read as read_recording
from conformance.durability.scene_transcript import SceneTranscript, Spoken
from conformance.durability.scenes import TUBES, CrashScene, Say, put, scenes
from conformance.target.limits import USUAL
from conformance.usage import USAGE
from conformance.verdict import NotTestable
from reference_server.profiles import NEWEST, PROFILES
from tests.durability.test_disk_states import LOG, timed
from tests.servers import BEANSTALKD, needs_beanstalkd, needs_strace

# ------------------------------------------------------------ the story, and what is judged


def story(*steps: Say) -> ExpectedJobs:
    expected = ExpectedJobs(NEWEST, None)
    for second, step in enumerate(steps):
        expected.say(step, float(second))
    return expected


def inventory(**jobs: dict[str, str]) -> Inventory:
    plain = {"tube": "default", "state": "ready", "pri": "0", "ttr": "100000", "body": "x"}
    found = {int(name[1:]): {**plain, **job} for name, job in jobs.items()}
    return Inventory(began=10.0, ended=10.0, jobs=found, counted=len(found))


def wrong(
    expected: ExpectedJobs, inventory: Inventory, least: int, most: int | None = None
) -> list[tuple[str, str]]:
    moments = expected.moments[least : (least if most is None else most) + 1]
    return [(d.requirement, d.cause) for d in differences(inventory, moments, expected.ids)]


RELEASED = (put("a"), Say("reserve"), Say("release {a} 9 0"))


def test_a_job_may_be_as_before_or_after_the_command_that_was_on_its_way() -> None:
    expected = story(*RELEASED)
    assert (
        wrong(expected, inventory(j1={}), 2, 3)
        == wrong(expected, inventory(j1={"pri": "9"}), 2, 3)
        == []
    )
    assert wrong(expected, inventory(j1={}), 3) == [
        ("persistence.release-priority", "another pri, after release")
    ]
    assert wrong(expected, inventory(), 0, 1) == []
    assert wrong(expected, inventory(), 1, 2) == [("persistence.put", "a job is lost, after put")]


def test_a_job_is_lost_after_the_last_command_that_was_answered() -> None:
    on_its_way = wrong(story(*RELEASED), inventory(), 2, 3)
    assert on_its_way == [("persistence.put", "a job is lost, after put")]
    assert wrong(story(*RELEASED), inventory(), 3) == [
        ("persistence.put", "a job is lost, after release")
    ]


def test_a_story_keeps_what_is_behind_its_beginning() -> None:
    steps = (*RELEASED, put("b"), Say("reserve"), Say("bury {b} 3"), Say("kick 1"))
    whole, late = story(*steps), ExpectedJobs(NEWEST, None, 5)
    for second, step in enumerate(steps):
        late.say(step, float(second))
    assert late.moments[5:] == whole.moments[5:]
    assert not any(moment.jobs for moment in late.moments[:5])
    assert whole.moments[1].jobs["a"].by == "put"
    assert late.moments[-1].jobs["a"].by == "release"
    assert len(late.moments) == len(steps) + 1


def test_thousands_of_jobs_are_in_all_states_when_the_crashes_begin() -> None:
    scene = scenes(NEWEST, 100)[-1]
    expected = ExpectedJobs(NEWEST, None, scene.begin)
    said = [expected.say(step, 1.0) for step in scene.steps if isinstance(step, Say)]
    assert sum(reply.word == "INSERTED" for reply in said) >= 2000
    there = Counter(view.state for view in expected.moments[scene.begin].jobs.values())
    assert sum(there.values()) >= 1000
    assert min(there[state] for state in ("ready", "delayed", "buried")) >= 100
    assert {len(view.body) for view in expected.moments[-1].jobs.values()} >= {0, 10_000}


@pytest.mark.parametrize(
    ("job", "slug"),
    [
        ({"body": "y"}, "durability.whole-jobs"),
        ({"tube": "other"}, "persistence.put"),
        ({"ttr": "1"}, "persistence.priority"),
        ({"state": "reserved"}, "persistence.reserved-becomes-ready"),
        ({"buries": "1"}, "persistence.buries"),
    ],
)
def test_what_a_crash_has_changed_is_told(job: dict[str, str], slug: str) -> None:
    assert [requirement for requirement, _ in wrong(story(put("a")), inventory(j1=job), 1)] == [
        slug
    ]


def test_a_delay_that_ends_late_is_told_of_the_delay_whatever_was_on_its_way() -> None:
    expected = story(put("a"), Say("reserve"), Say("release {a} 0 100"), Say("kick 1"))
    late = inventory(j1={"state": "delayed", "time-left": "500"})
    assert wrong(expected, late, 3, 4) == [
        ("persistence.delay", "another end of the delay, after release")
    ]


def test_jobs_that_are_deleted_or_invented_are_told() -> None:
    expected = story(put("a"), Say("delete {a}"))
    assert [slug for slug, _ in wrong(expected, inventory(j1={}), 2)] == ["persistence.delete"]
    assert wrong(expected, inventory(j1={}), 1, 2) == wrong(expected, inventory(), 1, 2) == []
    assert [cause for _, cause in wrong(expected, inventory(j9={}), 2)] == [
        "a job that nobody has put"
    ]
    hidden = Inventory(counted=1)
    assert [cause for _, cause in wrong(expected, hidden, 2)] == ["jobs that cannot be found"]


def test_the_order_of_buried_jobs_is_that_of_burying() -> None:
    expected = story(put("a"), put("b"), Say("reserve"), Say("reserve"), Say("bury {b} 0"))
    expected.say(Say("bury {a} 0"), 5.0)
    jobs = {"j1": {"state": "buried"}, "j2": {"state": "buried"}}
    for order, causes in ([2, 1], []), ([1, 2], ["buried jobs in another order"]):
        found = inventory(**jobs)
        found.buried["default"] = order
        assert [cause for _, cause in wrong(expected, found, 6)] == causes


def test_a_delay_ends_when_it_would_have_ended() -> None:
    expected = story(put("a", delay=1000))
    on_time = {"state": "delayed", "time-left": "990"}
    assert wrong(expected, inventory(j1=on_time), 1) == []
    assert [s for s, _ in wrong(expected, inventory(j1={**on_time, "time-left": "999"}), 1)] == [
        "persistence.delay"
    ]


def test_a_server_that_does_not_start_is_one_cause() -> None:
    expected = story(put("a"))
    for port in (1, 2):
        ending = Inventory(ending=f"did not listen on {port}")
        assert wrong(expected, ending, 1) == [
            ("durability.starts", "the server did not listen on N")
        ]


# ------------------------------------------------------------ what must be there


def recorded(loss: float, *operations: Operation) -> SceneRecording:
    """Return a put that is answered by the 4th operation, as written down each second."""
    step = put("a")
    scene = CrashScene("one", (step,))
    return SceneRecording(
        scene,
        SceneTranscript([Spoken(step, 1, 2, 0.0, 0.0, "")]),
        timed(*operations),
        frozenset(),
        story(step),
        loss,
    )


ANSWERED = (Create(1, LOG), Write(1, 0, b"a"), Write(1, 1, b"b"), SendBytes(2))


@pytest.mark.parametrize(
    ("kind", "loss", "at", "more", "least"),
    [
        (CrashKind.KILLED, NEVER, 3, (), 0),
        (CrashKind.KILLED, NEVER, 4, (), 1),
        (CrashKind.POWER, 0.0, 4, (), 1),
        (CrashKind.POWER, 0.05, 4, (), 0),
        (CrashKind.POWER, 0.05, 5, (Sync(1),), 1),
        (CrashKind.POWER, NEVER, 5, (Idle(),), 0),
        (CrashKind.POWER, 0.05, 6, (Idle(), Idle()), 1),
        (CrashKind.POWER, 2.0, 6, (Idle(), Idle()), 0),
    ],
)
def test_what_must_be_there_was_answered_and_synced(
    kind: CrashKind, loss: float, at: int, more: tuple[Operation, ...], least: int
) -> None:
    recording = recorded(loss, *ANSWERED, *more)
    assert recording.bounds(Crash(kind, at, {}, ""))[0] == least


@pytest.mark.parametrize(
    ("loss", "begin", "kinds", "untried"),
    [
        (0.0, 0, {CrashKind.KILLED, CrashKind.TORN, CrashKind.POWER}, False),
        (0.0, 1, {CrashKind.KILLED, CrashKind.TORN, CrashKind.POWER}, False),
        (NEVER, 1, {CrashKind.KILLED}, True),
    ],
)
def test_a_large_scene_is_crashed_behind_its_beginning(
    loss: float, begin: int, kinds: set[CrashKind], untried: bool
) -> None:
    more = (Write(1, 2, b"cd"), Sync(1), Write(1, 4, b"ef"), Sync(1))
    recording = recorded(loss, *ANSWERED[:3], Sync(1), SendBytes(2), *more)
    large = replace(recording, scene=recording.scene._replace(begin=begin, points=2))
    found, outcome = states_of(large, 99)
    tried = [one.crash for state in found.values() for one in state.crashes]
    assert {one.kind for one in tried} == kinds
    assert all(large.bounds(one)[0] >= begin for one in tried)
    assert bool(outcome.untried) is untried
    assert outcome.left_out["--states"] == 0
    assert states_of(large, 1)[1].left_out["--states"] > 0


def test_a_large_scene_is_not_crashed_in_the_pause_behind_its_beginning() -> None:
    # What was put is synced in it, which is later than the 50 ms that may be lost.
    recording = recorded(0.05, *ANSWERED, Sync(1), Idle(), Write(1, 2, b"cd"), Sync(1), Idle())
    large = replace(recording, scene=recording.scene._replace(begin=1, points=9))
    found, outcome = states_of(large, 99)
    tried = [one.crash for state in found.values() for one in state.crashes]
    assert {one.kind for one in tried} >= {CrashKind.KILLED, CrashKind.TORN}
    assert min(one.at for one in tried) == 6
    assert not outcome.left_out.total()


def test_a_state_is_told_by_the_simplest_crash_that_leaves_it() -> None:
    # The rest of the write is zeros, as is what was there before it.
    zeros = (Create(1, LOG), Write(1, 0, bytes(9)), Sync(1), Write(1, 0, b"a\0\0"), SendBytes(2))
    found, outcome = states_of(recorded(0.0, *zeros), 99)
    ways = [{one.crash.kind for one in state.crashes} for state in found.values()]
    assert {CrashKind.TORN, CrashKind.KILLED} in ways
    assert outcome.states[CrashKind.KILLED] == sum(CrashKind.KILLED in kinds for kinds in ways)


def test_a_recording_without_its_replies_is_not_judged() -> None:
    crash = Crash(CrashKind.KILLED, 3, {}, "")
    recording = recorded(0.0, *ANSWERED[:3])
    assert recording.bounds(crash) == (0, 1)  # The last one may just not have been expected.
    (first,) = recording.transcript.spoken
    longer = SceneTranscript([first, first._replace(said=4)])
    with pytest.raises(NotTestable, match="how it sends its replies"):
        replace(recording, transcript=longer).bounds(crash)


def test_a_transcript_shows_the_messages_about_some_jobs() -> None:
    steps = put("a"), put("b"), Say("reserve-with-timeout 0"), Say("bury {a} 1"), Say("kick 1")
    ids, replies = (1, 2, 0, 0, 0), ("INSERTED 1", "INSERTED 2", "RESERVED 1 1", "BURIED", "KICKED")
    spoken = [
        Spoken(*one[:2], 0, 0.0, 0.0, one[2]) for one in zip(steps, ids, replies, strict=True)
    ]
    transcript = SceneTranscript(spoken)
    about_first = [
        *(r"A > put 0 0 100000 1\r\nx\r\n", "A < INSERTED 1", "… 1 command …"),
        *(r"A > reserve-with-timeout 0\r\n", "A < RESERVED 1 1"),
        *(r"A > bury 1 1\r\n", "A < BURIED"),
    ]
    assert transcript.about([1]) == [*about_first, "… 1 command …"]
    assert transcript.until(5, [1]) == [*about_first, r"A > kick 1\r\n"]
    assert len(transcript.about([])) == 10


def test_a_cause_is_told_once_with_its_simplest_crash() -> None:
    difference = JobDifference("persistence.put", "lost", "a", "b")

    def case(kind: CrashKind, at: int) -> CrashCase:
        return CrashCase(
            difference, kind, (kind is CrashKind.TORN, at), "", list, f"{kind}{at}", {}, "one"
        )

    (finding,) = grouped(
        [case(CrashKind.TORN, 1), case(CrashKind.KILLED, 9), case(CrashKind.KILLED, 5)]
    )
    assert (finding.requirement, finding.case.state) == ("persistence.put", "killed5")
    assert finding.states == {"killed": 2, "torn write": 1}
    (finding,) = grouped([case(CrashKind.TORN, 1)])
    assert finding.requirement == "durability.power-loss"


# ------------------------------------------------------------ scenes and the command


@pytest.mark.parametrize("name", [name for name in PROFILES if name not in ("0.6", "1.0")])
def test_scenes_go_on_without_waiting_in_each_profile(name: str) -> None:
    for scene in scenes(PROFILES[name], 100):
        expected = ExpectedJobs(PROFILES[name], None)
        for step in scene.steps:
            if isinstance(step, Say):
                word = expected.say(step, 1.0).word
                assert word not in ("NOT_FOUND", "TIMED_OUT", "UNKNOWN_COMMAND"), step
        assert len(expected.moments[-1].jobs) >= 2


@pytest.mark.parametrize(
    ("command", "loss", "seconds"),
    [
        ("s -b x", None, None),
        ("s -f 0", None, 0.0),
        ("s -f100", None, 0.1),
        ("s -F", None, NEVER),
        ("s -f 0", "10", 0.01),
        ("s", "never", NEVER),
    ],
)
def test_the_promise_is_read_from_the_command(
    command: str, loss: str | None, seconds: float | None
) -> None:
    assert promised(command, loss) == seconds


def test_beanstalkd_syncs_by_itself_since_1_12() -> None:
    versions = ("1.4", "1.10", "1.12", "1.13")
    assert [usual_loss(PROFILES[name]) for name in versions] == [NEVER, NEVER, 0.05, 0.05]


@pytest.mark.parametrize(
    "words",
    [
        ["--launch", "s -p {port}"],
        ["--launch", "s -p {port} [-b {binlog}]"],
        ["--launch", "s -b {binlog}"],
        ["--launch", "s -p {port} -b {binlog}", "--loss", "x"],
        ["--launch", "s -p {port} -b {binlog}", "--older", "s -p {port}"],
        [],
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str]) -> None:
    assert main(["durability", *words]) == USAGE


@needs_beanstalkd
@needs_strace
def test_beanstalkd_forgets_the_priority_that_release_has_set(tmp_path: Path) -> None:
    command = f"{BEANSTALKD} -l {{host}} -p {{port}} -b {{binlog}} -s 4096 -f 0"
    scene = scenes(NEWEST, 100)[0]
    kept = RecordingFiles.of(tmp_path, scene.name)
    record(command, scene, NEWEST, USUAL, 0.0, kept)
    recording = read_recording(kept, scene, NEWEST, 0.0)
    *_, last = (c for c in crashes(recording.operations, power=True) if c.kind is CrashKind.KILLED)
    question = Question(command, NEWEST, USUAL, tuple(recording.transcript.ids.values()), TUBES)
    least, most = recording.bounds(last)
    assert least == most == len(recording.transcript.spoken)
    moments = recording.story.moments[least : most + 1]
    found = {
        d.requirement
        for d in differences(inspect(question, last.files), moments, recording.transcript.ids)
    }
    assert {"persistence.release-priority", "persistence.buries"} <= found
    assert "persistence.put" not in found
