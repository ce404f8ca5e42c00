"""Tests of ``conformance/target``."""
