"""The compiler of the predicate language: a whitelist over Python's own syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, Literal, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.transforms.columns.sql_words import has_neighbours

Kind = Literal["number", "text", "boolean", "any", "list"]
"""How a column is read. number: float64, NaN where missing; text: string; boolean: bool; any:
only if it is there."""
Values = Any
Evaluate = Callable[[pa.RecordBatch], Values]

ALLOWED = (
    "allowed are column names (in `backquotes` if they are not plain words), numbers, texts in "
    "quotes, True, False, < <= > >= == !=, in [..], not in [..], is None, is not None, and, or, "
    "not, + - * / and parentheses."
)
_MAX_LENGTH = 10_000
_COMPARE: dict[type, Callable[[Values, Values], Values]] = {
    ast.Lt: pc.less,
    ast.LtE: pc.less_equal,
    ast.Gt: pc.greater,
    ast.GtE: pc.greater_equal,
    ast.Eq: pc.equal,
    ast.NotEq: pc.not_equal,
}
_ARITHMETIC: dict[type, Callable[[Values, Values], Values]] = {
    ast.Add: pc.add,
    ast.Sub: pc.subtract,
    ast.Mult: pc.multiply,
    ast.Div: pc.divide,
}
_WORDS = {
    **{"true": True, "false": False, "null": None},
    **{"TRUE": True, "FALSE": False, "NULL": None},
}
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`([^`]*)`")


class Compiler:
    """One pass over the syntax tree; collects what it learns about columns on the way."""

    def __init__(self, text: str, field: str = "where") -> None:
        self.text, self.field = text, field
        self.names: dict[str, str] = {}
        self.kinds: dict[str, Kind | None] = {}
        self.asked_only: set[str] = set()
        self.pairs: list[tuple[str, str]] = []
        if not isinstance(text, str) or not text.strip() or len(text) > _MAX_LENGTH:
            self.refuse("is empty or too long")
        if has_neighbours(text):
            self.refuse(
                "has two texts side by side; put a comma between them, or one text in quotes of "
                "the other kind"
            )
        try:
            self.tree = ast.parse(_QUOTED.sub(self._name, text.strip()), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.refuse("cannot be read")

    def refuse(self, why: str) -> NoReturn:
        raise ConfigError(self.field, self.text, f"{why}; {ALLOWED}") from None

    def _name(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        name = f"column_{len(self.names)}_"
        while name in self.text:
            name += "_"
        self.names[name] = match[1]
        return name

    def _column(self, node: ast.AST) -> str:
        """A name, or one with fields of it: ``meta.amount``."""
        if isinstance(node, ast.Attribute):
            return f"{self._column(node.value)}.{node.attr}"
        assert isinstance(node, ast.Name)
        return self.names.get(node.id, node.id)

    def _is_column(self, node: ast.AST) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id not in _WORDS

    def _learn(self, column: str, kind: Kind) -> None:
        self.asked_only.discard(column)
        known = self.kinds.get(column)
        if known is not None and known != kind:
            self.refuse(f"uses the column {column} both as {known} and as {kind}")
        self.kinds[column] = kind

    def resolved(self) -> dict[str, Kind | None]:
        """Carries kinds across comparisons of two columns until nothing changes."""
        changed = True
        while changed:
            changed = False
            for pair in self.pairs:
                for item, other in (pair, pair[::-1]):
                    kind = self.kinds[item]
                    if kind is not None and self.kinds[other] != kind:
                        self._learn(other, kind)
                        changed = True
        return self.kinds

    # Conditions: arrays of bool without nulls.

    def condition(self, node: ast.AST) -> Evaluate:
        if isinstance(node, ast.BoolOp):
            parts = [self.condition(value) for value in node.values]
            join = pc.and_ if isinstance(node.op, ast.And) else pc.or_
            return lambda batch: _fold(join, [part(batch) for part in parts])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.condition(node.operand)
            return lambda batch: pc.invert(inner(batch))
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if self._is_column(node):
            column = self._column(node)
            self._learn(column, "boolean")
            return lambda batch: pc.fill_null(batch.column(column), False)
        self.refuse(f"uses {_describe(node)} as a condition")

    def _comparison(self, node: ast.Compare) -> Evaluate:
        sides = [node.left, *node.comparators]
        parts = [
            self._compare(left, operator, right)
            for left, operator, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return lambda batch: _fold(pc.and_, [part(batch) for part in parts])

    def _compare(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Evaluate:
        if isinstance(operator, ast.Is | ast.IsNot):
            return self._is_none(left, right, isinstance(operator, ast.Is))
        if isinstance(operator, ast.In | ast.NotIn):
            return self._is_in(left, right, isinstance(operator, ast.In))
        compare = _COMPARE[type(operator)]
        if self._is_column(left) and self._is_column(right):
            item, other = self._column(left), self._column(right)
            for column in (item, other):
                self.kinds.setdefault(column, None)
                self.asked_only.discard(column)
            self.pairs.append((item, other))
            return lambda batch: _known(compare(_read(batch, item), _read(batch, other)))
        kind = self._literal_kind(left) or self._literal_kind(right) or "number"
        first, second = self._value(left, kind), self._value(right, kind)
        return lambda batch: _known(compare(first(batch), second(batch)))

    def _is_none(self, left: ast.expr, right: ast.expr, wanted: bool) -> Evaluate:
        if not self._is_column(left) or self._constant(right) is not None:
            self.refuse("uses `is` for something other than `column is None`")
        column = self._column(left)
        if column not in self.kinds:
            self.kinds[column] = None
            self.asked_only.add(column)

        def evaluate(batch: pa.RecordBatch) -> Values:
            missing = pc.is_null(batch.column(column), nan_is_null=True)
            return missing if wanted else pc.invert(missing)

        return evaluate

    def _is_in(self, left: ast.expr, right: ast.expr, wanted: bool) -> Evaluate:
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            self.refuse("has something other than a list of values after `in`")
        for item in right.elts:
            if self._is_column(item):
                name = self._column(item)
                self.refuse(f"has {name} in a list of values; put texts in quotes, like '{name}'")
        values = [self._constant(item) for item in right.elts]
        kinds = {_kind_of(value) for value in values}
        if None in kinds or len(kinds) != 1:
            self.refuse("has a list of values of different kinds")
        kind = kinds.pop()
        assert kind is not None
        source = self._value(left, kind)
        types = {"number": pa.float64(), "text": pa.string(), "boolean": pa.bool_()}
        among = pa.array(values, types[kind])

        def evaluate(batch: pa.RecordBatch) -> Values:
            argument = source(batch)
            result = pc.is_in(argument, value_set=among)
            return result if wanted else pc.and_not(pc.is_valid(argument), result)

        return evaluate

    # Values: arrays with nulls where missing, or scalars.

    def _value(self, node: ast.expr, kind: Kind) -> Evaluate:
        if self._is_column(node):
            column = self._column(node)
            self._learn(column, kind)
            return lambda batch: _read(batch, column)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and kind == "number":
            apply = _ARITHMETIC[type(node.op)]
            left, right = self._value(node.left, kind), self._value(node.right, kind)
            return lambda batch: _nan_to_null(apply(left(batch), right(batch)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and kind == "number":
            inner = self._value(node.operand, kind)
            return lambda batch: pc.negate(inner(batch))
        value = self._constant(node)
        if value is None or _kind_of(value) != kind:
            self.refuse(f"compares {kind} with {_describe(node)}")
        scalar = pa.scalar(value)
        return lambda batch: scalar

    def _literal_kind(self, node: ast.expr) -> Kind | None:
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            return "number"
        if self._is_column(node):
            return None
        value = self._constant(node)
        if value is None:
            self.refuse("compares with None; write `is None` or `is not None`")
        return _kind_of(value)

    def _constant(self, node: ast.AST) -> Any:
        """A number (float), text, bool, or None; refuses everything else."""
        if isinstance(node, ast.Name) and node.id in _WORDS:
            return _WORDS[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._constant(node.operand)
            if _kind_of(value) == "number":
                return -value
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bool | None):
            return node.value
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            try:
                return float(node.value)
            except OverflowError:
                self.refuse("has a number too large to compare with")
        self.refuse(f"uses {_describe(node)}")


def _kind_of(value: Any) -> Kind | None:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "number"
    return "text" if isinstance(value, str) else None


def _describe(node: ast.AST) -> str:
    names = {
        ast.Call: "a function call",
        ast.Attribute: "an attribute",
        ast.Subscript: "an index",
        ast.Lambda: "a lambda",
        ast.IfExp: "an if expression",
        ast.NamedExpr: "an assignment",
        ast.JoinedStr: "a formatted text",
        ast.Compare: "a comparison inside a comparison",
        ast.Constant: "a constant",
        ast.Name: "a column",
        ast.List: "a list",
        ast.Tuple: "a list",
        ast.BinOp: "arithmetic",
        ast.UnaryOp: "an operator",
    }
    return names.get(type(node), f"something not allowed here ({type(node).__name__})")


def _fold(join: Callable[[Values, Values], Values], parts: list[Values]) -> Values:
    result = parts[0]
    for part in parts[1:]:
        result = join(result, part)
    return result


def _read(batch: pa.RecordBatch, column: str) -> Values:
    return _nan_to_null(batch.column(column))


def _nan_to_null(values: Values) -> Values:
    """NaN is how a missing number travels."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)


def _known(compared: Values) -> Values:
    return pc.fill_null(compared, False)
