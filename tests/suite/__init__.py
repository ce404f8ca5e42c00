"""Tests of the suite's tests: they find each fault and blame its requirement."""
