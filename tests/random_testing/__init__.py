"""Tests of ``conformance/random_testing``."""
