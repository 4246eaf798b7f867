"""Sums whose clip is learned in private from the first ticks, and frozen."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.base import ContinualSum, SumState
from weir.dpcore.continual.unit import SumRequest, draw_units
from weir.dpcore.neighbours import Family
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import Noise, is_pure, label

LEVEL = (1 << 40) - 1
"""Of the label of the histogram's noise: no sum has so many levels."""
FULL = 1 << 20
"""Steps of the clip, whatever it is."""
FINE = 20
"""Noise of the histogram is rounded to 2^-20 of a count."""
ROOT = 1518500250
"""2^31 / sqrt(2), rounded up by less than a step."""


class LearnedState(NamedTuple):
    """State of K keys.

    Attributes:
      own: of the sum. sizes: (K, J) int64, exact histogram of the first ticks (to be protected).
      chain: (K, 2) uint64, XOR of the keyed digests of its leaves.
      clip: (K,) int64, place of the clip among the edges; -1: it is not decided yet.
    """

    own: SumState
    sizes: Ints
    chain: Digests
    clip: Ints


@dataclass(frozen=True)
class LearnedSum(ContinualSum):
    """Running sums of values within a clip that a noisy histogram of the first ticks chooses.

    A leaf has, for each of J geometric bins of |value|, how many events of the first ``ticks``
    ticks have one there; and of later ticks the sum of values, and how many are above 0 less how
    many are below. For every edge as clip the clipped sum follows from these exactly.

    **Formal guarantees**
      Unit: one event, or one user in a period. Relation: add_remove or replace_one.
      Sensitivity: an event of the first ticks moves one bin of its key by 1 (two, where its payload
        is replaced); a user the bins of each key that the user has by 1, as only the first event
        there in a period counts. An event of a later tick moves the sum by at most 2^20 steps, each
        of the clip / 2^20: its bin's own sum by as many where the bin ends with the clip, and
        rounded down, by at most 2^20 / sqrt(2) + 1 where it ends below; above it has a sign.
        In each of several groupings an event moves one key's.
      Guarantee: mu-GDP, or pure epsilon where ``inner`` has pure noise. The histogram is drawn
        once, at the last of the first ticks, with sigma_h = Delta_h / mu, or with Laplace noise of
        scale Delta_h / epsilon, Delta_h in l1; sums begin behind it, and are ``inner``'s under its
        loss. Keys that are discovered are stepped from their period's start on. Rows of a
        clip that was decided before their noise is drawn are a function of data and of outputs
        so far, so that losses of rows are charged on each path (Whitehouse et al. 2023). An event
        is in the histogram or in a sum: it is charged for the larger. A user's period is in one of
        both too, because the first ticks end with a period; of n periods those of the histogram add
        up in squares (pure noise: as they are), and then with those of sums.
      Everything that follows from the histogram (the clip) is post-processing; keys that appear
        behind the first ticks have the public ``start``.
      Error: that of ``inner``, times the clip; and what lies beyond the clip is lost.
      Source: derived in this project; a noisy histogram is the Gaussian mechanism (Balle and Wang
        2018).

    Attributes:
      inner: sums in steps of the clip / 2^20; of one coordinate.
      ticks: L, which are learned from. edges: upper ends of the bins, each sqrt(2) times the last.
      start: place of the clip where no bin is found. wider: edges by which the clip lies above the
        highest bin found. sizes_scale: sigma_h, or the scale of Laplace noise. threshold: of a
        noisy count. sizes_moved: change of one key's histogram by a neighbour, squared or in l1,
        times groupings. known_keys: keys that there are; None: any number.
    """

    inner: ContinualSum
    ticks: int
    edges: tuple[float, ...]
    start: int
    wider: int
    sizes_scale: float
    threshold: float
    sizes_moved: int
    known_keys: int | None

    name: ClassVar[str] = "learned_clip"
    signed: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("gaussian", "k_norm", "laplace")
    neighbours: ClassVar[Family] = Family(
        ("first", "last"), "corners", "a bin moves by one, and sums as those of their mechanism"
    )
    patterned: ClassVar[bool] = True
    caveat: ClassVar[str] = "no graded expiration"
    title: ClassVar[str] = "A clip learned from the first ticks, then a sum within it"
    source: ClassVar[str] = "derived in this project"

    def __post_init__(self) -> None:
        if self.inner.pattern != self.pattern:
            object.__setattr__(self, "inner", replace(self.inner, pattern=self.pattern))

    @classmethod
    def fitted(cls, request: SumRequest) -> Self:
        """None: it is made around another sum."""
        raise AssertionError("a learned clip is made around a sum.")

    @classmethod
    def around(
        cls,
        inner: ContinualSum,
        ticks: int,
        edges: tuple[float, ...],
        start: int,
        wider: int,
        sizes_scale: float,
        threshold: float,
        sizes_moved: int,
        known_keys: int | None,
    ) -> LearnedSum:
        """A sum with a clip that is learned."""
        return cls(
            inner.dimension,
            inner.scales,
            inner.sensitivity,
            inner.noise_scale,
            inner.overs,
            inner,
            ticks,
            edges,
            start,
            wider,
            sizes_scale,
            threshold,
            sizes_moved,
            known_keys,
            pattern=inner.pattern,
        )

    @property
    def _pure(self) -> bool:
        """Whether losses are epsilons."""
        return is_pure(self.inner.real_noise[0])

    def _change(self, periods: int = 1) -> float:
        """What a neighbour moves in all histograms, in l2 or, under pure noise, in l1."""
        keys = 1 if self.pattern is None else keys_of(self.pattern, self.known_keys)
        moved = periods * keys * self.sizes_moved
        return moved if self._pure else math.sqrt(moved)

    def _learned(self, periods: int = 1) -> float:
        """mu of the histogram, or its epsilon."""
        return self._change(periods) / self.sizes_scale * (1 + 2.0**-40)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """The larger of the histogram's and the sum's."""
        own = self.inner.loss(ticks)
        if ticks is not None and ticks <= 0:
            return own
        return PrivacyLoss(own.kind, max(own.value, self._learned()))

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """Those in the first ticks, and all of them in sums: an upper bound."""
        assert self.pattern is not None
        own = self.inner.loss_of_periods(periods, ticks, among)
        early = min(periods, -(-self.ticks // (self.pattern.shortest or self.ticks)))
        first = self._learned(early)
        return PrivacyLoss(
            own.kind, own.value + first if self._pure else math.hypot(own.value, first)
        )

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """As the sum's: (m,)."""
        return self.inner.factor(ticks, over)

    def stddev(self, ticks: Ints, over: int | None) -> Floats:
        """(m, 2): of a value, in clips; and of the clip, which is no noisy number."""
        own = self.inner.stddev(ticks, over) / FULL
        return np.concatenate([own, np.zeros_like(own)], axis=1)

    @property
    def real_noise(self) -> tuple[str, float]:
        """As the sum's."""
        return self.inner.real_noise

    @property
    def drawn_exactly(self) -> bool:
        """As the sum's: that of the bins is, but for bins whose noise is beyond any sampler."""
        return self.inner.drawn_exactly

    @property
    def oversize(self) -> float:
        """As the sum's."""
        return self.inner.oversize

    @property
    def adaptive(self) -> bool:
        """As the sum's."""
        return self.inner.adaptive

    def summed(self, leaves: Ints) -> Ints:
        """What it adds up where no bin is found: leaves of one key (n, 3 J) -> (n, 1)."""
        start = np.asarray([self.start])
        return clipped(leaves[:, None, len(self.edges) :], start)

    def init_noise(self, n_keys: int) -> Any:
        """The sum's."""
        return self.inner.init_noise(n_keys)

    def draw(
        self, own: Any, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[Any, Ints]:
        """As the sum's."""
        return self.inner.draw(own, chain, leaf_digests, noise)

    def materialize(self, n: int) -> Floats:
        """As the sum's."""
        return self.inner.materialize(n)

    def init(self, n_keys: int) -> LearnedState:  # type: ignore[override]
        """Nothing is known."""
        return LearnedState(
            self.inner.init(n_keys),
            np.zeros((n_keys, len(self.edges)), dtype=np.int64),
            np.zeros((n_keys, 2), dtype=np.uint64),
            np.full(n_keys, -1, dtype=np.int64),
        )

    def step(  # type: ignore[override]
        self, state: LearnedState, leaves: Ints, noise: Noise
    ) -> tuple[LearnedState, tuple[Floats, ...]]:
        """Steps a stride.

        Args:
          leaves: (n, K, 3 J) int64: counts of bins, sums of values by bin in steps of their edge /
            2^20, and signs by bin.

        Returns:
          New state, and for each ``over`` (n, K, 2) float64: the noisy sum and the clip, in the
          user's unit; both 0 while the clip is learned.
        """
        n, bins = len(leaves), len(self.edges)
        early = min(max(self.ticks - noise.first_tick, 0), n)
        sizes, chain, clip = state.sizes, state.chain, state.clip
        if early:
            first = leaves[:early, :, :bins]
            sizes = sizes + first.sum(axis=0)
            digests = noise.leaf_digests(np.ascontiguousarray(first))
            chain = chain ^ np.bitwise_xor.reduce(digests, axis=0)
        if early and noise.first_tick + early == self.ticks:
            clip = self.decided(sizes, noise, chain)
            sizes = np.zeros_like(sizes)
        if noise.first_tick >= self.ticks:
            clip = np.where(clip < 0, self.start, clip)
        sums = np.zeros((n, leaves.shape[1], 1), dtype=np.int64)
        sums[early:, :, 0] = clipped(leaves[early:, :, bins:], clip)
        own, released = self.inner.step(state.own, sums, noise)
        bound = np.zeros((n, leaves.shape[1]))
        if early < n:
            bound[early:] = np.asarray(self.edges)[clip]
        shown = tuple(
            np.stack([numbers[:, :, 0] / FULL * bound, bound], axis=2) for numbers in released
        )
        return LearnedState(own, sizes, chain, clip), shown

    def decided(self, sizes: Ints, noise: Noise, chain: Digests) -> Ints:
        """(K,) place of the clip, by one noisy look at all bins: (K, J)."""
        labels = label(LEVEL, self.ticks - 1)
        kind, norm = ("laplace", 1.0) if self._pure else ("gaussian", 2.0)
        fine = (2.0**FINE,) * len(self.edges)
        drawn = draw_units(kind, noise, labels, chain[None], self.sizes_scale, fine)[0]
        noisy = replay.released(
            self.name,
            kind,
            sizes,
            sizes + np.ldexp(drawn.astype(np.float64), -FINE),
            sensitivity=self._change(),
            scale=self.sizes_scale,
            where=labels,
            norm=norm,
        )
        high = noisy >= self.threshold
        last = len(self.edges) - 1
        highest = last - np.argmax(high[:, ::-1], axis=1)
        wide = np.minimum(highest + self.wider, last)
        return np.asarray(np.where(high.any(axis=1), wide, self.start), dtype=np.int64)


def keys_of(pattern: Pattern, known: int | None) -> int:
    """Keys of a period in which a user is in the histogram, at most."""
    return pattern.touched if known is None else min(pattern.touched, known)


def clipped(leaves: Ints, clip: Ints) -> Ints:
    """Sums within each key's clip, in steps of the clip / 2^20.

    One whole number after the other is rounded down, so that an event of one bin moves the result
    by at most its share and one step.

    Args:
      leaves: (n, K, 2 J), sums by bin in steps of their edge / 2^20, and signs. clip: (K,).

    Returns:
      (n, K) int64.
    """
    n, keys, width = leaves.shape
    out = np.zeros((n, keys), dtype=np.int64)
    bins = width // 2
    for place in np.unique(clip).tolist():
        mine = np.flatnonzero(clip == place)
        some = leaves[:, mine]
        total = some[:, :, bins + place + 1 :].sum(axis=2) * FULL
        for at in range(place + 1):
            total += narrowed(some[:, :, at], place - at)
        out[:, mine] = total
    return out


def narrowed(values: Ints, halves: int) -> Ints:
    """Whole numbers over sqrt(2)^halves, rounded down."""
    if halves % 2:
        high, low = values >> 31, values & ((1 << 31) - 1)
        values = high * ROOT + (low * ROOT >> 31)
    return values >> (halves // 2)
