"""Tests of the tools themselves."""
