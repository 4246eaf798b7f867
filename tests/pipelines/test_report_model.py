"""Reports of models: small charts for one key and for many, coefficients without a margin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.pipelines import synthetic
from tests.pipelines.pages import Page
from weir.dpcore.algorithm import Shown
from weir.dpcore.registry import MODELS
from weir.pipelines.report import words
from weir.pipelines.report.data import KEYS_DRAWN, gather
from weir.pipelines.report.figures import LINES_DRAWN, sections
from weir.pipelines.report.report import report
from weir.pipelines.results.run import ResultFolder

LABELS = ("dep_delay", "distance", "hour_sin", "hour_cos", "season_sin", "season_cos", "intercept")
LEARNER = MODELS["online.follow_the_leader"]
OUTPUTS = (("theta", None), ("coefficients", None), ("loss", None))


def model_values(width: int) -> synthetic.ValueOf:
    """Models that walk to a place of their own, and a loss that falls."""

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        if name == "loss":
            rng = np.random.default_rng([k, tick])
            noise = 0.002 / (tick + 1)
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


@pytest.mark.slow
@pytest.mark.parametrize("keys", [[""], [f"carrier-{i:02d}" for i in range(16)]])
def test_small_charts_of_a_model(keys: list[str], tmp_path: Path) -> None:
    made = report(folder(tmp_path / "out", keys, 80))
    assert made.html is not None
    with Image.open(made.png) as picture:
        assert picture.width > 1000
    page = Page(made.html)
    assert [one["name"] for one in page.data["sections"]] == ["score", "model"]
    assert page.section("score") == ["loss"], "how well it predicts comes first"
    assert page.section("model") == list(LABELS), "a chart each; scaled ones say no more"
    assert len(page.data["drawn"]) == min(len(keys), KEYS_DRAWN)
    score, *others = page.data["figures"]
    assert "half" in score["parts"][0]["fine"], "only the loss has a margin"
    assert not any("half" in part["fine"] for one in others for part in one["parts"])
    assert "in the units of the data" in others[0]["caption"]
    notes = " ".join(one["note"] for one in page.data["sections"])
    assert "No margin of error: the noise is in the sums" in notes
    heads, _ = words.last_values(gather(ResultFolder.open(tmp_path / "out")))
    assert [head[0] for head in heads[1:]] == ["loss"] + ["coefficients"] * 7


def test_a_long_model_shows_what_is_furthest_from_zero(tmp_path: Path) -> None:
    labels = tuple(f"x{i:02d}" for i in range(40))
    data = gather(ResultFolder.open(folder(tmp_path / "out", ["a", "b"], 9, labels)))
    (found,) = (one for one in sections(data) if one.name == "model")
    assert len(found.figures) == LINES_DRAWN and "28 more" in found.note
    reach = np.max([np.abs(one.value).max(axis=0) for one in data.panels[1].series], axis=0)
    assert {one.title for one in found.figures} == {labels[i] for i in np.argsort(-reach)[:12]}
    named = gather(data.run, names=["theta"])
    assert sections(named)[-1].figures[0].caption == "theta, scaled to public ranges"


@pytest.mark.slow
def test_many_models_rank_by_loss_and_get_a_heat_map(tmp_path: Path) -> None:
    keys = [f"k{i:03d}" for i in range(300)]
    data = gather(ResultFolder.open(folder(tmp_path / "out", keys, 12)))
    np.testing.assert_allclose(data.panels[2].series[0].value[-1], [0.0284], atol=0.01)
    assert data.ranked_by is not None and data.ranked_by.name == "loss"
    assert [panel.heat is not None for panel in data.panels] == [False, False, True]
    (heat,) = Page(report(tmp_path / "out").html).data["heats"]
    assert len(heat["rows"]) == 40 and heat["per"] == 7.5, "means over keys of neighbouring rank"


@pytest.mark.slow
def test_a_name_alone_makes_no_model(tmp_path: Path) -> None:
    made = folder(tmp_path / "out", [""], 5, shown=dict.fromkeys(LEARNER.outputs, Shown("")))
    page = Page(report(made).html)
    assert page.section("model") == [] and len(page.section("total")) == 2 * len(LABELS) + 2


@pytest.mark.slow
def test_bookkeeping_is_drawn_as_lines_and_last(tmp_path: Path) -> None:
    releases = [
        synthetic.release("model_of", None, ("first", "last"), Shown("blocks", role="trace")),
        synthetic.release("theta", None, LABELS, LEARNER.outputs["theta"]),
    ]

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        return ([tick // 4, tick], None) if name == "model_of" else ([0.5] * len(LABELS), None)

    outputs = [("model_of", None), ("theta", None)]
    planned = synthetic.plan(9, releases)
    out = synthetic.folder(tmp_path / "out", [""], 9, outputs, value_of, planned=planned)
    page = Page(report(out).html)
    assert [one["name"] for one in page.data["sections"]] == ["score", "model", "trace"]
    assert "nothing that tells how well its models predict" in page.data["sections"][0]["note"]
    assert page.section("trace") == ["first", "last"]
    assert {one["kind"] for one in page.data["figures"]} == {"lines"}
