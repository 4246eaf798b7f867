"""Reports of models: small charts for one key and for many, coefficients without a margin."""

from __future__ import annotations

import dataclasses
import math
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
from weir.pipelines.report.figures import LINES_DRAWN, NO_ERROR, sections
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
    expect: float | None = None,
) -> Path:
    """Results of a learner, unless its outputs are shown as something else.

    expect: events of a key in a tick, as the config says; None: it does not.
    """
    releases = [
        synthetic.release(
            name, over, ("total", "per_tick") if name == "loss" else labels, shown[name]
        )
        for name, over in OUTPUTS
    ]
    planned = synthetic.plan(ticks, releases, keys=len(keys))
    planned["reading"] = LEARNER.reading._asdict()
    if expect is not None:
        planned["config"] = {"expect.events": expect, "model.loss": "squared"}
        planned["model"] = {"targets": ["late"], "ranges": {"late": [-60, 180]}}
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
    assert [one["name"] for one in page.data["sections"]] == ["score", "model", "trace"]
    assert page.section("score") == [], "a sum of losses grows with the events"
    assert page.data["sections"][0]["note"] == NO_ERROR
    assert page.section("model") == list(LABELS), "a chart each; scaled ones say no more"
    assert len(page.data["drawn"]) == min(len(keys), KEYS_DRAWN)
    *others, score = page.data["figures"]
    assert score["title"] == "loss" and page.section("trace") == ["loss"]
    assert "half" in score["parts"][0]["fine"], "only the loss has a margin"
    assert not any("half" in part["fine"] for one in others for part in one["parts"])
    assert "in the units of the data" in others[0]["caption"]
    notes = " ".join(one["note"] for one in page.data["sections"])
    assert "No margin of error: the noise is in the sums" in notes
    heads, _ = words.last_values(gather(ResultFolder.open(tmp_path / "out")))
    assert [head[0] for head in heads[1:]] == ["coefficients"] * 7


@pytest.mark.parametrize(
    ("loss", "unit", "scale", "power", "baseline"),
    [
        ("squared", "root mean square", 120.0, 0.5, 120 / 3**0.5),
        ("absolute", "mean absolute", 120.0, 1.0, 60.0),
        ("logistic", "log loss", 1.0, 1.0, math.log(2)),
    ],
)
def test_an_error_per_event_by_hand(
    loss: str, unit: str, scale: float, power: float, baseline: float, tmp_path: Path
) -> None:
    """Of a target in [-60, 180], whose scaled unit is 120, with 4 events expected a tick."""
    run = ResultFolder.open(folder(tmp_path / "out", ["a"], 6, expect=4))
    plan = {**run.plan, "config": {"expect.events": 4, "model.loss": loss}}
    data = gather(dataclasses.replace(run, plan=plan))
    first, *_, last = sections(data)
    (figure,) = first.figures
    assert (figure.title, last.figures[0].title) == ("error of late", "loss")
    assert figure.unit.startswith(unit) and "with 4 events a tick" in figure.caption
    ours, theirs = figure.panel.series[0], last.figures[0].panel.series[0]
    factor = 2 if loss == "squared" else 1
    for name in ("value", "low", "high"):
        lost = np.maximum(getattr(theirs, name), 0) * factor / 4
        np.testing.assert_allclose(getattr(ours, name), scale * lost**power, rtol=1e-12)
    np.testing.assert_allclose(figure.panel.base[0].value, baseline)
    head, body = words.last_values(data)
    assert head[1][0] == "error of late" and body[-1][1][0][0] == ours.value[-1, 0]


def test_no_error_is_made_up_where_nothing_gives_one(tmp_path: Path) -> None:
    """No expectation; a loss that has no unit; named outputs, which are shown as they are."""
    run = ResultFolder.open(folder(tmp_path / "out", ["a"], 6, expect=4))
    for config in ({"model.loss": "squared"}, {"expect.events": 4, "model.loss.huber": 1}):
        data = gather(dataclasses.replace(run, plan={**run.plan, "config": config}))
        assert [panel.output.role for panel in data.panels][-1] == "trace"
        assert sections(data)[0].figures == () and sections(data)[0].note == NO_ERROR
    named = sections(gather(run, names=["loss"]))
    assert [figure.title for part in named for figure in part.figures] == ["loss"]


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
def test_many_models_rank_by_loss_and_get_a_heat_map_of_errors(tmp_path: Path) -> None:
    keys = [f"k{i:03d}" for i in range(300)]
    data = gather(ResultFolder.open(folder(tmp_path / "out", keys, 12, expect=4)))
    np.testing.assert_allclose(data.panels[3].series[0].value[-1], [0.0284], atol=0.01)
    assert data.ranked_by is not None and data.ranked_by.name == "loss"
    assert [panel.heat is not None for panel in data.panels] == [True, False, False, False]
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
    assert page.data["sections"][0]["note"] == NO_ERROR
    assert page.section("trace") == ["first", "last"]
    assert {one["kind"] for one in page.data["figures"]} == {"lines"}
