"""The requirement that a failed test breaks, and those that it blocks.

A test fails at one exchange. If that belongs to the set-up, or to an observation that went wrong,
the exchange has an owner: the owner is broken, and what the test is about was not tested. A random
test fails only for what no directed test explains.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.catalogue import catalogue
from conformance.target.sanitizers import last_words
from conformance.target.traits import Traits
from conformance.usual_answers import (
    DRAINING,
    DRAINS,
    GIVES_JOBS,
    HOLDS_BACK,
    IN_STEP,
    OVERLAP,
    REPORTED_BY,
    SERIALLY,
    WAKES_CLIENTS,
    key_requirement,
    usual_answer,
)
from conformance.verdict import GOES_ON, WRONG_VALUE, Deviation, OutcomeKind, Step, TargetLost
from reference_server.commands import COMMANDS
from reference_server.wire import BAD_FORMAT, NOT_FOUND, TIMED_OUT, UNKNOWN_COMMAND
from reports.grouping import RANDOM
from reports.results import CauseRecord, Test
from reports.verdicts import DEVIATIONS, Verdict

_REFUSED = ".bad-format"
"""The end of the slugs about refused lines."""
_JOB, _NO_JOB = frozenset(("RESERVED", "FOUND")), (TIMED_OUT.word, NOT_FOUND.word)
"""Replies that give or show a job, and those instead of it."""
_BY_STATE = ("state", "current-jobs-")
"""The beginnings of the keys that depend on the states of jobs."""


@dataclass(frozen=True, slots=True)
class Blame:
    """The exchange at which a test failed, and the requirement that it belongs to.

    ``owner``: the requirement that is broken; empty if it is the one under test. ``suspects``:
    those that explain a finding of a random test, a reply that other commands get, or the loss of a
    target at a command whose own tests pass.
    """

    step: Step = WRONG_VALUE
    owner: str = ""
    suspects: tuple[str, ...] = ()

    @property
    def key(self) -> object:
        """The features that failures with one cause have in common."""
        if self.step.kind.is_loss:
            return OutcomeKind.GONE, self.step.command
        return self.step


def blame_of(deviation: Deviation, traits: Traits) -> Blame:
    """Return the blame for a deviation of a target with these traits."""
    step, suspects = deviation.step, deviation.suspects
    if _is_unknown(step, traits):
        # Whatever the test is about, and however it has sent the command.
        return Blame(step, usual_answer(step.command, traits.profile))
    if isinstance(deviation, TargetLost) and deviation.outage.signal == getattr(
        signal, DRAINS, None
    ):
        # Nobody sends that signal but the suite, whatever the test was about.
        return Blame(step, DRAINING)
    return Blame(step, deviation.owner, suspects)


def _is_unknown(step: Step, traits: Traits) -> bool:
    """Tell whether a step failed because the target does not know the command."""
    return step.came == UNKNOWN_COMMAND.word and step.command in traits.unknown


def cause_of(blame: Blame, traits: Traits, said: str = "") -> CauseRecord | None:
    """Return the cause of a failure: equal for failures that look the same.

    All commands that the target does not know are one cause, and so are all crashes of which it has
    ``said`` the same. None if the failure has nothing that others could have in common with it: it
    is about no command, and no value with a name.
    """
    step = blame.step
    if _is_unknown(step, traits):
        return CauseRecord(
            command="", expected="a command that the target knows", observed=step.came
        )
    if step.kind.is_loss and blame.owner == DRAINING:
        # A server without drain mode does not crash by itself.
        return CauseRecord(command="", expected="drain mode", observed=f"ended by {DRAINS}")
    if step.kind.is_loss:
        words = last_words(said)
        if words:
            return CauseRecord(command="", expected=GOES_ON, observed=f"{step.kind}: {words}")
        return CauseRecord(command=step.command, expected=GOES_ON, observed=step.kind)
    expected = " or ".join(f"{word} …" if word else "a reply" for word in step.words)
    if not (step.command or expected or step.subject):
        return None
    return CauseRecord(
        command=step.command,
        expected=expected or step.subject or "as the text says",
        observed=step.came or step.kind,
    )


@dataclass(frozen=True, slots=True)
class Attribution:
    """A test, all requirements that it judges, and for each blocked one the broken one.

    ``blocked``: for each requirement that was not tested, the one that is broken.
    """

    test: Test
    blocked: Mapping[str, str]


def attribute(
    tests: Sequence[Test], blames: Sequence[Blame | None], is_must: Callable[[str], bool]
) -> list[Attribution]:
    """Attribute each failed test to a requirement; ``blames`` has None for the other tests."""
    # A failure that a requirement of the test itself explains belongs to it, whichever step failed.
    blames = [
        replace(blame, owner=own)
        if blame and blame.owner and (own := _own_suspect(test, blame))
        else blame
        for test, blame in zip(tests, blames, strict=True)
    ]
    anywhere = _anywhere(_failed(tests, blames))
    blames = [
        replace(blame, owner=next(filter(None, blame.suspects), SERIALLY))
        if blame and test.cause in anywhere
        else blame
        for test, blame in zip(tests, blames, strict=True)
    ]
    failed = _failed(tests, blames)
    broken = {slug for test, blame in failed if _is_own(test, blame) for slug in test.requirements}
    broken |= {blame.owner for test, blame in failed if blame.owner in test.requirements}
    explained = {
        _key(test, blame): _most_basic(test.requirements[0], broken)
        for test, blame in reversed(failed)
        # Failures at no certain command need not have anything in common.
        if _is_own(test, blame) and blame.step.command
    }
    # What explains a finding of commands in sequence may explain one of clients at the same time.
    in_sequence = broken.intersection(
        _explanation(test, blame, broken, explained)
        for test, blame in failed
        if _is_random(test) and not blame.owner and OVERLAP not in test.requirements
    )
    blames = [
        replace(blame, suspects=(*blame.suspects, *sorted(in_sequence)))
        if blame and OVERLAP in test.requirements
        else blame
        for test, blame in zip(tests, blames, strict=True)
    ]
    return [
        _attributed(test, blame, broken, explained, is_must)
        for test, blame in zip(tests, blames, strict=True)
    ]


def _failed(tests: Sequence[Test], blames: Sequence[Blame | None]) -> list[tuple[Test, Blame]]:
    return [
        (test, blame)
        for test, blame in zip(tests, blames, strict=True)
        if blame is not None and test.verdict in DEVIATIONS
    ]


def _anywhere(failed: Iterable[tuple[Test, Blame]]) -> set[CauseRecord]:
    """Return the causes of crashes at several commands of which the target has said the same.

    None of these commands was under test: it is the conversation that has led to the crash, and so
    it is where one of them was under test by chance.
    """
    commands: dict[CauseRecord, set[str]] = {}
    for test, blame in failed:
        cause, owner = test.cause, blame.owner
        if not blame.step.kind.is_loss or not owner or owner in test.requirements:
            continue
        if cause and (cause.command, cause.expected) == ("", GOES_ON):
            commands.setdefault(cause, set()).add(blame.step.command)
    return {cause for cause, several in commands.items() if len(several) > 1}


def _key(test: Test, blame: Blame) -> object:
    """Return the key of a failure, and whether it is an end for want of memory.

    Such an end is a de-facto deviation, and explains none of a server that has memory.
    """
    return blame.key, blame.step.kind.is_loss and test.verdict is Verdict.NON_STRICT


def _is_random(test: Test) -> bool:
    return not RANDOM.isdisjoint(test.requirements)


def _own_suspect(test: Test, blame: Blame) -> str:
    """Return the first suspect that is a requirement of the test itself; empty if none is."""
    return next((slug for slug in blame.suspects if slug in test.requirements), "")


def _is_own(test: Test, blame: Blame) -> bool:
    """Tell whether a directed test failed at what it tests."""
    return not (blame.owner or _is_random(test))


def _attributed(
    test: Test,
    blame: Blame | None,
    broken: set[str],
    explained: Mapping[object, str],
    is_must: Callable[[str], bool],
) -> Attribution:
    if blame is None or test.verdict not in DEVIATIONS:
        return Attribution(test, {})
    owner = blame.owner
    if known := _known_reply(test, blame, broken):
        owner = known
    elif owner and owner not in broken | RANDOM:
        # A directed test may have failed in the same way: that is its requirement. What only
        # happens among other tests was tried alone before.
        unexplained = blame.suspects[0] if blame.step.kind.is_loss and blame.suspects else owner
        base = _broken_base(owner, broken) or _base_of(test, blame.step, broken)
        owner = explained.get(_key(test, blame), base or unexplained)
    elif not owner and _is_random(test):
        owner = _explanation(test, blame, broken, explained)
    elif not owner and blame.step.kind.is_loss:
        owner = next(_broken_suspects(test, blame, broken), "")
    elif not owner:
        owner = _base_of(test, blame.step, broken)
    if owner in broken and not _is_mute(blame.step):
        owner = _most_basic(owner, broken)
    if not owner:
        return Attribution(test, {})
    blocked = {slug: owner for slug in test.requirements if slug != owner}
    if owner not in broken:
        # Its own tests have passed, or were not run: it fails in this situation.
        changes: dict[str, object] = {"requirements": [*blocked, owner]}
        if not (is_must(owner) or blame.step.kind.is_loss):
            changes["verdict"] = Verdict.NON_STRICT
        test = test.model_copy(update=changes)
    return Attribution(test, blocked)


def _is_mute(step: Step) -> bool:
    """Tell whether a command that never waits got no reply: what it is about is no reason."""
    grammar = COMMANDS.get(step.command)
    return step.kind is OutcomeKind.NO_REPLY and grammar is not None and not grammar.waits


def _known_reply(test: Test, blame: Blame, broken: set[str]) -> str:
    """Return the broken requirement that a reply in a directed test belongs to; else empty.

    So do its absence, and the end of the connection. Which error a malformed line gets is the very
    matter of some tests.
    """
    if blame.step.kind.is_loss or _is_random(test):
        return ""
    is_of_errors = (
        not blame.owner
        and blame.step.came not in ("", *blame.step.words)
        and any(slug.startswith("error.") or slug.endswith(_REFUSED) for slug in test.requirements)
    )
    known = _broken_suspects(test, blame, broken)
    return next((slug for slug in known if slug == IN_STEP or not is_of_errors), "")


def _base_of(test: Test, step: Step, broken: set[str]) -> str:
    """Return the broken requirement that all of a test's own presuppose; empty if there is none.

    A line that must be refused presupposes none of what it would do.
    """
    if step.kind is OutcomeKind.WRONG_REPLY and BAD_FORMAT.word in step.words:
        return ""
    bases = {_broken_base(slug, broken) for slug in test.requirements}
    return bases.pop() if len(bases) == 1 else ""


def _broken_base(slug: str, broken: set[str]) -> str:
    """Return the most basic broken requirement that this one presupposes; empty if none is."""
    bases = (_most_basic(base, broken) for base in catalogue()[slug].presupposes)
    return next(filter(None, bases), "")


def _most_basic(slug: str, broken: set[str]) -> str:
    """Return the most basic broken one of this requirement and all that it presupposes."""
    return _broken_base(slug, broken) or (slug if slug in broken else "")


def _broken_suspects(test: Test, blame: Blame, broken: set[str]) -> Iterator[str]:
    """Yield the suspects that are broken, apart from the requirements of the test itself."""
    suspects = (*blame.suspects, *_suspects_of(blame.step, broken))
    found = (_most_basic(slug, broken) for slug in suspects if slug)
    return (slug for slug in found if slug and slug not in test.requirements)


def _suspects_of(step: Step, broken: set[str]) -> Sequence[str]:
    """Return the requirements that explain any failure of this kind, if they are broken.

    That of a wrong value is one of them: where its own tests pass, it is the state that is wrong,
    not what is reported of it.
    """
    if step.kind is OutcomeKind.WRONG_VALUE and step.command and step.subject:
        of_value = f"{step.command}.{step.subject}-"
        longer = sorted(slug for slug in broken if slug.startswith(of_value))
        of_state = HOLDS_BACK if step.subject.startswith(_BY_STATE) else ()
        return key_requirement(step.command, step.subject), *longer, *of_state
    if step.came == "USING" and "USING" in step.words:
        return (REPORTED_BY["tube_used"],)
    if step.came == "RESERVED":
        return HOLDS_BACK
    if step.came == "FOUND" and "FOUND" not in step.words:
        return ("delete.entirely", *HOLDS_BACK)
    if step.came == "OK" and NOT_FOUND.word in step.words:
        return tuple(broken & {f"{step.command}.not-found"})
    if "RESERVED" in step.words and step.kind is OutcomeKind.NO_REPLY:
        return GIVES_JOBS + WAKES_CLIENTS
    if step.came in _NO_JOB and not _JOB.isdisjoint(step.words):
        return GIVES_JOBS
    return ()


def _explanation(
    test: Test, blame: Blame, broken: set[str], explained: Mapping[object, str]
) -> str:
    """Return the requirement that explains a finding of a random test; empty if none does."""
    if known := next(_broken_suspects(test, blame, broken), ""):
        return known
    if (same := explained.get(_key(test, blame))) is not None:
        return same
    if blame.step.kind is OutcomeKind.NO_REPLY and IN_STEP in broken:
        # It may have been sent after something else.
        return IN_STEP
    return blame.suspects[0] if len(blame.suspects) == 1 else ""
