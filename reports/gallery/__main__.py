"""``python -m reports.gallery``: runs the suite on the servers at hand, compares all results."""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reports.gallery.anonymity import anonymous
from reports.gallery.servers import FOLDER, GalleryServer, results_of, servers
from reports.gallery.table import server_table
from reports.results import Results, ResultsError, read_results
from reports.write import write_comparison

DIALECTS = FOLDER / "dialects"
"""The protocols of forks, which some of the servers are judged by."""
BASELINES = FOLDER.parent.parent / "conformance" / "baselines"
"""Known deviations of some of the servers, and their reasons."""


def run(name: str, server: GalleryServer, program: str) -> Results:
    """Run the suite on a server; raises ResultsError if it wrote no results."""
    baseline = BASELINES / f"{name}.yaml"
    with tempfile.TemporaryDirectory() as folder:
        # Results name no path of the machine that they were made on.
        alias = server.label.replace(" ", "-")
        (Path(folder) / alias).symlink_to(program)
        shutil.copytree(DIALECTS, folder, dirs_exist_ok=True)
        launch = f"{shlex.quote(alias)} {server.options}"
        command = [sys.executable, "-m", "conformance", "run", "-q"]
        command += [f"--launch={launch}", f"--profile={server.profile}"]
        if server.processes:
            command.append(f"-n{server.processes}")
        if baseline.exists():
            command.append(f"--baseline={baseline}")
        subprocess.run(
            [*command, f"--report={folder}/report", "-p", "no:cacheprovider"],
            cwd=folder,
            env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"},
            stdout=sys.stderr,
            check=False,
        )
        found = read_results(Path(folder) / "report" / "results.json")
        # Nor the machine itself.
        return anonymous(found.model_copy(update={"labels": server.origin}))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.gallery", description=__doc__)
    parser.add_argument("name", nargs="*", help="servers to run; by default all that are found")
    options = parser.parse_args()
    known = servers()
    if unknown := set(options.name) - set(known):
        parser.error(f"the gallery has no {min(unknown)}")
    for name in options.name or known:
        for program in known[name].programs(name):
            try:
                found = run(name, known[name], program)
            except ResultsError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            if known[name].made(found):
                # Without a time in it, equal results are equal files.
                results_of(name).write_bytes(gzip.compress(found.encode().encode(), mtime=0))
                print(f"{name}: {found.verdict.sentence}")
                break
            seen, wanted = found.target.version, known[name].version
            print(f"{name}: {program} is version {seen!r}, not {wanted!r}", file=sys.stderr)
    write()
    return 0


def write(folder: Path = FOLDER) -> None:
    """Compare all results that there are, and write what is made from them into a folder."""
    paths = map(results_of, servers())
    all_results = [read_results(path) for path in paths if path.exists()]
    write_comparison(all_results, folder)
    (folder / "servers.md").write_text(server_table(all_results), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
