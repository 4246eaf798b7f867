"""Prefixes of a dyadic tree, streamed: what both trees and the hybrid keep, and how it moves.

The prefix [0, r) of a tree is covered by one node a binary digit 1 of r. With z = trailing_zeros(r)
the last of them is [r - 2^z, r), and the others cover [0, r - 2^z): so anything that adds up over
the cover (noise) or over time (the digest chain) needs its value at r - 2^z only. That is slot z of
``Slots``, where slot l holds the value at (r >> l) << l.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Slots:
    """Values at (r >> l) << l for l = 0 .. levels - 1, while r moves on.

    Args:
      kept: (K, levels, w), as ``packed`` returned it, or zeros at r = 0. Never written to.
    """

    def __init__(self, kept: NDArray[Any]) -> None:
        self._zero = np.zeros((kept.shape[0], kept.shape[2]), dtype=kept.dtype)
        self._like = kept
        self._slots: list[NDArray[Any]] = list(kept.transpose(1, 0, 2))

    def before(self, level: int) -> NDArray[Any]:
        """(K, w): the value at r - 2^level, for the next r that has this many trailing zeros."""
        return self._slots[level]

    def put(self, level: int, value: NDArray[Any]) -> None:
        """The value at an r with ``level`` trailing zeros. value: (K, w), not written to later."""
        for below in range(min(level + 1, len(self._slots))):
            self._slots[below] = value

    def reset(self, value: NDArray[Any] | None = None) -> None:
        """Starts again at r = 0, with this value (None: zeros)."""
        self.put(len(self._slots), self._zero if value is None else value)

    def packed(self) -> NDArray[Any]:
        """(K, levels, w): a fresh array."""
        return np.stack(self._slots, axis=1) if self._slots else np.zeros_like(self._like)
