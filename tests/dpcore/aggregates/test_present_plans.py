"""Plans of means over present values next to counts and sums, under each noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.corners import candidates, moved, weights
from tests.dpcore.aggregates.test_present import COUNT, OTHER, RELATIONS, SUM
from tests.dpcore.aggregates.test_where import config
from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.arrays import Floats
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import simulate

BOTH: dict[str, Any] = {
    "m": {**OTHER, "over": 1},
    "n": {**COUNT, "over": 1},
    "paid": {**SUM, "clip": [0, 8], "over": 1},
}


@pytest.mark.parametrize("noise", ["laplace", "k_norm", "gaussian", None])
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_event_moves_a_plan_of_present_values_by_more_than_is_paid_for(
    relation: Relation, noise: str | None
) -> None:
    """Of the noise that is named, or of what is the best: sums around the middle of their clip
    next to a count of those with a number and the others."""
    named = {} if noise is None else {"mechanism": {"noise": noise}}
    whole = {**config(BOTH, relation=relation).to_dict(), **named}
    plan = Plan.from_config(PlanConfig.from_dict(whole))
    program: Any = plan.program
    in_l1 = program.sums[0].real_noise[0] == "laplace"
    assert noise is None or program.sums[0].real_noise[0] == noise
    columns = candidates({"x": (0.0, 8.0), "y": (-1.0, 1.0)})
    (added,) = weights(program, columns)
    assert 0.7 < moved(added, relation, plan.config.terms().may_vanish, in_l1) <= 1 + 1e-9
    if in_l1 and relation != "replace_one":  # a missing number is worth as much as one
        sizes, present = np.abs(added[:-1]).sum(axis=1), np.isfinite(columns["y"])
        assert sizes[~present].max() == pytest.approx(sizes[present].max(), rel=1e-6)
    if in_l1:
        mutant = weights_of_l2(program, added, relation)
        assert moved(mutant, relation, plan.config.terms().may_vanish, True) > 1.05


def weights_of_l2(program: Aggregates, added: Floats, relation: Relation) -> Floats:
    """A mutant: the same changes, in units of what they are worth in the l2 norm."""
    (part,), terms = program.parts, config(BOTH, relation=relation).terms()
    leaf = ChannelLeaf(program.channels, program.infos, (1,), terms)
    return added * part.mechanism.sensitivity / leaf.sensitivity(part.mechanism.scales, False)


def test_a_sum_is_centred_next_to_a_count_of_both_sides() -> None:
    """Whatever is missing, in its own column or in the one that is averaged."""
    plan = Plan.from_config(config(BOTH, relation="add_remove"))
    program: Any = plan.program
    kinds = {(c.kind, c.column, c.presence, c.centre) for c in program.channels}
    assert ("value", "x", None, 4.0) in kinds and ("count", None, None, 0.0) not in kinds
    assert any("summed around 4, the middle of its clip" in note for note in plan.notes)
    rng = np.random.default_rng(6)
    x, y = rng.uniform(-4, 12, 900), rng.uniform(-2, 2, 900)
    x[rng.random(900) < 0.3], y[rng.random(900) < 0.4] = np.nan, np.inf
    times = np.full(900, plan.clock.start)
    (run,) = simulate(plan, Events(times, None, {"x": x, "y": y}), bytes(32), None, NoNoise(0))
    first = {item.name: float(item.value[0, 0, 0]) for item in run.released}
    assert first["n"] == 900
    assert first["paid"] == pytest.approx(np.clip(np.nan_to_num(x), 0, 8).sum(), abs=1e-2)
    present = np.clip(y[np.isfinite(y)], -1, 1)
    assert first["m"] == pytest.approx(present.mean(), abs=1e-4)
