"""A predicate as a condition of SQL, so that a database leaves out the rows that do not satisfy it.

Columns are compared with constants, nothing else: no cast of a row's value, no function, no other
row. So a condition is true or false of each row alone and cannot fail for one.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.transforms.columns.predicate_compiler import Compiler
from weir.transforms.sources.sql.database import Database, Type

FIELD = "source.sql.where"
_SIGNS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
    ast.Eq: ("=", "="),
    ast.NotEq: ("<>", "<>"),
}
"""Operator -> its sign, and that with the sides exchanged."""


def condition(where: str, database: Database, types: Mapping[str, Type]) -> tuple[str, list[Any]]:
    """SQL, and its arguments in order.

    Args:
      where: a predicate. types: of the columns of the table.

    Raises:
      ConfigError: it is no predicate, names no column, or compares other things.
    """
    compiler = Compiler(where, FIELD)
    compiler.condition(compiler.tree)
    writer = _Writer(compiler, database, types)
    return writer.condition(compiler.tree), writer.values


class _Writer:
    def __init__(self, compiler: Compiler, database: Database, types: Mapping[str, Type]) -> None:
        self._compiler, self._database, self._types = compiler, database, types
        self.values: list[Any] = []

    def condition(self, node: ast.AST) -> str:
        if isinstance(node, ast.BoolOp):
            word = " AND " if isinstance(node.op, ast.And) else " OR "
            return f"({word.join(self.condition(part) for part in node.values)})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"(NOT {self.condition(node.operand)})"
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return f"({' AND '.join(self._comparison(*pair) for pair in pairs)})"
        return self._against(self._column(node), "=", True)

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        if isinstance(operator, ast.Is | ast.IsNot):
            word = "IS NULL" if isinstance(operator, ast.Is) else "IS NOT NULL"
            return f"({self._database.column(self._column(left))} {word})"
        if isinstance(operator, ast.In | ast.NotIn):
            column = self._column(left)
            assert isinstance(right, ast.List | ast.Tuple | ast.Set)
            among = [self._against(column, "=", self._constant(item)) for item in right.elts]
            among_any = f"({' OR '.join(among)})"
            if isinstance(operator, ast.In):
                return among_any
            return f"({self._database.column(column)} IS NOT NULL AND NOT {among_any})"
        sign, exchanged = _SIGNS[type(operator)]
        if self._compiler._is_column(left):
            return self._against(self._column(left), sign, self._constant(right))
        return self._against(self._column(right), exchanged, self._constant(left))

    def _column(self, node: ast.AST) -> str:
        if not self._compiler._is_column(node):
            raise self._refused()
        name = self._compiler._column(node)
        if name not in self._types:
            raise ConfigError(FIELD, name, f"is no column of {self._database.table.name}.")
        return name

    def _constant(self, node: ast.AST) -> Any:
        if self._compiler._is_column(node) or isinstance(node, ast.BinOp):
            raise self._refused()
        return self._compiler._constant(node)

    def _refused(self) -> ConfigError:
        return ConfigError(
            FIELD,
            self._compiler.text,
            "compares more than a column with constants, which the database would do for all rows "
            "at once. Write that part into where at the top of the config.",
        )

    def _against(self, column: str, sign: str, value: Any) -> str:
        kind, own = _kind_of(value), self._types[column]
        if own != kind and not (own == "time" and kind == "text"):
            raise ConfigError(
                FIELD,
                self._compiler.text,
                f"compares {column}, a column of type {own}, with a {kind}. Compare it with "
                f"{'a time in quotes' if own == 'time' else f'a {own}'}.",
            )
        self.values.append(value)
        return self._database.compare(column, sign, value)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, float) else "text"
