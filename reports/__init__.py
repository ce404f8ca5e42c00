"""Conformance reports, made from ``results.json`` alone."""
