"""What no such mechanism can save: noise for every key and tick, and the file of releases."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EVERY = 100
"""Ticks in a row group."""


def seconds(file: Path, keys: int, ticks: int, rows: int) -> float:
    """Draws keys * ticks normals with numpy, writes ``rows`` rows with Arrow; no event is read.

    Args:
      keys: those that a mechanism must step, released or not: all that anybody touched.
      rows: what was released over all ticks; as many at each here.
    """
    rng = np.random.default_rng(1)
    schema = pa.schema([("key", pa.int64()), ("tick", pa.int64()), ("value", pa.float64())])
    a_tick = min(rows // ticks, keys)
    began = time.perf_counter()
    with pq.ParquetWriter(file, schema) as writer:
        for first in range(0, ticks, EVERY):
            n = min(EVERY, ticks - first)
            values = np.empty((n, a_tick))
            for i in range(n):
                values[i] = rng.standard_normal(keys)[:a_tick]
            key = np.tile(np.arange(a_tick), n)
            tick = np.repeat(np.arange(first, first + n), a_tick)
            writer.write_table(pa.table([key, tick, values.ravel()], schema=schema))
    return time.perf_counter() - began
