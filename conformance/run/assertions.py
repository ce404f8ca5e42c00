"""The two sides of a failed ``assert`` of a test: expected and observed.

The expectation is a sentence, made from the code of the assertion and the values of its names:
``client.state_of(job) == "ready"`` becomes "the state of job 3 to be ready", as after "expected".
"""

from __future__ import annotations

import ast
import contextlib
import operator
import threading
import traceback
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from conformance.dialogue.connection import Connection
from conformance.usual_answers import REPORTED_BY
from conformance.verdict import Deviation, OutcomeKind, Step

_PHRASES: Mapping[str, str] = {
    "state_of": "the state of job {}",
    "stats": "stats",
    "stats_job": "stats-job {}",
    "stats_tube": "stats-tube {}",
    "tubes": "the list of tubes",
    "tubes_watched": "the list of watched tubes",
    "tube_used": "the tube in use",
    "kick": "the number of kicked jobs",
    "reserve": "the reply to reserve",
    "reply": "the {} reply",
    "count": "how often {} occurs",
    "fullmatch": "text like {}",
    "listed_alike": "{} to be in list-tubes just if stats-tube finds it",
    "becomes": "{}, soon",
    "eventually": "{}, soon",
}
"""The words for what tests call, by name; ``{}`` stands for the first argument."""
_PLAIN = ("sorted", "set", "list", "tuple", "str", "int", "float", "next", "number")
"""Functions that make no difference to a reader, besides ``number`` of statistics."""
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "to be",
    ast.NotEq: "not to be",
    ast.In: "to be one of",
    ast.NotIn: "not to be in",
    ast.Lt: "to be less than",
    ast.LtE: "to be at most",
    ast.Gt: "to be more than",
    ast.GtE: "to be at least",
    ast.Is: "to be",
    ast.IsNot: "not to be",
}
_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "plus",
    ast.Sub: "minus",
    ast.Mult: "times",
    ast.Pow: "to the power of",
    ast.BitOr: "and",
    ast.BitAnd: "that are in",
}
_SUMS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
}
"""The operators whose result is shown instead of the operands, if these are numbers."""
_SHOWN = 5
"""Items of a list that are shown."""


def as_deviation(error: AssertionError) -> Deviation:
    """Return the failure of an ``assert`` of a test, as that of any other step."""
    if isinstance(error, Deviation):
        return error
    said = (str(error).splitlines() or ["it is not so"])[0].removeprefix("assert ")
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        for place, test in _asserts(frame.f_code.co_filename):
            if place == line:
                step = Step(OutcomeKind.WRONG_VALUE, subject=ast.unparse(test))
                values = ChainMap(frame.f_locals, frame.f_globals)
                expected, observed = _sentence(test, values), _observed(test, values, said)
                deviation = Deviation(expected, observed, step=step)
                deviation.suspects = tuple(_reports(test))
                return deviation
    return Deviation("the test's assertion", said)


def _reports(test: ast.expr) -> Iterator[str]:
    """Yield the requirements of the reports that an assertion depends on."""
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and node.attr in REPORTED_BY:
            yield REPORTED_BY[node.attr]


def _sentence(test: ast.expr, values: Mapping[str, object]) -> str:
    """Return what an assertion asserts; ``values`` are those of the names in it."""
    words = _Sentence(values).of(test)
    return f"{words} not to be empty" if isinstance(test, ast.Name) else words


class _Sentence:
    """Words for the expressions of an assertion; ``values`` are those of its names."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def of(self, node: ast.expr) -> str:
        """Return an expression in words, and as code in backticks where there are none."""
        match node:
            case ast.Constant():
                return _shown(node.value)
            case ast.Name() | ast.Attribute():
                return self._named(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.Subscript(value=ast.Attribute(value=reply, attr="args")):
                return f"the id in {self.of(reply)}"
            case ast.Subscript() if _is_plain(value := self.value_of(node)):
                return _shown(value)
            case ast.Subscript(slice=ast.Slice()):
                return f"part of {self.of(node.value)}"
            case ast.Subscript():
                return f"{self.of(node.slice)} in {self.of(node.value)}"
            case ast.Call():
                return self._call(node)
            case ast.BinOp():
                if isinstance(value := self.value_of(node), int | float):
                    return _shown(value)
                if type(node.op) in _OPERATORS:
                    left, right = self.of(node.left), self.of(node.right)
                    return f"{left} {_OPERATORS[type(node.op)]} {right}"
            case ast.BoolOp():
                word = " and " if isinstance(node.op, ast.And) else " or "
                return word.join(map(self.of, node.values))
            case ast.UnaryOp(op=ast.Not()):
                return f"not {self.of(node.operand)}"
            case ast.UnaryOp(op=ast.USub()):
                return f"-{self.of(node.operand)}"
            case ast.Set() | ast.List() | ast.Tuple():
                return _listed([self.of(item) for item in node.elts])
            case ast.SetComp() | ast.ListComp() | ast.GeneratorExp():
                (one, *_) = node.generators
                item = {one.target.id: "N"} if isinstance(one.target, ast.Name) else {}
                words = _Sentence({**self._values, **item}).of(node.elt)
                return f"{words} for each N of {self.of(one.iter)}"
            case ast.Lambda():
                return self.of(node.body)
            case ast.Starred():
                return self.of(node.value)
            case ast.IfExp():
                return f"{self.of(node.body)} or {self.of(node.orelse)}"
            case ast.JoinedStr():
                return "".join(map(self.of, node.values))
            case ast.FormattedValue():
                return self.of(node.value)
            case ast.Dict():
                return "no entry" if not node.keys else "the entries due"
        return f"`{ast.unparse(node)}`"

    def _named(self, node: ast.Name | ast.Attribute) -> str:
        value = self.value_of(node)
        if _is_plain(value):
            return _shown(value)
        name = node.id if isinstance(node, ast.Name) else node.attr
        return f"the {name.lower().replace('_', ' ')}"

    def value_of(self, node: ast.expr) -> object:
        """Return the value of a number, name, stored attribute, item or sum; None without any."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
            left, right = self.value_of(node.left), self.value_of(node.right)
            if isinstance(left, int | float) and isinstance(right, int | float):
                return _SUMS[type(node.op)](left, right)
        if isinstance(node, ast.Name):
            return self._values.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.value_of(node.value), "__dict__", {}).get(node.attr)
        if isinstance(node, ast.Subscript) and isinstance(held := self.value_of(node.value), list):
            with contextlib.suppress(ValueError, TypeError, IndexError):
                item: object = held[ast.literal_eval(node.slice)]
                return item
        return None

    def _comparison(self, node: ast.Compare) -> str:
        left, *others = map(self.of, [node.left, *node.comparators])
        is_same = others == [left]
        subject = _subject(node)
        named = f"the {subject.id.replace('_', ' ')}" if isinstance(subject, ast.Name) else None
        if subject is not node.left:
            return f"{named or others[0]} to be between {left} and {others[1]}"
        left = named or left
        match node.ops:
            case [ast.Eq()] if _is_nothing(node.comparators[0]):
                return f"{left} to be empty"
            case [ast.Eq()] if is_same:
                is_sorted = "sorted" in ast.unparse(node.comparators[0])
                return f"{left} to be {'in order' if is_sorted else 'the same'} without repetitions"
            case [ast.In()] if not isinstance(node.comparators[0], ast.Tuple):
                return f"{left} to be in {others[0]}"
            case [ast.LtE()] if isinstance(node.left, ast.Set):
                return f"{left} to be in {others[0]}"
        compared = zip(node.ops, others, strict=True)
        return left + "".join(f" {_COMPARISONS[type(op)]} {right}" for op, right in compared)

    def _call(self, node: ast.Call) -> str:
        arguments = [self.of(argument) for argument in node.args]
        first = arguments[0] if arguments else ""
        match node.func:
            case ast.Name(id="len"):
                return f"the number of {first}"
            case ast.Attribute(attr="number" | "get"):
                return f"{first} in {self.of(node.func.value)}"
            case ast.Name(id=name) if name in _PLAIN and arguments:
                return first
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in _PHRASES:
                return _PHRASES[name].format(first).rstrip()
            case ast.Name(id=name) | ast.Attribute(attr=name):
                is_client = arguments and isinstance(self.value_of(node.args[0]), Connection)
                about = [] if is_client else arguments[:1]
                return " ".join(["the", name.strip("_").replace("_", " "), *about])
        return f"`{ast.unparse(node)}`"


def _subject(node: ast.Compare) -> ast.expr:
    """Return the side of a comparison that came from the target: the middle one of an interval."""
    is_between = [type(op) for op in node.ops] == [ast.LtE, ast.LtE]
    return node.comparators[0] if is_between else node.left


def _is_nothing(node: ast.expr) -> bool:
    return ast.unparse(node) in ("[]", "()", "{}")


def _is_plain(value: object) -> bool:
    """Tell whether a value can be shown in a sentence."""
    if isinstance(value, list | tuple | set | frozenset):
        return all(isinstance(item, str | int) for item in value)
    if isinstance(value, dict):
        return all(isinstance(item, str | int) for item in value.values())
    return isinstance(value, str | bytes | int | float)


def _shown(value: object) -> str:
    """Return a value as a reader of the protocol expects it: without quotes."""
    match value:
        case list() | tuple():
            return _listed(map(_shown, value))
        case set() | frozenset():
            return _listed(sorted(map(_shown, value)))
        case dict():
            return _listed(f"{key}: {_shown(item)}" for key, item in value.items())
        case str():
            return value or "nothing"
        case float():
            return f"{value:g}"
    return f"{value!r}"


def _listed(items: Iterable[str]) -> str:
    shown = [*items]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more or "nothing"


def _observed(test: ast.expr, values: Mapping[str, object], said: str) -> str:
    """Return the observed side of a comparison, else ``said``, as pytest has written it down.

    Of a value with a name, pytest may have left out a part.
    """
    subject = _subject(test) if isinstance(test, ast.Compare) else None
    if isinstance(subject, ast.Name) and _is_plain(value := values.get(subject.id)):
        return _shown(value)
    with _parsing:
        try:
            compared = ast.parse(said, mode="eval").body
            if isinstance(compared, ast.Compare):
                total = _Sentence({}).value_of(compared.left)
                return _shown(ast.literal_eval(compared.left) if total is None else total)
        except (SyntaxError, ValueError):
            pass
    return said


_parsing = threading.Lock()
"""Python 3.11 counts the depth of all parsers together: two at once may be a SystemError."""


@cache
def _asserts(filename: str) -> list[tuple[int, ast.expr]]:
    if not Path(filename).name.startswith("test_"):
        return []
    with _parsing:
        return list(_read(filename))


def _read(filename: str) -> Iterator[tuple[int, ast.expr]]:
    try:
        tree = ast.parse(Path(filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield node.lineno, node.test
