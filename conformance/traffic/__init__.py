"""Live traffic, judged: a proxy before any server.

The forwarder copies each segment to a feed, and never waits for it; a process of its own judges
the copy.

Many clients, in an order that nobody has seen
    A request takes effect at some time after it was sent, and before its reply was observed. For
    each job, the judge holds all states that it may be in, and applies the requests in flight in
    every order (Wing and Gong, 1993; Lowe's just-in-time linearization, 2017). Each job is judged
    for itself: a history is linearizable if and only if that of each object is (Herlihy and Wing,
    1990). So the work grows with the requests about one job, not with the number of clients.

Nothing is guessed
    A job that was there before may be in any state, until a reply names it. What clients do that
    nobody sees, as they bypass the proxy, makes jobs unknown again: the judge reports that it
    cannot follow, and begins anew.

This package imports the oracle's readers, and the grammar and the model of `reference_server`.
"""
