"""A reference server inside the process that tests an application.

The server is that of :mod:`reference_server.serve`, on its loop in a thread. Three parts are added:
a clock that tests move, a record of all messages, and misbehaviour on demand. The idea is that of
Trio's mock clock, and of a mock HTTP server: the application uses its usual client over a real
socket, and only time and failures belong to the test.

This package imports nothing of the suite: tests of an application load no more.
"""
