"""Lines at the limits of a profile, scaled from lines at the limits of the protocol text."""

from __future__ import annotations

import re

from conformance.target.target import Target
from reference_server.profiles import Profile

NAME, LINE = 200, 224
"""The longest name, and the longest line with CR LF, of which the text of 1.12 speaks."""
_LONG_NAME = re.compile(rb"n{199,201}")


def scaled(text: bytes, profile: Profile) -> bytes:
    """Return what is said with long names that are as much longer as a profile allows."""
    if profile.max_name == NAME:
        return text
    more = profile.max_name - NAME
    return _LONG_NAME.sub(lambda match: b"n" * (len(match[0]) + more), text)


def scaled_length(length: int, profile: Profile) -> int:
    """Return the length of a line that is as much longer than a profile allows.

    Of lines that are one byte longer than a multiple of it, some servers swallow the next.
    """
    longer = length - LINE + profile.max_line
    return longer + (longer % profile.max_line == 1)


def largest_body(server: Target, size: int) -> bytes:
    """Return a body of ``size`` bytes, or of as many as the server takes."""
    return b"a" * min(size, server.traits.max_body or server.profile.max_job_size)
