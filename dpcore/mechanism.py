"""The contract that everything hangs on: a mechanism is a pure state machine from leaves to
releases."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.guarantee import Kind, Loss
from dpcore.precision import refuse_coarse

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Digests = NDArray[np.uint64]
"""(..., 2) uint64: 128-bit keyed, secret digests of one user key's data."""

State = Any
"""A NamedTuple (possibly nested) of numpy arrays, each with leading axis = keys."""

LIMB = 62
"""Bits in the low limb of an exact running sum."""


class Noise(Protocol):
    """Keyed noise for one stride: bound to (plan, part, ticks, user keys) by whoever makes it.

    K keys, n ticks starting at ``first_tick``. Draws are a function of (root key, part, purpose,
    label, user key, digest, counter) only: never of the position of a key in its block, nor of
    other keys' data.
    """

    @property
    def first_tick(self) -> int:
        """Index of the first tick of the stride (0 is the start of the clock)."""

    def at(self, first_tick: int, keys: slice | None = None) -> Noise:
        """The same noise for a stride that begins at another tick, for all keys or some of them."""

    def leaf_digests(self, leaves: Ints) -> Digests:
        """leaves: (n, K, d) int64 -> (n, K, 2) uint64, keyed digest of (tick, leaf); zero where
        leaf is 0."""

    def gaussian(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Standard normals. labels: (m, 2) uint64; digests: (m, K, 2) -> (m, K, dimension)."""

    def k_norm(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Density proportional to exp(-||x||_2): (m, K, dimension)."""

    def discrete_gaussian(
        self, labels: Digests, digests: Digests, variances: Sequence[int]
    ) -> Ints:
        """Exact discrete Gaussians, coordinate i with parameter sigma^2 = variances[i]: (m, K, d)
        int64."""


class Mechanism(Protocol):
    """A frozen value of public numbers; all state is passed in and out."""

    def loss(self, ticks: int | None) -> Loss:
        """Loss of one record against everything released within ``ticks`` of its arrival (None:
        forever)."""

    def init(self, n_keys: int) -> State:
        """State of n_keys keys before the first tick."""

    def step(self, state: State, leaves: Ints, noise: Noise) -> tuple[State, tuple[Floats, ...]]:
        """Steps through a stride of ticks. Pure: neither argument is changed, nothing is
        remembered."""


class SumState(NamedTuple):
    """State of a continual sum.

    Attributes:
      total: (K, d, 2) int64, exact running sum in two limbs: low in [0, 2^62), high.
      history: (K, d, depth) int64, the last ``depth`` noisy running sums modulo 2^64, oldest first.
      chain: (K, 2) uint64, XOR of the keyed digests of all non-empty leaves so far.
      own: whatever the mechanism keeps (a NamedTuple of arrays with leading axis K).
    """

    total: Ints
    history: Ints
    chain: Digests
    own: Any


def label(level: NDArray[Any] | int, index: NDArray[Any] | int) -> Digests:
    """Labels of noise draws: (m, 2) uint64 of (level, index). Different (level, index) never share
    noise."""
    index = np.atleast_1d(np.asarray(index, dtype=np.uint64))
    out = np.empty((index.size, 2), dtype=np.uint64)
    out[:, 0] = level
    out[:, 1] = index
    return out


def add_wide(total: Ints, leaves: Ints) -> Ints:
    """Exact running sums in two limbs.

    Args:
      total: (K, d, 2), before the stride.
      leaves: (n, K, d), |leaf| < 2^62.

    Returns:
      (n, K, d, 2).
    """
    out = np.empty((*leaves.shape, 2), dtype=np.int64)
    mask = np.int64((1 << LIMB) - 1)
    largest = 0  # one leaf fits beside a low limb in any case
    if len(leaves) > 1 and leaves.size:
        largest = max(int(leaves.max()), -int(leaves.min()))
    if largest * len(leaves) < 1 << LIMB:  # the sum of the stride fits beside a low limb
        low = leaves + total[..., 0] if len(leaves) == 1 else np.cumsum(leaves, axis=0)
        if len(leaves) > 1:
            low += total[..., 0]
        np.right_shift(low, LIMB, out=out[..., 1])
        out[..., 1] += total[..., 1]
        np.bitwise_and(low, mask, out=out[..., 0])
        return out
    low, high = total[..., 0].copy(), total[..., 1].copy()
    for t in range(leaves.shape[0]):
        low += leaves[t]
        high += low >> LIMB
        low &= mask
        out[t, ..., 0], out[t, ..., 1] = low, high
    return out


def shift_wide(wide: Ints, by: Ints) -> Ints:
    """Adds int64 (|by| < 2^62) to exact sums in two limbs: same shape as ``wide``."""
    low = wide[..., 0] + by
    mask = np.int64((1 << LIMB) - 1)
    return np.stack([low & mask, wide[..., 1] + (low >> LIMB)], axis=-1)


def wide_to_float(wide: Ints) -> Floats:
    """(..., 2) limbs -> (...) float64: exact up to 2^53, else rounded once a limb."""
    # The low limb is centred first: -1 is (2^62 - 1, -1), and 2^62 - 1 is no float64.
    carry = wide[..., 0] >> (LIMB - 1)
    low, high = wide[..., 0] - (carry << LIMB), wide[..., 1] + carry
    return np.asarray(high.astype(np.float64) * 2.0**LIMB + low, dtype=np.float64)


def total_of(exact: Ints, drawn: Ints, noisy: Ints) -> Floats:
    """Noisy running totals as floats: ``wide_to_float(shift_wide(exact, drawn))``.

    Args:
      exact: (..., 2) limbs. drawn: (...) noise, below 2^61. noisy: (...), their sum modulo 2^64.
    """
    high, near = exact[..., 1], 1 << (LIMB - 1)
    small = noisy.size > 0 and int(high.min()) >= -1 and int(high.max()) <= 0  # no wrap yet
    if small and -near <= int(noisy.min()) and int(noisy.max()) < near:
        return noisy.astype(np.float64)  # the low limb is all there is
    return wide_to_float(shift_wide(exact, drawn))


def wide_modulo(wide: Ints) -> Ints:
    """(..., 2) limbs -> (...) int64, the value modulo 2^64 (differences of these are exact)."""
    with np.errstate(over="ignore"):
        return np.asarray((wide[..., 1] << LIMB) + wide[..., 0], dtype=np.int64)


@dataclass(frozen=True)
class ContinualSum(ABC):
    """Running sums under continual observation: exact sum plus correlated noise, at every tick.

    Every mechanism here releases, for each ``over`` it serves, (exact sum over the last ``over``
    ticks) + (noise rounded to the lattice). A subclass supplies only the noise and its accounting.
    Release for over = N from running totals is the difference of two noisy running totals:
    post-processing.

    Attributes:
      dimension: d, length of a leaf.
      scales: (d,) noise weights in lattice units; one neighbour changes (event / scales) by at most
        ``sensitivity`` in l2. A scale of 0 marks a coordinate that is public: it gets no noise.
      sensitivity: l2 sensitivity of (leaf / scales).
      noise_scale: sigma (Gaussian, discrete Gaussian) or b (K-norm) of one unit of noise, in units
        of scales.
      overs: what is served, in the order of the releases: None = since the start, N = last N ticks.
      signed: whether what records of two ticks move can have a negative inner product. A neighbour
        of replace_anywhere changes two cells, and its sensitivity is then the sum of both norms
        (``dpcore.accounting.compose.joint_sensitivity``). Every class states it for itself: the
        registry refuses one that does not, and a contract test measures it.
    """

    dimension: int
    scales: tuple[float, ...]
    sensitivity: float
    noise_scale: float
    overs: tuple[int | None, ...]

    name: ClassVar[str]
    signed: ClassVar[bool]

    def __post_init__(self) -> None:
        refuse_coarse(self.name, *self.real_noise)

    # ---- what a subclass supplies
    # -------------------------------------------------------------------

    @abstractmethod
    def loss(self, ticks: int | None) -> Loss:
        """Loss of one record against everything released within ``ticks`` ticks of its arrival."""

    @abstractmethod
    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """Variance of the noise at ticks (m,) int64 (0-based), in units of one unit's variance:
        (m,).

        An upper bound for a key that was born after tick 0.
        """

    @abstractmethod
    def init_noise(self, n_keys: int) -> Any:
        """``own`` state before the first tick."""

    @abstractmethod
    def draw(
        self, own: Any, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[Any, Ints]:
        """Noise of the running totals for a stride.

        Args:
          own: this mechanism's state.
          chain: (n + 1, K, 2) uint64, XOR chain of leaf digests; row 0 is before the stride.
          leaf_digests: (n, K, 2) uint64, of each tick alone.
          noise: the keyed noise of the stride.

        Returns:
          New ``own``, and (n, K, d) int64: noise of the running total in lattice units, rounded.
        """

    @abstractmethod
    def materialize(self, n: int) -> Floats:
        """(n, m) matrix B: noise of the n running totals = B @ (m independent units). For tests
        only."""

    @property
    @abstractmethod
    def real_noise(self) -> tuple[str, float]:
        """Kind of the noise, and the largest standard deviation, in steps of the lattice, of a
        number that is rounded to it. ``dpcore.precision`` refuses what is too coarse."""

    # ---- shared
    # --------------------------------------------------------------------------------------

    @property
    def unit_variance(self) -> float:
        """Variance of one coordinate of one unit of noise, in units of scales^2."""
        return self.noise_scale**2

    @property
    def depth(self) -> int:
        """How many past noisy running totals are kept per key."""
        return max((over for over in self.overs if over is not None), default=0)

    def stddev(self, ticks: Ints, over: int | None) -> Floats:
        """Standard deviation of the released noise at ticks (m,), lattice units: (m, d)."""
        root = np.sqrt(self.unit_variance * self.factor(ticks, over))
        return np.asarray(root[:, None] * np.asarray(self.scales)[None, :])

    def init(self, n_keys: int) -> SumState:
        """State of n_keys keys before the first tick."""
        d = self.dimension
        return SumState(
            total=np.zeros((n_keys, d, 2), dtype=np.int64),
            history=np.zeros((n_keys, d, self.depth), dtype=np.int64),
            chain=np.zeros((n_keys, 2), dtype=np.uint64),
            own=self.init_noise(n_keys),
        )

    def step(
        self, state: SumState, leaves: Ints, noise: Noise
    ) -> tuple[SumState, tuple[Floats, ...]]:
        """Steps a stride. leaves: (n, K, d) int64 -> per served over, (n, K, d) float64 lattice
        values."""
        digests = noise.leaf_digests(leaves)
        chain = np.concatenate([state.chain[None], digests])
        np.bitwise_xor.accumulate(chain, axis=0, out=chain)
        own, drawn = self.draw(state.own, chain, digests, noise)
        exact = add_wide(state.total, leaves)
        with np.errstate(over="ignore"):
            noisy = wide_modulo(exact) + drawn
        n, depth = leaves.shape[0], self.depth
        past = state.history
        if depth:
            past = np.concatenate([past, noisy.transpose(1, 2, 0)], axis=2)
        released: list[Floats] = []
        for over in self.overs:
            if over is None:
                released.append(total_of(exact, drawn, noisy))
            else:
                with np.errstate(over="ignore"):
                    before = past[:, :, depth - over : depth - over + n]
                    difference = past[:, :, depth : depth + n] - before
                released.append(difference.transpose(2, 0, 1).astype(np.float64))
        new = SumState(
            total=exact[0] if n == 1 else exact[-1].copy(),
            history=past[:, :, past.shape[2] - depth :].copy(),
            chain=chain[-1].copy(),
            own=own,
        )
        return new, tuple(released)

    def state_bytes(self) -> int:
        """Bytes of state per key. Nothing is allocated."""
        arrays = arrays_of(self.init(0))
        return sum(math.prod(array.shape[1:]) * array.itemsize for array in arrays)


def arrays_of(state: Any) -> list[NDArray[Any]]:
    """The arrays of a (nested) state, in order of definition."""
    if isinstance(state, np.ndarray):
        return [state]
    return [array for part in state for array in arrays_of(part)]


def kind_of(noise: str) -> Kind:
    """Which accounting a noise needs: gaussian -> gdp, discrete_gaussian -> zcdp, k_norm ->
    pure."""
    kinds: dict[str, Kind] = {"gaussian": "gdp", "discrete_gaussian": "zcdp", "k_norm": "pure"}
    if noise not in kinds:
        raise ConfigError("mechanism.noise", noise, f"must be one of {sorted(kinds)}.")
    return kinds[noise]


def k_norm_variance(dimension: int) -> float:
    """Variance per coordinate of density exp(-||x||_2) in d dimensions: E||x||^2 / d = d + 1."""
    return float(dimension + 1)
