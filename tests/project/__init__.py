"""Tests of the project: documentation, packages, set-up and CI."""
