"""What one event may add at the corners of a config, in units of what the plan pays for.

For every kind of program: the public numbers are taken from the compiled program, the events are
the ones that weigh most, and the sums are those that get noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any

import numpy as np

from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.models.blocks.steps import HALVINGS, StepsLevel
from weir.dpcore.models.blocks.steps_fit import StepsFit, StepsFitter
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.online.pocg import Pocg
from weir.dpcore.models.online.pqftl import Pqftl
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.models.optimize.one_sample import OneSample
from weir.dpcore.models.optimize.phased import Phased
from weir.dpcore.models.optimize.phased_erm import PhasedErm, spread_of
from weir.dpcore.models.optimize.program import WindowProgram
from weir.dpcore.models.optimize.refit import Refit
from weir.dpcore.models.optimize.width import Width
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.projected import Projected
from weir.dpcore.models.solvers.design import Design

ODD = (1e300, -1e300, np.nan, np.inf)
SOME = 200


def candidates(ranges: Mapping[str, tuple[float, float]], seed: int = 0) -> dict[str, Any]:
    """Column -> (m,): corners and middles of the ranges and values far outside them, in every
    combination or in as many as a test has time for."""
    rng = np.random.default_rng(seed)
    values = [(low, high, (low + high) / 2, *ODD) for low, high in ranges.values()]
    if np.prod([len(some) for some in values]) <= SOME:
        grid = np.array(list(product(*values)))
    else:
        corners = [rng.choice(some[:2], SOME) for some in values]
        every = [rng.choice(some, SOME) for some in values]
        grid = np.where(rng.random((SOME, 1)) < 0.7, np.transpose(corners), np.transpose(every))
    return {name: grid[:, j].copy() for j, name in enumerate(ranges)}


def weights(program: Any, columns: Mapping[str, Any]) -> Iterator[Any]:
    """Arrays (m + 1, D), the last row for no event: what each event adds to a sum that gets noise,
    in units in which the plan lets a neighbour move it by 1. One array for a sum that is paid for
    by itself, and one for every model that rows may meet."""
    n = len(next(iter(columns.values())))
    rows = program.bound(columns, n).rows
    if isinstance(program, Aggregates | Incremental | Projected | Pqftl):
        sums = program.accumulate(rows, np.arange(n), n)
        at = 0
        whole = len(program.sums) - (getattr(program, "scores", None) is not None)
        for index, part in enumerate(program.sums):
            if index == whole:  # a sum of the same leaves once more
                mine = sums
            elif isinstance(program, Aggregates):
                mine = sums[:, list(program.parts[index].coordinates)]
            else:
                mine, at = sums[:, at : at + part.dimension], at + part.dimension
            yield _in_units(mine, np.asarray(part.scales), part.sensitivity)
    elif isinstance(program, Learner):
        part = program.mechanism
        hashes = np.zeros((n, 2), np.uint64)
        leaf = RowLeaf.from_events(np.arange(n), rows, np.zeros(n, np.int64), hashes, n)
        for x in _models(program.rule.set):
            added = program.of_rows(np.repeat(x[None], n, axis=0), leaf, None)
            yield _in_units(added, np.asarray(part.scales), part.sensitivity)
    elif isinstance(program, IncrementalErm):
        gradients, hashes = program.problem.gradients, np.zeros((n, 2), np.uint64)
        design = Design.of(np.arange(n), rows, hashes, gradients)
        for x in _models(program.problem.set):
            added = design.sums(np.repeat(x[None], n, axis=0), gradients)
            yield _in_units(added, np.ones(added.shape[1]), program.problem.sensitivity)
    elif isinstance(program, Pocg):
        descent = program.descent
        leaf = RowLeaf.from_events(
            np.arange(n), rows, np.zeros(n, np.int64), np.zeros((n, 2), np.uint64), n + 1
        )
        for x in _models(descent.set):
            moved = descent.advance(np.repeat(x[None], n + 1, axis=0), leaf, 0)
            yield (moved - moved[-1]) / descent.sensitivity(np.zeros(1, np.int64))[0]
    elif isinstance(program, BlockProgram):
        objective = program.objective
        points = objective.points(rows[:, :-1])
        void = np.isnan(rows[:, -1])
        targets = objective.targets_of(np.where(void, 0.0, rows[:, -1]))
        for level in program.levels:
            if isinstance(level, StepsLevel):  # levels differ in N and the budget alone
                yield from _of_steps(level, rows)
                return
            unit = 2 * objective.strength * level.divisor * level.noise.moved
            for x in (np.zeros(program.dimension), *_far(program.dimension)):
                slopes = objective.loss.derivatives(
                    points @ x.reshape(-1, objective.width).T, targets
                )
                slopes[void] = 0.0
                added = (slopes[:, :, None] * points[:, None, :]).reshape(n, -1) / unit
                yield np.concatenate([added, np.zeros((1, program.dimension))])
    elif isinstance(program, WindowProgram):
        way, linear = program.way, program.way.linear
        points, targets = linear.points(rows[:, :-1]), rows[:, -1].copy()
        void = np.isnan(targets)
        targets[void] = 0.0
        if isinstance(way, Refit):
            points[void] = 0.0
            yield from _of_refit(way, points, np.clip(targets, -1, 1))
            return
        most = way.steepest * way.unit
        for x in (np.zeros(program.dimension), *_models(linear.set)):
            slopes = np.clip(linear.loss.derivative(points @ x, targets), -most, most)
            slopes[void] = 0.0
            added = slopes[:, None] * points
            if isinstance(way, Width):
                added = added / (way.sensitivity * way.lattice)
                yield np.concatenate([added, np.zeros((1, program.dimension))])
                continue
            scores = added @ _vertices(linear.set).T / (way.sensitivity * way.divisor)
            for one, two in combinations(range(scores.shape[1]), 2):  # the range, pair by pair
                apart = scores[:, one] - scores[:, two]
                yield np.concatenate([apart, [0.0]])[:, None]
    elif isinstance(program, OnePass):
        yield from _in_one_pass(program, rows)
    else:
        raise TypeError(f"say here what an event adds to the sums of {type(program).__name__}.")


def _of_refit(way: Refit, points: Any, targets: Any) -> Iterator[Any]:
    """Scores, pair by pair, and moments of the first columns and of the last."""
    n, k = len(points), way.terms
    if way.chooses:
        scores = points * targets[:, None] / (way.sensitivity * way.divisor)
        for one, two in combinations(range(scores.shape[1]), 2):
            for sign in (-1.0, 1.0):  # sizes of sums of either sign
                apart = scores[:, one] + sign * scores[:, two]
                yield np.concatenate([apart, [0.0]])[:, None]
    for columns in (slice(0, k), slice(points.shape[1] - k, None)):
        run = [
            way.fit(points[i : i + 1, : way.linear.features], targets[i : i + 1], np.zeros(0), None)  # type: ignore[arg-type]
            for i in range(n)
        ]
        at = np.arange(points.shape[1])[columns]
        added = np.array([one.moments(at) for one in run]) / way.moments.moved
        yield np.concatenate([added, np.zeros((1, added.shape[1]))])


def _in_one_pass(program: OnePass, rows: Any) -> Iterator[Any]:
    course: Any = program.course
    run = course.runs[0]
    points = run.glm.split(rows)
    for x in _models(course.set):
        if isinstance(course, PhasedErm):
            yield _one_step(course, rows, x)
            continue
        if isinstance(course, Phased):
            phase = run.phases[0]
            unit = phase.noise.moved / phase.eta
            added = run.glm.gradients(*points, x, None, run.glm.lipschitz) / unit
            yield np.concatenate([added, np.zeros((1, program.dimension))])
            continue
        if isinstance(course, OneSample):
            full = run.glm.gradients(*points, x, None, run.glm.lipschitz)
            apart = run.glm.gradients(*points, x, -x, run.difference)
            later = (1 - run.eta) * apart + run.eta * full
            most = run.eta * (run.glm.lipschitz + run.glm.smoothness * run.diameter)
            assert run.moved / run.diameter >= 2 * max(most, run.glm.lipschitz / run.batch)
            for alone in (*(full / (2 * run.glm.lipschitz)).T, *(later / (2 * most)).T):
                yield np.concatenate([alone, [0.0]])[:, None]
            continue
        for depth in (0, 1):
            before = -x if depth else None
            added = run.glm.gradients(*points, x, before, run.clip(depth))
            if run.root is None:  # each score by itself: selections pay for the largest entry
                alone = added.T[:, :, None] / (2 * run.clip(depth))
                yield from (np.concatenate([one, np.zeros((1, 1))]) for one in alone)
                continue
            node = run.right if depth else run.root
            steps = np.trunc(added / node.lattice.resolution) / node.sensitivity
            yield np.concatenate([steps, np.zeros((1, program.dimension))])


def _one_step(course: PhasedErm, rows: Any, x: Any) -> Any:
    """Where each event takes a model in the first step of the first phase: two are at most twice
    the slope that is paid for apart, over the weight of that step's distance."""
    run, phase = course.runs[0], course.runs[0].phases[0]
    paid = spread_of(phase.size, run.passes) * run.glm.lipschitz * phase.eta
    assert phase.noise.moved >= paid
    found = []
    for row in (*rows, np.full(rows.shape[1], np.nan)):
        own = {"x": x.copy(), "start": x.copy(), "total": np.zeros(len(x))}
        course._meet(run, phase, row[None], own, 0)
        found.append(own["x"])
    return (np.array(found) - x) * (4 / (phase.eta * phase.size)) / (2 * run.glm.lipschitz)


def _in_units(added: Any, scales: Any, sensitivity: float) -> Any:
    public = added[:, scales == 0]
    assert (public == public[:1]).all(), "a public coordinate depends on what an event holds"
    found = np.divide(added, scales * sensitivity, out=np.zeros(added.shape), where=scales > 0)
    return np.concatenate([found, np.zeros((1, found.shape[1]))])


def _vertices(convex_set: Any) -> Any:
    """(J, d): all of a polytope."""
    found = convex_set.corners()
    if found.listed is not None:
        return found.listed
    axes = found.radius * np.eye(convex_set.dimension)
    return np.concatenate([axes, -axes]) if found.signed else axes


def _of_steps(level: StepsLevel, rows: Any) -> Iterator[Any]:
    """The same of the queries of noisy steps."""
    objective, fitter = level.objective, StepsFitter(level)
    draws: Any = None
    zero = np.zeros(level.objective.dimension)
    fits = [
        fitter.fit(row[None, :-1], row[-1:], zero, draws)
        for row in (rows[i] for i in range(len(rows)))
        if not np.isnan(row[-1])
    ]
    void = len(rows) - len(fits) + 1
    reach = 0.9 * objective.reach

    def paid(of: Any, moved: float) -> Any:
        added = np.stack([of(fit) / moved for fit in fits])
        return np.concatenate([added, np.zeros((void, added.shape[1]))])

    yield paid(StepsFit.mean_length, level.length.moved)
    if level.moments is not None:
        yield paid(lambda fit: fit.second_moments(reach), level.moments.moved)
    for x in (zero, *_far(objective.dimension)):
        yield paid(lambda fit, x=x: fit.gradient(x, 0.9 * reach), level.gradients[0].moved)
        if level.scale is not None:
            yield paid(lambda fit, x=x: fit.along(x, HALVINGS[0][0]), level.scale.moved)


def _far(dimension: int) -> Any:
    """(4, d): models far out, where losses are straight."""
    return 2.0**20 * np.random.default_rng(3).standard_normal((4, dimension))


def _models(convex_set: Any) -> Any:
    """(4, d): the set's start and some of its corners, on the grid of nothing."""
    rng = np.random.default_rng(3)
    directions = rng.standard_normal((3, convex_set.dimension))
    return np.concatenate([convex_set.start()[None], convex_set.linear_oracle(directions)])


def moved(added: Any, relation: str, vanishes: bool = True, in_l1: bool = False) -> float:
    """The most that a neighbour changes: in units of what is paid for, so at most 1.

    vanishes: whether an event may be exchanged for none under replace_one. in_l1: whether the
    noise is Laplace noise, which is paid for in the l1 norm.
    """
    if relation == "replace_one" and not vanishes:
        added = added[:-1]
    if in_l1:
        most = float(np.abs(added).sum(axis=1).max())
        if relation == "add_remove":
            return most
        apart = float(np.abs(added[:, None] - added[None]).sum(axis=2).max())
        return max(apart, 2 * most) if relation == "replace_anywhere" else apart
    size = np.einsum("ij,ij->i", added, added)
    if relation == "add_remove":
        return float(np.sqrt(size.max()))
    pairs = size[:, None] + size[None, :] - 2 * added @ added.T
    most = float(pairs.max())
    if relation == "replace_anywhere":
        most = max(most, 2 * float(size.max()))
    return float(np.sqrt(most))
