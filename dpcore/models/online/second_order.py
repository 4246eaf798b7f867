"""Follow the leader of the losses themselves, whose curvature is summed in private beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.kit.grid import to_grid
from weir.dpcore.models.online.nearest import Nearest
from weir.dpcore.models.online.quadratic import FARTHEST, solve_positive, triangle
from weir.dpcore.models.online.rule import Rule


class SecondOrderState(NamedTuple):
    """State of K learners.

    Attributes:
      x: (K, d) float64, what is played next. t: (K,) int64, ticks so far.
      right: (K, d) sum of (H_s x_s - g_s). released: (K, d + d (d + 1) / 2) the sums of the last
        tick. near: see ``Nearest``.
    """

    x: Floats
    t: Ints
    right: Floats
    released: Floats
    near: Any


@dataclass(frozen=True)
class SecondOrderLeader(Rule):
    """x_{t+1} = Proj_P(y_t), y_t the minimiser of

      sum_{s <= t} ( <g_s, x> + (x - x_s)' H_s (x - x_s) / 2 ) + (w/2) ||x - centre||^2,

    g_s the gradient of tick s at x_s, H_s = smoothness * sum of x x^T of its events: for squared
    losses that is the sum of the losses, for other smooth ones an upper bound on it that touches
    each where it was played. Steps of one length for all directions need as many ticks as the
    widest feature is wider than the narrowest; this one needs as many events as there are features.

    Noise: with Z and E the noise of the sums of g and H, y solves
    (H + E + w) y = (truth) + sum_s E_s x_s - Z, E_s what tick s adds to E, so that E enters as
    sum_s E_s (x_s - y) alone: what is drawn once models stand still is not felt, and H may have the
    smaller share of the budget. w is at least as large as E's largest eigenvalue is expected to be;
    pivots are raised to it.

    **Formal guarantees**: post-processing of the two sums, which are released together.
    Bits: + - * / and sqrt, a row by itself, and what feeds back is rounded to the grid.
    Source: Hazan, Agarwal, Kale (2007), "Logarithmic regret algorithms for online convex
      optimization", follow the approximate leader, with private sums as derived here.

    Attributes:
      set: P. curvature: w. centre: d numbers.
      calls: 0: P projects; else so many linear oracle calls a tick.
    """

    calls: int = 0

    rule: ClassVar[str] = "second_order_leader"
    fading: ClassVar[str] = " in all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.calls:
            self.refuse_unprojected("model.schedule", "second_order")

    @cached_property
    def _nearest(self) -> Nearest:
        return Nearest(self.set, self.calls)

    @property
    def regret(self) -> str:
        return (
            "Models follow all events so far as least squares does, and the pull to the centre "
            "fades. For squared losses, while the set does not bind and noise stays bounded (a "
            "fixed window), what noise adds to the regret grows as a power of ln T."
        )

    def init(self, n_keys: int) -> SecondOrderState:
        """Everyone starts at the public start."""
        d, start = self.set.dimension, self.at_start(n_keys)
        released = np.zeros((n_keys, d + d * (d + 1) // 2))
        t = np.zeros(n_keys, dtype=np.int64)
        return SecondOrderState(
            start, t, np.zeros((n_keys, d)), released, self._nearest.init(n_keys)
        )

    def update(self, state: SecondOrderState, data_sum: Floats) -> SecondOrderState:
        """See Rule. data_sum: (K, d + d (d + 1) / 2), the sum of H behind that of gradients."""
        d = self.set.dimension
        change = data_sum - state.released
        right = state.right - change[:, :d]
        curved = symmetric(change[:, d:], d)
        for j in range(d):
            right += curved[:, :, j] * state.x[:, j, None]
        matrix = symmetric(data_sum[:, d:], d)
        diagonal = np.arange(d)
        matrix[:, diagonal, diagonal] += self.curvature
        floor = np.full(len(right), self.curvature)
        y = solve_positive(matrix, right + self.curvature * self._centre, floor)
        # Nothing that noise makes of a system may reach a projection as infinity.
        y = np.nan_to_num(np.clip(y, -FARTHEST, FARTHEST))
        x, near = self._nearest(y, state.near)
        return SecondOrderState(to_grid(x, self._grid), state.t + 1, right, data_sum.copy(), near)

    def numbers(self) -> Mapping[str, Any]:
        return {"calls": self.calls}


def symmetric(entries: Floats, dimension: int) -> Floats:
    """Upper triangles (K, d (d + 1) / 2), row by row -> (K, d, d)."""
    i, j = triangle(dimension)
    matrix = np.empty((len(entries), dimension, dimension))
    matrix[:, i, j] = entries
    matrix[:, j, i] = entries
    return matrix
