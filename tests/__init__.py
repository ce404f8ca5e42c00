"""Tests of the tools themselves, in folders named after the packages that they test."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The checkout."""
