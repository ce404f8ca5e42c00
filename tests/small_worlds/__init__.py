"""Tests of ``conformance/small_worlds``."""
