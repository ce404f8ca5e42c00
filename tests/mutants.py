"""The mutation score of the suite: which small changes of the reference server it finds.

mutmut and cosmic-ray change a package for the tests that import it. Here the oracle imports the
package, too, and must not be changed, so a mutant is loaded beside it, and served in this process:
the quick tests take 3 seconds, a run on a launched server 25.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypedDict, TypeVar
from unittest.mock import patch

import yaml

from conformance.random_testing.exploration import Exploration
from conformance.run import runner as running
from conformance.target import builtin
from conformance.target.builtin import BuiltIn
from conformance.target.limits import USUAL
from conformance.verdict import Deviation
from reference_server.profiles import PROFILES
from tests.faults import PATIENCE, SILENCE, Case, applies, cases
from tests.mutation import Mutant, mutants
from tests.parts import part_of

SURELY = 2.0
"""Seconds after which a reply is missing where a test that has failed is tried again."""
LIMIT = 300.0
"""Seconds that the tests of a mutant may take."""
MEMORY = 2**31
"""Bytes of memory that a mutant may take."""
EXPLAINED = Path(__file__).with_name("equivalent_mutants.yaml")
"""The mutants that behave as the text allows, and so are not found; each with the reason."""

_FORK = get_context("fork")
T = TypeVar("T")
Found = dict[str, str]
"""A mutant's name, module and kind; how it was found, by which test; and the last stage it saw."""


class MutantStage(NamedTuple):
    """Some of the tests, and the profiles in which they are run; ``examples`` of what is random."""

    name: str
    profiles: Sequence[str]
    chosen: Callable[[Case], bool]
    examples: int = 0


def _is_random(case: Case) -> bool:
    return "exploration" in case.arguments


def _is_quick(case: Case) -> bool:
    return not case.arguments.keys() & {"exploration", "real_clock"}


def _overlaps(case: Case) -> bool:
    return case.name == "test_any_overlap"


STAGES = (
    MutantStage("directed", ["1.13"], _is_quick),
    MutantStage("other profiles", ["1.12", "0.6", "1.4.3", "1.8"], _is_quick),
    MutantStage("real clock", ["1.13"], lambda case: "real_clock" in case.arguments),
    MutantStage("random", ["1.13"], lambda case: _is_random(case) and not _overlaps(case), 50),
    MutantStage("random, old", ["1.10", "0.6"], lambda case: case.name == "test_any_program", 10),
    MutantStage("overlap", ["1.13"], _overlaps, 8),
)
"""The tests, those first that take the least time."""
RUN = "default run"
"""The last stage: the suite as a user runs it, on a server that it launches."""
QUIRK = "quirk"
"""The name of what a run tells of a mutant, and does not judge."""
_WAYS = (*(stage.name for stage in STAGES), RUN)


@contextlib.contextmanager
def loaded(mutant: Mutant) -> Iterator[ModuleType]:
    """Load a mutant beside the reference server, for as long as it is served."""
    own = [name for name in sys.modules if name.partition(".")[0] == "reference_server"]
    kept = {name: sys.modules.pop(name) for name in own}
    with tempfile.TemporaryDirectory() as folder:
        mutant.write(Path(folder))
        sys.path.insert(0, folder)
        try:
            server = importlib.import_module("reference_server.serve")
        finally:
            sys.path.remove(folder)
            for name in [n for n in sys.modules if n.partition(".")[0] == "reference_server"]:
                del sys.modules[name]
            sys.modules.update(kept)
        with patch.object(builtin, "Server", server.Server):
            yield server


def tried(server: BuiltIn, stage: MutantStage) -> Iterator[tuple[int, str, str]]:
    """Try the tests: the number of each, why it failed, twice, and the variant that it saw."""
    for index, case in enumerate(cases()):
        if stage.chosen(case) and applies(case, server.profile):
            outcome = _outcome(case, server, SILENCE, stage.examples)
            if isinstance(outcome.error, Deviation):
                outcome = _outcome(case, server, SURELY, stage.examples)
            failed = str(outcome.error) if isinstance(outcome.error, Deviation) else ""
            is_quirk = any(slug.startswith("quirk.") for slug in case.slugs)
            yield index, failed, outcome.seen if is_quirk else ""


def _outcome(case: Case, server: BuiltIn, silence: float, examples: int) -> running.Outcome:
    arguments = dict(case.arguments)
    timeout = max(silence, PATIENCE) if _is_random(case) else silence
    server.limits = replace(USUAL, reply=timeout, alive=timeout, clean_up=timeout, arrival=(0.0,))
    if _is_random(case):
        arguments["exploration"] = Exploration(examples, fuzz_time=2.0, profile=server.profile)
    return running.run(case.test, arguments, server)


Variants = Mapping[tuple[str, int], str]
"""The variants of quirks that were seen, by profile and number of the test."""


def usual(stage: MutantStage) -> Variants:
    """Return the variants that the server itself has; raise AssertionError if a test fails."""
    found = {}
    for name in stage.profiles:
        with contextlib.closing(BuiltIn(PROFILES[name])) as server:
            for index, failed, variant in tried(server, stage):
                assert not failed, failed
                found[name, index] = variant
    return found


def examine(mutant: Mutant, stage: MutantStage, variants: Variants) -> tuple[str, str]:
    """Return how a mutant is found, and by which test; two empty words if it is not."""
    told = ("", "")
    try:
        with loaded(mutant) as served:
            for name in stage.profiles:
                server = BuiltIn(PROFILES[name], fault=served.NO_FAULT)
                for index, failed, variant in tried(server, stage):
                    shown = f"{name} {cases()[index].name}"
                    if failed:
                        return stage.name, f"{shown}: {failed}"[:400]
                    if variant != variants[name, index]:
                        told = QUIRK, f"{shown}: {variant}"
                server.close()
    except Exception as error:
        return "start", repr(error)[:400]
    return told


def apart(function: Callable[[], T]) -> T | None:
    """Return what a function gives in a process of its own; None if it hangs or crashes there."""
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_told, args=(function, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(LIMIT) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _told(function: Callable[[], object], pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    pipe.send(function())


def examine_in_a_run(mutant: Mutant) -> tuple[str, str]:
    """Return the same of a mutant that is launched, and of a whole run of the suite."""
    with tempfile.TemporaryDirectory() as folder:
        mutant.write(Path(folder))
        server = f"env PYTHONPATH={folder} {sys.executable} -P -m reference_server"
        command = [sys.executable, "-m", "conformance", "run", "--launch"]
        ended = subprocess.run(
            [*command, f"{server} -l {{host}} -p {{port}} [-z {{max_job_size}}]"],
            capture_output=True,
            text=True,
        )
    if ended.returncode == 0:
        return "", ""
    fails = [line.strip() for line in ended.stdout.splitlines() if line.startswith("  fail")]
    return RUN, "; ".join(fails)[:400] or f"exit code {ended.returncode}"


def _table(found: Sequence[Found]) -> Iterator[str]:
    """Return lines that count mutants by module, by kind, and by how they are found."""
    ways = ["start", *_WAYS, "limit", QUIRK, ""]
    yield "| | mutants | " + " | ".join(way or "survived" for way in ways) + " |"
    yield "| --- " * (len(ways) + 2) + "|"
    for what in ("module", "kind", "all"):
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for one in found:
            counts[one.get(what, "all")][one["found"]] += 1
        for name, count in sorted(counts.items()):
            told = " | ".join(str(count[way]) for way in ways)
            yield f"| {name} | {count.total()} | {told} |"


def _read(file: Path) -> dict[str, Found]:
    lines = file.read_text().splitlines() if file.exists() else []
    return {found["name"]: found for found in map(json.loads, lines)}


def main() -> int:
    """``python -m tests.mutants``: how many mutants the suite finds, and which it does not.

    What is known of a mutant is kept, and not looked for again. Fails if one is not found that is
    neither a variant of a quirk nor explained.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--part", default="0/1", help="K/N: one in N mutants")
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"), help="JSON lines")
    parser.add_argument("--until", choices=_WAYS, default=_WAYS[-2], help="the last stage")
    options = parser.parse_args()
    known, chosen = _read(options.results), part_of(mutants(), options.part)
    cases()  # Imported here, they need not be in the process of each mutant.
    for name in _WAYS[: _WAYS.index(options.until) + 1]:
        left = [m for m in chosen if _is_left(known.get(m.name), name)]
        for mutant, (found, by) in zip(left, _examined(left, name), strict=True):
            told = {"name": mutant.name, "module": mutant.module, "kind": mutant.kind}
            before = known.get(mutant.name, {"found": "", "by": ""})
            told |= {"found": found, "by": by} if found else before
            known[mutant.name] = {**told, "until": name}
            with options.results.open("a") as file:
                print(json.dumps(known[mutant.name], ensure_ascii=False), file=file)
    results = [known[mutant.name] for mutant in chosen if mutant.name in known]
    print(*_table(results), sep="\n")
    explained = {name for group in reasons() for name in group["mutants"]}
    wrong = [one for one in results if one["found"] != QUIRK and one["name"] not in explained]
    missed = [one["name"] for one in wrong if not one["found"]]
    print(*(f"SURVIVED {name}" for name in missed), sep="\n")
    print(f"{len(wrong) - len(missed)} of {len(wrong)} that are not as good as the original found")
    return bool(missed)


class Reason(TypedDict):
    """Mutants that are as good as the original, and why."""

    reason: str
    mutants: Sequence[str]


def reasons() -> Sequence[Reason]:
    """Return which mutants are known to be as good as the original."""
    read: Sequence[Reason] = yaml.safe_load(EXPLAINED.read_text())
    return read


def _is_left(known: Found | None, name: str) -> bool:
    """Return whether a mutant was not found before a stage, and has not been there."""
    if known is None:
        return name == _WAYS[0]
    return known["found"] in ("", QUIRK) and _WAYS.index(known["until"]) == _WAYS.index(name) - 1


def _examined(left: Sequence[Mutant], name: str) -> Iterator[tuple[str, str]]:
    """Examine mutants, one after the other, at a stage."""
    if name == RUN:
        yield from map(examine_in_a_run, left)
        return
    stage = next(stage for stage in STAGES if stage.name == name)
    variants = apart(partial(usual, stage)) if left else {}
    assert variants is not None, "a test fails, whatever is changed"
    for mutant in left:
        yield apart(partial(examine, mutant, stage, variants)) or ("limit", "")


if __name__ == "__main__":
    sys.exit(main())
