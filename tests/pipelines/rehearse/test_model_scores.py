"""What models keep of the loss that they could explain: by hand, of every kind of target."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from tests.pipelines.conftest import Weir
from weir.dpcore.models.kit.loss import Absolute, Hinge, Logistic, PinballLoss
from weir.pipelines.config.job import loads
from weir.pipelines.feed.synthetic import targets, uniforms
from weir.pipelines.rehearse.model_scores import ModelScore, TargetLoss
from weir.pipelines.rehearse.rehearse import Rehearsal, rehearse
from weir.pipelines.show.rehearsal import explained
from weir.pipelines.terminal import console

CONFIG = """\
name: rides
source: {csv: private.csv}
schema: {time: at, id: id}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T20:00:00Z}
privacy: {epsilon: EPSILON, delta: 1e-6, protect_for: all}
model:
  algorithm: NAME
  features: [a, b]
  target: y
"""
NUMBERS = "  ranges: {a: [0, 10], b: [-1, 1], y: [0, 50]}\n"
LABELS = "  ranges: {a: [0, 10], b: [-1, 1]}\n"


@pytest.fixture(autouse=True)
def unadvised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.pipelines.rehearse.rehearse.advised", lambda *_: ())


def events(n: int = 400) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(2)
    a, b = np.round(rng.uniform(0, 10, n), 3), np.round(rng.uniform(-1, 1, n), 3)
    return a, b, np.round(10 + 2 * a + 8 * b + rng.normal(0, 4, n), 3)


def dry_run(folder: Path, name: str, more: str, y: Any = None, epsilon: float = 5) -> Rehearsal:
    a, b, own = events()
    rows = zip(a, b, own if y is None else y, strict=True)
    lines = [
        f"2024-01-01T{i // 20:02d}:00:00Z,{i},{','.join(map(str, row))}"
        for i, row in enumerate(rows)
    ]
    (folder / "public.csv").write_text("\n".join(["at,id,a,b,y", *lines]) + "\n")
    text = CONFIG.replace("NAME", name).replace("EPSILON", str(epsilon)) + more
    return rehearse(loads(text, folder=folder), folder / "out", on=str(folder / "public.csv"))


def test_losses_and_shares_are_those_of_the_events(tmp_path: Path) -> None:
    found = dry_run(tmp_path, "regression.incremental", NUMBERS, epsilon=1e6)
    (score,) = found.models
    a, b, y = events()
    scaled = y / 25 - 1
    points = np.stack([a / 5 - 1, b, np.ones(len(a))], axis=1)
    best = np.linalg.lstsq(points, scaled, rcond=None)[0]
    least = float(np.mean((scaled - points @ best) ** 2)) / 2
    assert (score.target, score.loss, score.events, score.keys) == ("y", "squared", 400, 1)
    assert score.constant == pytest.approx(scaled.var() / 2, rel=1e-6)
    assert score.best == pytest.approx(least, rel=1e-6) and score.best <= score.quiet
    assert score.model == pytest.approx(least, rel=1e-2)  # next to no noise, of the same regression
    assert score.share == pytest.approx(1, abs=0.02) and score.quiet_share <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more", "loss"),
    [
        ("online.follow_the_leader", "  loss: {quantile: 0.5}\n" + NUMBERS, "quantile 0.5"),
        ("regression.erm", "  solver: steps\n" + NUMBERS, "squared"),
        ("erm.output_perturbation", "  block: 400\n" + NUMBERS, "huber"),
        ("erm.output_perturbation", "  block: 400\n  classes: [no, yes]\n" + LABELS, "logistic"),
        ("erm.output_perturbation", "  block: 400\n  classes: [0, 1, 2]\n" + LABELS, "softmax"),
        ("erm.output_perturbation",
         "  block: 400\n  classes: [no, yes]\n  loss: hinge\n" + LABELS, "hinge"),
        ("optimize.phased_sgd", "  records: 256\n  loss: logistic\n" + NUMBERS, "logistic"),
        ("optimize.frank_wolfe", "  block: 400\n  set: {l1_ball: 2}\n" + NUMBERS, "squared"),
    ],
)  # fmt: skip
def test_models_of_every_family_lie_between_the_best_and_what_noise_makes_of_them(
    tmp_path: Path, name: str, more: str, loss: str
) -> None:
    _, _, y = events()
    if "[no, yes]" in more:
        y = np.where(y > 20, "yes", "no")
    elif "classes" in more:
        y = np.digitize(y, [15, 25])
    found = dry_run(tmp_path, name, more, y, epsilon=50)
    (score,) = found.models
    assert score.loss == loss and score.events == 400
    assert score.best < score.constant and score.best <= score.quiet + 1e-12
    assert 0.1 < score.share <= 1.001 and 0.2 < score.quiet_share <= 1
    assert found.to_json()["models"][0]["share"] == score.share


def test_the_least_loss_is_that_of_brute_force() -> None:
    y = np.array([-0.5, -0.1, 0.3, 0.9])
    labels = np.array([-1.0, 1.0, 1.0, 1.0])
    ones, grid = np.ones((4, 1)), np.linspace(-3, 3, 60_001)
    own: Any = None
    for loss, at in (
        (Absolute(), y),
        (PinballLoss(0.8), y),
        (Logistic(), labels),
        (Hinge(), labels),
    ):
        brute = min(np.mean([loss.value(grid, np.full_like(grid, t)) for t in at], axis=0))
        found = TargetLoss(own, "y", loss).least(ones, at)
        assert found == pytest.approx(float(brute), rel=2e-3)


def test_a_share_is_none_where_nothing_can_be_explained() -> None:
    score = ModelScore("y", "squared", 9, 1, 0.5, 0.6, 0.5, 0.5)
    assert math.isnan(score.share) and score.to_json()["share"] is None
    poor = ModelScore("y", "squared", 9, 1, 0.5, 0.49, 0.3, 0.25)
    assert poor.share == pytest.approx(0.04) and poor.quiet_share == pytest.approx(0.8)
    out = console()
    with out.capture() as shown:
        out.print(explained((score, poor)))
    assert shown.get().count("a constant would do as well") == 1


def test_targets_of_synthetic_events_follow_their_features() -> None:
    text = CONFIG.replace("NAME", "regression.incremental").replace("EPSILON", "1") + NUMBERS
    model, rows = loads(text, folder=Path()).model, np.arange(20_000, dtype=np.uint64)
    assert model is not None
    u = targets(model, 3, rows)["y"]
    assert abs(np.mean(u) - 0.5) < 0.01 and abs(np.var(u) - 1 / 12) < 0.005  # as uniform as all
    features = np.stack([ndtri(uniforms(3, name, rows)) for name in "ab"])
    correlations = [np.corrcoef(ndtri(u), item)[0, 1] for item in features]
    assert np.allclose(correlations, [0.5, -0.5], atol=0.02)  # half of the variance together


def test_the_command_shows_what_models_keep(weir: Weir, tmp_path: Path) -> None:
    text = CONFIG.replace("NAME", "regression.incremental").replace("EPSILON", "1") + NUMBERS
    (tmp_path / "rides.yaml").write_text(text)
    found = weir("rehearse", tmp_path / "rides.yaml", "--events", 500, "--json")
    (score,) = json.loads(found.stdout)["models"]
    assert score["events"] == 500 and 0.3 < 1 - score["best"] / score["constant"] < 0.6
    assert score["best"] <= score["quiet"] and score["share"] <= 1.001
