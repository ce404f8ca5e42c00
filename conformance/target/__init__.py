"""The server under test: how it is reached or launched, its clock, and its profile.

A target is *remote*, where somebody else runs it and it is treated as production; *launched* from
a command, as often and in such configurations as tests need; or the reference server *built in*.
However it ends is reported as its outcome, not as an error of ours.

All bytes go through a `transport`: a connection that sends, and receives until a deadline. All
limits are one value, the `limits` that each target has; `timeouts` is the only rule for waiting.
The `survey` measures a target once, and its `traits` are frozen: tests learn nothing about it.

One idea carries the clocks: a test never sleeps and hopes. Where the clock of an unmodified
program can be moved safely, libfaketime moves it, and counts how often the program reads it.
Elsewhere time flows, and lateness is judged by how long threads and processes waited for a CPU.

This package imports the vocabulary (`conformance.verdict`, `conformance.yamlish`) and
`reference_server`, and nothing above it.
"""
