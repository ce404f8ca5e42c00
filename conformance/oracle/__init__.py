r"""The oracle decides whether a conversation is allowed, whatever the text leaves unspecified.

A recorded conversation is judged in three lines, without any target:

>>> from conformance.oracle import check, parse
>>> finding = check(parse(r'''
... A > put 0 0 60 5\r\nhello\r\nreserve\r\n
... A < INSERTED 1\r\n
... A < RESERVED 1 5\r\nhello\r\n
... B > delete 1\r\n
... B < DELETED\r\n
... '''))
>>> print(finding.level, finding.expected, finding.observed, sep=", ")
must, NOT_FOUND\r\n, DELETED\r\n

`check` returns the first message that is not allowed, as a `Finding`, or None. It raises
`Inconclusive` where too much is open to decide.

States and transitions
    The oracle holds the set of states of the model that are consistent with everything seen. A
    transition explains a reply: a request that was sent is handled, or a timer that is due fires. A
    state forks where several transitions may have come next, and where the model asks `choose`;
    each reply that is observed removes the states that would not have given it. No state left is a
    violation; too many are inconclusive, never a pass. (Conformance to a nondeterministic model:
    Tretmans' ioco, 1996; sets of states: SibylFS, 2015.)

Equal states are merged
    `State.key` has all that a transition reads and all that a reply reports, with times as exact as
    the clocks of target and tester agree. So two states with the same key have the same
    transitions, these give the same replies, and they lead to states with the same key again: they
    are bisimilar, and allow the same conversations. To keep one of them is sound: nothing is
    allowed that the other would not allow, and nothing is refused that it would allow.

Two gears
    `FastGear` takes the only outcome at once, or guesses the most likely one: the next id, the
    oldest of equal jobs, a command handled when it was sent. What it follows is one of the paths
    that the exact oracle follows, so what it allows is allowed. What it refuses may be allowed by a
    path that it has not taken: its alarm is judged again, from the last checkpoint, with all
    outcomes. So optimism can make no verdict wrong.

A client that waits may be served late
    A server with a thread for each client wakes the one that waits after the put is answered, and
    another client may have got the job by then, as with the condition variables of Mesa (Lampson
    and Redell, 1980). With one timer for each such job, the oracle allows that; but there are more
    states then, and few servers are like that. So it judges in this way only what it has refused.

`unknown_times` judges conversations of which nobody has written down when things happened.

`linearizability` explains a `concurrent_history`, of clients at work at the same time, by a search
for an order of their commands (Wing and Gong, 1993; Lowe's just-in-time linearization, 2017).
`invariants` are what must hold of every job in any order.

This package imports the vocabulary and `reference_server`; it knows no target and no socket.
"""

from conformance.oracle.check import Finding, Level, check
from conformance.reading import parse
from conformance.verdict import Inconclusive

__all__ = ["Finding", "Inconclusive", "Level", "check", "parse"]
