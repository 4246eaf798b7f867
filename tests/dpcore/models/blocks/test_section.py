"""Models of blocks in a config: what they refuse, how rows are made, and public maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.feature_map import MapProjection, RandomFourier, circle
from weir.dpcore.models.kit.inputs import DenseInputs
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.plan import Plan

CONFIG: dict[str, str] = {
    "name": "blocks",
    "schema": "{time: t, id: i}",
    "clock": "{start: 2024-01-01T00:00:00Z, period: 1h}",
    "privacy": "{epsilon: 2.0, delta: 1e-6, protect_for: all}",
}
MODEL: dict[str, str] = {
    "algorithm": "erm.sliding_window",
    "features": "[u, v]",
    "target": "y",
    "classes": "[no, yes]",
    "ranges": "{u: [-1, 1], v: [0, 10]}",
    "block": "30",
}


def plan(model: dict[str, str] | None = None, **sections: str) -> Plan:
    fields = {k: v for k, v in {**MODEL, **(model or {})}.items() if v}
    body = "model: {" + ", ".join(f"{k}: {v}" for k, v in fields.items()) + "}"
    whole = {**CONFIG, **sections}
    return Plan.from_yaml("\n".join([*(f"{k}: {v}" for k, v in whole.items() if v), body]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "sections", "field"),
    [
        ({}, {"schema": "{time: t}"}, "schema.id"),
        ({}, {"where": "u > 0"}, "where"),
        ({}, {"schema": "{time: t, id: i, arrival: a}"}, "where"),
        (
            {},
            {"privacy": "{epsilon: 2, delta: 1e-6, protect_for: all, relation: add_remove}"},
            "privacy.relation",
        ),
        ({"block": "90m"}, {"expect": "{events: 3}"}, "model.block"),
        ({"block": "3h"}, {}, "expect.events"),
        ({"window": "6"}, {}, "model.window"),
        ({"loss": "squared", "classes": ""}, {}, "model.ranges.y"),
        ({"loss": "softmax", "classes": "[a]"}, {}, "model.classes"),
        ({"classes": "[a, 1]"}, {}, "model.classes"),
        ({"classes": "[a, b, c]", "loss": "logistic"}, {}, "model.loss"),
        ({"ranges": "{u: [-1, 1], v: [0, 10], y: [0, 1]}"}, {}, "model.ranges.y"),
        ({"set": "{l2_ball: 1}"}, {}, "model.set"),
        ({"map": "{random_fourier: 7}"}, {}, "model.map.random_fourier"),
        ({"regularise": "1e-9"}, {}, "model.regularise"),
        ({"window": "4095", "block": "1000000"}, {}, "model.block"),
        ({}, {"mechanism": "{continual_sum: blt}"}, "mechanism.continual_sum"),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_refused_by_its_field(
    model: dict[str, str], sections: dict[str, str], field: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(model, **sections)
    assert refused.value.field == field


@pytest.mark.parametrize("loss", ["absolute", "{quantile: 0.3}"])
def test_losses_without_a_bound_are_refused_and_say_what_to_write(loss: str) -> None:
    with pytest.raises(ConfigError, match="huber"):
        plan({"loss": loss, "classes": "", "ranges": "{u: [-1, 1], v: [0, 10], y: [0, 1]}"})


def test_a_squared_loss_is_squared_within_the_target_s_range_and_clipped_beyond() -> None:
    model = {"classes": "", "ranges": "{u: [-1, 1], v: [0, 10], y: [0, 1]}", "solver": "output"}
    made = plan({**model, "loss": "squared"})
    assert made.digest == plan({**model, "loss": "{huber: 2}"}).digest
    objective = made.program.objective  # type: ignore[attr-defined]
    targets = np.array([-1.0, 1.0, 0.3])
    for prediction in (-1.0, 0.2, 1.0):
        slopes = objective.loss.derivatives(np.full((3, 1), prediction), targets)
        assert np.array_equal(slopes[:, 0], prediction - targets)
    assert np.abs(objective.loss.derivatives(np.full((3, 1), 9.0), targets)).max() == 2.0
    assert objective.lipschitz == pytest.approx(2 * np.sqrt(2))
    with pytest.raises(ConfigError, match="with classes write logistic"):
        plan({"loss": "squared"})


def test_the_plan_shows_every_split_and_a_split_that_is_named_is_taken() -> None:
    made = plan()
    assert {a.mechanism for a in made.alternatives} == {"best", "even", "paper", "output", "sgd"}
    named = plan({"split": "paper"})
    chosen = [a for a in named.alternatives if a.chosen]
    assert [a.mechanism for a in chosen] == ["paper"] and len(named.alternatives) == 10
    assert min(a.score for a in named.alternatives) < 1  # relative to what was named
    pure = plan(mechanism="{noise: k_norm}")
    assert pure.program.loss(None).kind == "pure"


@pytest.mark.parametrize("algorithm", ["erm.sliding_window", "erm.sampled"])
def test_pure_noise_is_not_taken_where_delta_does_not_cover_its_tails(algorithm: str) -> None:
    model = {"algorithm": algorithm, **({} if "sampled" in algorithm else {"solver": "output"})}
    privacy = "{{epsilon: 1.0, delta: {}, protect_for: all}}"
    for delta, kind in (("0", "pure"), ("1e-9", "pure"), ("1e-11", "gdp"), ("1e-13", "zcdp")):
        small = privacy.format(delta)
        only_pure = "sampled" in algorithm  # it has no other noise
        assert plan(model, privacy=small).program.loss(None).kind == ("pure" if only_pure else kind)
        named = plan(model, privacy=small, mechanism="{noise: k_norm}")
        assert named.program.loss(None).kind == "pure"


def test_targets_that_are_no_class_are_void_and_features_are_clipped() -> None:
    inputs = DenseInputs(("u", "v"), "y", ((-1.0, 1.0), (0.0, 10.0)), (3.0, 1.0, 2.0), 0.5)
    columns = {
        "u": np.array([0.1, 1.0, np.nan, 0.2, 0.0]),
        "v": np.array([5.0, 10.0, 5.0, 5.0, 99.0]),
        "y": np.array([3.0, 1.0, 2.0, 2.5, 2.0]),
    }
    found = inputs.bound(columns, 5)
    rows = np.asarray(found.rows)
    assert np.isnan(rows[[2, 3], -1]).all() and not rows[[2, 3], :2].any()
    assert rows[[0, 1, 4], -1].tolist() == [-1.0, 0.0, 1.0]
    norms = np.linalg.norm(rows[:, :2], axis=1)
    assert (norms <= 0.5).all() and norms[1] > 0.4999 and found.non_finite == 2
    assert (rows[:, :2] / STEP == np.rint(rows[:, :2] / STEP)).all()


def test_cosines_and_sines_are_right() -> None:
    angles = np.concatenate(
        [np.linspace(-20, 20, 4001), np.random.default_rng(1).normal(0, 1e4, 99)]
    )
    cosine, sine = circle(angles)
    assert np.abs(cosine - np.cos(angles)).max() < 1e-11
    assert np.abs(sine - np.sin(angles)).max() < 1e-11


@pytest.mark.parametrize("n", [1, 7, 300])
def test_maps_are_public_and_a_row_s_own(n: int) -> None:
    rng = np.random.default_rng(2)
    x = np.rint(rng.uniform(-1, 1, (300, 20)) / STEP) * STEP
    for made in (MapProjection(20, 8, 3), RandomFourier(20, 64, 3, 2.0)):
        whole = made.apply(x)
        assert whole.shape == (300, made.outputs)
        assert made.apply(x[:n]).tobytes() == whole[:n].tobytes()
        other = type(made)(**{**vars_of(made), "seed": 4})
        assert (other.apply(x) != whole).any()
    kernel = RandomFourier(20, 4096, 1, 2.0).apply(x[:50])
    assert np.allclose(np.linalg.norm(kernel, axis=1), 1.0)
    apart = ((x[:50, None] - x[None, :50]) ** 2).sum(axis=2)
    assert np.abs(kernel @ kernel.T - np.exp(-apart / 8)).max() < 0.1
    lengths = np.linalg.norm(MapProjection(20, 2000, 1).apply(x), axis=1)
    assert np.abs(lengths / np.linalg.norm(x, axis=1) - 1).max() < 0.15


def vars_of(made: Any) -> dict[str, Any]:
    return {k: v for k, v in vars(made).items() if not k.startswith("_")}


def test_a_mapped_model_says_what_its_coefficients_are_of() -> None:
    made = plan({"map": "{random_fourier: 6, seed: 5}", "classes": "[a, b, c]"})
    infos = made.outputs
    assert [info.name for info in infos] == ["theta", "model_of"]
    assert infos[0].labels[:2] == ("a.map.0", "a.map.1") and infos[0].dimension == 3 * 7
    assert made.canonical["program"]["inputs"]["map"]["seed"] == 5
    assert made.digest != plan({"map": "{random_fourier: 6}", "classes": "[a, b, c]"}).digest
