"""Features of list columns as the columns that a program names: x[17] is feature 17 of x."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.leaves.sparse_rows import SparseRows

_LABEL = re.compile(r"(.+)\[(0|[1-9][0-9]*)\]\Z", re.DOTALL)


def split_label(label: str) -> tuple[str, int] | None:
    """x[17] -> ("x", 17); None: it names no feature of a list."""
    found = _LABEL.fullmatch(label)
    return None if found is None else (found[1], int(found[2]))


class Expanded(Mapping[str, NDArray[Any]]):
    """Columns (n,) by the names that a program reads, x[17] of a list column x among them.

    A list column is a (n, size) array, or ``SparseRows`` of that width; under its own name it is
    the latter.
    """

    def __init__(self, columns: Mapping[str, Any], names: Sequence[str]) -> None:
        self._columns, self._names = columns, names
        self._tables: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._columns:
            column = self._columns[name]
            wide = isinstance(column, np.ndarray) and column.ndim == 2
            return SparseRows.from_dense(column) if wide else column
        found = split_label(name)
        if found is None or found[0] not in self._columns:
            raise KeyError(name)
        return self._table(found[0])[:, found[1]]

    def _table(self, name: str) -> NDArray[Any]:
        """(n, size), its columns one after the other in memory."""
        if name not in self._tables:
            column = self._columns[name]
            table = column.dense() if isinstance(column, SparseRows) else np.asarray(column)
            self._tables[name] = np.asfortranarray(table)
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def width_of(program: Any, name: str) -> int:
    """Features of a list column that a program reads: it says so, or names each of them."""
    if name in program.lists:
        return int(program.lists[name])
    return _named(program.columns, name)


@lru_cache(maxsize=8)
def _named(columns: tuple[str, ...], name: str) -> int:
    found = [split_label(column) for column in columns]
    return sum(label is not None and label[0] == name for label in found)
