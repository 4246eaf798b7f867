"""Sets with combinatorial linear oracles: permutations and flows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.geometry.convex_set import (
    RELATIVE,
    ConvexSet,
    Scales,
    check_exponent,
    hull_bound,
    l2_norms,
    largest_of,
    rows,
)


@dataclass(frozen=True)
class Permutations(ConvexSet):
    """The hull of the n x n permutation matrices, each as a row of n^2 numbers.

    Known by its linear oracle only: one assignment problem a row, solved exactly in O(n^3), rows
    one after the other. Ties go as the method of Jonker and Volgenant meets them, which depends
    on the row alone.
    """

    name: ClassVar[str] = "permutations"
    no_oracle: ClassVar[str] = "the permutation polytope"
    items: int

    def __post_init__(self) -> None:
        at_least_one(items=self.items)

    @property
    def dimension(self) -> int:
        return self.items**2

    def linear_oracle(self, costs: Floats) -> Floats:
        from scipy.optimize import linear_sum_assignment  # a tenth of a second, for this set alone

        n = self.items
        out = np.zeros((len(costs), n, n))
        for matrix, cost in zip(out, rows(costs).reshape(len(costs), n, n), strict=True):
            matrix[linear_sum_assignment(cost)] = 1.0
        return out.reshape(len(costs), self.dimension)

    def start(self) -> Floats:
        return np.full(self.dimension, 1 / self.items)

    @property
    def diameter(self) -> float:
        return 0.0 if self.items == 1 else math.sqrt(2 * self.items)

    def diameter_in(self, p: float) -> float:
        """Of two permutations without a place in common, 2 n entries differ by 1."""
        check_exponent(p)
        return 0.0 if self.items == 1 else float((2 * self.items) ** (1 / p))

    def farthest(self, centre: Floats) -> float:
        """||P - C||^2 is n + ||C||^2 - 2 <P, C>: an assignment problem."""
        away = self.linear_oracle(rows(centre[None])) - centre
        return float(l2_norms(away)[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        lines = self._lines(points)
        inside: NDArray[np.bool_] = np.min(points, axis=1) >= -slack
        inside &= np.max(np.abs(lines - 1), axis=1) <= slack
        return inside

    def scales(self, points: Floats) -> Scales:
        lines = self._lines(points)
        size = RELATIVE * np.max(np.abs(lines), axis=1)
        at = np.maximum(lines[:, 0], 0.0)
        missed = np.max(np.abs(lines - at[:, None]), axis=1) > size
        missed |= np.min(points, axis=1) < -size
        return Scales(np.where(missed, np.inf, at), np.where(missed, 0.0, at))

    def gaussian_width(self) -> float:
        """A bound above it: each line takes its own largest entry, or that of n! vertices."""
        n = self.items
        return min(n * largest_of(n), hull_bound(self.diameter, math.lgamma(n + 1)))

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "items": self.items}

    def _lines(self, points: Floats) -> Floats:
        """Sums of lines and columns: (K, n^2) -> (K, 2n)."""
        matrices = rows(points).reshape(len(points), self.items, self.items)
        across = np.add.reduce(matrices, axis=2)
        return np.concatenate([across, np.add.reduce(matrices, axis=1)], axis=1)


@dataclass(frozen=True)
class Flow(ConvexSet):
    """Flows of one unit from ``source`` to ``sink``: the hull of the paths between them.

    x holds one number for each edge, in the order of ``edges``. The network has no cycles, so
    its paths are finitely many and the least expensive is found exactly, whatever the signs of the
    costs, in one pass over the edges with all rows side by side; parallel edges are fine. Known by
    its linear oracle only. The diameter is a bound: two paths of most edges with none in common.

    Attributes:
      nodes: they are numbered 0 to nodes - 1. edges: (from, to) each.
    """

    name: ClassVar[str] = "flow"
    no_oracle: ClassVar[str] = "the flow polytope"
    nodes: int
    edges: tuple[tuple[int, int], ...]
    source: int
    sink: int

    def __post_init__(self) -> None:
        at_least_one(nodes=self.nodes)
        for edge in self.edges:
            if len(edge) != 2 or not all(0 <= node < self.nodes for node in edge):
                raise ConfigError(
                    "flow.edges", list(edge), f"must be two nodes from 0 to {self.nodes - 1}."
                )
        for field, node in (("source", self.source), ("sink", self.sink)):
            if not 0 <= node < self.nodes:
                raise ConfigError(f"flow.{field}", node, f"must be from 0 to {self.nodes - 1}.")
        if self.source == self.sink:
            raise ConfigError("flow.sink", self.sink, "must not be the source.")
        try:
            order = self._order
        except CycleError as cycle:
            raise ConfigError(
                "flow.edges", cycle.args[1], "is a cycle; remove an edge of it."
            ) from None
        if not any(self.edges[edge][0] == self.source for edge in order):
            raise ConfigError("flow.edges", list(self.edges), "hold no path from source to sink.")

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Edges that are on a path, so that every edge comes after those that its end leads to."""
        following: dict[int, list[int]] = {node: [] for node in range(self.nodes)}
        for start, end in self.edges:
            following[start].append(end)
        nodes = list(TopologicalSorter(following).static_order())  # a node after its followers
        leads = {self.sink}
        for node in nodes:
            if any(end in leads for end in following[node]):
                leads.add(node)
        reached = {self.source}
        for node in reversed(nodes):
            if node in reached:
                reached.update(following[node])
        rank = {node: i for i, node in enumerate(nodes)}
        used = [i for i, (start, end) in enumerate(self.edges) if start in reached and end in leads]
        return tuple(sorted(used, key=lambda i: (rank[self.edges[i][0]], i)))

    @property
    def dimension(self) -> int:
        return len(self.edges)

    def linear_oracle(self, costs: Floats) -> Floats:
        """A least expensive path each."""
        k = len(costs)
        rest = np.full((self.nodes, k), np.inf)  # cost from a node to the sink
        rest[self.sink] = 0.0
        following = np.zeros((self.nodes, k), dtype=np.int64)  # the edge to take there
        for edge in self._order:
            start, end = self.edges[edge]
            total = costs[:, edge] + rest[end]
            better = total < rest[start]
            np.copyto(rest[start], total, where=better)
            np.copyto(following[start], edge, where=better)
        out = np.zeros((k, self.dimension))
        at = np.full((self.nodes, k), False)
        at[self.source] = True
        for edge in reversed(self._order):
            start, end = self.edges[edge]
            taken = at[start] & (following[start] == edge)
            out[:, edge] = taken
            at[end] |= taken
        return out

    def start(self) -> Floats:
        """The flow that parts evenly at every node, over the edges that lead on."""
        leaving = np.zeros(self.nodes)
        for edge in self._order:
            leaving[self.edges[edge][0]] += 1
        flow, arrived = np.zeros(self.dimension), np.zeros(self.nodes)
        arrived[self.source] = 1.0
        for edge in reversed(self._order):
            start, end = self.edges[edge]
            flow[edge] = arrived[start] / leaving[start]
            arrived[end] += flow[edge]
        return flow

    @property
    def diameter(self) -> float:
        """A bound above it."""
        if np.all(np.isin(self.start(), (0.0, 1.0))):  # one path only
            return 0.0
        longest = np.add.reduce(self.linear_oracle(np.full((1, self.dimension), -1.0)), axis=1)
        return math.sqrt(2 * float(longest[0]))

    def farthest(self, centre: Floats) -> float:
        """||P - c||^2 is ||c||^2 + the sum of 1 - 2 c_e along the path: a longest path."""
        away = self.linear_oracle((2 * centre - 1)[None]) - centre
        return float(l2_norms(away)[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        balance = self._balance(points)
        balance[:, self.source] -= 1.0
        balance[:, self.sink] += 1.0
        inside: NDArray[np.bool_] = np.min(points, axis=1) >= -slack
        inside &= np.max(np.abs(balance), axis=1) <= slack
        return inside

    def scales(self, points: Floats) -> Scales:
        points = rows(points)
        size = RELATIVE * np.max(np.abs(points), axis=1)
        balance = self._balance(points)
        at = np.maximum(balance[:, self.source], 0.0)
        balance[:, self.source] -= at
        balance[:, self.sink] += at
        missed = (np.min(points, axis=1) < -size) | (np.max(np.abs(balance), axis=1) > size)
        return Scales(np.where(missed, np.inf, at), np.where(missed, 0.0, at))

    def gaussian_width(self) -> float:
        """A bound above it, by the number of paths."""
        paths = [-math.inf] * self.nodes  # logarithm of how many lead from a node to the sink
        paths[self.sink] = 0.0
        for edge in self._order:
            start, end = self.edges[edge]
            paths[start] = float(np.logaddexp(paths[start], paths[end]))
        return hull_bound(self.diameter, paths[self.source])

    def canonical(self) -> Mapping[str, Any]:
        return {
            "set": self.name,
            "nodes": self.nodes,
            "edges": [list(edge) for edge in self.edges],
            "source": self.source,
            "sink": self.sink,
        }

    def _balance(self, points: Floats) -> Floats:
        """What leaves each node less what arrives: (K, d) -> (K, nodes)."""
        out = np.zeros((len(points), self.nodes))
        for edge, (start, end) in enumerate(self.edges):
            out[:, start] += points[:, edge]
            out[:, end] -= points[:, edge]
        return out
