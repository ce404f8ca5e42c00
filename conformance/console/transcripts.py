"""``check`` and ``replay``: judge recorded conversations, or run them again."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import click

from conformance.captures.files import MAGIC_SIZE, is_capture
from conformance.console.captures import check_capture, check_trace
from conformance.console.progress import ProgressBar
from conformance.console.recorded_file import FILE, PROFILE, lines_of, name_of, opened
from conformance.oracle.check import Finding, TranscriptVerdict, judgement
from conformance.printable import printable
from conformance.random_testing.confined import Unsafe
from conformance.random_testing.replay_verdict import replayed
from conformance.recorded import Recorded, RecordedConversation
from conformance.run.named_target import names_target
from conformance.run.options import Options
from conformance.target.address import TargetError
from conformance.target.command import LaunchError
from conformance.target.system_calls import is_strace
from conformance.target.watchdog import take_endings_for_interrupts
from conformance.transcript import RESTARTS, Claim, NotATranscript, Transcript, rendered
from conformance.usage import INTERRUPTED, ConsoleCommand, refuse
from conformance.verdict import GOES_ON, Inconclusive, NotTestable
from fuzz.undefined_input import is_wild, steps_of, survives
from reference_server.profiles import Profile
from reports.words import counted


@click.command(cls=ConsoleCommand)
@FILE
@PROFILE
def check(file: Path, profile: Profile) -> int:
    """Judge a recorded transcript or a packet capture, without any server.

    A capture (pcap or pcapng) is judged as the proxy judges. Its servers are recognised by what is
    said, at any port. The output of strace is judged likewise.

    Exit code 0: the text allows it, 1: it does not, or it is not decided.
    """
    with opened(file) as begun:
        begin = begun.peek(MAGIC_SIZE)
        if is_capture(begin):
            return check_capture(name_of(file), begun, profile)
        if is_strace(begin.partition(b"\n")[0].decode("latin-1")):
            return check_trace(name_of(file), begun, profile)
        recorded = _read(file, begun)
    progress = ProgressBar("judged")
    try:
        judged = judgement(recorded, profile, progress.show)
    except Inconclusive as error:
        print(f"not decided: {error}")
        return 1
    finally:
        progress.end()
    if judged.finding is None and recorded.claim is not None:
        return _undecided(recorded.claim)
    return _print_verdict(recorded, judged, profile)


@click.command(cls=ConsoleCommand)
@FILE
@names_target("auto")
@click.option(
    "--unsafe",
    is_flag=True,
    help="send the recorded bytes even if that changes jobs of others: for a private server",
)
def replay(file: Path, options: Options, unsafe: bool) -> int:
    """Replay a recorded transcript on a server, and judge it.

    On a server that runs already, it is confined to tubes and jobs of its own, and leaves nothing
    there. Exit codes are those of check.
    """
    if not options.names_server:
        raise refuse("give --target or --launch: on which server?")
    with opened(file) as begun:
        recorded = _read(file, begun)
    transcript = Transcript(list(recorded.entries), recorded.begins, recorded.claim)
    take_endings_for_interrupts()
    try:
        return _replay(transcript, options, unsafe)
    except Unsafe as error:
        raise refuse(f"{error}; --unsafe sends it to a server that is yours alone") from None
    except (TargetError, LaunchError, NotTestable) as error:
        raise refuse(str(error)) from None
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED


def _read(file: Path, begun: io.BufferedReader) -> Recorded:
    name = name_of(file)
    progress = ProgressBar("read")
    try:
        recorded = Recorded.of(progress.watch(lines_of(begun)))
    except OSError as error:
        raise refuse(f"cannot read {name}: {error.strerror}") from None
    except (NotATranscript, UnicodeDecodeError) as error:
        raise refuse(f"{name}: {error}") from None
    finally:
        progress.end()
    if not recorded.entries:
        raise refuse(f"{name} is empty: there is no transcript in it")
    return recorded


def _replay(transcript: Transcript, options: Options, unsafe: bool) -> int:
    """Drive a transcript again; raises TargetError, LaunchError, NotTestable or Unsafe."""
    target = options.target()
    try:
        profile = options.recognise(target)
        if any(entry.data == RESTARTS and not entry.connection for entry in transcript.entries):
            # With its log, if it has one.
            with contextlib.suppress(NotTestable):
                target, first = target.fresh(binlog=True), target
                target.profile = profile
                first.close()
        if is_wild(transcript, profile):
            if not (target.exclusive or unsafe):
                raise NotTestable("these bytes may mean anything: --unsafe sends them all the same")
            wrong = survives(target, steps_of(transcript)).wrong
            lost = Finding(len(transcript.entries) - 1, GOES_ON, str(wrong), "must")
            shown, finding, counts = transcript, lost if wrong else None, False
        else:
            shown, finding = replayed(target, profile, transcript, unsafe)
            counts = bool(shown.entries)
    except Inconclusive as error:
        print(f"not decided: {error}")
        return 1
    finally:
        target.close()
        if remark := options.leave():
            print(remark)
    if finding is None and (claim := transcript.claim) is not None:
        with contextlib.suppress(Inconclusive):
            if judgement(transcript, profile).finding is None:
                return _undecided(claim)
    code = _print_verdict(shown, TranscriptVerdict(finding), profile)
    if counts and shown.begins is None:
        why = "it had jobs before, or does not report all of them"
        why = why if target.exclusive else "others may use it"
        print(f"the counters of the target were not compared, as {why}")
    return code


def _undecided(claim: Claim) -> int:
    """Print that the observation of a failure is not in its messages; return the exit code."""
    about = f" of {claim.requirement}" if claim.requirement else ""
    print(
        f"not decided: the messages are allowed, and do not show what the failure{about}"
        f" observed: {printable(claim.observed)}"
    )
    return 1


def _print_verdict(
    recorded: RecordedConversation, judged: TranscriptVerdict, profile: Profile
) -> int:
    """Print the verdict on a transcript, and return the exit code."""
    if (finding := judged.finding) is None:
        print(f"allowed by profile {profile.name}: {counted(len(recorded.entries), 'message')}")
        if judged.awaited:
            missing = " or ".join(map(printable, judged.awaited))
            print(f"not judged: the transcript ends before this had to come: {missing}")
        for sentence in judged.explanations:
            print(printable(sentence))
        return 0
    print("TRANSCRIPT", rendered(recorded.entries, finding.position), sep="\n")
    print(f"EXPECTED  {finding.expected}\nOBSERVED  {finding.observed}")
    print(f"LEVEL     {finding.level}" + (f": {finding.about}" if finding.about else ""))
    return int(finding.level == "must")
