"""Base class of continual sums, and the canonical form of one that digests are made of."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss, added_up
from weir.dpcore.accounting.precision import made_of_doubles, refuse_coarse
from weir.dpcore.arrays import Digests, Floats, Ints, arrays_of, reproducible
from weir.dpcore.continual.unit import SumRequest, chained, check_request
from weir.dpcore.leaves.lattice import add_wide, running_sums, wide_modulo
from weir.dpcore.noise import replay
from weir.dpcore.noise.discrete_gaussian import WIDER
from weir.dpcore.noise.noise import Noise


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

    @staticmethod
    def slides() -> tuple[str, ...]:
        """See ``dpcore.arrays.sliding``."""
        return ("history",)


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
        ``sensitivity``. A scale of 0 marks a coordinate that is public: it gets no noise.
      sensitivity: l2 sensitivity of (leaf / scales); l1 where the noise is Laplace.
      noise_scale: sigma (Gaussian, discrete Gaussian) or b (K-norm, Laplace) of one unit of noise,
        in units of scales.
      overs: what is served, in the order of the releases: None = since the start, N = last N ticks.
      pattern: cells of one user that two neighbours differ in, each by ``sensitivity`` at most;
        None: a neighbour differs in one cell. Losses then count from the last tick of the user's
        period on.

    Class attributes:
      name: in the config. kinds: the noises it can use: gaussian, k_norm,
        laplace.
      title, source: for people.
      settings: field of the config's mechanism section that it reads -> what it does.
      signed: whether what records of two ticks move can have a negative inner product. A neighbour
        of replace_anywhere changes two cells, and its sensitivity is then the sum of both norms
        (``dpcore.accounting.joint.joint_sensitivity``). Every class states it for itself: the
        registry refuses one that does not, and a contract test measures it.
      ages: whether the noise of a key that was born at tick b has the variance ``factor(t - b)`` at
        tick t, and not only one of ``factor(t)`` at most.
      patterned: whether it knows what several contributions of a user move. Without, a plan whose
        unit is a user does not take it.
      permanent: whether its loss is for ever, whatever the window.
      caveat: what a plan would lose that does not name it; "": nothing. With one it is chosen only
        where the guarantee is for the whole clock, or ``permanent`` in place of one that does not
        fade either, and every output gains, in the worst tick and in the mean.
      by_gain: whether under pure noise it is chosen only where delta is 0 and every output gains,
        in the worst tick and in the mean.
      any_signs: whether that bound holds for contributions of any signs, as it must where columns
        are ``signed``.
    """

    dimension: int
    scales: tuple[float, ...]
    sensitivity: float
    noise_scale: float
    overs: tuple[int | None, ...]
    pattern: Pattern | None = field(default=None, kw_only=True)

    name: ClassVar[str]
    signed: ClassVar[bool]
    kinds: ClassVar[tuple[str, ...]]
    title: ClassVar[str]
    source: ClassVar[str]
    settings: ClassVar[dict[str, str]] = {}
    ages: ClassVar[bool] = False
    patterned: ClassVar[bool] = False
    any_signs: ClassVar[bool] = False
    permanent: ClassVar[bool] = False
    caveat: ClassVar[str] = ""
    by_gain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.drawn_exactly:
            refuse_coarse(self.name, *self.real_noise)

    # ---- what a subclass supplies

    @classmethod
    @abstractmethod
    def fitted(cls, request: SumRequest) -> Self:
        """The least noise whose loss within the window is at most the budget.

        Raises:
          ConfigError: it cannot serve this.
        """

    @abstractmethod
    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` ticks of its arrival.

        With a ``pattern``: of all that a user adds in one period, against everything released
        within ``ticks`` ticks from the period's last one on, and before it.
        """

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """With a ``pattern``: loss of a user in so many periods, any of ``among`` in a row.

        A subclass may know better than that losses add up.
        """
        assert self.pattern is not None and self.pattern.span is not None
        return added_up(self.loss, self.pattern.span, periods, ticks, among)

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
        """(n, m) matrix B, for tests only: noise of running totals = B @ (m independent units)."""

    @property
    @abstractmethod
    def real_noise(self) -> tuple[str, float]:
        """Kind of the noise, and the largest standard deviation, in steps of the fixed-point grid,
        of a number that is rounded to it. ``dpcore.accounting.precision`` refuses what is too
        coarse."""

    @property
    def drawn_exactly(self) -> bool:
        """Whether Gaussian noise is drawn in whole numbers, not made of doubles."""
        return False

    @property
    def oversize(self) -> float:
        """Most by which the standard deviation of exact noise, and its roundings on its own grid,
        exceed what is stated: a factor."""
        return float(WIDER) ** 2

    # ---- shared

    @classmethod
    def serves(cls, overs: Sequence[int | None]) -> bool:
        """Whether it can serve such sums at all. Running totals serve any ``over``: sums over N
        ticks are differences of two of them."""
        return len(overs) > 0 and all(over is None or over >= 1 for over in overs)

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
        norm: int = 2,
        keys: int | None = None,
        exact: bool = False,
        **options: Any,
    ) -> Self:
        """The least noise whose loss(window) is at most the budget; see ``SumRequest``.

        Raises:
          ConfigError: it cannot serve this, an option that it does not have included.
        """
        request = SumRequest(
            dimension=dimension,
            scales=scales,
            sensitivity=sensitivity,
            overs=overs,
            window=window,
            horizon=horizon,
            budget=budget,
            pattern=pattern,
            options=options,
            norm=norm,
            keys=keys or 2 * (1 if pattern is None else pattern.touched),
            exact=exact,
        )
        unknown = {name: value for name, value in options.items() if name not in cls.settings}
        if not cls.patterned:
            unknown["pattern"] = pattern
        check_request(cls.name, cls.kinds, request, cls.serves(overs), unknown)
        fitted = cls.fitted(request)
        if exact and fitted.noise_scale > 0 and not fitted.drawn_exactly:
            raise made_of_doubles(cls.name)
        return fitted

    def summed(self, leaves: Ints) -> Ints:
        """What it adds up at each tick: leaves of one key (n, any) int64 -> (n, d)."""
        return leaves

    @property
    def largest_multiplier(self) -> float:
        """Size of the largest unit that is ever drawn, in noise scales."""
        return 1.0

    def roundings(self, ticks: Ints) -> Floats:
        """Numbers in the noise of the running total at ticks (m,) that were rounded to the lattice
        one by one, at most: (m,)."""
        return np.ones(np.shape(ticks))

    @property
    def adaptive(self) -> bool:
        """Whether the loss of a user holds where contributions follow releases.

        It does if no two columns point against each other, or if the bound takes the sizes of their
        products, as long as caps and norms hold on every path (Choquette-Choo et al. 2023; Smith,
        Thakurta 2022). What one record moves needs nothing of the kind.
        """
        return self.pattern is None or not self.signed or self.any_signs

    @property
    def unit_variance(self) -> float:
        """Variance of one coordinate of one unit of noise, in units of scales^2."""
        return self.noise_scale**2

    @property
    def depth(self) -> int:
        """How many past noisy running totals are kept per key."""
        return max((over for over in self.overs if over is not None), default=0)

    def stddev(self, ticks: Ints, over: int | None) -> Floats:
        """Standard deviation of the released noise at ticks (m,), lattice units: (m, d). Means are
        divided by it where a count is smaller, so it has the same bits everywhere."""
        root = reproducible(np.sqrt(self.unit_variance * self.factor(ticks, over)))
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
        """Steps a stride. leaves: (n, K, d) int64 -> (n, K, d) float64 per over, lattice units."""
        digests = noise.leaf_digests(leaves)
        chain = chained(state.chain, digests)
        own, drawn = self.draw(state.own, chain, digests, noise)
        if replay.is_on():
            clean = wide_modulo(add_wide(state.total, leaves))
            drawn = replay.shifted(self, leaves, clean, drawn, noise.first_tick)
        n, depth = leaves.shape[0], self.depth
        shown = None in self.overs
        sums = running_sums(state.total, leaves, drawn, noisy=depth > 0, shown=shown)
        past = state.history
        if depth:
            past = np.concatenate([past, sums.noisy.transpose(1, 2, 0)], axis=2)
        released: list[Floats] = []
        for over in self.overs:
            if over is None:
                released.append(sums.shown)
            else:
                with np.errstate(over="ignore"):
                    before = past[:, :, depth - over : depth - over + n]
                    difference = past[:, :, depth : depth + n] - before
                released.append(difference.transpose(2, 0, 1).astype(np.float64))
        new = SumState(
            total=sums.total,
            history=past[:, :, past.shape[2] - depth :].copy(),
            chain=chain[-1].copy(),
            own=own,
        )
        return new, tuple(released)

    def state_bytes(self) -> int:
        """Bytes of state per key. Nothing is allocated."""
        arrays = arrays_of(self.init(0))
        return sum(math.prod(array.shape[1:]) * array.itemsize for array in arrays)


def canonical_mechanism(mechanism: ContinualSum) -> Mapping[str, Any]:
    """Name and every field of a mechanism; floats as hex strings. Without a pattern, none, and
    nothing that a form of noise or of a tree does not have."""
    result = canonical_value(mechanism)
    for optional in ("pattern", "exact", "arities", "delay"):
        if result.get(optional) is None:
            result.pop(optional, None)
    for item in fields(mechanism):
        if isinstance(inner := getattr(mechanism, item.name), ContinualSum):
            result[item.name] = canonical_mechanism(inner)
    return {"name": mechanism.name, **result}


def canonical_value(value: Any) -> Any:
    """JSON-able form in which floats are hex strings."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, list | tuple):
        return [canonical_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): canonical_value(item) for key, item in value.items()}
    if is_dataclass(value):
        return {f.name: canonical_value(getattr(value, f.name)) for f in fields(value)}
    return value
