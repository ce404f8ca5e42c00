"""Drain mode, in which a server takes no more jobs ("Producer Commands": put, DRAINING)."""

from conformance.catalogue import catalogue
from conformance.dialogue.scenario import Connect
from conformance.target.signals import named
from conformance.target.target import Target
from conformance.verdict import TargetLost
from reference_server.profiles import Profile
from reference_server.wire import DRAINING


def is_told(profile: Profile) -> bool:
    """Return whether the text of a profile says how a server is put into drain mode."""
    return catalogue()["put.draining"].judged_by(profile.stage).level == "must"


def drain(server: Target, connect: Connect) -> None:
    """Put a server into drain mode, and jobs until it has noticed the signal."""
    server.signal(named("SIGUSR1"))
    put = b"put 9 0 60 1\r\na\r\n"
    try:
        # Where a put is refused at once, its body may be taken for a command.
        drains = connect().eventually(lambda: connect().raw(put, replies=2).any_reply() == DRAINING)
    except TargetLost as lost:
        # Where the text names no signal, a server need not expect one, and the system ends it.
        lost.de_facto = not is_told(server.profile) and lost.observed.endswith("SIGUSR1")
        raise
    assert drains, "put was never answered DRAINING"
