"""Sums over the last N ticks alone: less noise than running totals, protected for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.blt_table import WINDOWS
from weir.dpcore.continual.buffers import (
    BufferedSum,
    BufferState,
    best_form,
    check_room,
    record_units,
    with_buffers,
)
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.signed import user_units, user_units_of_periods
from weir.dpcore.continual.sliding_table import SLIDING
from weir.dpcore.continual.unit import (
    loss_of_units,
    noise_for,
    noise_scale_for,
    refuse_options,
    refuse_overs,
)
from weir.dpcore.leaves.wide import add_wide, shift_wide, wide_to_float
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise


class SlidingState(NamedTuple):
    """State of a sliding sum.

    Attributes:
      total: (K, d, 2) int64, exact sum of the last N leaves in two limbs.
      leaves: (K, d, N) int64, those leaves, oldest first.
      chain: (K, 2) uint64, XOR of the keyed digests of all non-empty leaves so far.
      own: the buffers.
    """

    total: Ints
    leaves: Ints
    chain: Digests
    own: BufferState

    @staticmethod
    def slides() -> tuple[str, ...]:
        """See ``dpcore.arrays.sliding``."""
        return ("leaves",)


@dataclass(frozen=True)
class Sliding(BufferedSum):
    """Sums over the last N ticks with correlated noise of their own; the promise is permanent.

    Release w = (M - S^N M) v + B xi, M the running sum, S the shift by one tick, B as in ``Blt``.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: Delta = ``sensitivity``, the l2 norm of what one neighbour changes in
        (leaf / scales), at one tick.
      Guarantee: mu-GDP, adaptively, against everything ever released:
        mu = (Delta / sigma) sqrt(sum_k e_k^2), e_k = c_k - c_{k-N} over all k (up to ``horizon``
        where the clock ends), c as in ``Blt``. For C = B^-1 (1 - x^N) M has the coefficients e_k,
        releases up to tick i + n - 1 are a function of the first i + n - 1 rows of (C v + xi), and
        beyond N the e_k fall off like the decay of the slowest zero. Within n ticks: the first n.
        e_k is negative for k >= N: what a user's contributions to several ticks move is bounded for
        any signs of them (``dpcore.continual.signed``), hence adaptively too.
      Error: at tick t (from 0) sigma^2 (b_0^2 + ... + b_t^2), bounded for all t.
      Real-valued noise: releases are rounded to the lattice, which is post-processing, but noise in
        floating point is not exactly Gaussian.
      Source: the matrix mechanism of Li, Miklau, Hay, McGregor, Rastogi (2015), with the form of
        ``Blt`` fitted to sliding sums in this project.
    """

    name: ClassVar[str] = "sliding"
    signed: ClassVar[bool] = True
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window"), "corners", "columns are alike but for how many rows follow"
    )
    patterned: ClassVar[bool] = True
    any_signs: ClassVar[bool] = True
    title: ClassVar[str] = "Correlated noise for one sliding sum, protected for ever"
    permanent: ClassVar[bool] = True
    source: ClassVar[str] = "Li, Miklau, Hay, McGregor, Rastogi (2015); fitted in this project"

    @classmethod
    def serves(cls, overs: Sequence[int | None]) -> bool:
        """One number above 1: for single ticks ``Independent`` is the same, better keyed."""
        return len(overs) == 1 and overs[0] is not None and overs[0] >= 2

    @classmethod
    def calibrated(
        cls,
        *,
        dimension: int,
        scales: tuple[float, ...],
        sensitivity: float,
        overs: tuple[int | None, ...],
        window: int | None,
        horizon: int | None,
        budget: PrivacyLoss,
        pattern: Pattern | None = None,
        buffers: int | None = None,
        **options: Any,
    ) -> Sliding:
        """The least noise whose loss, for ever, is at most the budget, whatever the window.

        Args:
          dimension, scales, sensitivity, overs: as in ``ContinualSum``.
          window: protection window; not used, the promise is permanent.
          horizon: ticks of the clock; None: no end.
          budget: mu of Gaussian DP.
          pattern: of a user's contributions.
          buffers: take no more buffers than this.
          options: none.

        Raises:
          ConfigError: it cannot serve this.
        """
        refuse_options(cls.name, options)
        refuse_overs(cls.name, overs, cls.serves(overs))
        noise_for(cls.name, cls.kinds, budget)
        over = overs[0]
        assert over is not None
        form = chosen(over, horizon, buffers)
        scale = noise_scale_for(units_of(form, horizon, over, pattern), sensitivity, budget)
        made = cls(dimension, scales, sensitivity, scale, overs, form, horizon, pattern=pattern)
        check_room(cls.name, scale, scales, float(form.noise_squares(horizon)))
        return made

    @property
    def over(self) -> int:
        """N."""
        return self.overs[0] or 0

    @property
    def depth(self) -> int:
        """How many leaves are kept: N, or all of a shorter clock."""
        return self.over if self.horizon is None else min(self.over, self.horizon)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """mu against everything released within ``ticks`` of arrival (None: for ever)."""
        units = units_of(self.form, self.rows(ticks), self.over, self.pattern)
        return loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """The smaller of the sum over periods and what the distances between them allow."""
        assert self.pattern is not None
        units = user_units_of_periods(self.form, periods, self.over, self.pattern)
        near = loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)
        return min(near, super().loss_of_periods(periods, ticks, among), key=lambda x: x.value)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """b_0^2 + ... + b_t^2: (m,)."""
        return self.form.noise_squares_at(np.asarray(ticks) + 1)

    def init(self, n_keys: int) -> SlidingState:  # type: ignore[override]
        """State of n_keys keys before the first tick."""
        d = self.dimension
        return SlidingState(
            total=np.zeros((n_keys, d, 2), dtype=np.int64),
            leaves=np.zeros((n_keys, d, self.depth), dtype=np.int64),
            chain=np.zeros((n_keys, 2), dtype=np.uint64),
            own=self.init_noise(n_keys),
        )

    def step(  # type: ignore[override]
        self, state: SlidingState, leaves: Ints, noise: Noise
    ) -> tuple[SlidingState, tuple[Floats, ...]]:
        """Steps a stride. leaves: (n, K, d) int64 -> (n, K, d) float64 lattice values, once."""
        n = leaves.shape[0]
        digests = noise.leaf_digests(leaves)
        chain = np.concatenate([state.chain[None], digests])
        np.bitwise_xor.accumulate(chain, axis=0, out=chain)
        own, drawn = self.draw(state.own, chain, digests, noise)
        past = np.concatenate([state.leaves, leaves.transpose(1, 2, 0)], axis=2)
        changes = np.empty((2 * n, *leaves.shape[1:]), dtype=np.int64)
        changes[0::2] = leaves
        np.negative(past[:, :, :n].transpose(2, 0, 1), out=changes[1::2])
        exact = add_wide(state.total, changes)[1::2]
        new = SlidingState(
            total=exact[-1].copy(), leaves=past[:, :, n:].copy(), chain=chain[-1].copy(), own=own
        )
        return new, (wide_to_float(shift_wide(exact, drawn)),)

    def response(self, n: int) -> Floats:
        """(n, n): clean sums = this matrix times n leaves. For tests only."""
        age = np.arange(n)[:, None] - np.arange(n)[None, :]
        return np.asarray((age >= 0) & (age < self.over), dtype=np.float64)


@lru_cache(maxsize=1024)
def chosen(over: int, horizon: int | None, buffers: int | None = None) -> Rational:
    """The form of least worst-tick error for sums over ``over`` ticks."""
    forms = with_buffers(Sliding.name, (Rational((), ()), *SLIDING, *WINDOWS), buffers)
    return best_form(forms, lambda form: form.record_squares(horizon, over), horizon)


def units_of(form: Rational, rows: int | None, over: int, pattern: Pattern | None) -> float:
    """Units of noise that a record, or a user's contributions of a period, move within so many
    rows."""
    if pattern is not None:
        return user_units(form, rows, over, pattern)
    return 0.0 if rows is not None and rows <= 0 else record_units(form, rows, over)
