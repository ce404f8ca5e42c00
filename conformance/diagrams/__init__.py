"""Diagrams of conversations: which messages they show, and which job states they deduce.

A transcript says what was sent and received. The states of the jobs, and the order in which
commands of concurrent clients were handled, are deduced from it: by the oracle, which holds the
states of the model that agree with the conversation, and by the search for an order. No rule of
the protocol is written here. (Space-time diagrams: Lamport, 1978; pictures of histories and of the
operation that does not fit: Porcupine, Maelstrom.)

What is found is data, :class:`reports.results.Diagram`: so it is a part of ``results.json``, and
``reports.diagrams`` draws it without importing anything of ours.

This package imports the oracle and the vocabulary; it knows no target.
"""
