"""Tests of ``conformance/run``."""
