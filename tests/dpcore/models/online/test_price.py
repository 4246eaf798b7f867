"""Compiling a learner: which sums are priced, what is chosen, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.learner_section import split
from weir.dpcore.models.online.rule import FollowTheLeader
from weir.dpcore.plan_config import PlanConfig


def config(
    mechanism: Any = None, privacy: Any = None, clip_loss: float = 1.0, **model: Any
) -> PlanConfig:
    ranges = {"a": [0, 1], "b": [-5, 5], "y": [0, 100]}
    return PlanConfig.from_dict(
        {
            "name": "priced",
            "schema": {"time": "at"},
            "clock": {
                "start": "1997-01-01T00:00:00Z",
                "period": "1h",
                "end": "1997-03-01T00:00:00Z",
            },
            "privacy": {
                "epsilon": 1.0,
                "delta": 1e-6,
                "protect_for": "256 ticks",
                **(privacy or {}),
            },
            "mechanism": mechanism or {},
            "model": {
                "algorithm": "online.follow_the_leader",
                "features": ["a", "b"],
                "target": "y",
                "ranges": ranges,
                "clip": {"gradient": 1.0, "loss": clip_loss},
                "set": {"l1_ball": 5},
                "cap": 100,
                "schedule": "linear",
                **model,
            },
        }
    )


def compile_learner(given: PlanConfig) -> Any:
    """The model's section, under its terms."""
    assert given.model is not None
    made = given.model.compile(given.terms())
    return made.program, made.alternatives


def test_the_default_is_the_least_noise_within_the_promise() -> None:
    learner, alternatives = compile_learner(config())
    assert learner.mechanism.name in ("blt", "toeplitz")
    assert learner.loss(256).epsilon(1e-6) <= 1.0
    assert alternatives[0].chosen and alternatives[0].mechanism == learner.mechanism.name
    tried = {a.mechanism for a in alternatives}
    assert {"blt", "toeplitz", "tree", "window_tree", "merging_tree"} <= tried
    at = np.arange(1000)
    worst = alternatives[0].stddev["gradient over=all"]
    assert learner.gradient_stddev(at).max() <= worst * (1 + 1e-9)
    ticks = {a.mechanism: a for a in alternatives if a.noise == "gaussian"}
    assert ticks["window_tree"].score > 2 and "no protection" in ticks["window_tree"].note


def test_without_delta_the_noise_is_k_norm() -> None:
    learner, _ = compile_learner(config(privacy={"delta": 0.0}))
    assert learner.loss(256).kind == "pure"
    assert learner.loss(256).epsilon(0.0) <= 1.0


@pytest.mark.parametrize("name", ["window_tree", "tree", "toeplitz", "blt", "merging_tree"])
def test_every_sum_can_be_forced(name: str) -> None:
    for algorithm, kind in (
        ("online.follow_the_leader", FollowTheLeader),
        ("online.conditional_gradient", ConditionalGradient),
    ):
        one = config({"continual_sum": name}, algorithm=algorithm)
        learner, alternatives = compile_learner(one)
        assert learner.mechanism.name == name and isinstance(learner.rule, kind)
        assert [a.mechanism for a in alternatives if a.chosen] == [name]


def test_pftal_is_the_leader_over_a_full_tree() -> None:
    learner, _ = compile_learner(config(algorithm="online.pftal"))
    assert learner.mechanism.name == "tree" and isinstance(learner.rule, FollowTheLeader)
    with pytest.raises(ConfigError, match="tree"):
        compile_learner(config({"continual_sum": "blt"}, algorithm="online.pftal"))


def test_the_joint_sensitivity_is_that_of_both_parts() -> None:
    learner, _ = compile_learner(config())
    scales, sensitivity = split(learner.gradients, 0.1)
    change = 2 * learner.gradients.clip / learner.gradients.lattice.resolution
    loss = learner.gradients.loss_bound / learner.gradients.loss_lattice.resolution
    exact = (change / scales[0]) ** 2 + (loss / scales[-1]) ** 2
    assert exact <= sensitivity**2 <= exact * (1 + 1e-8)
    assert (loss / scales[-1]) ** 2 == pytest.approx(0.1, rel=1e-6)
    assert learner.mechanism.scales == scales and learner.mechanism.sensitivity == sensitivity
    anywhere, _ = compile_learner(config(privacy={"relation": "replace_anywhere"}))
    assert anywhere.mechanism.sensitivity == 2 * sensitivity
    remove, _ = compile_learner(config(privacy={"relation": "add_remove"}))
    assert remove.mechanism.sensitivity == sensitivity


def test_without_a_loss_the_gradient_takes_the_whole_budget() -> None:
    with_loss, _ = compile_learner(config({"continual_sum": "blt"}))
    without, _ = compile_learner(config({"continual_sum": "blt"}, clip_loss=0.0))
    at = np.array([100])
    ratio = with_loss.gradient_stddev(at) / without.gradient_stddev(at)
    assert float(ratio[0]) == pytest.approx(1 / math.sqrt(0.9), rel=1e-6)
    assert without.dimension == 3 and with_loss.dimension == 4


@pytest.mark.parametrize(
    ("mechanism", "model", "field"),
    [
        ({"continual_sum": "nothing"}, {}, "mechanism.continual_sum"),
        ({"continual_sum": "sliding"}, {}, "mechanism.continual_sum"),
        ({"continual_sum": "tree", "buffers": 3}, {}, "mechanism.buffers"),
        ({}, {"set": {"simplex": -1}}, "set"),
        ({}, {"set": {"polytope": {"vertices": [[0, 1]]}}}, "set"),
        ({}, {"loss": "cubic"}, "model.loss"),
        ({}, {"weight": 1.0}, "model.weight"),
        ({}, {"cap": 1 << 50}, "model.cap"),
        ({}, {"centre": [1.0]}, "model.centre"),
        ({}, {"algorithm": "online.nothing"}, "model.algorithm"),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_refused(mechanism: Any, model: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_learner(config(mechanism, **model))
    assert field in caught.value.field
