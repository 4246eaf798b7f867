"""The delayed-merge tree: pure epsilon for streams without end, with gradual expiration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.contributions import Pattern, over_keys, tree_squares
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.independent import UNBOUNDED, CoverSum, Node
from weir.dpcore.continual.unit import (
    SumRequest,
    lattice_variances,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.neighbours import Family
from weir.dpcore.noise.noise import Noise, is_pure, label

GAMMA = 1.0
"""Default of gamma: levels above the window cost what those inside it cost, so the loss grows like
log n. Above 1 is less noise and faster expiration; below 1 bounds the loss for ever, with noise
that grows like a power of the time."""


class MergingTreeState(NamedTuple):
    """What a delayed-merge tree keeps, for each level l.

    Attributes:
      newest, older: (K, levels, 2) uint64, digest chain at the last two multiples of 2^l.
      noise: (K, levels, d) int64, noise of the nodes in the cover that have level l or more.
    """

    newest: Digests
    older: Digests
    noise: Ints


@dataclass(frozen=True)
class MergingTree(CoverSum):
    """Delayed-merge tree: graded expiration with pure epsilon, about 1.5 log2(t) units of noise.

    A dyadic node of level l over the leaves [s, s + 2^l) is in use only from time s + 2 2^l - 1 on
    (time = number of leaves so far); until then its two children stand in. With u = t + 1 the cover
    at time t has 1 + (binary digit l of u) nodes of every level l with u >= 2^(l+1).

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: l2 norm ``sensitivity`` of what one neighbour changes in (leaf / scales), at one
        tick.
      Guarantee: against everything released within n ticks of its arrival a record has met only
        nodes of levels l <= log2(n), one of each, because the last leaf of such a node is 2^l - 1
        ticks old when the node is first used. Levels l <= h cost one share each, level l > h
        gamma^(l - h) shares; h + 1 shares are the budget, h = floor(log2 W). Shares are of eps
        (K-norm, Laplace), of mu^2 (Gaussian) and of rho (discrete Gaussian); they add adaptively.
        The record at the end of a large node meets as many nodes; that outputs only show sums of
        nodes is not counted on. The nodes of a level hold as many of a user's contributions
        (``pattern``) as fit; losses of pure noise add up over contributions. (At gamma = 1 the
        plain tree keeps the same table with a third of the variance.)
      Error: at most 2 nodes a level; units of level l > h are gamma^(h - l) noise scales large
        (the root of that for Gaussian noise).
      Source: derived here. Compare Andersson, Henzinger, Pagh, Steiner, Upadhyay (2024),
        "Continual counting with gradual privacy expiration", who show that O(log(t) / eps) is
        right.

    Attributes:
      top: h, the last level inside the window.
      gamma: what a level above h costs, in shares of the level below it.
    """

    top: int
    gamma: float

    name: ClassVar[str] = "merging_tree"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window", "powers"),
        "corners",
        "covers merge at powers of two, and blocks end with windows",
    )
    patterned: ClassVar[bool] = True
    title: ClassVar[str] = "Tree with delayed merges: graded expiration, pure epsilon too"
    source: ClassVar[str] = (
        "Weir; compare Andersson, Henzinger, Pagh, Steiner, Upadhyay (NeurIPS 2024)"
    )
    tight: ClassVar[bool] = False
    settings: ClassVar[dict[str, str]] = {
        "gamma": "cost of a level above the window, relative to the level below it; 0.5 to 2, 1 "
        "unless set; more: less noise, faster expiration; below 1: the loss is bounded for ever",
    }

    @classmethod
    def fitted(cls, request: SumRequest) -> MergingTree:
        """The tree whose loss within the window (None: for ever) is at most the budget.

        Raises:
          ConfigError: gamma is out of range.
        """
        last, rows = _levels(request.horizon) - 1, request.rows
        top = last if rows is None else min(rows.bit_length() - 1, last)
        units = units_of([1.0] * (top + 1), top, request.kind, request.pattern)
        gamma = request.options.get("gamma")
        return cls.of(request, units, top=top, gamma=GAMMA if gamma is None else float(gamma))

    def __post_init__(self) -> None:
        if not 0.5 <= self.gamma <= 2:
            raise ConfigError("mechanism.gamma", self.gamma, "must be from 0.5 to 2.")
        super().__post_init__()

    @property
    def levels(self) -> int:
        """Levels that are ever in use."""
        return _levels(self.horizon)

    def share(self, level: int) -> float:
        """What a node of this level costs: 1 inside the window."""
        return float(self.gamma ** max(level - self.top, 0))

    def multiplier(self, level: int) -> float:
        """Size of the units of a level, in noise scales; rounded up."""
        if level <= self.top or self.gamma == 1:
            return 1.0
        share = self.share(level)
        size = 1 / share if is_pure(self.kind) else 1 / math.sqrt(share)
        return math.nextafter(size, math.inf)

    @property
    def largest_multiplier(self) -> float:
        """That of the highest level where gamma is below 1."""
        return max(1.0, self.multiplier(self.levels - 1))

    @property
    def smallest_multiplier(self) -> float:
        """That of the highest level where gamma is above 1."""
        return min(1.0, self.multiplier(self.levels - 1))

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Shares of the levels that a record has met within n ticks; None: of all levels."""
        rows = self.rows(ticks)
        levels = self.levels if rows is None else min(max(rows, 0).bit_length(), self.levels)
        shares = [self.share(level) for level in range(levels)]
        return self.loss_of(units_of(shares, self.top, self.kind, self.pattern))

    def _used(self, ticks: Ints, level: int) -> tuple[Ints, Ints]:
        """Nodes of a level in the covers at ticks (m,): indices [low, high)."""
        u = np.asarray(ticks, dtype=np.int64) + 2
        high = np.maximum((u >> level) - 1, 0)
        low = 2 * np.maximum((u >> (level + 1)) - 1, 0)
        return low, high

    def _counts(self, ticks: Ints, over: int | None) -> Iterator[tuple[float, Ints]]:
        """For each level: its multiplier, and how many of its nodes are in the cover at ticks (m,),
        or in one of two covers only: (m,)."""
        now = np.asarray(ticks, dtype=np.int64)
        then = None if over is None else np.maximum(now - over, -1)
        for level in range(self.levels):
            low, high = self._used(now, level)
            count = high - low
            if then is not None:
                low_then, high_then = self._used(then, level)
                shared = np.minimum(high, high_then) - np.maximum(low, low_then)
                count = count + (high_then - low_then) - 2 * np.maximum(shared, 0)
            yield self.multiplier(level), count

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """Squared sizes of the nodes in the cover, or in one of two covers only: (m,)."""
        out = np.zeros(np.shape(ticks), dtype=np.float64)
        for multiplier, count in self._counts(ticks, over):
            out += multiplier**2 * count
        return out

    def lattice_variance(self, ticks: Ints, over: int | None) -> Floats:
        """Variance of discrete noise, lattice units: each level's is rounded up by itself."""
        out = np.zeros((*np.shape(ticks), self.dimension), dtype=np.float64)
        for multiplier, count in self._counts(ticks, over):
            unit = lattice_variances(self.noise_scale, self.scales, multiplier)
            out += count[:, None] * np.asarray(unit, dtype=np.float64)
        return out

    def cover(self, tick: int) -> tuple[Node, ...]:
        """Greedily from the left, the largest node in use."""
        nodes, at = [], 0
        while at <= tick:
            level = 0
            while at % (2 << level) == 0 and at + (4 << level) - 1 <= tick + 1:
                level += 1
            nodes.append(Node(at, at + (1 << level), self.multiplier(level)))
            at += 1 << level
        return tuple(nodes)

    def init_noise(self, n_keys: int) -> MergingTreeState:
        """No leaves, no noise."""
        marks = np.zeros((n_keys, self.levels, 2), dtype=np.uint64)
        noise = np.zeros((n_keys, self.levels, self.dimension), dtype=np.int64)
        return MergingTreeState(marks, marks.copy(), noise)

    def draw(
        self, own: MergingTreeState, chain: Digests, leaf_digests: Digests, noise: Noise
    ) -> tuple[MergingTreeState, Ints]:
        """Draws the nodes that come into use, then adds the levels up from above.

        At time t, u = t + 1 and z = trailing zeros of u, one node of each level l <= z comes into
        use. Below z it replaces the level's two nodes, which merge; at z it joins the one there.
        (No node of level l is in use before u = 2^(l+1).)
        """
        n = leaf_digests.shape[0]
        self.check(noise, n)
        newest, older = (list(marks.transpose(1, 0, 2)) for marks in (own.newest, own.older))
        levels: list[int] = []
        indices: list[int] = []
        digests: list[Digests] = []
        first_unit = []
        for i in range(n):
            u = noise.first_tick + i + 2
            for level in range(min(_zeros(u - 1) + 1, self.levels)):
                older[level], newest[level] = newest[level], chain[i + 1]
            first_unit.append(len(levels))
            for level in range(min(_zeros(u) + 1, u.bit_length() - 1)):
                levels.append(level)
                indices.append((u >> level) - 2)
                digests.append(newest[level] ^ older[level])
        labels = label(np.asarray(levels), np.asarray(indices))
        sizes = np.asarray([self.multiplier(level) for level in range(self.levels)])[levels]
        units = self.units(noise, labels, np.stack(digests), sizes)
        above = [*own.noise.transpose(1, 0, 2), np.zeros_like(units[0])]
        drawn = np.empty((n, *units.shape[1:]), dtype=np.int64)
        for i in range(n):
            u = noise.first_tick + i + 2
            z, mine = _zeros(u), first_unit[i]
            # u = 2^z: every level below z has one node, and z has none yet.
            tail = above[z]
            if u >> z > 1:
                tail = above[z] = tail + units[mine + z]
            for level in range(z - 1, -1, -1):
                tail = above[level] = tail + units[mine + level]
            drawn[i] = tail
        noise_above = np.stack(above[: self.levels], axis=1)
        state = MergingTreeState(np.stack(newest, axis=1), np.stack(older, axis=1), noise_above)
        return state, drawn


def units_of(shares: Sequence[float], top: int, kind: str, pattern: Pattern | None) -> float:
    """Units that a record, or a user's contributions of a period, move on levels of such shares,
    those up to ``top`` of 1.

    Which nodes a contribution meets follows from the ages of their last leaves, so that those of
    a user meet no level that the first tick of the period does not.
    """
    if pattern is None:
        inside = min(len(shares), top + 1)
        return inside + math.fsum(shares[inside:])
    if is_pure(kind):
        return math.fsum(shares) * pattern.cells * (1 + 2.0**-50)

    def of_key(count: int) -> float:
        squares = tree_squares(len(shares), count, pattern.spacing) if shares else ()
        return math.fsum(a * b for a, b in zip(shares, squares, strict=True))

    return over_keys(of_key, pattern)


def _levels(horizon: int | None) -> int:
    """Levels in use on a clock of this many ticks: those with 2^(l+1) <= T + 1."""
    return ((horizon or UNBOUNDED) + 1).bit_length() - 1


def _zeros(value: int) -> int:
    """Trailing zeros of an integer > 0."""
    return (value & -value).bit_length() - 1
