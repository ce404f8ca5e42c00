"""Replays recorded transcripts as programs on a live target."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.oracle.diagnosis import Diagnosis
from conformance.oracle.violation import Violation
from conformance.random_testing.session import Session
from conformance.random_testing.steps import Ask, Happen, Leave, Program, Step, Wait
from conformance.target.target import Target
from conformance.transcript import (
    CLIENT_ENDS,
    CONTINUES,
    GRAIN,
    STOPS,
    Transcript,
)
from conformance.verdict import GOES_ON, Outage, OutcomeKind
from reference_server.commands import ABOUT_A_JOB, any_of
from reference_server.wire import CRLF, ProtocolError, ReplyReader

_PUT = re.compile(rb"put +[0-9]+ +[0-9]+ +[0-9]+ +([0-9]{1,10})")
_ABOUT_A_JOB = re.compile(rb"(%b) +([0-9]{1,20})(?=[ \r])" % any_of("stats", *ABOUT_A_JOB))
_OUTCOMES = ("INSERTED", "EXPECTED_CRLF", "JOB_TOO_BIG", "DRAINING")
"""Replies that a put can get."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A program that shows a violation, with the violation and the transcript."""

    program: Program
    violation: Violation
    transcript: Transcript
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict, compare=False, repr=False)
    """Its diagnoses so far, by the names of profiles: each takes time."""

    @property
    def shown(self) -> Transcript:
        """The transcript up to the message that shows it."""
        return self.transcript.until(self.violation.mark)


def as_observed(violation: Violation, target: Target) -> Violation:
    """Return the violation; if the target is gone, that is what was observed."""
    outage = target.outage() if violation.is_end else None
    if outage is None:
        return violation
    return Violation(violation.expected, str(outage), violation.mark, outage)


def lost(error: OSError, session: Session) -> Violation:
    """Return the violation of a target that accepts no connections, or is gone otherwise."""
    outage = session.target.outage() or Outage(OutcomeKind.GONE, str(error))
    return Violation([GOES_ON], str(outage), session.transcript.last, outage)


def program_of(transcript: Transcript) -> list[Step]:
    """Return the actions of a transcript's clients; jobs are named by the number of their put."""
    tags = _tags(transcript)
    clients: dict[str, int] = {}
    steps: list[Step] = []
    puts, held = 0, False
    waited = transcript.entries[0].time if transcript.entries else 0.0
    for entry in transcript.entries:
        if entry.direction == "+":
            if (seconds := round(entry.time - waited, 3)) >= GRAIN:
                # What was received meanwhile is no step.
                waited += seconds
                if steps and isinstance(last := steps[-1], Wait):
                    seconds = round(last.seconds + seconds, 3)
                    steps.pop()
                steps.append(Wait(seconds))
            continue
        if entry.data in (STOPS, CONTINUES) and not entry.connection:
            # It would answer nothing meanwhile. Nobody waits for replies instead.
            held = entry.data == STOPS
            continue
        if not entry.connection:
            steps.append(Happen(entry.data))
            continue
        number = clients.setdefault(entry.connection, len(clients) + 1)
        if entry.direction == ">":
            for index, command in enumerate(commands(entry.data)):
                ask = Ask(number, command, apart=index == 0, hasty=held)
                about = _ABOUT_A_JOB.match(command)
                tag = tags.get(int(about[2])) if about else None
                if _PUT.match(command):
                    ask = ask._replace(tag=puts)
                    puts += 1
                elif about and tag is not None:
                    text = about[1] + b" %d" + command[about.end() :].replace(b"%", b"%%")
                    ask = ask._replace(text=text, job=tag)
                steps.append(ask)
        elif entry.data in CLIENT_ENDS:
            steps.append(Leave.by(number, entry.data))
    return steps


def commands(data: bytes) -> Iterator[bytes]:
    """Yield the lines of what a client has sent, those of puts with their bodies."""
    at = 0
    while at < len(data):
        end = data.find(CRLF, at)
        end = len(data) if end < 0 else end + len(CRLF)
        put = _PUT.match(data, at, end)
        if put:
            end += int(put[1]) + len(CRLF)
        yield data[at:end]
        at = end


def _tags(transcript: Transcript) -> dict[int, int]:
    """Return which put, counted from 0 over all clients, has made the job with an id."""
    puts: defaultdict[str, list[int]] = defaultdict(list)
    outcomes: defaultdict[str, list[int | None]] = defaultdict(list)
    readers: defaultdict[str, ReplyReader] = defaultdict(ReplyReader)
    count = 0
    for entry in transcript.entries:
        if entry.direction == ">":
            for command in commands(entry.data):
                if _PUT.match(command):
                    puts[entry.connection].append(count)
                    count += 1
        elif entry.direction == "<":
            reader = readers[entry.connection]
            reader.receive(entry.data)
            try:
                while (reply := reader.next_reply()) is not None:
                    if reply.word in _OUTCOMES:
                        id = int(reply.args[0]) if reply.args else None
                        outcomes[entry.connection].append(id)
            except ProtocolError:
                continue
    return {
        id: number
        for name, numbers in puts.items()
        for number, id in zip(numbers, outcomes[name], strict=False)
        if id is not None
    }
