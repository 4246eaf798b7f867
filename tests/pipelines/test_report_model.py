"""Reports of models: small charts for one key and for many, coefficients without a band."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dpcore.algorithm import Shown
from dpcore.registry import MODELS
from pipelines.report import model, words
from pipelines.report.data import KEYS_DRAWN, gather
from pipelines.report.report import report
from pipelines.results.run import Run
from tests.pipelines import synthetic
from tests.pipelines.test_report import Page

LABELS = ("dep_delay", "distance", "hour_sin", "hour_cos", "season_sin", "season_cos", "intercept")
LEARNER = MODELS["online.follow_the_leader"]
OUTPUTS = (("theta", None), ("coefficients", None), ("loss", None))


def model_values(width: int) -> synthetic.ValueOf:
    """Models that walk to a place of their own, and a loss that falls."""

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        if name == "loss":
            rng = np.random.default_rng([k, tick])
            noise = 0.04 / (tick + 1)
            mean = 0.02 + 0.1 / (tick + 1 + k) + noise * rng.normal()
            return [mean * (tick + 1), mean], [noise * (tick + 1), noise]
        end = np.random.default_rng(k).normal(size=width) * np.linspace(1, 0.1, width)
        theta = end * tick / (tick + 20)
        return list(theta * (1 if name == "theta" else 60)), None

    return value_of


def folder(
    base: Path,
    keys: list[str],
    ticks: int,
    labels: tuple[str, ...] = LABELS,
    shown: Mapping[str, Shown] = LEARNER.outputs,
) -> Path:
    """Results of a learner, unless its outputs are shown as something else."""
    releases = [
        synthetic.release(
            name, over, ("total", "per_tick") if name == "loss" else labels, shown[name]
        )
        for name, over in OUTPUTS
    ]
    planned = synthetic.plan(ticks, releases, keys=len(keys))
    planned["reading"] = LEARNER.reading._asdict()
    values = model_values(len(labels))
    return synthetic.folder(base, keys, ticks, OUTPUTS, values, planned=planned)


@pytest.mark.parametrize("keys", [[""], [f"carrier-{i:02d}" for i in range(16)]])
def test_small_charts_of_a_model(keys: list[str], tmp_path: Path) -> None:
    made = report(folder(tmp_path / "out", keys, 80))
    assert made.html is not None
    with Image.open(made.png) as picture:
        assert picture.width > 1000
    page = Page(made.html.read_text())
    drawn = min(len(keys), KEYS_DRAWN)
    smalls = drawn + len(LABELS)
    assert page.count["figure"] == smalls + (1 if len(keys) == 1 else 2), "and the loss"
    assert page.count["polyline"] == drawn * (1 + 2 * len(LABELS))
    assert page.count["polygon"] == drawn, "only the loss has a band"
    assert "in the units of the data" in page.words and "season_cos" in page.words
    assert "no band: the noise is in the sums" in page.words
    heads, _ = words.last_values(gather(Run.open(tmp_path / "out")))
    assert [head[0] for head in heads[1:]] == ["coefficients"] * 7 + ["loss"]


def test_a_long_model_shows_what_is_furthest_from_zero(tmp_path: Path) -> None:
    labels = tuple(f"x{i:02d}" for i in range(40))
    data = gather(Run.open(folder(tmp_path / "out", ["a", "b"], 9, labels)))
    theta, own, _ = (model.multiples(panel, data) for panel in data.panels)
    assert [len(small.lines) for small in theta.smalls] == [model.LINES_DRAWN] * 2
    assert theta.left_out == 32 and own.left_out == 28
    assert theta.smalls[0].between == theta.smalls[1].between, "keys compare on one axis"
    reach = np.max([np.abs(one.value).max(axis=0) for one in data.panels[0].series], axis=0)
    assert set(theta.legend) == {labels[i] for i in np.argsort(-reach)[:8]}


def test_many_models_rank_by_loss_and_get_a_heat_map(tmp_path: Path) -> None:
    keys = [f"k{i:03d}" for i in range(300)]
    data = gather(Run.open(folder(tmp_path / "out", keys, 12)))
    np.testing.assert_allclose(data.panels[2].series[0].value[-1], [0.0284], atol=0.01)
    assert data.ranked_by is not None and data.ranked_by.name == "loss"
    assert [panel.heat is not None for panel in data.panels] == [False, False, True]
    text = (report(tmp_path / "out").html or Path()).read_text()
    assert len(re.findall("data:image/png", text)) == 2, "the heat map and its scale"


def test_a_name_alone_makes_no_model(tmp_path: Path) -> None:
    made = folder(tmp_path / "out", [""], 5, shown=dict.fromkeys(LEARNER.outputs, Shown("")))
    page = Page((report(made).html or Path()).read_text())
    assert page.count["figure"] == 3
