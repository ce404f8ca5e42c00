"""Tests of ``conformance/oracle``."""
