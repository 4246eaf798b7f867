"""One-pass models of wide lists from every kind of file to predictions and pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
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
from weir.pipelines.results.models import models_at
from weir.pipelines.results.run import ResultFolder

P, N, EACH, LACKS = 5000, 300, 9, 5
START, SECRET = 1_704_067_200_000_000, "cd" * 32
CONFIG = """\
name: {name}
source: {source}
schema: {{time: {{column: at, format: epoch_us}}, id: id}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T06:00:00Z}}
privacy: {{epsilon: 200000, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  algorithm: optimize.{algorithm}
  features: {features}
  target: y
  intercept: false
  records: 70
  ranges: {{{column}: [-2, 2], y: [-4, 4]}}
  {more}
secret: {{file: secret.key}}
sink: {{parquet: {name}, every: 6}}
"""
OBJECTS, PAIRS = f"{{column: x, size: {P}}}", f"{{indices: i, values: v, size: {P}}}"
FORMS = {
    "objects": ("ndjson", "x", OBJECTS, "sfw_polyhedral", "set: {l1_ball: 1}"),
    "pairs": ("parquet", "v", PAIRS, "sfw_tree", "phases: 3"),
    "arrow": ("arrow", "v", PAIRS, "phased_sgd", "form: halving"),
    "avro": ("avro", "v", PAIRS, "phased_sgd", "form: learned"),
    "records": ("parquet", "v", PAIRS, "sfw_polyhedral", "form: one_sample"),
}
"""Folder -> ending, column, features, algorithm and what makes it that one."""


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, places, numbers, and a target of two features; row ``LACKS`` lacks a number."""
    rng = np.random.default_rng(7)
    at = np.stack([rng.choice(np.arange(2, P), EACH, replace=False) for _ in range(N)])
    at[:, :2] = np.arange(2)
    value = rng.choice([-2.0, -1.0, 1.0, 2.0], (N, EACH))
    times = START + np.sort(rng.integers(0, 6 * 3_600_000_000, N))
    return times, at, value, np.round(1.2 * value[:, 0] - 0.5 * value[:, 1], 3)


def write(folder: Path) -> None:
    """The same events, a few of them twice, in each kind of file."""
    times, at, value, y = data()
    lists = [
        [*v, None] if i == LACKS else v for i, v in enumerate(value.tolist())
    ], [[*p, 9] if i == LACKS else p for i, p in enumerate(at.tolist())]  # fmt: skip
    rows = [
        {"at": int(times[i]), "id": f"e{i}", "y": float(y[i]), "v": lists[0][i], "i": lists[1][i]}
        for i in range(N)
    ]
    rows = [row for i, row in enumerate(rows) for _ in range(1 + (i % 50 == 3))]  # some twice
    table = pa.Table.from_pylist(rows)
    for name in ("pairs", "records"):
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=70)
    with pa.ipc.new_stream(folder / "arrow.arrow", table.schema) as stream:
        for batch in table.to_batches(max_chunksize=70):
            stream.write_batch(batch)
    fields = [
        {"name": "at", "type": "long"},
        {"name": "id", "type": "string"},
        {"name": "y", "type": "double"},
        {"name": "v", "type": {"type": "array", "items": ["null", "double"]}},
        {"name": "i", "type": {"type": "array", "items": "long"}},
    ]
    with (folder / "avro.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "e", "fields": fields}, rows)
    for row in rows:
        places = map(str, row["i"])
        row["x"] = dict(zip(places, row["v"], strict=True))
    lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    (folder / "objects.ndjson").write_bytes(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from click.testing import CliRunner

    from weir.pipelines.cli.main import main

    path = tmp_path_factory.mktemp("wide")
    write(path)
    (path / "secret.key").write_text(SECRET)
    (path / "secret.key").chmod(0o600)
    for name, (ending, column, features, algorithm, more) in FORMS.items():
        text = CONFIG.format(
            name=name,
            source=f"{{{ending}: {name}.{ending}}}",
            features=features,
            algorithm=algorithm,
            column=column,
            more=more,
        )
        (path / f"{name}.yaml").write_text(text)
        result = CliRunner().invoke(main, ["run", str(path / f"{name}.yaml")])
        assert result.exit_code == 0, result.output
    return path


def coefficients(folder: Path, name: str, tick: int) -> Any:
    return models_at(ResultFolder.open(folder / name), "coefficients", tick)[""]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_a_run_is_its_simulation(folder: Path, name: str) -> None:
    times, at, value, y = data()
    table = np.zeros((N, P))
    np.put_along_axis(table, at, value, axis=1)
    table[LACKS, 9] = np.nan
    text = (folder / f"{name}.yaml").read_text()
    plan = Plan.from_yaml(text[: text.index("secret:")].replace("source:", "source: {csv: no} #"))
    columns = {FORMS[name][1]: SparseRows.from_dense(table), "y": y}
    events = Events(times, None, columns, [f"e{i}" for i in range(N)])
    (found,) = simulate(plan, events, bytes.fromhex(SECRET))
    wanted = {one.name: one.value[:, 0] for one in found.released}["coefficients"]
    assert np.isfinite(wanted[-1]).all()
    run = ResultFolder.open(folder / name)
    for tick in range(6):
        models = models_at(run, "coefficients", tick)
        assert bool(models) == np.isfinite(wanted[tick]).all()
        if models:
            np.testing.assert_array_equal(models[""], wanted[tick])
    if name != "records":  # a vertex a record, few of them
        assert set(np.argsort(-np.abs(wanted[-1]))[:2].tolist()) == {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_only_hulls_of_unit_vectors_are_released_without_zeros(folder: Path, name: str) -> None:
    (file,) = ResultFolder.open(folder / name).files
    table = pq.read_table(file.path, columns=["name", "tick", "value"]).to_pylist()
    rows = [one for one in table if one["name"] == "theta" and one["tick"] == 5]
    few = FORMS[name][3] == "sfw_polyhedral"
    assert len(rows) < 300 if few else len(rows) == P


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_predictions(folder: Path, name: str, weir: Weir, tmp_path: Path) -> None:
    events, out = folder / f"{name}.{FORMS[name][0]}", tmp_path / "said.parquet"
    told = weir("predict", folder / name, events, "--out", out, "--json")
    assert told.exit_code == 0, told.output
    facts = json.loads(told.stdout)
    twice = np.repeat(np.arange(N), [1 + (i % 50 == 3) for i in range(N)])
    assert facts["events"] == len(twice) and facts["no_features"] == 1
    assert facts["predicted"] == len(twice) - 1
    _, at, value, _ = data()
    own = coefficients(folder, name, 5)
    order = np.inf if FORMS[name][3] == "sfw_polyhedral" else 2
    lengths = np.linalg.norm(value / 2, order, axis=1, keepdims=True)  # of numbers in [-1, 1]
    value = value / np.maximum(lengths, 1.0)
    by_hand = ((own[at] * value).sum(axis=1) + own[-1])[twice]
    said = np.array(pq.read_table(out)["predicted.y"].to_pylist(), dtype=float)
    lacks = twice == LACKS
    assert np.isnan(said[lacks]).all()
    np.testing.assert_allclose(said[~lacks], by_hand[~lacks], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objects", "arrow", "records"])
def test_a_report_shows_the_largest_coefficients(folder: Path, name: str, weir: Weir) -> None:
    events = folder / f"{name}.{FORMS[name][0]}"
    page = weir("report", folder / name, "--holdout", events)
    assert page.exit_code == 0, page.output
    own, column = coefficients(folder, name, 5), FORMS[name][1]
    most = int(np.argmax(np.abs(own[:-1])))
    html = next((folder / name).glob("*.html")).read_text()
    assert f"{column}[{most}]" in html and f"{column}[{most}]" in page.output
    assert "held-back" in html and "that are 0 or stay closer to it" in html
    untouched = int(np.flatnonzero(own == 0)[0]) if (own == 0).any() else None
    if untouched is not None:
        assert f"{column}[{untouched}]" not in page.output


def test_a_plan_says_how_many_numbers_of_an_event_count(folder: Path, weir: Weir) -> None:
    for name in ("objects", "arrow"):
        told = weir("plan", "--full", folder / f"{name}.yaml")
        assert told.exit_code == 0
        words = " ".join(told.output.split())
        assert f"more than 1,024 numbers in {FORMS[name][1]} that are not 0" in words


@pytest.mark.parametrize("ending", ["arrow", "avro"])
def test_files_that_are_none_are_refused(
    folder: Path, weir: Weir, tmp_path: Path, ending: str
) -> None:
    broken = tmp_path / f"broken.{ending}"
    broken.write_bytes(b"PRIVATE" * 20)
    told = weir("predict", folder / "objects", broken)
    assert told.exit_code == 2 and "cannot be read" in told.output
    assert "PRIVATE" not in told.output


def test_an_arrow_file_without_events_is_predicted_whole(
    folder: Path, weir: Weir, tmp_path: Path
) -> None:
    table = pq.read_table(folder / "pairs.parquet")
    with pa.ipc.new_file(tmp_path / "none.arrow", table.schema):
        pass
    out = tmp_path / "said.parquet"
    told = weir("predict", folder / "arrow", tmp_path / "none.arrow", "--out", out)
    assert told.exit_code == 0, told.output
    assert len(pq.read_table(out)) == 0
