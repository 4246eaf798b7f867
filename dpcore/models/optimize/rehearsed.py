"""What a tree of phases comes to on a public problem: the error that R is chosen by."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Simplex
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall
from weir.dpcore.noise.gaussian import PublicNormals

if TYPE_CHECKING:
    from weir.dpcore.models.optimize.sfw import TreeRun

REPEATS = 16
COORDINATES = 32
"""Of the dry run, at most: what is left out changes the lengths of noise, not what it does."""


def rehearsed(run: TreeRun, convex_set: ConvexSet) -> float:
    """Mean excess risk of a run on features that are evenly spread. Public; nothing is fitted.

    Rows are (+-a, ..., +-a), a = A d^(-1/q), signs independent, so that their lq norm is A and the
    Hessian is curve a^2 I. The loss is its parabola, and its slopes are spread evenly up to the
    largest, which gives the mean over a batch its variance. The best model is on the way from
    the start to a corner of the set, in a direction at random, as far as evenly spread from 0 to
    the whole. Steps, batches and noise are the run's.
    """
    small = reduced(convex_set)
    q, glm = run.glm.dual, run.glm
    a = glm.reach * (1.0 if math.isinf(q) else math.pow(glm.dimension, -1 / q))
    h = glm.loss.smoothness * a * a
    d, start = small.dimension, small.start()
    way = (np.arange(REPEATS)[:, None] + 0.5) / REPEATS
    best = start + (small.linear_oracle(_normals(0, d)) - start) * way
    x = np.repeat(start[None], REPEATS, axis=0)
    points = [x] * (run.phases + 1)
    slopes = [x] * (run.phases + 1)
    gradient = x
    deviation = [0.0 if n is None else n.stddev for n in (run.root, run.right)]
    for i, stage in enumerate(run.stages):
        one, two = _normals(2 * i + 1, d), _normals(2 * i + 2, d)
        depth = stage.depth
        noise = deviation[bool(depth)] * 2.0 ** (1 - max(1, depth)) / stage.size
        if depth:
            moved = x - points[depth - 1]
            far = np.sqrt(np.add.reduce(moved * moved, axis=1))[:, None]
            spread = h * far / math.sqrt(stage.size)
            gradient = slopes[depth - 1] + h * moved + spread * one + noise * two
        else:
            spread_root = glm.slope * a / math.sqrt(3 * stage.size)
            gradient = h * (x - best) + spread_root * one + noise * two
        for deeper in range(depth, run.phases + 1):
            points[deeper], slopes[deeper] = x, gradient
        if run.kappa:
            x = run.stepped(small, x, gradient, stage.step)
            continue
        if run.scales:
            corner = _chosen(small, gradient, run.scales[stage.phase - 1], i)
        else:
            corner = small.linear_oracle(gradient)
        x = (1 - stage.step) * x + stage.step * corner
    apart = x - best
    return float(h / 2 * np.add.reduce(apart * apart, axis=1).mean())


def reduced(convex_set: ConvexSet) -> ConvexSet:
    """The same set in as many coordinates as are tried in a dry run, where its kind has any
    number."""
    if isinstance(convex_set, L1Ball | L2Ball | LpBall | Simplex):
        return replace(convex_set, size=min(convex_set.dimension, COORDINATES))
    return convex_set


def _chosen(convex_set: ConvexSet, gradient: Floats, scale: float, index: int) -> Floats:
    """The corners of noisy choices: (n, d) -> (n, d)."""
    result = convex_set.corners()
    assert result is not None
    if result.listed is not None:
        corners = result.listed
    else:
        axes = result.radius * np.eye(convex_set.dimension)
        corners = np.concatenate([axes, -axes]) if result.signed else axes
    scores = np.einsum("nd,jd->nj", gradient, corners)
    uniform = np.clip(ndtr(_normals(-1 - index, len(corners))), 1e-300, 1 - 2.0**-53)
    return np.asarray(corners[np.argmin(scores + scale * np.log(-np.log(uniform)), axis=1)])


@lru_cache(maxsize=8192)
def _normals(index: int, width: int) -> Floats:
    """(REPEATS, width)."""
    result = PublicNormals(b"one pass, rehearsed", int(index < 0)).draw(abs(index), REPEATS, width)
    result.setflags(write=False)
    return result
