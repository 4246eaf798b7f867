"""Sliding sums under correlated noise, also of contributions of any sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.contributions import Pattern, apart, of_distances, over_keys
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.blt import (
    BufferedSum,
    BufferState,
    best_form,
    record_units,
    with_buffers,
)
from weir.dpcore.continual.rational import (
    MARGIN,
    MOST,
    Rational,
    exponentials,
    repeated_squares,
    round_up,
    series_at,
)
from weir.dpcore.continual.tables import SLIDING, WINDOWS
from weir.dpcore.continual.unit import (
    SumRequest,
    chained,
    loss_of_units,
)
from weir.dpcore.leaves.lattice import add_wide, shift_wide, wide_modulo, wide_to_float
from weir.dpcore.neighbours import Family
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import Noise

LONGEST = 1 << 18
"""Lags that are looked at. Where the window is longer, A(0) bounds them all."""


@lru_cache(maxsize=4096)
def user_units(form: Rational, rows: int | None, over: int, pattern: Pattern) -> float:
    """Units of noise that a user's contributions of a period move within so many rows of it.

    e_k = c_k - c_{k-N} is negative from N on, so contributions of either sign may add up, and which
    ticks are worst depends on the form. Over all rows the inner product of columns d apart is
    A(d) = sum of e_k e_{k+d}, and ``of_distances`` bounds a key's contributions, whatever their
    signs; fewer rows hold less. Up to N rows e is c, and the earliest ticks are the worst.
    """

    def of_key(count: int) -> float:
        if count == 1:
            return round_up(form.record_squares(rows, over))
        lags = np.arange(count, dtype=np.int64) * pattern.spacing
        bound = of_distances(envelope(form, over, lags))
        if rows is None or rows > over:
            return bound
        return min(bound, round_up(repeated_squares(form, count, pattern.spacing, rows)))

    return over_keys(of_key, pattern)


@lru_cache(maxsize=1024)
def user_units_of_periods(form: Rational, periods: int, over: int, pattern: Pattern) -> float:
    """Units that contributions of so many periods move, ever: by their distances."""
    each, times = pattern.spread
    count = periods * each
    if count > MOST:
        return np.inf
    item = pattern.single() if each == 1 else pattern
    lags = np.concatenate([[0], apart(np.arange(1, count), item)]).astype(np.int64)
    return times * of_distances(envelope(form, over, lags))


def envelope(form: Rational, over: int, lags: Ints) -> Floats:
    """A(0), and max |A(x)| over x >= d for the lags d after it, rounded up: (n,) -> (n,).

    Lags up to twice N are looked at one by one; from N on A is a sum of decaying exponentials, and
    the sum of their sizes at a lag bounds all that follow.
    """
    first = float(products(form, over, np.zeros(1, dtype=np.int64))[0])
    if 2 * over > LONGEST:
        return np.full(lags.size, first * (1 + MARGIN))
    seen = np.abs(products(form, over, np.arange(2 * over + 1)))
    beyond = _bound(form, over, np.maximum(lags, 2 * over))
    largest = np.maximum.accumulate(seen[::-1])[::-1]
    result = np.maximum(largest[np.minimum(lags, 2 * over)] * (lags <= 2 * over), beyond)
    result[0] = first
    return np.asarray(np.minimum(result, first) + MARGIN * first)


def products(form: Rational, over: int, lags: Ints) -> Floats:
    """A(d) = sum over all k of e_k e_{k+d}, e_k = c_k - c_{k-N}, float64: (n,) -> (n,).

    The first N rows are c, the others a sum of exponentials without the constant: e_k = sum of t_l
    x_l^(k-N), t_l = a_l (x_l^N - 1). Heads meet heads N - d times, and tails min(d, N) times.
    """
    weights, logs = exponentials(form)
    tails = weights[1:] * np.expm1(over * logs[1:])
    heads = np.maximum(over - lags, 0).astype(np.float64)
    mixed = np.minimum(lags, over).astype(np.float64)
    gap = np.maximum(lags - over, 0)
    out = np.zeros(lags.size)
    for weight, log in zip(weights, logs, strict=True):
        met = np.zeros(lags.size)
        for other, slope in zip(weights, logs, strict=True):
            met += other * np.exp(lags * slope) * series_at(log + slope, heads)
        behind = np.zeros(lags.size)
        for tail, slope in zip(tails, logs[1:], strict=True):
            behind += tail * np.exp(gap * slope) * series_at(log + slope, mixed)
        out += weight * (met * (heads > 0) + np.exp(heads * log) * behind)
    for tail, log in zip(tails, logs[1:], strict=True):
        for other, slope in zip(tails, logs[1:], strict=True):
            out += tail * other * np.exp(lags * slope) / -np.expm1(log + slope)
    return out


def _bound(form: Rational, over: int, lags: Ints) -> Floats:
    """A bound on |A| at lags >= N and all that follow: (n,) -> (n,)."""
    weights, logs = exponentials(form)
    tails = weights[1:] * np.expm1(over * logs[1:])
    out = np.zeros(lags.size)
    for tail, slope in zip(tails, logs[1:], strict=True):
        size = 0.0
        for weight, log in zip(weights, logs, strict=True):
            size += weight * float(series_at(log + slope, np.asarray([float(over)]))[0])
        for other, log in zip(tails, logs[1:], strict=True):
            size += other * float(np.exp(over * slope) / -np.expm1(log + slope))
        out += abs(tail * size) * np.exp((lags - over) * slope)
    return out


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
class SlidingSum(BufferedSum):
    """Sums over the last N ticks with correlated noise of their own; the guarantee is permanent.

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
        any signs of them (``dpcore.continual.sliding``), hence adaptively too.
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
    title: ClassVar[str] = "Correlated noise for one sliding sum, with a permanent guarantee"
    permanent: ClassVar[bool] = True
    source: ClassVar[str] = "Li, Miklau, Hay, McGregor, Rastogi (2015); fitted in this project"

    @classmethod
    def serves(cls, overs: Sequence[int | None]) -> bool:
        """One number above 1: for single ticks ``Independent`` is the same, better keyed."""
        return len(overs) == 1 and overs[0] is not None and overs[0] >= 2

    @classmethod
    def fitted(cls, request: SumRequest) -> SlidingSum:
        """The least noise whose loss, for ever, is at most the budget, whatever the window.

        The option ``buffers`` is the most vectors of state.

        Raises:
          ConfigError: it cannot serve this.
        """
        over, horizon = request.overs[0], request.horizon
        assert over is not None
        form = chosen(over, horizon, request.options.get("buffers"))
        return cls.of(request, units_of(form, horizon, over, request.pattern), form, horizon)

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
            own=self.buffers(n_keys),
        )

    def step(  # type: ignore[override]
        self, state: SlidingState, leaves: Ints, noise: Noise
    ) -> tuple[SlidingState, tuple[Floats, ...]]:
        """Steps a stride. leaves: (n, K, d) int64 -> (n, K, d) float64 lattice values, once."""
        n = leaves.shape[0]
        digests = noise.leaf_digests(leaves)
        chain = chained(state.chain, digests)
        own, drawn = self.draw(state.own, chain, digests, noise)
        past = np.concatenate([state.leaves, leaves.transpose(1, 2, 0)], axis=2)
        changes = np.empty((2 * n, *leaves.shape[1:]), dtype=np.int64)
        changes[0::2] = leaves
        np.negative(past[:, :, :n].transpose(2, 0, 1), out=changes[1::2])
        exact = add_wide(state.total, changes)[1::2]
        if replay.is_on():
            drawn = replay.shifted(self, leaves, wide_modulo(exact), drawn, noise.first_tick)
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
    forms = with_buffers(SlidingSum.name, (Rational((), ()), *SLIDING, *WINDOWS), buffers)
    return best_form(forms, lambda form: form.record_squares(horizon, over), horizon)


def units_of(form: Rational, rows: int | None, over: int, pattern: Pattern | None) -> float:
    """Units of noise that a record, or a user's contributions of a period, move within so many
    rows."""
    if pattern is not None:
        return user_units(form, rows, over, pattern)
    return 0.0 if rows is not None and rows <= 0 else record_units(form, rows, over)
