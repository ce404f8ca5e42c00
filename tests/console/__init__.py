"""Tests of ``conformance/console``."""
