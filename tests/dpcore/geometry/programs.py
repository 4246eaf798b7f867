"""Sets as linear programs, many instances in one call of a solver: what the oracles are held to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.boxes import Box, Product, Simplex
from weir.dpcore.geometry.combinatorial import Flow, Permutations
from weir.dpcore.geometry.convex_set import (
    ConvexSet,
)
from weir.dpcore.geometry.polytope import Polytope


class Form(NamedTuple):
    """{shift + map z : z >= 0, upper z <= bound, equal z = value}."""

    map: Floats
    shift: Floats
    upper: Floats
    bound: Floats
    equal: Floats
    value: Floats


def form_of(convex_set: ConvexSet) -> Form:
    d = convex_set.dimension
    eye, none, empty = np.eye(d), np.zeros((0, d)), np.zeros(0)
    match convex_set:
        case L1Ball(radius=radius):
            both = np.hstack([eye, -eye])
            return Form(
                both, np.zeros(d), np.ones((1, 2 * d)), [radius], np.zeros((0, 2 * d)), empty
            )
        case Simplex(total=total):
            return Form(eye, np.zeros(d), none, empty, np.ones((1, d)), [total])
        case Box():
            low, high = np.array(convex_set.lowest), np.array(convex_set.highest)
            return Form(eye, low, eye, high - low, none, empty)
        case Polytope(listed=listed):
            n = len(listed)
            empties = np.zeros((0, n)), empty
            return Form(np.array(listed).T, np.zeros(d), *empties, np.ones((1, n)), [1.0])
        case Permutations(items=n):
            lines = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
            return Form(eye, np.zeros(d), none, empty, lines, np.ones(2 * n))
        case Flow(nodes=nodes, edges=edges, source=source, sink=sink):
            balance = np.zeros((nodes, d))
            for i, (start, end) in enumerate(edges):
                balance[start, i] += 1
                balance[end, i] -= 1
            value = np.zeros(nodes)
            value[source], value[sink] = 1.0, -1.0
            return Form(eye, np.zeros(d), none, empty, balance, value)
        case Product(parts=parts):
            forms = [form_of(part) for part in parts]

            def diagonal(name: str) -> Floats:
                blocks = [np.atleast_2d(getattr(form, name)) for form in forms]
                return sparse.block_diag(blocks).toarray()

            def stacked(name: str) -> Floats:
                return np.concatenate([getattr(form, name) for form in forms])

            return Form(
                diagonal("map"),
                stacked("shift"),
                diagonal("upper"),
                stacked("bound"),
                diagonal("equal"),
                stacked("value"),
            )
    raise ValueError(f"no program for {convex_set.name}")


def solve(costs: Floats, upper: Floats, bounds: Floats, equal: Floats, values: Floats) -> Floats:
    """min <c, z>, z >= 0, upper z <= bound, equal z = value, of every row: (K, n) -> (K,)."""
    k, n = costs.shape
    eye = sparse.eye_array(k)
    found = linprog(
        costs.ravel(),
        A_ub=sparse.kron(eye, upper, format="csc") if len(upper) else None,
        b_ub=np.ravel(bounds) if len(upper) else None,
        A_eq=sparse.kron(eye, equal, format="csc") if len(equal) else None,
        b_eq=np.ravel(values) if len(equal) else None,
        method="highs",
    )
    assert found.status == 0, found.message
    return np.sum(costs * found.x.reshape(k, n), axis=1)


def least(convex_set: ConvexSet, costs: Floats) -> Floats:
    """min of <p, c> over the set: (K, d) -> (K,)."""
    form = form_of(convex_set)
    k = len(costs)
    values = solve(
        costs @ form.map,
        form.upper,
        np.tile(form.bound, (k, 1)),
        form.equal,
        np.tile(form.value, (k, 1)),
    )
    return values + costs @ form.shift


def least_near(convex_set: ConvexSet, x: Floats, reach: Floats, costs: Floats) -> Floats:
    """min of <p, c> over the set within ``reach`` (K,) of x in the l1 norm."""
    form = form_of(convex_set)
    d, k = len(form.map), len(x)
    away = np.zeros((d, 2 * d))
    away[:, :d], away[:, d:] = -np.eye(d), np.eye(d)
    upper = sparse.block_diag([np.atleast_2d(form.upper), np.ones((1, 2 * d))]).toarray()
    equal = np.vstack(
        [np.hstack([form.equal, np.zeros((len(form.equal), 2 * d))]), np.hstack([form.map, away])]
    )
    values = solve(
        np.hstack([costs @ form.map, np.zeros((k, 2 * d))]),
        upper,
        np.hstack([np.tile(form.bound, (k, 1)), reach[:, None]]),
        equal,
        np.hstack([np.tile(form.value, (k, 1)), x - form.shift]),
    )
    return values + costs @ form.shift
