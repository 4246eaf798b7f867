"""A model of more features than dense rows have, from lists to predictions: run, simulated,
reported, predicted with, and scored on held-back events."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.bounded_events import Events
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.pipelines.results.files import read_file
from weir.pipelines.results.models import models_at
from weir.pipelines.results.run import ResultFolder

pytestmark = pytest.mark.slow

P, N, EACH, BLOCK = 5000, 400, 12, 120
START = 1_704_067_200_000_000
CONFIG = """\
name: words
source: {source}
schema: {{time: {{column: at, format: epoch_us}}, id: id}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T06:00:00Z}}
privacy: {{epsilon: 200000, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  algorithm: optimize.frank_wolfe
  features: {features}
  target: y
  intercept: false
  ranges: {{{name}: [-2, 2], y: [-4, 4]}}
  set: {{l1_ball: 1}}
  block: 120
  iterations: 30
secret: {{file: secret.key}}
sink: {{parquet: {out}, every: 6}}
"""
FORMS = {
    "objects": ("{ndjson: events.ndjson}", f"{{column: x, size: {P}}}", "x"),
    "pairs": ("{parquet: events.parquet}", f"{{indices: i, values: v, size: {P}}}", "v"),
}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, places, numbers, and a target of three features; row 5 lacks a number."""
    rng = np.random.default_rng(7)
    at = np.stack([rng.choice(np.arange(3, P), EACH, replace=False) for _ in range(N)])
    at[:, :3] = np.arange(3)
    value = rng.choice([-2.0, -1.0, 1.0, 2.0, 0.0], (N, EACH), p=[0.24, 0.24, 0.24, 0.24, 0.04])
    value[:, :3] = rng.choice([-2.0, 2.0], (N, 3))
    y = value[:, 0] - 0.6 * value[:, 1] + 0.2 * value[:, 2]
    times = START + np.sort(rng.integers(0, 6 * 3_600_000_000, N))
    return times, at, value, y


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("words")
    times, at, value, y = data()
    ids = [f"e{i}" for i in range(N)]
    with (path / "events.ndjson").open("wb") as file:
        for i in range(N):
            x = {str(j): v for j, v in zip(at[i].tolist(), value[i].tolist(), strict=True)}
            x = x if i != 5 else x | {"9": None}
            file.write(
                orjson.dumps({"at": int(times[i]), "id": ids[i], "x": x, "y": float(y[i])}) + b"\n"
            )
    numbers = [[*one, None] if i == 5 else one for i, one in enumerate(value.tolist())]
    places = [[*one, 9] if i == 5 else one for i, one in enumerate(at.tolist())]
    table = {"at": times, "id": ids, "i": places, "v": numbers, "y": y}
    pq.write_table(pa.table(table), path / "events.parquet", row_group_size=70)
    (path / "secret.key").write_text("cd" * 32)
    (path / "secret.key").chmod(0o600)
    for form, (source, features, name) in FORMS.items():
        text = CONFIG.format(source=source, features=features, name=name, out=form)
        (path / f"{form}.yaml").write_text(text)
    return path


@pytest.fixture(scope="module")
def done(folder: Path) -> Path:
    from click.testing import CliRunner

    from weir.pipelines.cli.main import main

    for form in FORMS:
        result = CliRunner().invoke(main, ["run", str(folder / f"{form}.yaml")])
        assert result.exit_code == 0, result.output
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_a_run_is_its_simulation(done: Path, form: str) -> None:
    times, at, value, y = data()
    table = np.zeros((N, P))
    np.put_along_axis(table, at, value, axis=1)
    table[5, 9] = np.nan
    text = (done / f"{form}.yaml").read_text()
    plan = Plan.from_yaml(text[: text.index("secret:")].replace(FORMS[form][0], "{csv: none}"))
    released = {}
    for given in (table, SparseRows.from_dense(table)):
        events = Events(times, None, {FORMS[form][2]: given, "y": y}, [f"e{i}" for i in range(N)])
        (found,) = simulate(plan, events, bytes.fromhex("cd" * 32))
        for one in found.released:
            before = released.setdefault(one.name, one.value[:, 0])
            np.testing.assert_array_equal(one.value[:, 0], before)
    run = ResultFolder.open(done / form)
    for name in ("theta", "coefficients"):
        for tick in range(6):
            models, wanted = models_at(run, name, tick), released[name][tick]
            if np.isnan(wanted).any():
                assert not models and np.isnan(wanted).all()
            else:
                np.testing.assert_array_equal(models[""], wanted)
    assert np.isnan(released["theta"][0]).all() and np.isfinite(released["theta"][-1]).all()
    best = np.argsort(-np.abs(released["coefficients"][-1]))[:3]
    assert set(best.tolist()) == {0, 1, 2} or best[0] == 0


def test_coefficients_are_released_without_zeros(done: Path) -> None:
    run = ResultFolder.open(done / "pairs")
    (file,) = run.files
    table = pq.read_table(file.path).to_pylist()
    for name in ("theta", "coefficients"):
        rows = [row for row in table if row["name"] == name]
        silent = [row for row in rows if row["value"] is None]
        assert {row["index"] for row in silent} == {0}, "one row of a tick without a model"
        assert len(silent) == len({row["tick"] for row in silent}) > 0
        assert len(rows) < 6 * 32
        assert all(row["label"] == f"v[{row['index']}]" for row in rows if row["index"] < P)
    sizes = run.sizes
    assert sizes[("theta", None)] == P
    vectors = sum(batch.num_rows for batch in read_file(file, ["name", "value"], sizes))
    assert vectors == 3 * 6


@pytest.mark.parametrize("form", FORMS)
def test_predictions_and_held_back_events(
    done: Path, form: str, weir: Weir, tmp_path: Path
) -> None:
    events = done / ("events.ndjson" if form == "objects" else "events.parquet")
    out = tmp_path / "said.parquet"
    told = weir("predict", done / form, events, "--out", out, "--json")
    assert told.exit_code == 0, told.output
    facts = json.loads(told.stdout)
    assert facts["events"] == N and facts["no_features"] == 1 and facts["predicted"] == N - 1
    assert facts["r2"]["y"] > 0.5
    _, at, value, _ = data()
    own = models_at(ResultFolder.open(done / form), "coefficients", 5)[""]
    by_hand = (own[at] * value).sum(axis=1) + own[-1]
    said = np.array(pq.read_table(out)["predicted.y"].to_pylist(), dtype=float)
    assert np.isnan(said[5])
    np.testing.assert_allclose(np.delete(said, 5), np.delete(by_hand, 5), atol=1e-5)
    page = weir("report", done / form, "--holdout", events)
    assert page.exit_code == 0, page.output
    html = next((done / form).glob("*.html")).read_text()
    assert f"{FORMS[form][2]}[0]" in html and "held-back" in html


@pytest.mark.parametrize("form", FORMS)
def test_made_up_events_can_be_run(done: Path, form: str, weir: Weir, tmp_path: Path) -> None:
    target = tmp_path / ("made.ndjson" if form == "objects" else "made.parquet")
    kind = "ndjson" if form == "objects" else "parquet"
    fed = weir("feed", done / f"{form}.yaml", "--events", 40, "--to", target)
    assert fed.exit_code == 0, fed.output
    config = (done / f"{form}.yaml").read_text().replace("block: 120", "block: 20")
    config = config.replace(f"{kind}: events.{kind}", f"{kind}: {target}")
    path = tmp_path / "made.yaml"
    path.write_text(config.replace("secret.key", str(done / "secret.key")))
    ran = weir("run", path)
    assert ran.exit_code == 0, ran.output
