"""Tests of ``reference_server``."""
