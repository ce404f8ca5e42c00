"""Tests of ``conformance/traffic``."""
