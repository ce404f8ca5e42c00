"""Failures of a test's set-up: they block its requirement, and are told of the one that is broken.

A requirement is blocked by another if its test has failed at a command that it is not about, in the
same way as the other's own test, which had not even to do more for it. There are five cases:

- The requirement is of a command that was not sent until then, and the other is of the one that
  was answered wrongly.
- The usual answer to the command never comes, not even in the tests of the requirement that is
  named after it, as ``put.inserted``, or else is the command's first: it does not matter which
  other answers came. If the target does not know the command at all, whatever else was expected of
  it has the same cause.
- Nothing comes instead of a reply to the command, not even in the tests of the requirement of that
  reply.
- What came is no reply at all, and replies have not even come in the order of their commands: it
  may be the rest of any reply before.
- What came is the reply to an earlier command, or a reply too many, and so it was in a test of the
  order of replies, which had sent no other commands before.

Only a must that is broken itself blocks others: what is blocked never opens the gate. In a
selection that has no test of a command of the set-up, those that fail there are tests of it, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from conformance.catalogue import catalogue
from conformance.run.step import SILENCE, Cause, Step
from conformance.target.silences import THE_END
from reference_server.commands import COMMANDS, VERBS
from reference_server.wire import UNKNOWN_COMMAND
from reports.results import Test
from reports.verdicts import Verdict

IN_STEP = "protocol.serial-replies"
"""The requirement of who sends what is no reply, if no command is to blame."""
NO_REPLY = "no reply of the protocol"
"""The words in which the codec tells of bytes that are no reply."""
SET_UP = frozenset(("use", "watch", "ignore"))
"""Commands that each client sends, whatever a test is about."""
_COMMAND = re.compile(rf"(?<![\w-])({'|'.join(sorted(VERBS, key=len, reverse=True))})(?![\w-])")


class _Failure(NamedTuple):
    """A failed test, by its number, as one of its requirements sees it."""

    test: int
    slug: str
    step: Step


def blockers(tests: Sequence[Test], steps: Sequence[Step | None]) -> Mapping[tuple[int, str], str]:
    """Return who blocks whom: by a test's number and its requirement, another requirement.

    ``steps`` tell where each of the tests has deviated, if it has.
    """
    passed = {s for test in tests if test.verdict is Verdict.PASS for s in test.requirements}
    found = _out_of_step(tests, steps)
    roots: defaultdict[object, list[_Failure]] = defaultdict(list)
    # Each requirement is blocked by those of an earlier rank only: this goes in no circle.
    for rank in _ranked(tests, steps):
        own: list[_Failure] = []
        for failure in rank:
            if (failure.test, failure.slug) in found:
                continue
            akin = [
                root
                for kind in (*_kinds(failure), _usual(failure))
                for root in roots[kind]
                if root.slug != failure.slug
            ]
            if blocking := [root for root in akin if _blocks(root, failure, passed)]:
                found[failure.test, failure.slug] = min(blocking, key=_order).slug
            elif tests[failure.test].verdict is Verdict.FAIL:
                own.append(failure)
        for failure in own:
            roots[_kinds(failure)[-1 if failure.slug == IN_STEP else 0]].append(failure)
            if _is_never_answered(failure, passed):
                roots[_usual(failure)].append(failure)
    return found


def _out_of_step(tests: Sequence[Test], steps: Sequence[Step | None]) -> dict[tuple[int, str], str]:
    """Return the failures that replies too many explain, as :func:`blockers` does."""
    failed = [
        (number, test, {*step.before} - SET_UP)
        for number, (test, step) in enumerate(zip(tests, steps, strict=True))
        if step is not None and not step.lost and step.is_out_of_step
    ]
    shown = [
        before
        for _, test, before in failed
        if IN_STEP in test.requirements and test.verdict is Verdict.FAIL
    ]
    return {
        (number, slug): IN_STEP
        for number, test, before in failed
        if IN_STEP not in test.requirements and any(less <= before for less in shown)
        for slug in test.requirements
    }


def with_set_up(tests: Sequence[Test], steps: Sequence[Step | None]) -> list[Test]:
    """Return the tests, those that failed in their set-up as tests of that command, too.

    But only where none that is about it was run, as in a selection, and where the command is to
    blame: it was not answered before, and the target was not lost.
    """
    ran = {"", *(slug for test in tests for slug in test.requirements)}
    found = list(tests)
    for number, (test, step) in enumerate(zip(tests, steps, strict=True)):
        if step is None or step.lost or step.cause.command in step.before:
            continue
        if step.cause.command in SET_UP and (slug := _answered(step.cause)) not in ran:
            found[number] = test.model_copy(update={"requirements": [*test.requirements, slug]})
    return found


def _ranked(tests: Sequence[Test], steps: Sequence[Step | None]) -> tuple[list[_Failure], ...]:
    """Return the failures by what they are about, see :func:`_rank`."""
    ranks: tuple[list[_Failure], ...] = ([], [], [], [])
    for number, (test, step) in enumerate(zip(tests, steps, strict=True)):
        if step is None or not step.cause.command or step.lost:
            continue
        for slug in test.requirements:
            ranks[_rank(slug, step.cause)].append(_Failure(number, slug, step))
    return ranks


def _rank(slug: str, cause: Cause) -> int:
    """Return what a failure is about: a usual answer, any replies, the command, or others."""
    if slug == _answered(cause):
        return 0
    if slug == IN_STEP and cause.observed.startswith(NO_REPLY):
        return 1
    return 2 if _section(slug) == _family(cause.command) else 3


def _kinds(failure: _Failure) -> list[object]:
    """Return what failures have in common that may have one cause."""
    cause = failure.step.cause
    kind = cause.command if cause.observed == UNKNOWN_COMMAND.word else cause
    return [kind, cause.observed] if cause.observed.startswith(NO_REPLY) else [kind]


def _usual(failure: _Failure) -> tuple[str, str]:
    """Return the command and the requirement of its usual answer, whatever came instead of it."""
    cause = failure.step.cause
    return cause.command, _answered(cause)


def _is_never_answered(root: _Failure, passed: Collection[str]) -> bool:
    """Return whether the usual answer to its command never comes, as its own test shows."""
    return root.slug == _answered(root.step.cause) and root.slug not in passed


def _blocks(root: _Failure, failure: _Failure, passed: Collection[str]) -> bool:
    command, never = root.step.cause.command, _is_never_answered(root, passed)
    # Where it was answered before, something else is the matter.
    first = command not in root.step.before and command not in failure.step.before
    observed = {root.step.cause.observed, failure.step.cause.observed}
    if never and first and observed == {UNKNOWN_COMMAND.word}:
        # Whatever was done before, the command is not known.
        return True
    if not _had_less_to_do(root, failure):
        return False
    if root.slug == IN_STEP:
        return root.slug not in passed
    if never:
        return first
    if _is_silent(root, passed) and root.step.cause == failure.step.cause:
        return True
    own = _own_commands(failure.slug)
    sent = {_family(verb) for verb in (*failure.step.before, failure.step.cause.command)}
    begun = _section(failure.slug) not in own or not own.isdisjoint(sent)
    return failure.step.cause.is_of_reply and not begun


def _is_silent(root: _Failure, passed: Collection[str]) -> bool:
    """Return whether this reply to its command never comes, as its own test shows: nothing does.

    The end of the connection is one, too.
    """
    cause = root.step.cause
    own = _section(root.slug) in (_family(cause.command), cause.command.partition("-")[0])
    is_one = bool(cause.answer) or cause.expected == THE_END
    return own and root.slug not in passed and is_one and cause.observed == SILENCE


def _had_less_to_do(root: _Failure, failure: _Failure) -> bool:
    """Return whether nothing was done before one failure that was not done before the other, too.

    And nothing that the other is about: it might be that which is wrong.
    """
    earlier = {*root.step.before} - SET_UP
    own = _own_commands(failure.slug) - {_family(root.step.cause.command)}
    return (
        earlier <= {*failure.step.before, failure.step.cause.command}
        and own.isdisjoint(map(_family, earlier))
        and root.step.timed <= failure.step.timed
        and root.step.eventful <= failure.step.eventful
    )


@cache
def _answered(cause: Cause) -> str:
    """Return the requirement of a command's usual answer; empty if another one was expected."""
    if cause.answer not in COMMANDS[cause.command].replies[:1]:
        return ""
    family = _family(cause.command)
    slugs = [slug for slug in catalogue() if _section(slug) == family]
    named = f"{family}.{cause.answer.lower()}"
    return named if named in slugs else slugs[0]


def _order(failure: _Failure) -> tuple[bool, int, int]:
    """Return where a failure stands: the usual answer, few messages, early in the text."""
    is_usual = failure.slug == _answered(failure.step.cause)
    return not is_usual, failure.step.messages, list(catalogue()).index(failure.slug)


def _section(slug: str) -> str:
    return slug.partition(".")[0]


@cache
def _family(verb: str) -> str:
    """Return how slugs name a command: ``peek`` for all that show a job."""
    known = {_section(slug) for slug in catalogue()}
    while verb and verb not in known:
        verb = verb.rpartition("-")[0]
    return verb


@cache
def _own_commands(slug: str) -> frozenset[str]:
    """Return the families of commands that a requirement is about, as far as its words tell."""
    section, _, rest = slug.partition(".")
    told = {section, rest.removeprefix("cmd-"), *_COMMAND.findall(catalogue()[slug].clause)}
    return frozenset(_family(verb) for verb in told if verb in VERBS)
