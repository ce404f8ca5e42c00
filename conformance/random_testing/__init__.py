"""Random conversations, judged while they run.

A session plays what any generator makes up: Hypothesis' rules, programs from a stream of choices,
transcripts that are driven again. It takes the steps; its traffic has the clients and their bytes.
What is found is shrunk by delta debugging (Zeller and Hildebrandt, 2002), driven again, kept,
and given its level: a finding that depends on a line which the text leaves open is at most
de-facto.

Draws depend on the model only, and jobs are called by tags, never by ids of the target: otherwise
what is found could not be shrunk. Clients at work at the same time (`concurrent_clients`) are
judged afterwards, from what each has heard.

On a server that others use, a transcript is driven again as a `confined` program, which touches no
jobs but its own.

This package imports `conformance.oracle`, `conformance.dialogue` and what is below them.
"""
