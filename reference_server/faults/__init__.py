"""The reference server with bugs, which prove that the tests of a requirement can fail.

Each fault is a few lines over the model, the codec or the profile, and names the requirement that
it breaks. ``python -m reference_server --fault NAME`` serves it.
"""

from reference_server.faults import (
    arguments,
    binlog,
    circumstances,
    clock_changes,
    crashes,
    delete,
    endurance,
    exhaustion,
    jobs,
    long_times,
    one_queue,
    other,
    overlap,
    persistence,
    producer,
    protocol,
    quirks,
    server_statistics,
    sizes,
    statistics,
    ties,
    tubes,
    worker,
    yaml_strings,
)
from reference_server.faults.registry import FAULTS, NO_FAULT, Fault

__all__ = [
    "FAULTS",
    "NO_FAULT",
    "Fault",
    "arguments",
    "binlog",
    "circumstances",
    "clock_changes",
    "crashes",
    "delete",
    "endurance",
    "exhaustion",
    "jobs",
    "long_times",
    "one_queue",
    "other",
    "overlap",
    "persistence",
    "producer",
    "protocol",
    "quirks",
    "server_statistics",
    "sizes",
    "statistics",
    "ties",
    "tubes",
    "worker",
    "yaml_strings",
]
