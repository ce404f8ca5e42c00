"""Tests of the measurements of growth."""
