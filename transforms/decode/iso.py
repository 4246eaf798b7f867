"""Times of ISO 8601 in their common form, in C, each on its own.

That form is ``YYYY-MM-DDThh:mm:ss`` or with a space for the T, of a day that the calendar has, with
at most six digits of a second, and behind them Z, an offset like ``+02:00``, or nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.native import kernels

OTHER, ABSOLUTE, LOCAL = 0, 1, 2


class Times(NamedTuple):
    """What was read.

    Attributes:
      microseconds: (n,) int64 since 1970, in UTC where there is an offset, else as a clock there
        shows; of no meaning where nothing was read.
      kinds: (n,) uint8, OTHER where a time is missing or of another form, ABSOLUTE or LOCAL.
    """

    microseconds: NDArray[np.int64]
    kinds: NDArray[np.uint8]


def common_times(text: Any) -> Times | None:
    """Reads (n,) strings; None where the kernel is missing."""
    if kernels is None or not len(text):
        return None
    text = text.cast(pa.string())
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    found = Times(np.empty(len(text), dtype=np.int64), np.empty(len(text), dtype=np.uint8))
    kernels.times(data or b"", ends, found.microseconds, found.kinds)
    if text.null_count:
        found.kinds[text.is_null().to_numpy(zero_copy_only=False)] = OTHER
    return found
