"""Tests of ``reference_server.embedded``."""
