"""Quantiles of a column by noisy counts of nested bins.

Ranks from noisy counts of nested bins: a tree of counts, made consistent, and its exact error.

Level l of the tree counts the same events in wider bins, each of ``fan`` bins of the level below.
The best linear unbiased estimate of all counts, given all levels, is two passes over the tree (Hay,
Rastogi, Miklau, Suciu 2010; here for any variance of any level). Everything is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.aggregates.aggregate import Aggregate, AggregateOutput, Noisy, Solved
from weir.dpcore.aggregates.channel import Layout
from weir.dpcore.aggregates.counts import EvenlyEdged
from weir.dpcore.algorithm import Bias
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.config.schema import Column
from weir.dpcore.config.section import refusal
from weir.dpcore.config.yaml import with_numbers
from weir.dpcore.pricing.calibration import BAND, LAPLACE_BAND

FANS = (2, 4, 8, 16, 32, 64)


def best_fan(bins: int) -> int:
    """Of how many bins a wider one is made, so that the worst rank has the least noise.

    L levels cost L in squared sensitivity, and a rank is a sum of at most L (fan - 1) counts: the
    least L^2 (fan - 1), in whole numbers. ``bins`` itself: one level, a flat histogram.
    """

    def cost(fan: int) -> int:
        levels = 1
        while fan**levels < bins:
            levels += 1
        return levels * levels * (fan - 1)

    return min((*(fan for fan in FANS if fan < bins), bins), key=cost)


def levels_of(edges: Sequence[float], fan: int) -> tuple[tuple[float, ...], ...]:
    """Edges of each level, the finest first; every fan-th edge, and the last, of the one before."""
    results = [tuple(edges)]
    while len(results[-1]) - 1 > fan:
        last = results[-1]
        retained = last[::fan]
        results.append(retained if retained[-1] == last[-1] else (*retained, last[-1]))
    return tuple(results)


@dataclass(frozen=True)
class RankTree:
    """The shape of a tree.

    Attributes:
      sizes: bins of each level, the finest first. fan: bins that a wider one is made of.
    """

    sizes: tuple[int, ...]
    fan: int

    @cached_property
    def parents(self) -> tuple[Ints, ...]:
        """Of each level but the widest: the bin of the next that each lies in."""
        return tuple(np.arange(size) // self.fan for size in self.sizes[:-1])

    def _up(self, level: int, values: Floats) -> Floats:
        """Sums over the bins that a wider one is made of: (..., size) -> (..., next size)."""
        firsts = np.arange(0, self.sizes[level], self.fan)
        return np.asarray(np.add.reduceat(values, firsts, axis=-1))

    def variances(self, noise: Sequence[Floats]) -> list[Floats]:
        """Of each level: variance of a count given its own noise and all below it, (n, size).

        noise: of each level, variance of its counts, (n, 1, 1) or (n, 1, size).
        """
        results: list[Floats] = []
        for level, size in enumerate(self.sizes):
            own = np.broadcast_to(noise[level][:, 0], (len(noise[level]), size))
            if level:
                below = self._up(level - 1, results[-1])
                own = own * below / (own + below)
            results.append(np.asarray(own))
        return results

    def consistent(self, counts: Sequence[Floats], noise: Sequence[Floats]) -> Floats:
        """The finest counts that all levels together tell best: (n, K, size) of each -> finest."""
        spread = self.variances(noise)
        reported = [counts[0]]
        for level in range(1, len(self.sizes)):
            own = np.broadcast_to(noise[level][:, 0], spread[level].shape)
            weight = (spread[level] / own)[:, None]  # of its own count; the rest is its children's
            below = self._up(level - 1, reported[-1])
            reported.append(weight * counts[level] + (1 - weight) * below)
        final = reported[-1]
        for level in range(len(self.sizes) - 2, -1, -1):
            gap = final - self._up(level, reported[level])
            parents = self.parents[level]
            share = spread[level] / self._up(level, spread[level])[:, parents]
            final = reported[level] + share[:, None] * gap[:, :, parents]
        return final

    def rank_variance(self, noise: Sequence[Floats], at: float) -> Floats:
        """Variance of (events below an edge) - at * (all events): (n, edges).

        Down from a bin the errors of its parts, given its own error e, are u_i + a_i e with
        cov(u) = diag(V) - V V^T / sum V and a = V / sum V; so what lies below an edge inside it is
        alpha e plus an independent error of variance beta, level by level.
        """
        spread = self.variances(noise)
        n, edges = len(spread[0]), np.arange(self.sizes[0] + 1)
        alpha, beta = np.zeros((n, len(edges))), np.zeros((n, len(edges)))
        node = edges  # of the finest level: the bin that begins at the edge, none of it below
        for level in range(len(self.sizes) - 1):
            variance = spread[level]
            ends = np.concatenate([np.zeros((n, 1)), np.cumsum(variance, axis=1)], axis=1)
            parent = node // self.fan
            first = parent * self.fan
            stop = np.minimum(first + self.fan, self.sizes[level])
            inside = node < self.sizes[level]
            own = variance[:, np.minimum(node, self.sizes[level] - 1)] * inside
            first, stop = np.minimum(first, self.sizes[level]), np.maximum(stop, 0)
            before = ends[:, node] - ends[:, first]
            whole = ends[:, stop] - ends[:, np.minimum(first, stop)]
            whole = np.where(whole > 0, whole, 1.0)
            linear = before + alpha * own
            beta = beta + before + alpha**2 * own - linear**2 / whole
            alpha = linear / whole
            node = parent
        top = spread[-1]
        ends = np.concatenate([np.zeros((n, 1)), np.cumsum(top, axis=1)], axis=1)
        own = top[:, np.minimum(node, self.sizes[-1] - 1)] * (node < self.sizes[-1])
        before = ends[:, node]
        after = ends[:, -1:] - before - own
        return np.asarray(
            beta + (1 - at) ** 2 * before + (alpha - at) ** 2 * own + at**2 * np.maximum(after, 0)
        )


def _at(value: Any) -> Any:
    """q | [q, ...] -> a tuple of shares that rise."""
    listed = with_numbers(value if isinstance(value, (list, tuple)) else [value])
    for item in listed:
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not 0 < item < 1:
            raise ValueError(
                "must be a number between 0 and 1, like 0.5, or a list of them; the smallest and "
                "the largest value themselves, 0 and 1, are single events and cannot be released."
            )
    if not listed or any(not low < high for low, high in zip(listed, listed[1:], strict=False)):
        raise ValueError(
            "must hold at least one number between 0 and 1, rising from left to right."
        )
    return tuple(map(float, listed))


Inner = Annotated[float, Field(gt=0, lt=1)]
At = Annotated[
    tuple[float, ...],
    BeforeValidator(
        _at, json_schema_input_type=Inner | Annotated[list[Inner], Field(min_length=1)]
    ),
]


class QuantileAggregate(Aggregate):
    """The value that a share of the events lies below.

    **Formal guarantees**
      An event adds one to one bin of each of L levels of nested bins: channels like those of a
      histogram, whose joint sensitivity (accounting/joint.py) is sqrt(L) times that of one, and e
      times that for a user's e events in a cell. Values, margins and all that makes levels agree
      are post-processing of the noisy counts. Source: Hay, Rastogi, Miklau, Suciu (2010): nested
      histograms with constrained inference.
    """

    kind: ClassVar[str] = "quantile"
    words: ClassVar[str] = "quantiles of {column}"
    noted: ClassVar[str] = (
        "Of a quantile in events: how far the rank of what is released may lie from the share that "
        "was requested. Each release has the margin of values that follows from it, bins and all."
    )

    reading: ClassVar[str] = (
        "The margin of a quantile is an interval: it holds the true one, and the bin of public "
        "edges it lies in, so it is as wide as that bin at least, and the value need not lie in "
        "its middle."
    )

    quantile: Column = Field(description="Quantiles of this column.", examples=["amount"])
    at: At = Field(
        description="Shares of the events: 0.5 is the median. One number or a list.",
        examples=[[0.5, 0.95]],
    )
    edges: EvenlyEdged = Field(
        description="Public edges of the bins, from what you know, never from the data: {log: "
        "[low, high, bins]}, {linear: [low, high, bins]} or a list that rises. A value outside "
        "counts in the bin at that end; a quantile is as exact as its bin is narrow.",
        examples=["{log: [1, 10000, 64]}"],
    )

    @model_validator(mode="before")
    @classmethod
    def _given(cls, data: Any) -> Any:
        for name, like in (("at", "at: [0.5, 0.95]"), ("edges", "edges: {log: [1, 10000, 64]}")):
            if isinstance(data, dict) and data.get(name) is None:
                raise refusal(name, None, f"is missing; write something like `{like}`.")
        return data

    @property
    def left_out(self) -> Bias:
        low, high = self.bounds
        return Bias((f"values outside [{low:g}, {high:g}] count in the bin at that end",))

    @property
    def bounds(self) -> tuple[float, ...]:
        """The outermost edges."""
        return self.edges[0], self.edges[-1]

    @property
    def between(self) -> tuple[float | None, float | None]:
        return self.edges[0], self.edges[-1]

    def reach(self, events: float) -> float:
        """A rank lies among the events."""
        return events

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        fan = best_fan(len(self.edges) - 1)
        channels = []
        for edges in levels_of(self.edges, fan):
            # Values outside count at the ends, so that ranks are of all events.
            channels.append(layout.bins(self.quantile, (-np.inf, *edges[1:-1], np.inf)))
        common = (name, self.quantile, self.overs, self.weight)
        return QuantileOutput(*common, tuple(channels), self.edges, fan, self.at)

    def refused(self, name: str) -> Iterator[str]:
        low, high = self.bounds
        yield (
            f"{name}: values of {self.column} outside [{low:g}, {high:g}] count in the bin at that "
            "end; missing ones do not count"
        )


@dataclass(frozen=True)
class QuantileOutput(AggregateOutput):
    """Where noisy ranks pass the shares asked for.

    Attributes:
      levels: indices of the channels, the finest bins first. edges: of these. fan: bins of one that
        make one of the next. at: the shares.
    """

    levels: tuple[int, ...]
    edges: tuple[float, ...]
    fan: int
    at: tuple[float, ...]

    kind: ClassVar[str] = "quantile"
    interval: ClassVar[bool] = True

    @property
    def between(self) -> tuple[float, float] | None:
        return self.edges[0], self.edges[-1]

    @property
    def labels(self) -> tuple[str, ...]:
        """The shares."""
        return tuple(f"{item:g}" for item in self.at) if len(self.at) > 1 else ("",)

    def canonical(self) -> tuple[Any, ...]:
        return ([item.hex() for item in self.at], [edge.hex() for edge in self.edges], self.fan)

    def importance(self) -> dict[int, float]:
        """The variance of the worst rank, shared by the levels: exact where their noise is equal.

        Rounded to three digits, so that every machine splits noise alike.
        """
        noise = [np.ones((1, 1, 1))] * len(self.levels)
        worst = max(float(self.tree.rank_variance(noise, at).max()) for at in self.at)
        each = float(f"{1.002 * worst / len(self.levels):.3g}")
        return dict.fromkeys(self.levels, self.weight * each)

    @property
    def tree(self) -> RankTree:
        """The levels as a tree."""
        sizes = tuple(len(edges) - 1 for edges in levels_of(self.edges, self.fan))
        return RankTree(sizes, self.fan)

    def solve(self, noisy: Noisy) -> Solved:
        """Each share's value, and the interval that holds the true one, bins and all.

        With D_j = (rank of edge j) - q n, noise of known variance s_j^2, the bin with the quantile
        has D <= 0 at its lower and D >= 0 at its upper edge. The interval holds every bin of which
        the noisy D, z s_j aside, allows that: the true one fails either side with at most 2.5 %. z
        is that of Laplace noise, the widest. Inside a bin the value is interpolated. The standard
        deviation is that of the longer side, as if it were a margin.
        """
        results = [noisy(level) for level in self.levels]
        tree, noise = self.tree, [stddev**2 for _, stddev in results]
        finest = tree.consistent([value for value, _ in results], noise)
        ranks = np.concatenate(
            [np.zeros((*finest.shape[:2], 1)), np.cumsum(finest, axis=2)], axis=2
        )
        pairs = [self._one(ranks, tree.rank_variance(noise, at), at) for at in self.at]
        value, error, low, high = (np.stack(item, axis=2) for item in zip(*pairs, strict=True))
        return value, error, low, high

    def _one(
        self, ranks: Floats, variance: Floats, at: float
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Of one share: value, error and interval, (n, K) each. ranks: (n, K, edges)."""
        edges = np.asarray(self.edges)
        above = ranks - at * ranks[:, :, -1:]
        slack = LAPLACE_BAND * np.sqrt(variance)[:, None]
        possible = (above[:, :, :-1] <= slack[:, :, :-1]) & (above[:, :, 1:] >= -slack[:, :, 1:])
        some = possible.any(axis=2)
        last = len(edges) - 2
        first_bin = np.where(some, possible.argmax(axis=2), 0)
        last_bin = np.where(some, last - possible[:, :, ::-1].argmax(axis=2), last)
        low, high = edges[first_bin], edges[last_bin + 1]
        value = np.clip(self._crossing(above), low, high)
        return value, np.maximum(value - low, high - value) / BAND, low, high

    def _crossing(self, above: Floats) -> Floats:
        """Where a rank that only rises passes 0: between the highest so far and the lowest to
        come."""
        edges = np.asarray(self.edges)
        highest = np.maximum.accumulate(above, axis=2)
        lowest = np.minimum.accumulate(above[:, :, ::-1], axis=2)[:, :, ::-1]
        middle = (highest + lowest) / 2
        upper = np.clip((middle < 0).sum(axis=2), 1, len(edges) - 1)
        at_upper = np.take_along_axis(middle, upper[:, :, None], axis=2)[:, :, 0]
        at_lower = np.take_along_axis(middle, upper[:, :, None] - 1, axis=2)[:, :, 0]
        rise = at_upper - at_lower
        part = np.clip(-at_lower / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        part = np.where(rise > 0, part, 0.5)
        value: Floats = edges[upper - 1] + part * (edges[upper] - edges[upper - 1])
        return value
