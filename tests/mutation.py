"""Mutants of the reference server: copies of its code with one small change each."""

from __future__ import annotations

import ast
import copy
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import reference_server
from reference_server.commands import ArgumentKind

PACKAGE = Path(reference_server.__path__[0])
MODULES = (
    *("commands", "model", "lifecycle", "store", "state", "stats", "engine", "connection"),
    *("wire.lines", "wire.messages", "wire.requests"),
)
"""The modules that decide how a server answers; profiles are data."""
_NOT_SERVED = {
    *("STATES", "REPLIES", "BECOMES", "TRANSITIONS"),
    *("_TABLE", "_RESERVES", "_FINDS", "_TELLS", "VERBS", "ABOUT_A_JOB", "ABOUT_A_TUBE"),
    *("WAITING", "any_of"),
    *(kind.name for kind in ArgumentKind),
    *("Grammar", "__str__", "escape", "_ESCAPES", "BARE", "__slots__"),
    *("_UNKNOWN_HOST", "INTERNAL_ERROR", "OUT_OF_MEMORY"),
}
"""Names in these modules that a server does not need to answer: tables for others, and texts."""

_NOT_RUN = ("annotation", "returns", "decorator_list", "bases")
_BLOCKS = (ast.If, ast.While, ast.For, ast.Try, ast.match_case)

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}

Change = tuple[str, ast.AST]
"""A kind of mutation, and what takes the place of a node."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: ``new`` takes the place of ``old`` in ``tree``; ``name`` tells it."""

    name: str
    module: str
    kind: str
    tree: ast.Module
    old: ast.AST
    new: ast.AST

    @property
    def source(self) -> str:
        """Return all of the changed module."""
        changed = ast.unparse(_Replaced(self.old, self.new).visit(self.tree))
        _Replaced(self.new, self.old).visit(self.tree)
        return changed

    def write(self, folder: Path) -> None:
        """Write the package with this change into a folder, which must be new."""
        package = folder / PACKAGE.name
        shutil.copytree(PACKAGE, package)
        package.joinpath(*self.module.split(".")).with_suffix(".py").write_text(self.source)


def mutants() -> Sequence[Mutant]:
    """Return all mutants, in an order that is like a random one, and the same for equal names."""
    found = [mutant for module in MODULES for mutant in mutants_of(module, _source(module))]
    return sorted(found, key=lambda mutant: sha256(mutant.name.encode()).digest())


def _source(module: str) -> str:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text()


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """Return the mutants of a module's source."""
    tree = ast.parse(source)
    seen: Counter[str] = Counter()
    for where, node, nested in list(_nodes(tree, module, False)):
        for kind, new in _changes(node, nested):
            name = f"{where}: {_shown(node)} → {_shown(new)}"
            seen[name] += 1
            number = f" ({seen[name]})" if seen[name] > 1 else ""
            yield Mutant(name + number, module, kind, tree, node, new)


class _Replaced(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _shown(node: ast.AST) -> str:
    shown = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else node
    text = " ".join(ast.unparse(shown).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def _nodes(node: ast.AST, where: str, nested: bool) -> Iterator[tuple[str, ast.AST, bool]]:
    """Return the nodes that a server runs, where they are, and whether that is on a condition."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if field in _NOT_RUN or not isinstance(child, ast.AST) or not _is_served(child):
                continue
            name = getattr(child, "name", None)
            inside = f"{where}.{name}" if isinstance(child, ast.stmt) and name else where
            yield inside, child, nested
            deeper = nested and not isinstance(child, ast.FunctionDef)
            yield from _nodes(child, inside, deeper or isinstance(child, _BLOCKS))


def _is_served(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.Import() | ast.ImportFrom() | ast.arguments():
            return False
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.ClassDef(bases=[ast.Name(id="Protocol")]):
            return False
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return name not in _NOT_SERVED
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name not in _NOT_SERVED and not isinstance(
                getattr(node, "value", None), ast.Subscript
            )
    return True


def _changes(node: ast.AST, nested: bool) -> Iterator[Change]:
    """Return what may take the place of a node; ``nested``: it is under a condition."""
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in _COMPARED[type(op)]:
                    changed = [*ops[:index], other(), *ops[index + 1 :]]
                    yield "comparison", ast.Compare(node.left, changed, node.comparators)
        case ast.BoolOp(op=op, values=values):
            yield (
                "condition",
                ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values),
            )
            for index in range(len(values)):
                left = [*values[:index], *values[index + 1 :]]
                yield "condition", left[0] if len(left) == 1 else ast.BoolOp(op, left)
        case ast.UnaryOp(operand=operand):
            yield "condition" if isinstance(node.op, ast.Not) else "arithmetic", operand
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.UnaryOp):
                negated = copy.copy(node)
                negated.test = ast.UnaryOp(ast.Not(), test)
                yield "condition", negated
        case ast.comprehension(ifs=[_]):
            yield "condition", ast.comprehension(node.target, node.iter, [], node.is_async)
        case ast.BinOp(op=op):
            if type(op) in _COUNTED and not _is_type(node):
                yield "arithmetic", ast.BinOp(node.left, _COUNTED[type(op)](), node.right)
        case ast.AugAssign(op=ast.Add() | ast.Sub() as op):
            yield "arithmetic", ast.AugAssign(node.target, _COUNTED[type(op)](), node.value)
            yield "statement", ast.Pass()
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            yield "call", ast.Call(ast.Name(_CALLED[name]), node.args, node.keywords)
        case ast.Slice(lower=lower, upper=upper):
            if lower is not None:
                yield "slice", ast.Slice(None, upper)
            if upper is not None:
                yield "slice", ast.Slice(lower, None)
        case ast.Constant(value=value):
            yield from (("constant", ast.Constant(other)) for other in _others(value))
        case ast.Expr() | ast.Delete() | ast.Raise():
            yield "statement", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "statement", ast.Pass()
        case ast.Return() if nested:
            yield "statement", ast.Pass()
        case ast.Break():
            yield "statement", ast.Continue()
        case ast.Continue():
            yield "statement", ast.Break()


def _is_type(node: ast.BinOp) -> bool:
    """Tell whether this is a union of types."""
    return isinstance(node.op, ast.BitOr) and all(
        isinstance(side, ast.Name | ast.BinOp | ast.Constant) for side in (node.left, node.right)
    )


def _others(value: object) -> Sequence[bool | int | str | bytes]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1]
        case str():
            return [f"{value}X"]
        case bytes():
            return [value + b"X"]
    return []
