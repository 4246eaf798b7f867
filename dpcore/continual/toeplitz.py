"""Windowed Toeplitz noise: the least worst-tick error for a window, with W - 1 vectors of state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.contributions import Pattern, over_keys
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.blt import check_room, toeplitz_matrix
from weir.dpcore.continual.unit import (
    SumRequest,
    loss_of_units,
    noisy_coordinates,
    within_horizon,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, label

LARGEST = 65536
"""Longest window: W - 1 vectors of state per key."""
MARGIN = 1 + 2.0**-30
"""Sums of squares are rounded up by this much: far more than their rounding errors."""
BLOCKS = 32
"""c is computed for this many windows at most; after them an upper bound takes over."""
FLAT = 1 + 1e-9
"""Or until its maximum over one window is this close to its minimum (some 16 windows)."""


class ToeplitzState(NamedTuple):
    """past: (K, a, W - 1) float64, each noisy coordinate's last units of noise, oldest first."""

    past: Floats

    @staticmethod
    def slides() -> tuple[str, ...]:
        """See ``dpcore.arrays.sliding``."""
        return ("past",)


@dataclass(frozen=True)
class Toeplitz(ContinualSum):
    """Running totals with noise b_k = binom(2k, k) / 4^k for k < W; expiration is graded.

    Release s_t = v_1 + ... + v_t + z_t, z_t = sum_{k < W} b_k xi_{t-k}.

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: Delta = ``sensitivity``, the l2 norm of what one neighbour changes in
        (leaf / scales), at one tick.
      Guarantee: mu-GDP, adaptively and exactly: against everything released within n ticks of its
        arrival, mu_n = (Delta / sigma) sqrt(c_0^2 + ... + c_{n-1}^2), c the coefficients of
        1 / ((1 - x) b(x)): releases up to tick i + n - 1 are a function of the first i + n - 1
        rows of (C v + xi). For k < W, c_k = b_k, the best for a stream of W ticks. Beyond W,
        c_k = sum_{i <= W} (b_{i-1} - b_i) c_{k-i} (b_W = 0) is an average of the W values before
        it (a renewal equation), so the maximum of any W in a row bounds all that follow: c is
        computed until it is flat, and bounded so from there on. It is positive (an average of those
        before), so no two columns have a negative inner product, but it rises at W.
        Nothing is guaranteed for ever unless the clock ends.
        A user (``pattern``): W is then the period and the window after it, and mu^2 is as in
        ``Blt``; the largest c that follows stands for each c beyond W.
      Error: at tick t (from 0) sigma^2 (b_0^2 + ... + b_t^2), constant from t = W - 1 on.
      Real-valued noise: releases are rounded to the lattice, which is post-processing, but noise in
        floating point is not exactly Gaussian.
      Source: the square-root factorization: Fichtenberger, Henzinger, Upadhyay (2023); Henzinger,
        Upadhyay, Upadhyay (2023). Cutting off and the loss within n ticks: derived in this project.

    Attributes:
      window: W, number of coefficients.
      horizon: number of ticks of the clock; None without end.
    """

    window: int
    horizon: int | None

    name: ClassVar[str] = "toeplitz"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window"), "corners", "columns are alike but for how many rows follow"
    )
    ages: ClassVar[bool] = True
    patterned: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("gaussian",)
    title: ClassVar[str] = "Square-root noise over the last W units"
    source: ClassVar[str] = "Fichtenberger, Henzinger, Upadhyay (2023)"

    @classmethod
    def fitted(cls, request: SumRequest) -> Toeplitz:
        """The least noise whose loss(window) is at most the budget (see ``Blt.fitted``).

        Raises:
          ConfigError: the window is above 65536 ticks, or the noise too large.
        """
        count = request.end
        if count is None or count > LARGEST:
            raise ConfigError(
                "privacy.protect_for",
                "all" if count is None else count,
                f"toeplitz keeps one vector a tick of the window, at most {LARGEST}; choose blt.",
            )
        units = units_of(count, count, request.pattern)
        built = cls(**request.fields(units), window=count, horizon=request.horizon)
        check_room(cls.name, built.noise_scale, built.scales, record_units(count, count))
        return built

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """mu against everything released within ``ticks`` of arrival (None: for ever)."""
        rows = ticks if self.pattern is None else self.pattern.rows(ticks)
        if self.horizon is not None:
            rows = self.horizon if rows is None else min(rows, self.horizon)
        units = units_of(self.window, rows, self.pattern)
        return loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """sum_{k <= t} (b_k - b_{k - over})^2: (m,)."""
        ticks = np.asarray(ticks)
        if over is not None and over >= self.window:  # two totals that share no unit
            sums = _noise_squares(self.window, None)
            before = ticks - over
            then = sums[np.clip(before, 0, sums.size - 1)]
            return sums[np.minimum(ticks, sums.size - 1)] + np.where(before >= 0, then, 0.0)
        sums = _noise_squares(self.window, over)
        return sums[np.minimum(ticks, sums.size - 1)]

    @property
    def real_noise(self) -> tuple[str, float]:
        """The sum over W units is rounded."""
        squares = record_units(self.window, self.window)
        return "gaussian", self.noise_scale * max(self.scales, default=0.0) * math.sqrt(squares)

    def init_noise(self, n_keys: int) -> ToeplitzState:
        """No noise before the first tick."""
        active = len(noisy_coordinates(self.scales))
        return ToeplitzState(np.zeros((n_keys, active, self.window - 1), dtype=np.float64))

    def draw(
        self, own: ToeplitzState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[ToeplitzState, Ints]:
        """Filters one unit a tick, keyed with the tick and all of the key's leaves so far.

        Each output is one sum over W products, in an order that depends on W alone.
        """
        n, keys = leaf_digests.shape[:2]
        if self.horizon is not None:
            within_horizon(self.name, self.horizon, noise.first_tick, n)
        active = list(noisy_coordinates(self.scales))
        out = np.zeros((n, keys, self.dimension), dtype=np.int64)
        if not active or self.noise_scale == 0:
            return own, out
        labels = label(0, noise.first_tick + np.arange(n))
        units = noise.gaussian(labels, chain[1:], len(active))
        past = np.concatenate([own.past, units.transpose(1, 2, 0)], axis=2)
        backwards = coefficients(self.window)[::-1].copy()
        weights = self.noise_scale * np.asarray(self.scales)[active]
        for t in range(n):
            products = np.multiply(past[:, :, t : t + self.window], backwards, order="C")
            drawn = products.sum(axis=2) * weights
            out[t][:, active] = np.rint(drawn).astype(np.int64)
        return ToeplitzState(past[:, :, n:].copy()), out

    def materialize(self, n: int) -> Floats:
        """(n, n) lower-triangular Toeplitz matrix of b. For tests only."""
        b = np.zeros(n)
        retained = coefficients(self.window)[:n]
        b[: retained.size] = retained
        return toeplitz_matrix(b)


@lru_cache(maxsize=64)
def coefficients(window: int) -> Floats:
    """b_k = binom(2k, k) / 4^k for k < W, by multiplication and division: the same everywhere."""
    k = np.arange(1, window, dtype=np.float64)
    out = np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))
    out.flags.writeable = False
    return out


@lru_cache(maxsize=256)
def _noise_squares(window: int, over: int | None) -> Floats:
    """Cumulative sums of (b_k - b_{k - over})^2, until they are constant."""
    b = coefficients(window)
    if over is not None:
        b = np.concatenate([b, np.zeros(over)])
        b[over:] -= coefficients(window)[: b.size - over]
    return np.asarray(np.cumsum(b**2))


@lru_cache(maxsize=4096)
def record_units(window: int, count: int | None) -> float:
    """sum_{k < count} c_k^2, rounded up; an upper bound far beyond the window."""
    if count is None:
        return math.inf
    if count <= window:
        return math.fsum(c * c for c in coefficients(window)[: max(count, 0)].tolist()) * MARGIN
    squares, highest = _tail(window)
    if count <= squares.size:
        return float(squares[count - 1]) * MARGIN
    return (float(squares[-1]) + (count - squares.size) * highest**2) * MARGIN


def units_of(window: int, rows: int | None, pattern: Pattern | None) -> float:
    """Units of noise that a record, or a user's contributions of a period, move within so many
    rows."""
    return record_units(window, rows) if pattern is None else user_units(window, rows, pattern)


@lru_cache(maxsize=1024)
def user_units(window: int, rows: int | None, pattern: Pattern) -> float:
    """Units that a user's contributions of a period move within so many rows of it, rounded up.

    c falls within the window, which is as long as what is protected. Beyond, it rises: the largest
    of c_k, ..., c_{H-1} stands for c_k there, which falls, and is nowhere below c.
    """
    if rows is None:
        return math.inf
    if rows <= 0:
        return 0.0
    known = _beyond(window) if rows > window else coefficients(window)
    far = max(rows - known.size, 0)
    highest = float(known[-window:].max())
    c = np.maximum.accumulate(known[: min(rows, known.size)][::-1])[::-1]
    if far:
        c = np.maximum(c, highest)
    g = pattern.spacing
    padded = np.concatenate([c, np.zeros(-c.size % g)])
    sums = np.cumsum(padded.reshape(-1, g), axis=0).ravel()

    def of_key(count: int) -> float:
        column, lag = sums, count * g
        if lag < sums.size:
            column = sums.copy()
            column[lag:] -= sums[:-lag]
        column = column[: c.size]
        return float((column * column).sum() + far * (count * highest) ** 2) * MARGIN

    return over_keys(of_key, pattern)


@lru_cache(maxsize=4)
def _tail(window: int) -> tuple[Floats, float]:
    """Cumulative sums of c_k^2 over whole windows, and a bound on every c_k after them."""
    known = _beyond(window)
    return np.cumsum(known**2), float(known[-window:].max())


@lru_cache(maxsize=4)
def _beyond(window: int) -> Floats:
    """c_k over whole windows, until it is flat.

    One window after another from b * c = 1: what the last window adds to the next is one
    convolution, and dividing by b modulo x^W is another, with the coefficients of (1 - x)^(1/2).
    """
    from scipy import fft  # a twentieth of a second, for this sum alone

    b = coefficients(window)
    k = np.arange(1, window, dtype=np.float64)
    inverse = np.cumprod(np.concatenate([[1.0], (k - 1.5) / k]))
    size = fft.next_fast_len(2 * window, real=True)
    transforms = fft.rfft(b, size), fft.rfft(inverse, size)
    blocks = [b]
    while len(blocks) < BLOCKS and blocks[-1].max() > FLAT * blocks[-1].min():
        spill = fft.irfft(fft.rfft(blocks[-1], size) * transforms[0], size)[window : 2 * window]
        rest = fft.rfft(1.0 - spill, size) * transforms[1]
        blocks.append(fft.irfft(rest, size)[:window])
    return np.concatenate(blocks)
