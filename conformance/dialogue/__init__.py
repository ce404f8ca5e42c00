"""Directed dialogues: what a test sends to the target, and which replies it expects.

A scenario has connections, tubes of its own and a clock; a connection says the usual commands and
begins exchanges; an exchange is a command and the reply that belongs to it. Each message goes into
the transcript.

The central idea is that time is an interval (timed input-output conformance: Krichen and
Tripakis, 2004). A test lives in nominal time, which only `clock.advance` moves; the target lives
in its own, of which at least as much has passed. A reply is early or late only if both agree on
that, so that a slow machine widens the interval and never causes a false alarm.

This package imports `conformance.target` and what is below it.
"""
