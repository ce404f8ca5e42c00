"""Decides whether what went over the wire is allowed, with all that the text leaves open.

The oracle holds the set of states of the model that are consistent with everything seen. A reply
is explained by transitions: a request that was sent is handled, or a timer that is due fires. A
state forks where several transitions may have come next, and where the model chooses; each
observed reply removes the states that would not have given it. No state left is a violation; too
many are inconclusive, never a pass. (Conformance to a nondeterministic model: Tretmans' ioco,
1996; sets of states: SibylFS, 2015.) States that nothing which follows can tell apart are merged:
they have the same transitions and give the same replies, so that each verdict is that of one of
them.

`linearizability` decides the same for clients at work at the same time, by a search for an order
of their commands (Wing and Gong, 1993; Lowe's just-in-time linearization, 2017), and `invariants`
what must hold of every job in any order.

Two gears: `judge` takes the first outcome in haste as long as it is certain, and judges again,
without haste and with all outcomes, what is then not allowed. So haste never makes a verdict.

This package imports the vocabulary and `reference_server`; it knows no target and no socket.
"""
