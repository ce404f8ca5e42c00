"""Tests of ``conformance/clients``."""
