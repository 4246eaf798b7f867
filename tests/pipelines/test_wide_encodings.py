"""Wide rows from bytes to releases: however written, and next to rows that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.result_rows import result_rows
from weir.dpcore.bounded_events import Events
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.pipelines.results.models import models_at
from weir.pipelines.results.run import ResultFolder

pytestmark = pytest.mark.slow

P, N, EACH, EMPTY, ZEROS = 5000, 90, 8, 7, 8
START, SECRET = 1_704_067_200_000_000, "cd" * 32
CONFIG = """\
name: encodings
source: {source}
schema: {{time: {{column: at, format: epoch_us}}, id: id}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T06:00:00Z}}
privacy: {{epsilon: 8, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  algorithm: optimize.frank_wolfe
  features: {features}
  target: y
  {target}
  set: {{l1_ball: 1}}
  block: 20
  iterations: 9
sink: {{parquet: {out}}}
limits: {{refused: 0.5}}
dead_letters: {{ndjson: {out}-dead}}
secret: {{file: secret.key}}
"""
TARGETS = {
    "lasso": "ranges: {x: [-2, 2], y: [-4, 4]}",
    "logistic": "classes: [no, yes]\n  ranges: {x: [-2, 2]}",
}
WHOLE = f"{{column: x, size: {P}}}"
FORMS = {
    "objects": ("{ndjson: objects.ndjson}", WHOLE),
    "lists": ("{ndjson: lists.ndjson}", WHOLE),
    "pairs": ("{parquet: pairs.parquet}", f"{{indices: i, values: x, size: {P}}}"),
}
BAD = [
    b'{"5000":1}',
    b'{"-1":1}',
    b'{"3":1,"03":1}',
    b'{"4":"PRIVATE"}',
    b"[1,2]",
    b'"PRIVATE"',
    b"[[3,1]]",
]
"""Lists that are none: each the whole of a row's features."""


def data(loss: str) -> tuple[Any, Any, Any]:
    """Times, a table that is nearly all zeros, and targets; some rows have no features."""
    rng = np.random.default_rng(11)
    times = START + np.sort(rng.integers(0, 6 * 3_600_000_000, N))
    at = np.stack([rng.choice(P, EACH, replace=False) for _ in range(N)])
    x = np.zeros((N, P))
    np.put_along_axis(x, at, rng.choice([-2.0, -0.5, 1.0, 3.0], (N, EACH)), axis=1)
    x[EMPTY] = x[ZEROS] = 0.0
    y: Any = np.round(x[:, :2500].sum(axis=1), 3)
    if loss == "logistic":
        y = np.where(y > 0, "yes", "no").astype(object)
        y[12], y[13] = None, "perhaps"
    return times, x, y


def record(time: int, i: int, x: bytes, y: Any) -> bytes:
    return b'{"at":%d,"id":"e%d","x":%b,"y":%b}' % (time, i, x, orjson.dumps(y))


def written(row: Any) -> bytes:
    return orjson.dumps({str(j): float(row[j]) for j in np.flatnonzero(row)})


def write(folder: Path, loss: str) -> None:
    times, x, y = data(loss)
    rows = list(zip(times.tolist(), range(N), y.tolist(), strict=True))
    objects = [written(row) for row in x]
    objects[ZEROS] = b'{"3":0.0,"17":-0.0}'
    lists = [orjson.dumps(row.tolist()) for row in x]
    for name, cells in (("objects", objects), ("lists", lists)):
        lines = [record(time, i, cells[i], label) for time, i, label in rows]
        (folder / f"{name}.ndjson").write_bytes(b"\n".join(lines) + b"\n")
    places = [np.flatnonzero(row)[::-1].tolist() for row in x]  # in any order
    table = {
        "at": times,
        "id": [f"e{i}" for i in range(N)],
        "i": pa.array(places, pa.list_(pa.int32())),
        "x": pa.array([row[at].tolist() for row, at in zip(x, places, strict=True)]),
        "y": y.tolist(),
    }
    pq.write_table(pa.table(table), folder / "pairs.parquet", row_group_size=17)
    (folder / "secret.key").write_text(SECRET)
    (folder / "secret.key").chmod(0o600)


def config(form: str, loss: str, out: str) -> str:
    source, features = FORMS[form]
    return CONFIG.format(source=source, features=features, target=TARGETS[loss], out=out)


def released(weir: Weir, folder: Path, form: str, loss: str, out: str = "") -> Any:
    """Bits of all that a run releases."""
    path = folder / f"{form}{out}.yaml"
    path.write_text(config(form, loss, out or form))
    told = weir("run", path)
    assert told.exit_code == 0, told.output
    rows = result_rows(folder / (out or form))
    names = ("key", "tick", "name", "over", "index", "value")
    return sorted((repr([row.get(name) for name in names]) for row in rows), key=str), told.output


def simulated(loss: str, x: Any) -> dict[str, Any]:
    times, _, y = data(loss)
    text = config("objects", loss, "out").replace("{ndjson: objects.ndjson}", "{csv: none}")
    made = Plan.from_yaml(text[: text.index("sink:")])
    (found,) = simulate(
        made, Events(times, None, {"x": x, "y": y}, [f"e{i}" for i in range(N)]), b"\xcd" * 32
    )
    return {one.name: one.value[:, 0] for one in found.released}


@pytest.mark.parametrize("loss", TARGETS)
def test_encodings_release_the_same_bits_as_a_simulation(
    loss: str, weir: Weir, tmp_path: Path
) -> None:
    write(tmp_path, loss)
    _, x, _ = data(loss)
    want = simulated(loss, x)
    again = simulated(loss, SparseRows.from_dense(x))
    assert all(again[name].tobytes() == want[name].tobytes() for name in want)
    found = {form: released(weir, tmp_path, form, loss)[0] for form in FORMS}
    assert found["objects"] == found["lists"] == found["pairs"]
    for name in ("theta", "coefficients"):
        for tick in range(1, 6):
            (model,) = models_at(ResultFolder.open(tmp_path / "objects"), name, tick).values()
            assert model.tobytes() == want[name][tick].tobytes()
    assert np.isfinite(want["theta"][-1]).all() and want["theta"][-1].any()


@pytest.mark.parametrize("loss", TARGETS)
def test_rows_that_cannot_be_read_are_told_and_move_no_other(
    loss: str, weir: Weir, tmp_path: Path
) -> None:
    write(tmp_path, loss)
    lines = (tmp_path / "objects.ndjson").read_bytes().splitlines()
    times, x, y = data(loss)
    spots = range(20, 20 + 3 * len(BAD), 3)
    found = []
    for out, cells in (("void", [b"null"] * len(BAD)), ("bad", BAD)):
        some = list(lines)
        for at, cell in zip(spots, cells, strict=True):
            some[at] = record(int(times[at]), at, cell, y.tolist()[at])
        (tmp_path / "objects.ndjson").write_bytes(b"\n".join(some) + b"\n")
        bits, said = released(weir, tmp_path, "objects", loss, out)
        assert "PRIVATE" not in said
        found.append(bits)
    assert found[0] == found[1], "a row that cannot be read is a row without features"
    void = x.copy()
    void[list(spots), 0] = np.nan
    want = simulated(loss, SparseRows.from_dense(void))["theta"]
    (mine,) = models_at(ResultFolder.open(tmp_path / "bad"), "theta", 5).values()
    assert mine.tobytes() == want[5].tobytes()
    assert want[5].tobytes() != simulated(loss, x)["theta"][5].tobytes()
    text = "".join(path.read_text() for path in (tmp_path / "bad-dead").glob("*.ndjson"))
    letters = [json.loads(line) for line in text.splitlines()]
    assert [one["position"] for one in letters] == [at + 1 for at in spots]
    assert {(one["field"], one["reason"]) for one in letters} == {("x", "not_a_list")}
    assert "PRIVATE" not in text
    assert not list((tmp_path / "void-dead").glob("*.ndjson"))
