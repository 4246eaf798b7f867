"""Numbers packed for a page: as many digits as the noise leaves, differences, deflate, base64.

The page unpacks them with the browser's own DecompressionStream (``unpack`` in page.js).
"""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NONE = -(1 << 31)
"""Code of no value."""
_ROOM = 1e9


def step_of(value: Floats, half: Floats) -> float:
    """The unit in which numbers are held: 1, or a tenth of the last digit that the noise leaves."""
    known = half[np.isfinite(half) & (half > 0)]
    seen = value[np.isfinite(value)]
    top = float(np.abs(seen).max()) if seen.size else 1.0
    small = float(known.min()) if known.size else top / 1e4
    step = min(1.0, 10.0 ** (math.floor(math.log10(small)) - 2)) if small > 0 else 1.0
    widest = float(known.max()) if known.size else 0.0
    least = max(top, widest) / _ROOM
    return step if step > least else 10.0 ** math.ceil(math.log10(least))


def pack(numbers: Floats, step: float) -> str:
    """(rows, columns) -> text. Differences along rows wrap at 32 bits, as they do in the page."""
    fine = np.isfinite(numbers)
    codes = np.full(numbers.shape, NONE, np.int64)
    codes[fine] = np.round(numbers[fine] / step).astype(np.int64)
    steps = np.diff(codes, axis=1, prepend=0).astype(np.uint32)  # modulo 2^32
    planes = np.ascontiguousarray(steps.astype("<u4").reshape(-1, 1).view(np.uint8).T)
    return base64.b64encode(zlib.compress(planes.tobytes(), 5)).decode()


def packed(
    value: Floats, half: Floats, low: Floats | None = None, high: Floats | None = None
) -> dict[str, Any]:
    """Values and half widths of their margins, (rows, columns) each; where a value need not lie in
    the middle of its margin its ends too. Half widths that all rows share are one row."""
    step = step_of(value, half)
    if low is not None and high is not None:
        sides = np.stack([value - low, high - value, half, np.abs(low), np.abs(high)])
        step = step_of(np.concatenate([value, low, high]), sides)
    found: dict[str, Any] = {"step": step, "value": pack(value, step)}
    if low is not None and high is not None:
        found |= {"low": pack(low, step), "high": pack(high, step)}
    if np.isfinite(half).any():
        # Rows differ in where a key begins, too: a half width counts where there is a value.
        with np.errstate(invalid="ignore"):
            shared = np.nanmax(np.vstack([half, np.full((1, half.shape[1]), -np.inf)]), axis=0)
            shared = np.where(np.isfinite(shared), shared, np.nan)[None, :]
            off = np.abs(half - shared) > step / 2
        unbanded = np.isfinite(value) & ~np.isfinite(half)
        alike = not off.any() and not unbanded.any()
        found["half"] = pack(shared if alike else half, step)
    return found
