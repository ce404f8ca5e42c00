"""Runs the suite on many servers, here or on the workers of a cluster."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import yaml
from pydantic import TypeAdapter, ValidationError

from conformance.run.cluster import Cluster
from conformance.run.tasks import Backend, InProcess, Task
from conformance.usage import refuse
from reports.results import Results, ResultsError, read_results
from reports.write import write_report

Text = tuple[str, str]
"""The text of results, or why there are none."""


def matrix(file: Path, folder: Path, address: str | None) -> list[Path]:
    """Run the suite on the servers of a file; return the results, which are kept in ``folder``.

    Those that are there already are not made again, so that an interrupted command can go on.
    """
    servers = read_servers(file)
    places = {name: folder / name / "results.json" for name in servers}
    left = {name: servers[name] for name, place in places.items() if not place.exists()}
    which = hashlib.sha256(repr(sorted(servers.items())).encode()).hexdigest()[:12]
    backend = InProcess[Text]() if address is None else Cluster[Text](address, f"matrix-{which}")
    for name, (text, error) in _done(backend, left):
        if error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        results = Results.model_validate_json(text)
        write_report(results, places[name].parent)
        print(f"{name}: {results.verdict.sentence}", flush=True)
    made = [place for place in places.values() if place.exists()]
    if not made:
        raise refuse("the suite could not be run on any of the servers")
    return made


def read_servers(file: Path) -> Mapping[str, list[str]]:
    """Return the arguments of ``run`` for each server."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        servers = TypeAdapter(dict[str, list[str]]).validate_python(content)
    except OSError as error:
        raise refuse(f"cannot read {file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValidationError, RecursionError):
        raise refuse(f"{file} is not a list of arguments of `run` for each server") from None
    for name in servers:
        if not name or Path(name).name != name:
            raise refuse(f"{name!r} cannot be the name of a folder")
    return servers


def _done(
    backend: Backend[Text], servers: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, Text]]:
    tasks = (Task(name, partial(results_of, arguments)) for name, arguments in servers.items())
    with contextlib.closing(backend):
        for task in backend.each(tasks):
            yield task.name, task.result or ("", f"a worker: {task.error}")


def results_of(arguments: Sequence[str]) -> Text:
    """Run the suite on a server; return the text of the results, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "conformance", "run", "-q", *arguments]
        command += [f"--report={folder}", "-p", "no:cacheprovider"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        try:
            [path] = Path(folder).glob("*results.json")
            return read_results(path).encode(), ""
        except (ValueError, ResultsError):
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            return "", f"no results: {said[-1] if said else f'exit code {done.returncode}'}"
