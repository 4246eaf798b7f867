"""The map of all keys of one output over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HEAT_ROWS = 40
HEAT_TICKS = 120


@dataclass(frozen=True)
class HeatMap:
    """All keys of one output over time, largest median over time first.

    Attributes:
      ticks: (m,).
      rows: what each row is: a key, or a range of ranks; none where noise hides the differences
        between keys, as ranks would show noise then.
      keys_per_row: 1, or more where rows are means over keys of neighbouring rank.
      value: (rows, m), NaN where there is none.
      spread, noise: standard deviations of the keys' medians over time, and of their noise. 0
        where the release has no margin.
    """

    ticks: Ints
    rows: tuple[str, ...]
    keys_per_row: float
    value: Floats
    spread: float = 0.0
    noise: float = 0.0


def heat_map(keys: Sequence[str], ticks: Ints, value: Floats, half: Floats, band: float) -> HeatMap:
    """Means over keys of neighbouring rank, where there are more keys than rows.

    Args:
      ticks: (m,). value, half: (keys, m), half the width of margins too. band: half the width of a
        margin in standard deviations.

    Keys rank by their median over time. Where the variance of the medians is at most twice that of
    the noise, most of a rank is noise, and nothing is drawn.
    """
    n = len(keys)
    every = stride_of(len(ticks), HEAT_TICKS)
    shown = np.arange(len(ticks))[::-1][::every][::-1]
    value, half = value[:, shown], half[:, shown]
    level, noise = _medians(value), _medians(half) / band
    known = np.isfinite(level) & np.isfinite(noise)
    spread = float(np.std(level[known])) if known.any() else 0.0
    typical = float(np.sqrt(np.mean(noise[known] ** 2))) if known.any() else 0.0
    if known.any() and spread**2 <= 2 * typical**2:
        empty = np.zeros((0, len(shown)))
        return HeatMap(ticks[shown], (), 1.0, empty, spread, typical)
    order = np.argsort(-np.nan_to_num(level, nan=-np.inf), kind="stable")
    keys, value = [keys[i] for i in order], value[order]
    edges = [row * n // min(n, HEAT_ROWS) for row in range(min(n, HEAT_ROWS) + 1)]
    there = np.isfinite(value)
    count = np.add.reduceat(there, edges[:-1], axis=0)
    total = np.add.reduceat(np.where(there, value, 0.0), edges[:-1], axis=0)
    mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    rows = tuple(
        keys[low] or "(empty)" if high == low + 1 else f"rank {low + 1:,} to {high:,}"
        for low, high in zip(edges, edges[1:], strict=False)
    )
    return HeatMap(ticks[shown], rows, n / len(rows), mean, spread, typical)


def _medians(series: Floats) -> Floats:
    """Median of each row over what is there: (keys,), NaN where nothing is."""
    ordered = np.sort(series, axis=1)  # what is missing goes last
    count = np.isfinite(series).sum(axis=1)
    rows = np.arange(len(series))
    middle = [ordered[rows, np.maximum(count - 1 + i, 0) // 2] for i in (0, 1)]
    return np.where(count > 0, (middle[0] + middle[1]) / 2, np.nan)


def stride_of(ticks: int, room: int) -> int:
    """Every how manieth of so many ticks is drawn."""
    return max(1, -(-ticks // max(1, room)))
