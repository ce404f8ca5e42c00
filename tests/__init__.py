"""Tests of the tools themselves, in folders named after the packages that they test."""

import signal
from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The checkout."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In the background, a shell ignores interrupts, and so would the programs that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
