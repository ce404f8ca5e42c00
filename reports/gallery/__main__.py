"""``python -m reports.gallery``: judges the servers and libraries at hand, compares all results."""

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

from reports.comparison import ResultsComparison
from reports.gallery.anonymity import anonymous
from reports.gallery.clients import GalleryClient, client_results_of, clients
from reports.gallery.servers import FOLDER, GalleryServer, results_of, servers
from reports.gallery.table import short_table, table
from reports.html import overview_image
from reports.markdown import comparison_text
from reports.results import Results, ResultsError, read_results
from reports.write import write_comparison

DRIVERS = FOLDER.parent.parent / "conformance" / "clients" / "drivers"
"""The drivers of client libraries."""
LIBRARIES = "libraries"
"""The folder of libraries that have no package, beside their drivers."""
DIALECTS = FOLDER / "dialects"
"""The protocols of forks, which some of the servers are judged by."""
BASELINES = FOLDER.parent.parent / "conformance" / "baselines"
"""Known deviations of some of the servers, and their reasons."""

SHOWN = "beanstalkd-1.12"
"""The server whose overview the README shows."""
README = FOLDER.parent.parent / "README.md"
BEGIN, END = "<!-- python -m reports.gallery writes this table -->", "<!-- end of the table -->"
"""The lines around the table of the README."""


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


def run_client(name: str, client: GalleryClient) -> Results:
    """Judge a client library; raises ResultsError if there are no results."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(DRIVERS, folder, dirs_exist_ok=True)
        # What libraries say names no path of the machine that they were run on.
        (Path(folder) / LIBRARIES).symlink_to(os.environ.get("LIBRARIES", os.devnull))
        command = [sys.executable, "-m", "conformance", "client", f"--report={folder}"]
        command += ["--name", name, "--library-version", client.version, "--", *client.command]
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(DRIVERS.parents[2]), "LIBRARIES": LIBRARIES},
            stdout=sys.stderr,
            check=False,
        )
        found = read_results(Path(folder) / f"{name}-results.json")
        return anonymous(found.model_copy(update={"labels": client.origin}))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.gallery", description=__doc__)
    parser.add_argument("name", nargs="*", help="what to run; by default all that is found")
    options = parser.parse_args()
    if unknown := set(options.name) - {*servers(), *clients()}:
        parser.error(f"the gallery has no {min(unknown)}")
    names = options.name or [*servers(), *clients()]
    for name, server in servers().items():
        if name in names:
            _run_server(name, server)
    for name, client in clients().items():
        if name in names:
            _run_client(name, client)
    write()
    return 0


def _run_server(name: str, server: GalleryServer) -> None:
    for program in server.programs(name):
        try:
            found = run(name, server, program)
        except ResultsError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        if server.made(found):
            _keep(results_of(name), found)
            break
        seen, wanted = found.target.version, server.version
        print(f"{name}: {program} is version {seen!r}, not {wanted!r}", file=sys.stderr)


def _run_client(name: str, client: GalleryClient) -> None:
    version = client.found_version()
    if version != client.version:
        print(f"{name}: version {version!r}, not {client.version!r}", file=sys.stderr)
        return
    try:
        _keep(client_results_of(name), run_client(name, client))
    except ResultsError as error:
        print(f"{name}: {error}", file=sys.stderr)


def _keep(path: Path, found: Results) -> None:
    # Without a time in it, equal results are equal files.
    path.write_bytes(gzip.compress(found.encode().encode(), mtime=0))
    print(found.verdict.sentence)


def write(folder: Path = FOLDER, readme: Path = README) -> None:
    """Compare all results that there are, and write what is made from them into a folder."""
    known = servers()
    found = {name: read_results(results_of(name)) for name in known if results_of(name).exists()}
    write_comparison([*found.values()], folder)
    (folder / "servers.md").write_text(table("server", found.values()), encoding="utf-8")
    paths = map(client_results_of, clients())
    libraries = [read_results(path) for path in paths if path.exists()]
    (folder / "clients.md").write_text(table("library", libraries), encoding="utf-8")
    compared = comparison_text(ResultsComparison.of(libraries))
    (folder / "clients-comparison.md").write_text(compared, encoding="utf-8")
    (folder / "overview.svg").write_text(overview_image(found[SHOWN]), encoding="utf-8")
    # A server with a profile of its own is in the list without it, too.
    usual = [results for name, results in found.items() if not known[name].has_profile]
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    text = f"{before}{begin}\n{short_table(usual)}{END}{after}"
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
