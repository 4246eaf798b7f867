"""Which noise a plan takes, at what error, and at what price for what comes later."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.contracts.cases import noise
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig

BINS = {"histogram": "x", "edges": list(range(401)), "over": 1}


def plan_of(aggregates: dict[str, Any], delta: float = 1e-6, **more: Any) -> Plan:
    privacy = {"epsilon": 1.0, "delta": delta, "protect_for": "all", **more.pop("privacy", {})}
    clock = {"start": "2025-01-01T00:00:00Z", "period": "1d", "end": "2025-04-11T00:00:00Z"}
    whole = {"name": "noises", "schema": {"time": "at"}, "clock": clock, "privacy": privacy}
    return Plan.from_config(PlanConfig.from_dict({**whole, "aggregates": aggregates, **more}))


def test_a_bin_has_the_same_noise_however_many_bins_there_are() -> None:
    for bins in (2, 400):
        body = {"sizes": {**BINS, "edges": list(range(bins + 1))}}
        plan = plan_of(body, delta=0)
        chosen, *others = plan.alternatives
        assert (chosen.mechanism, chosen.noise) == ("independent", "laplace")
        assert plan.outputs[0].stddev_worst == pytest.approx(math.sqrt(2), rel=1e-6)
        k_norm = next(a for a in others if (a.mechanism, a.noise) == ("independent", "k_norm"))
        assert k_norm.stddev["sizes over=1"] == pytest.approx(math.sqrt(bins + 1), rel=1e-6)


def test_one_coordinate_is_priced_once_and_what_is_named_is_taken() -> None:
    count = {"n": {"count": "events"}}
    assert {a.noise for a in plan_of(count, delta=0).alternatives} == {"k_norm"}
    for named in ("laplace", "k_norm"):
        plan = plan_of(count, delta=0, mechanism={"noise": named})
        assert {a.noise for a in plan.alternatives} == {named}
    named = plan_of({"s": BINS}, delta=0, mechanism={"continual_sum": "independent"})
    assert [a.noise for a in named.alternatives if a.chosen] == ["k_norm"]


def test_sums_of_bins_are_split_jointly_with_other_outputs() -> None:
    """Noise of measured size, for outputs of different size and weight."""
    body = {"s": {**BINS, "edges": [0, 1, 2, 3, 4]}, "n": {"count": "events", "over": 1}}
    body |= {"paid": {"sum": "y", "clip": [0, 50], "over": 1, "weight": 4.0}}
    plan = plan_of(body, delta=0, mechanism={"noise": "laplace"})
    program = plan.program
    assert isinstance(program, Aggregates)
    (part,) = program.parts
    assert part.mechanism.loss(None).value <= 1.0
    keys = tuple(b"%d" % k for k in range(20_000))
    leaves = np.zeros((1, len(keys), part.mechanism.dimension), dtype=np.int64)
    _, (drawn,) = part.mechanism.step(part.mechanism.init(len(keys)), leaves, noise(0, keys))
    stated = part.mechanism.stddev(np.zeros(1, dtype=np.int64), 1)
    np.testing.assert_allclose(drawn.std(axis=1), stated, rtol=0.04)
    # One event moves a bin, the count and the sum: its log-likelihood ratio is at most epsilon.
    b = np.asarray(part.mechanism.scales) * part.mechanism.noise_scale
    steps = np.asarray([program.channels[c].bound / program.channels[c].resolution
                        for c in part.channels])  # fmt: skip
    first = np.cumsum([0, *(program.channels[c].size for c in part.channels)])[:-1]
    assert (steps / b[first]).sum() == pytest.approx(1.0, rel=1e-6)


def test_noise_that_is_none_of_a_sum_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="mechanism.noise = 'gumbel': is no noise of a sum"):
        plan_of({"n": {"count": "events"}}, mechanism={"noise": "gumbel"})
