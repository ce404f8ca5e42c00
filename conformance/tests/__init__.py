"""The tests of the requirements: directed ones, one file a section of the text, and random ones.

A test is a dialogue of a few lines about the requirement that it names. It uses what a scenario
has (a producer, a worker, a tube, a clock), and never sleeps.

This package imports `conformance.random_testing`, `conformance.dialogue` and what is below them.
"""
