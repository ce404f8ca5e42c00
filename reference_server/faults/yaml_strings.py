"""Faults in how the names of tubes are written: a YAML library takes them for something else."""

from __future__ import annotations

from reference_server.faults.registry import says

says(
    "list-tubes.names-are-strings",
    "list-tubes has no quotes",
    "list-tubes",
    '^- "(.*)"$',
    r"- \1",
)
says(
    "list-tubes-watched.names-are-strings",
    "list-tubes-watched has no quotes",
    "list-tubes-watched",
    '^- "(.*)"$',
    r"- \1",
)
says(
    "stats-job.tube-is-a-string",
    "stats-job has no quotes around the tube",
    "stats-job",
    '^tube: "(.*)"$',
    r"tube: \1",
)
says(
    "stats-tube.name-is-a-string",
    "stats-tube has no quotes around the name",
    "stats-tube",
    '^name: "(.*)"$',
    r"name: \1",
)
