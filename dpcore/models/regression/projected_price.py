"""The model section -> a projected regression, or one that needs no projection."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, cast

from dpcore.continual.base import ContinualSum
from dpcore.errors import ConfigError
from dpcore.geometry.parse import parse_set
from dpcore.models.moments import Moments
from dpcore.models.regression.dimension import dimension_for
from dpcore.models.regression.incremental import Incremental
from dpcore.models.regression.membership import Inputs, Sparse, parse_inputs
from dpcore.models.regression.price import SLACK, choose_moments, compile_incremental, model_of
from dpcore.models.regression.projected import NAME, Projected
from dpcore.models.regression.projected_rows import ProjectedRows
from dpcore.models.regression.projection import RandomProjection
from dpcore.models.regression.rows import EventRows
from dpcore.models.regression.solver import Solver
from dpcore.plan_config import PlanConfig
from dpcore.pricing.price import Alternative


@dataclass(frozen=True)
class Unprojected(Incremental):
    """Incremental regression in place of a projection that would save nothing.

    Attributes:
      notes: for the plan.
    """

    notes: tuple[str, ...] = ()


def compile_projected(
    config: PlanConfig,
) -> tuple[Projected | Unprojected, tuple[Alternative, ...]]:
    """Projected regression over the best continual sum for it, and every alternative.

    Where the rule asks for as many dimensions as there are features, or more, it is incremental
    regression, and the plan says so.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    model = model_of(config, NAME)
    p, k, constant = len(model.features), len(model.targets), bool(model.intercept)
    convex_set = parse_set(model.set, p + constant)
    if not convex_set.projects:
        raise ConfigError("model.set", model.set, f"has no projection, which {NAME} needs.")
    inputs = parse_inputs(model.inputs, p)
    if isinstance(inputs, Sparse):
        _check_middles(model)
    longest = math.sqrt(inputs.longest**2 + constant) * SLACK
    reach = longest if model.clip.features is None else min(float(model.clip.features), longest)
    m, why = _dimension(config, model, inputs, convex_set)
    if m >= p:
        return _unprojected(config, model, reach, f"{why}, but there are only {p} features")
    most = math.sqrt(k) * SLACK
    height = most if model.clip.target is None else min(float(model.clip.target), most)
    whole = math.sqrt(p + constant) * SLACK
    rows = ProjectedRows(
        EventRows.of(model, Moments(p + constant, k, False, whole, height)),
        RandomProjection(m, p, model.projection.seed),
        inputs,
        Moments(m + constant, k, False, reach, height, entry=max(1.0, reach)),
    )
    notes = [
        f"{why}, of {p} features: noise falls on {rows.moments.dimension:,} sums a key. What the "
        "projection leaves out is not in any band: models have none."
    ]
    if model.inputs is not None:
        notes.append(
            "An event outside model.inputs counts as none. How many were outside is told to the "
            "operator alone: it is as private as the events."
        )
    solver = Solver.of(model)

    def build(mechanism: ContinualSum) -> Projected:
        return Projected(
            rows,
            mechanism,
            convex_set,
            None if model.ridge is None else float(model.ridge),
            solver,
            bool(model.statistics),
            tuple(notes),
        )

    chosen, ranked = choose_moments(config, rows.moments, build)
    return cast(Projected, chosen), ranked


def _dimension(config: PlanConfig, model: Any, inputs: Inputs, convex_set: Any) -> tuple[int, str]:
    """m, and where it comes from."""
    if model.projection.dimension is not None:
        m = int(model.projection.dimension)
        return m, f"model.projection.dimension asks for {m} dimensions"
    clock = config.clock.to_clock()
    ticks = clock.ticks or config.privacy.window_ticks(clock)
    if ticks is None:
        raise ConfigError(
            "model.projection.dimension",
            None,
            "is needed where the clock has no end: the rule that chooses it grows with the ticks.",
        )
    factor = float(model.projection.constant)
    m = dimension_for(inputs, convex_set, ticks, factor)
    return m, f"The rule with constant {factor:g} asks for {m:,} dimensions at {ticks:,} ticks"


def _unprojected(
    config: PlanConfig, model: Any, reach: float, why: str
) -> tuple[Unprojected, tuple[Alternative, ...]]:
    """Incremental regression with the same bound on events."""
    clip = model.clip.model_copy(update={"features": reach})
    direct = config.model_copy(update={"model": model.model_copy(update={"clip": clip})})
    program, ranked = compile_incremental(direct)
    notes = [
        f"{why}: a projection would save nothing, so this runs regression.incremental. A smaller "
        "model.projection.constant or dimension projects, at the price of an error that no noise "
        "explains."
    ]
    if model.inputs is not None:
        notes.append(
            "model.inputs chooses no events then: it bounds their length, and a longer event is "
            "scaled down."
        )
    given = {one.name: getattr(program, one.name) for one in fields(program)}
    return Unprojected(**{**given, "algorithm": NAME}, notes=tuple(notes)), ranked


def _check_middles(model: Any) -> None:
    """Sparse features need 0 to stay 0 when they are scaled."""
    for name in model.features:
        low, high = model.ranges[name]
        if low != -high:
            bound = max(abs(low), abs(high))
            raise ConfigError(
                f"model.ranges.{name}",
                [low, high],
                "must have 0 in its middle where inputs are sparse: what counts as 0 is the middle "
                f"of a range. Write [{-bound:g}, {bound:g}].",
            )
