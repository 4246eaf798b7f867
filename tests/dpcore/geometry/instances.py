"""Sets and points that the tests go over, hard cases first."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import GroupL1Ball, L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Product, Simplex
from weir.dpcore.geometry.combinatorial import Flow, Permutations
from weir.dpcore.geometry.convex_set import (
    ConvexSet,
)
from weir.dpcore.geometry.norm_balls import LpBall, TraceNormBall
from weir.dpcore.geometry.polytope import Polytope


def hull(points: object) -> Polytope:
    return Polytope(tuple(tuple(float(number) for number in point) for point in points))


def cloud(seed: int, n: int, d: int) -> Polytope:
    return hull(np.random.default_rng(seed).standard_normal((n, d)))


SQUARE = [(0, 0), (1, 0), (1, 1), (0, 1)]
POLYTOPES: dict[str, ConvexSet] = {
    "square": hull([*SQUARE, (0.5, 0.5), (0.5, 0), (1, 1)]),
    "triangle_in_space": hull([(1, 0, 0), (0, 2, 0), (0, 0, 3)]),
    "segment": hull([(1, 2, 3), (3, 2, 1), (2, 2, 2)]),
    "interval": hull([(-1,), (2,), (0.5,)]),
    "point": hull([(1, -1)]),
    "octahedron": hull(np.vstack([2 * np.eye(3), -2 * np.eye(3)])),
    "simplex_as_hull": hull(np.eye(5)),
    "cloud": cloud(1, 9, 3),
    "flat_cloud": hull(cloud(2, 8, 2)._points @ np.array([[1, 0, 1, 2], [0, 1, -1, 1]])),
}
LOCAL: dict[str, ConvexSet] = {
    "l1_ball": L1Ball(1.5, 6),
    "l1_line": L1Ball(2.0, 1),
    "simplex": Simplex(2.0, 7),
    "simplex_of_one": Simplex(3.0, 1),
    "box": Box((-1.0, 0.0, 2.0, -3.0), (1.0, 0.5, 2.0, 4.0)),
    "box_line": Box((-2.0,), (1.0,)),
    "product": Product((L1Ball(1.0, 3), Simplex(1.0, 4), Box.uniform(-1, 1, 2))),
    "nested": Product((Product((hull(SQUARE), L1Ball(2.0, 2))), Simplex(0.5, 3))),
    **POLYTOPES,
}
PROJECTING: dict[str, ConvexSet] = {
    **LOCAL,
    "l2_ball": L2Ball(1.5, 5),
    "l2_line": L2Ball(1.5, 1),
    "with_l2": Product((L2Ball(1.0, 2), Simplex(1.0, 3))),
    "many_corners": cloud(3, 30, 12),
    "lp_ball": LpBall(1.5, 1.5, 6),
    "lp_line": LpBall(2.0, 3.0, 1),
    "nearly_l1": LpBall(1.0, 1.05, 4),
    "nearly_box": LpBall(1.0, 40.0, 4),
    "cubic": LpBall(0.5, 3.0, 7),
    "group_l1": GroupL1Ball(1.5, (2, 1, 3)),
    "even_groups": GroupL1Ball.even(2.0, 2, 7),
    "one_group": GroupL1Ball(1.0, (4,)),
}
LADDER = Flow(
    6,
    ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (3, 5), (4, 5), (0, 2), (1, 5)),
    0,
    5,
)
LINEAR: dict[str, ConvexSet] = {
    "trace_norm": TraceNormBall(2.0, (3, 4)),
    "trace_norm_row": TraceNormBall(2.0, (1, 5)),
    "permutations": Permutations(4),
    "permutation_of_one": Permutations(1),
    "ladder": LADDER,
    "with_dead_ends": Flow(5, ((0, 1), (1, 4), (0, 2), (3, 4), (0, 4)), 0, 4),
    "one_path": Flow(3, ((0, 1), (1, 2)), 0, 2),
    "with_permutations": Product((Permutations(2), Simplex(1.0, 2))),
}
ALL = {**PROJECTING, **LINEAR}


def costs_for(d: int, k: int, seed: int = 0) -> Floats:
    """(k, d): normal, tied small integers, sparse, all equal, zero, tiny and huge."""
    rng = np.random.default_rng(seed)
    costs = rng.standard_normal((k, d))
    kind = np.arange(k) % 8
    costs[kind == 1] = rng.integers(-1, 2, (np.count_nonzero(kind == 1), d))
    costs[kind == 2] *= rng.random((np.count_nonzero(kind == 2), d)) < 0.3
    costs[kind == 3] = costs[kind == 3, :1]
    costs[kind == 4] *= 1e-6
    costs[kind == 5] *= 1e3
    costs[::40] = 0.0
    return costs


def points_in(convex_set: ConvexSet, k: int, seed: int = 0) -> Floats:
    """(k, d) points of the set: mixtures of extreme points, faces and extreme points too."""
    rng = np.random.default_rng(seed + 1)
    corners = [
        convex_set.linear_oracle(costs_for(convex_set.dimension, k, seed + 7 * i)) for i in range(4)
    ]
    shares = rng.dirichlet(np.full(4, 0.7), k)
    shares[::5] = np.eye(4)[rng.integers(0, 4, len(shares[::5]))]
    shares[1::5, 2:] = 0.0
    shares[1::5] /= shares[1::5].sum(axis=1, keepdims=True)
    return sum(shares[:, i, None] * corner for i, corner in enumerate(corners))


def points_near(convex_set: ConvexSet, k: int, seed: int = 0) -> Floats:
    """(k, d) points to project: inside, on the edge, near by and far away, with ties."""
    rng = np.random.default_rng(seed + 2)
    points = points_in(convex_set, k, seed)
    far = np.array([0.0, 1e-9, 0.1, 1.0, 3.0, 30.0, 1e4])[rng.integers(0, 7, k)]
    return points + far[:, None] * costs_for(convex_set.dimension, k, seed + 3)
