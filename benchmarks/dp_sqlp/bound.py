"""What no such mechanism can save, with numpy and Arrow alone.

``noise``: noise for every key and tick, and the file of releases; no event is read.
``events``: the same, once events are read, sorted by user and key and the caps are applied by
position, as plain arrays of whole numbers: no hashes, no texts, no dead letters, nothing private.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.dp_sqlp.data import MINUTE, START
from benchmarks.harness import Took, timed

EVERY = 100
"""Ticks in a row group."""
_KEYS, _MINUTES = 20, 10
"""Bits of a key and of a minute."""


def noise(file: Path, keys: int, ticks: int, rows: int) -> Took:
    """Draws keys * ticks normals with numpy, writes ``rows`` rows with Arrow.

    Args:
      keys: those that a mechanism must step, released or not: all that anybody touched.
      rows: what was released over all ticks; as many at each here.
    """
    return timed(lambda: _noise(file, keys, ticks, rows))


def _noise(file: Path, keys: int, ticks: int, rows: int) -> None:
    rng = np.random.default_rng(1)
    schema = pa.schema([("key", pa.int64()), ("tick", pa.int64()), ("value", pa.float64())])
    a_tick = min(rows // ticks, keys)
    with pq.ParquetWriter(file, schema) as writer:
        for first in range(0, ticks, EVERY):
            n = min(EVERY, ticks - first)
            values = np.empty((n, a_tick))
            for i in range(n):
                values[i] = rng.standard_normal(keys)[:a_tick]
            key = np.tile(np.arange(a_tick), n)
            tick = np.repeat(np.arange(first, first + n), a_tick)
            writer.write_table(pa.table([key, tick, values.ravel()], schema=schema))


def events(file: Path, cap: int) -> Took:
    """Reads the events, and counts what stays of them; see ``counted``."""
    return timed(lambda: counted(file, cap))


def counted(file: Path, cap: int) -> NDArray[np.int64]:
    """Sorts events by (user, key, minute), and counts the first of each user and key by key and
    minute, ``cap`` of a user at most: (cells,)."""
    columns = pq.read_table(file, columns=["user", "key", "time"])
    code = columns["user"].to_numpy() << (_KEYS + _MINUTES)
    code |= columns["key"].to_numpy() << _MINUTES
    time_of = columns["time"].combine_chunks().view(pa.int64()).to_numpy()
    code |= (time_of - START) // MINUTE
    del columns, time_of
    code.sort()
    pair = code >> _MINUTES
    code = code[np.flatnonzero(np.diff(pair, prepend=-1))]
    user = code >> (_KEYS + _MINUTES)
    starts = np.flatnonzero(np.diff(user, prepend=-1))
    rank = np.arange(len(user)) - np.repeat(starts, np.diff(starts, append=len(user)))
    cells = code[rank < cap] & ((1 << (_KEYS + _MINUTES)) - 1)
    cells.sort()
    return np.diff(np.flatnonzero(np.diff(cells, prepend=-1)), append=len(cells))
