"""What is asked of a price: where in time, and over which spans."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpcore.accounting.guarantee import Relation
from dpcore.aggregates.channel import Channel
from dpcore.aggregates.output import Output
from dpcore.arrays import Ints

FAR = 1 << 20
"""Without an end, errors are compared up to this tick (or four windows, whichever is later)."""


LAST = (1 << 40) - 1
"""But not beyond what a clock without end is served for."""


@dataclass(frozen=True)
class Question:
    """What is to be priced.

    Attributes:
      channels, outputs: what a leaf holds and what is released.
      relation: which neighbours. may_vanish: whether another payload may filter the event out.
      window: protection window in ticks, None = forever. horizon: ticks of the clock, None = no
        end.
      options: what the user fixed of the mechanism (buffers, gamma), passed to ``calibrated``.
    """

    channels: tuple[Channel, ...]
    outputs: tuple[Output, ...]
    relation: Relation
    may_vanish: bool
    window: int | None
    horizon: int | None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def overs(self) -> tuple[int | None, ...]:
        """Everything asked of any output: since the start first, then by length."""
        asked = {over for output in self.outputs for over in output.overs}
        return tuple(sorted(asked, key=lambda over: math.inf if over is None else over))[::-1]

    def ticks(self) -> Ints:
        """Where worst errors are looked for: all ticks of a short clock, a spread of a long one."""
        last = self.horizon or min(max(FAR, 4 * (self.window or 1)), LAST)
        if last <= 2048:
            return np.arange(last, dtype=np.int64)
        powers = 2 ** np.arange(int(math.log2(last)) + 1, dtype=np.int64)
        some = [powers - 2, powers - 1, powers, np.linspace(0, last - 1, 401).astype(np.int64)]
        spread = np.concatenate([*some, [last - 1]])
        return np.unique(spread[(spread >= 0) & (spread < last)])
