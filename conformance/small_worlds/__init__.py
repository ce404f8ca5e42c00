"""Small worlds: every transition of the model that few clients, tubes and jobs can make.

A directed test sees what its author thought of, and a random conversation what it happens to ask.
For a state machine of finite size, a tour of all transitions that compares the whole state after
each of them finds every wrong reply and every wrong next state within that size (transition tours
and the W-method: Chow, 1978; Lee and Yannakakis, 1996). Bugs that need more than a few clients and
jobs to show are rare (the small-scope hypothesis: Jackson, 2006).

Worlds
    A `World` says how many clients, tubes and jobs there are at most, and what they may do. Two
    states are the same if they differ only in names, counts and the time (`view`). `graph` explores
    a world breadth-first on the model, never on a target, so that each state has a shortest path.

Tours at wire speed
    A `tour` takes all transitions, and after each queries statistics, lists and queues. It is
    played on the model first, and written down with all replies (`recorded_tour`); those of a run
    are shipped (`shipped_tours`) in a compact form (`packing`). A `player` sends what was written
    down, and a `comparison` compares the replies, except ids, earlier counts, the clock and the
    name of the server.

Different is not wrong
    The model takes what the text leaves open as beanstalkd does. So where a reply is different, the
    oracle judges the same conversation with all outcomes (`visit`), as it judges again the alarms
    of its fast gear. If it is allowed, the tour goes on, judged step by step (`judged_tour`).

This package imports `random_testing` and what is below it.
"""
