"""Tests of ``fuzz``."""
