"""The server under test: how it is reached or launched, its clock, and its profile.

A target is *remote*, where somebody else runs it and it is treated as production; *launched* from
a command, as often and in such configurations as tests need; or the reference server *built in*.
Whatever becomes of it, it is told as its fate, not as an error of ours.

All bytes go through a `transport`: a connection that sends, and receives until a deadline. All
limits are one value, the `limits` that each target has; `timeouts` is the only rule for waiting.
The `survey` measures a target once, and its `traits` are frozen: tests learn nothing about it.

One idea carries the clocks: a test never sleeps and hopes. Where the clock of an unmodified
program can be moved without doubt, libfaketime moves it and tells what the program has seen of
it; where it cannot, time flows, and what is late is judged by how long threads and processes had
to wait for a CPU.

This package imports the vocabulary (`conformance.verdict`, `conformance.yamlish`) and
`reference_server`, and nothing above it.
"""
