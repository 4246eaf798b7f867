"""Events of a file beside a run: those that a model is tried on, or is used for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.arrays import Floats
from dpcore.config.section import nearest
from dpcore.errors import ConfigError
from dpcore.leaves.keys import key_text

ENDINGS = (".csv", ".parquet", ".ndjson", ".jsonl")
ROWS = 1 << 17
"""Of a Parquet file so many rows are read at a time; the others are read whole."""


def tables(path: Path, wanted: Sequence[str], option: str) -> Iterator[pa.Table]:
    """A file's events, all their columns, in pieces.

    Args:
      wanted: columns that it must have. option: whose value the path is, for messages.

    Raises:
      ConfigError: a file that is not there or cannot be read, or a column that it lacks.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(option, str(path), f"must end in one of {', '.join(ENDINGS)}.")
    if not path.is_file():
        raise ConfigError(option, str(path), "is no file.")
    try:
        if ending == ".parquet":
            with pq.ParquetFile(path) as reader:
                _check(reader.schema_arrow.names, wanted, path, option)
                if not reader.metadata.num_rows:
                    yield reader.schema_arrow.empty_table()
                for batch in reader.iter_batches(ROWS):
                    yield pa.Table.from_batches([batch])
            return
        read = pyarrow.csv.read_csv if ending == ".csv" else pyarrow.json.read_json
        table = read(path)
    except (pa.ArrowInvalid, ValueError, OSError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(option, str(path), f"cannot be read ({type(error).__name__}).") from None
    _check(table.schema.names, wanted, path, option)
    yield table


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


def keys_of(table: pa.Table, columns: Sequence[str]) -> NDArray[np.object_]:
    """(n,) the key of each event, as releases have it; () has one, the empty text."""
    if not columns:
        return np.full(len(table), "", dtype=object)
    values = [[str(one) for one in table[name].to_pylist()] for name in columns]
    if len(columns) == 1:
        return np.array(values[0], dtype=object)
    return np.array([key_text(several) for several in zip(*values, strict=True)], dtype=object)
