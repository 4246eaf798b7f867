"""A model of many features: released, written without its zeros, and read as it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.plan import Plan
from weir.dpcore.program import SPARSE_FROM
from weir.pipelines.results.run import ResultFolder

FEATURES = [f"f{i:02d}" for i in range(SPARSE_FROM)]
TEXT = f"""\
name: wide
source: {{ndjson: events.ndjson}}
schema: {{time: at}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T06:00:00Z}}
privacy: {{epsilon: 4.0, delta: 1e-6, protect_for: all}}
model:
  algorithm: online.conditional_gradient
  features: [{", ".join(FEATURES)}]
  target: y
  intercept: false
  ranges: {{{", ".join(f"{name}: [-1, 1]" for name in [*FEATURES, "y"])}}}
  set: {{l1_ball: 1}}
secret: {{file: secret.key}}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    with (tmp_path / "events.ndjson").open("w") as file:
        for i in range(60):
            x = rng.uniform(-1, 1, len(FEATURES)).round(3).tolist()
            event = {"at": f"2024-01-01T{i // 10:02d}:{i % 10:02d}:00Z", "y": x[3]}
            file.write(json.dumps({**event, **dict(zip(FEATURES, x, strict=True))}) + "\n")
    (tmp_path / "secret.key").write_text("cd" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    path = tmp_path / "job.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.slow
def test_flat_files_leave_zeros_out_and_every_reader_sees_them(weir: Weir, job: Path) -> None:
    for layout in ("flat", "packed"):
        sink = f"sink={{parquet: {layout}, layout: {layout}}}"
        result = weir("run", job, "--set", sink)
        assert result.exit_code == 0, result.output
    flat, packed = (ResultFolder.open(job.parent / layout) for layout in ("flat", "packed"))
    assert flat.sizes == {
        ("theta", None): len(FEATURES),
        ("coefficients", None): len(FEATURES) + 1,
        ("last", None): len(FEATURES) + 1,
    }
    (file,) = (job.parent / "flat").glob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    theta = [row for row in rows if row["name"] == "theta"]
    assert {row["tick"] for row in theta} == set(range(6))
    assert len(theta) < 6 * len(FEATURES) / 3
    first = [row for row in theta if row["tick"] == 0]  # nothing is learned yet
    assert [(row["index"], row["value"], row["label"]) for row in first] == [(0, 0.0, "f00")]
    names = ["key", "tick", "name", "over", "value", "stddev"]
    mine, theirs = flat.table(names), packed.table(names)
    assert mine.num_rows == theirs.num_rows
    for name in names[:4]:
        assert mine[name].to_pylist() == theirs[name].to_pylist()
    for a, b in zip(mine["value"].to_pylist(), theirs["value"].to_pylist(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert weir("report", job.parent / "flat").exit_code == 0
    assert weir("status", job.parent / "flat").exit_code == 0


def test_short_vectors_are_written_whole() -> None:
    few = Plan.from_yaml(
        TEXT.replace(FEATURES[-1] + "]", "]").replace(f", {FEATURES[-1]}: [-1, 1]", "")
    )
    assert not any(one.sparse for one in few.outputs)
    assert [one.sparse for one in Plan.from_yaml(TEXT).outputs[:2]] == [True, True]
