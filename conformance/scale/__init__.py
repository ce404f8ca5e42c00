"""Growth: how the cost of each command grows with jobs, tubes, clients and bodies.

One idea carries it: absolute times depend on the machine, growth does not. A row of the table in
`workloads` says what grows, and which commands are measured in a cycle that ends where it began.
`population` makes a server large, `measuring` takes the cost of each step there, in turn with a
small server of the same kind, and `growth` fits a curve to the costs. Its slope at the largest
size is the exponent: 0 is constant, 1 is linear. The cost is the CPU time of a server that we
start, and the time that passes with one of somebody else.

`jobs` checks at the same time, in bounded memory, that no job is lost, served twice, early or out
of order. May import targets, the options of runs and the wire format; only the console imports
this package. Latencies are taken as in HdrHistogram and wrk2 (Gil Tene): from the moment when a
request was due, not from when it could be sent.
"""
