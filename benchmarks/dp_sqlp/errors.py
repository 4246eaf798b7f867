"""How far a released histogram is from the truth."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Errors(NamedTuple):
    """Over all keys at the last tick; a key that was not released counts as a release of 0.

    Attributes:
      keys: how many were released.
      l_inf, l1, l2: norms of the difference.
    """

    keys: float
    l_inf: float
    l1: float
    l2: float


def errors(
    truth: NDArray[np.int64], released: NDArray[np.bool_], values: NDArray[np.float64]
) -> Errors:
    """Of values (keys,), released or not; rounded and cut off at 0, as the published ones are."""
    shown = np.where(released, np.rint(np.maximum(values, 0.0)), 0.0)
    off = np.abs(shown - truth)
    return Errors(
        int(released.sum()), float(off.max()), float(off.sum()), math.sqrt(float((off * off).sum()))
    )
