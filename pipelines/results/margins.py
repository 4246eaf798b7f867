"""Margins of error of what a folder holds: intervals, between public ends where there are some."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.words import number
from weir.pipelines.results.run import ReleasedOutput

Floats = NDArray[np.float64]


def ends(
    output: ReleasedOutput, value: Any, half: Any, low: Any = None, high: Any = None
) -> tuple[Floats, Floats]:
    """Both ends of the margins of some values.

    Args:
      output: of the values. value: (n, d). half: (n, d), half the width of the margin that the
        standard deviation gives. low, high: (n, d), as the rows have them; None: they do not.

    Returns:
      low, high: (n, d), as ``Flat`` writes them.
    """
    value, half = np.asarray(value, dtype=np.float64), np.asarray(half, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        least, most = value - half, value + half
    if output.interval and low is not None and high is not None:
        least = np.where(np.isfinite(low), low, least)
        most = np.where(np.isfinite(high), high, most)
    first, last = output.between
    if first is not None and last is not None:
        least = np.maximum(least, np.fmin(value, first))
        most = np.minimum(most, np.fmax(value, last))
    return least, most


def lopsided(value: float, low: float, high: float) -> bool:
    """Whether a value does not lie in the middle of its margin."""
    return abs((high - value) - (value - low)) > 1e-6 * (high - low)


def interval(value: float, low: float, high: float) -> str:
    """A value and both ends of its margin: ``264 (158 to 5,623)``."""
    return f"{number(value, 3)} ({number(low, 3)} to {number(high, 3)})"


__all__ = ["ends", "interval", "lopsided"]
