"""Drain mode, in which a server accepts no more jobs ("Producer Commands": put, DRAINING)."""

import time

from conformance.catalogue import catalogue
from conformance.dialogue.grace_period import STEP
from conformance.dialogue.reply_wait import Awaiting
from conformance.dialogue.scenario import Connect
from conformance.target.signals import named
from conformance.target.target import Target
from conformance.usual_answers import DRAINING, DRAINS
from conformance.verdict import Deviation, OutcomeKind, Step, TargetLost
from reference_server import wire
from reference_server.profiles import Profile


def is_documented(profile: Profile) -> bool:
    """Return whether the text of a profile says how a server is put into drain mode."""
    return catalogue()[DRAINING].judged_by(profile.stage).level == "must"


def drain(server: Target, connect: Connect) -> None:
    """Put a server into drain mode, and jobs until it has noticed the signal.

    A server that does not enter it breaks put.draining, whatever the test is about.
    """
    try:
        _drain(server, connect)
    except Deviation as deviation:
        deviation.owner = DRAINING
        raise


def _drain(server: Target, connect: Connect) -> None:
    server.signal(named(DRAINS))
    put = b"put 9 0 60 1\r\na\r\n"
    wait, drains = Awaiting(server, server.limits.reply), False
    try:
        while not drains and wait.left > 0:
            # Where a put is refused at once, its body may be taken for a command.
            if not (drains := connect().raw(put, replies=2).any_reply() == wire.DRAINING):
                # A process busy with puts would seem to be kept from a CPU.
                time.sleep(STEP)
    except TargetLost as lost:
        # Where the text names no signal, a server need not expect one, and the system ends it.
        lost.de_facto = not is_documented(server.profile) and lost.outage.signal == named(DRAINS)
        raise
    if not drains:
        step = Step(OutcomeKind.WRONG_REPLY, "put", (wire.DRAINING.word,))
        observed = "put was never answered DRAINING"
        raise Deviation(str(wire.DRAINING), observed, conclusive=True, step=step)
