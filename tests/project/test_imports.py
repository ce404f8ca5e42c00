"""How our modules import each other, by name included, which import-linter does not follow."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter

import grimp

import beanstalk_conformance
from tests import ROOT

PACKAGES = beanstalk_conformance.PACKAGES
NAME = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)+")
"""A string that names a module of ours."""


def _named(module: str) -> set[str]:
    """Return the strings in a module that look like a module of ours."""
    path = ROOT.joinpath(*module.split("."))
    code = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not code.exists():
        # A folder of data.
        return set()
    nodes = ast.walk(ast.parse(code.read_text(encoding="utf-8")))
    values = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return {value for value in values if isinstance(value, str) and NAME.fullmatch(value)}


def test_imports_go_in_no_circle_even_where_a_string_names_the_module() -> None:
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    imports = {
        module: graph.find_modules_directly_imported_by(module) | _named(module) & graph.modules
        for module in graph.modules
    }
    # It is a module, and no package: import-linter does not know it.
    plugin = _named(beanstalk_conformance.__name__)
    assert plugin >= {"conformance.run.plugin", "reference_server.embedded.fixtures"}
    imports[beanstalk_conformance.__name__] = plugin
    console = imports["conformance.console.run"]
    imports["conformance.console.run"] = console | {beanstalk_conformance.__name__}
    TopologicalSorter(imports).prepare()
