"""Events of a file next to a run: those that a model is tried on, or is used for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import key_text
from weir.dpcore.leaves.sparse_rows import MOST_DENSE, Expanded, SparseRows
from weir.dpcore.models.predictor import Predictor
from weir.transforms.formats.registry import format_of, suffixes


def tables(
    path: Path,
    wanted: Sequence[str],
    option: str,
    listed: ListColumn | None = None,
    numeric: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """A file's events, all their columns, in pieces.

    Args:
      wanted: columns that it must have. option: whose value the path is, for messages.
      listed: the list column; JSON objects in it are given as maps of place to number.
      numeric: columns of numbers; None: any may be. What looks like a time, or a number that would
        be written in another way (``007``), stays the text that it is in any other column.

    Raises:
      ConfigError: a file that is not there or cannot be read, or a column that it lacks.
    """
    form = format_of(path)
    if form is None:
        raise ConfigError(option, str(path), f"must end in one of {suffixes()}.")
    if not path.is_file():
        raise ConfigError(option, str(path), "is no file.")
    try:
        for table in form.tables(str(path), numeric, None if listed is None else listed.column):
            _check(table.schema.names, wanted, path, option)
            yield table
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(option, str(path), f"cannot be read ({type(error).__name__}).") from None


def _check(names: Sequence[str], wanted: Sequence[str], path: Path, option: str) -> None:
    for name in wanted:
        if name not in names:
            raise ConfigError(
                option, str(path), f"has no column {name}; {nearest(name, list(names))}"
            )


def numbers(table: pa.Table, name: str, option: str) -> Floats:
    """A column as (n,) float64, NaN where there is none.

    Raises:
      ConfigError: it holds anything else.
    """
    try:
        column = table[name].cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(option, name, "must hold numbers.") from None
    return np.asarray(column.fill_null(math.nan).to_numpy(), dtype=np.float64)


def features_of(table: pa.Table, model: Predictor, option: str) -> dict[str, Any]:
    """What a model predicts from: feature -> (n,) float64, NaN where there is none; of a list
    column with more features than dense rows have, the column -> ``SparseRows``.

    Raises:
      ConfigError: a column holds anything else.
    """
    listed = model.listed
    if listed is None:
        return {name: numbers(table, name, option) for name in model.features}
    rows = lists_of(table, listed, option)
    if listed.size > MOST_DENSE:
        return {listed.name: rows}
    expanded = Expanded({listed.name: rows}, model.features)
    return {name: expanded[name] for name in model.features}


def lists_of(table: pa.Table, listed: ListColumn, option: str) -> SparseRows:
    """A list column, or a pair of them, as (n, size) rows; a row that is missing holds a NaN.

    Raises:
      ConfigError: a column holds anything else.
    """
    from weir.transforms.columns.list_columns import to_rows
    from weir.transforms.decode.lists import from_python, to_lists

    columns = [table[name] for name in listed.columns]
    if pa.types.is_map(columns[0].type):
        rows = [None if item is None else dict(item) for item in columns[0].to_pylist()]
        return to_rows(from_python(rows, listed.size)[0], listed.size)
    places = columns[0] if len(columns) > 1 else None
    try:
        result, _ = to_lists(columns[-1], places, listed, option, "the file")
    except ConfigError as error:
        raise ConfigError(option, error.value, error.remedy) from None
    return to_rows(result, listed.size)


def without_numbers(given: Mapping[str, Any]) -> NDArray[np.bool_]:
    """(n,) which events lack a feature."""
    void: Any = False
    for column in given.values():
        if isinstance(column, SparseRows):
            bad = np.zeros(len(column), dtype=bool)
            where = np.flatnonzero(~np.isfinite(column.values))
            bad[np.searchsorted(column.offsets, where, side="right") - 1] = True
            void = void | bad
        else:
            void = void | ~np.isfinite(column)
    return np.asarray(void)


def keys_of(table: pa.Table, columns: Sequence[str]) -> NDArray[np.object_]:
    """(n,) the key of each event, as releases have it; () has one, the empty text."""
    if not columns:
        return np.full(len(table), "", dtype=object)
    values = [[str(item) for item in table[name].to_pylist()] for name in columns]
    if len(columns) == 1:
        return np.array(values[0], dtype=object)
    return np.array([key_text(several) for several in zip(*values, strict=True)], dtype=object)
