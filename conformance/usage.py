"""The answer to bad usage: one sentence, and an exit code of its own."""

from __future__ import annotations

import argparse
from typing import NoReturn

USAGE = 4
"""Exit code for what the user has got wrong, as pytest has it."""


class Parser(argparse.ArgumentParser):
    """A parser of command lines that ends with one sentence where it cannot go on."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")
