"""Standard output that may fail: a closed pipe, as with ``| head``, or a full disk.

A run goes on all the same: it leaves nothing on somebody's server, writes its report, and has the
exit code of its verdict.
"""

from __future__ import annotations

import codecs
import io
import os
import sys


class Output(io.TextIOWrapper):
    """A text stream that takes everything; ``lost`` is the error from which on nothing arrives."""

    lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.lost = self.lost or error
        # What is kept in buffers goes the same way.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def take_standard_output() -> Output | None:
    """Replace standard output by one that takes everything; None if there is none."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        return None
    encoding, errors = stream.encoding, stream.errors
    if codecs.lookup(encoding).name != "utf-8":
        # Quotation marks and arrows are in no narrower character set.
        errors = "backslashreplace"
    line_buffering, write_through = stream.line_buffering, stream.write_through
    sys.stdout = output = Output(
        stream.detach(),
        encoding,
        errors,
        line_buffering=line_buffering,
        write_through=write_through,
    )
    return output
