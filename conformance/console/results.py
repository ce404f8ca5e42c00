"""``report``, ``compare`` and ``site``: make pages from results.json."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from conformance.console.matrix import matrix
from conformance.usage import ConsoleCommand, refuse
from reports.collection import Collection
from reports.comparison import ResultsDifference
from reports.results import Results, ResultsError, read_results
from reports.servers import servers
from reports.site import Site, write_site
from reports.words import counted
from reports.write import write_comparison, write_report

_RESULTS = click.Path(path_type=Path)


@click.command(cls=ConsoleCommand)
@click.argument("file", type=_RESULTS, metavar="results.json")
@click.option("-o", "folder", type=_RESULTS, required=True, metavar="FOLDER", help="where to")
def report(file: Path, folder: Path) -> None:
    """Make the report of a run again, from its results."""
    [results] = _read([file])
    try:
        write_report(results, folder, file.parent)
    except OSError as error:
        raise refuse(f"cannot write to {folder}: {error.strerror}") from None


@click.command(cls=ConsoleCommand)
@click.argument("files", type=_RESULTS, metavar="results.json…", nargs=-1)
@click.option("-o", "folder", type=_RESULTS, metavar="FOLDER", help="write it as pages there")
@click.option(
    "--run", "servers", type=_RESULTS, metavar="FILE", help="run the suite on its servers"
)
@click.option("--cluster", metavar="ADDRESS", help="on the workers of a Dask scheduler")
def compare(
    files: tuple[Path, ...], folder: Path | None, servers: Path | None, cluster: str | None
) -> int:
    """Compare the results of many runs side by side.

    Given two runs, print what broke and what was fixed; exit code 1: something broke.
    """
    if servers is not None and folder is not None:
        files = (*files, *matrix(servers, folder, cluster))
    elif servers is not None or cluster is not None:
        raise refuse("--run needs -o FOLDER for what it finds, --cluster needs --run")
    elif not files:
        raise refuse("give results, or --run FILE")
    results = _read(files)
    if folder is None and len(results) != 2:
        raise refuse("give two results, or -o FOLDER")
    if folder is not None:
        try:
            write_comparison(results, folder)
        except OSError as error:
            raise refuse(f"cannot write to {folder}: {error.strerror}") from None
    return _print_difference(ResultsDifference.between(*results)) if len(results) == 2 else 0


@click.command(cls=ConsoleCommand)
@click.argument("folders", type=_RESULTS, metavar="FOLDER…", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=_RESULTS,
    default="site",
    show_default=True,
    metavar="DIR",
    help="the folder of the site",
)
def site(folders: tuple[Path, ...], output: Path) -> None:
    """Make a static site of all results in folders."""
    collection = Collection(folders)
    try:
        histories = servers(collection.read())
        pages = Site(histories, collection.measurements)
        count, size = write_site(pages, output)
    except ResultsError as error:
        raise refuse(str(error)) from None
    except OSError as error:
        raise refuse(f"cannot write to {output}: {error.strerror}") from None
    runs = sum(len(server.runs) for server in pages.servers)
    print(
        f"{output / 'index.html'}: {counted(len(pages.servers), 'server')}, {counted(runs, 'run')},"
        f" {counted(len(pages.rows), 'requirement')}; {counted(count, 'file')},"
        f" {size / 1e6:.1f} MB"
    )
    if collection.others:
        others = counted(len(collection.others), "JSON file")
        print(f"left out {others} of other kinds, such as {collection.others[0]}")


def _read(files: Iterable[Path]) -> list[Results]:
    try:
        return [read_results(path) for path in files]
    except ResultsError as error:
        raise refuse(str(error)) from None


def _print_difference(difference: ResultsDifference) -> int:
    """Print what has changed; return whether something broke."""
    for now in difference.broken:
        print(f"broke: {now.slug}: {now.reason}")
    for now in difference.fixed:
        print(f"fixed: {now.slug}")
    for then, now in difference.other:
        print(f"changed: {now.slug}: {then.verdict.words}, now {now.verdict.words}")
    print(f"{len(difference.broken)} broke, {len(difference.fixed)} fixed")
    return int(bool(difference.broken))
