"""Releases whose values say where they belong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.transforms.doubles import FakePlan
from weir.dpcore.program import Released
from weir.transforms.release.table import (
    ReleaseWriter,
)

PLAN = FakePlan()


def batch(
    first: int, ticks: int, keys: list[bytes], block: int = 0, add: float = 0.0
) -> pa.RecordBatch:
    """Releases whose values say where they belong."""
    shape = (ticks, len(keys), 1)
    values = np.arange(ticks * len(keys), dtype=float).reshape(shape) + 1000 * first + add
    pair = np.concatenate([values, -values], axis=2)
    released = (
        Released("sum", 7, values / 8, None),
        Released("sum", None, values, np.full(shape, 0.5)),
        Released("hist", None, pair, np.ones((ticks, 1, 2))),
    )
    return ReleaseWriter(PLAN).batch(block, first, ticks, keys, released if keys else ())
