"""Tests of ``conformance/durability``."""
