"""Tests of ``conformance/diagrams``."""
