"""What people see of a regression: plan, report, and predictions of held-back public data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.main import main
from weir.pipelines.report.data import gather
from weir.pipelines.report.figures import sections
from weir.pipelines.report.report import report
from weir.pipelines.report.score import root_mean_square, score
from weir.pipelines.results.run import ResultFolder

SECRET = "11" * 32
CONFIG = """
name: demand
source: {{csv: events.csv}}
schema: {{time: {{column: at, zone: UTC}}}}
key: {{column: city, declared: [east, west]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-03T00:00:00Z}}
privacy: {{epsilon: 20.0, delta: 1e-6, protect_for: all}}
model:
  algorithm: regression.{algorithm}
  features: [temp, rain]
  target: {target}
  ranges: {{temp: [-10, 30], rain: [0, 10], cnt: [0, 100], cost: [0, 50]}}
  set: {{l2_ball: 4}}
{more}secret: {{file: secret.key}}
sink: {{parquet: out/}}
"""


def events(folder: Path, n: int = 6000) -> None:
    """Demand that follows temperature and rain, differently in two cities."""
    rng = np.random.default_rng(5)
    lines = ["at,city,temp,rain,cnt,cost"]
    for i in range(n):
        hour, city = i * 48 // n, ("east", "west")[i % 2]
        temp, rain = rng.uniform(-10, 30), rng.uniform(0, 10)
        cnt = 40 + (1.0 if city == "east" else 0.3) * temp - 2 * rain + rng.normal(0, 2)
        when = f"2024-01-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"
        lines.append(f"{when},{city},{temp:.3f},{rain:.3f},{cnt:.3f},{cnt / 2:.3f}")
    (folder / "events.csv").write_text("\n".join(lines) + "\n")
    (folder / "secret.key").write_text(SECRET)


def config(folder: Path, algorithm: str, more: str = "", target: str = "cnt") -> Path:
    """A config next to its events."""
    text = CONFIG.format(algorithm=algorithm, more=more, target=target)
    if target == "cnt":
        text = text.replace(", cost: [0, 50]", "")
    (folder / "demand.yaml").write_text(text)
    return folder / "demand.yaml"


def weir(*words: str) -> str:
    """Runs a command that must succeed."""
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a whole run."""
    base = tmp_path_factory.mktemp("demand")
    events(base)
    weir("run", str(config(base, "incremental", "  error: true\n")))
    return base


def test_the_plan_tells_how_models_are_made_and_how_far_noise_moves_them(tmp_path: Path) -> None:
    shown = weir("plan", "--full", str(config(tmp_path, "incremental", "  error: true\n")))
    assert "10 running sums a key; no row" in shown and "relative gap of 1e-09" in shown
    assert "share of the variance explained" in shown
    assert "at 10,000 events in the span" in shown and "*" in shown
    assert "curvature" not in shown and "played" not in shown
    facts = json.loads(weir("plan", str(tmp_path / "demand.yaml"), "--json"))
    assert facts["algorithm"] == "regression.incremental"


def test_the_plan_of_kept_rows_tells_that_state_grows(tmp_path: Path) -> None:
    more = "  rows: 5000\n  every: 12\n  solver: noisy_projected_gradient\n"
    shown = weir("plan", "--full", str(config(tmp_path, "erm", more)))
    assert "at most: it grows with the events" in shown
    assert "rows, up to" in shown and "noisy projected gradient" in shown


@pytest.mark.slow
def test_a_report_draws_models_with_bands(folder: Path) -> None:
    made = report(folder / "out")
    assert made.html is not None
    page = made.html.read_text()
    assert "Margins: 95 %, as the plan says" in page and "finds on the same events" in page
    data = gather(ResultFolder.open(folder / "out"))
    first, *_, last = sections(data)
    assert (first.name, last.name) == ("score", "trace")
    titles = [figure.title for figure in first.figures]
    assert titles == ["error of cnt", "r2"], "the page leads with how well the model predicts"
    error, r2 = (figure.panel for figure in first.figures)
    squares = next(panel for panel in data.panels if panel.output.name == "mse").series[0]
    for ours, theirs in zip(
        (error.series[0].value, error.series[0].high), (squares.value, squares.high), strict=True
    ):
        np.testing.assert_allclose(ours**2, theirs, rtol=1e-9)
    rest = 1 - r2.series[0].value
    sizes = squares.value[rest > 0] / rest[rest > 0]
    np.testing.assert_allclose(error.base[0].value[rest > 0] ** 2, sizes, rtol=1e-9)
    assert 5 < error.base[0].value[-1, 0] < 30, "the spread of cnt around its mean"
    assert "error of cnt" in page
    assert r2.output.between == (None, 1.0) and np.isfinite(r2.series[0].half[-1]).all()
    theta = next(panel for panel in data.panels if panel.output.name == "theta").series[0]
    assert (theta.half[-1] < theta.half[4]).all(), "margins narrow as events come"


@pytest.mark.slow
def test_held_back_events_are_predicted_by_their_own_key(folder: Path) -> None:
    held = folder / "held.csv"
    lines = (folder / "events.csv").read_text().splitlines()
    held.write_text("\n".join([lines[0], *lines[1::7], "x,north,1,1,1,1", "x,east,1,,1,1"]) + "\n")
    found = score(gather(ResultFolder.open(folder / "out")), held)
    assert found.left_out == 2 and found.events == len(lines[1::7]) + 2
    (panel,) = found.panels
    assert [one.key for one in panel.series] == [one.key for one in found.scatters]
    for series in panel.series:
        assert 1.5 < series.value[-1, 0] < 4, "the noise of the events is 2"
    for series, base in zip(panel.series, panel.base, strict=True):
        cells = [line.split(",") for line in lines[1::7]]
        own = np.array([float(cell[4]) for cell in cells if cell[1] == series.key])
        np.testing.assert_allclose(base.value, own.std(), rtol=1e-6)
        assert series.value[-1, 0] < 0.6 * own.std()
    shown = weir("report", str(folder / "out"), "--holdout", str(held))
    assert "report.html" in shown
    page = (folder / "out" / "report.html").read_text()
    assert "predicted against actual, east" in page and "2 left out" in page


def test_errors_are_those_of_the_predictions() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(50, 2)), np.ones((50, 1))], axis=1)
    y = x @ [1.0, -2.0, 1000.0] + rng.normal(size=50)
    models = rng.normal(size=(4, 3)) + [1.0, -2.0, 1000.0]
    for model, value in zip(models, root_mean_square(models, x, y), strict=True):
        np.testing.assert_allclose(value, np.sqrt(np.mean((y - x @ model) ** 2)), rtol=1e-9)
    alone = root_mean_square(models, x[:1], y[:1])
    np.testing.assert_allclose(alone, np.abs(models @ x[0] - y[0]), rtol=1e-6)
    assert np.isnan(root_mean_square(models, x[:0], y[:0])).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("held.csv", "city,temp,cnt\neast,1,2\n", "no column rain"),
        ("held.csv", "city,temp,rain,cnt\neast,hot,1,2\n", "must hold numbers"),
        ("held.csv", "", "cannot be read"),
        ("held.xyz", "x", "must end in one of"),
    ],
)
def test_held_back_data_that_do_not_fit_are_refused(
    folder: Path, tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=said):
        report(folder / "out", out=tmp_path, holdout=tmp_path / name)
    with pytest.raises(ConfigError, match="is no file"):
        report(folder / "out", out=tmp_path, holdout=tmp_path / "gone.csv")


@pytest.mark.slow
def test_several_targets_are_scored_one_by_one(tmp_path: Path) -> None:
    events(tmp_path, 1200)
    weir("run", str(config(tmp_path, "incremental", target="[cnt, cost]")))
    found = score(gather(ResultFolder.open(tmp_path / "out")), tmp_path / "events.csv")
    assert [panel.output.name.split()[2] for panel in found.panels] == ["cnt", "cost"]
    for panel in found.panels:
        assert panel.series[0].value[-1, 0] < 0.7 * panel.base[0].value[-1, 0]
