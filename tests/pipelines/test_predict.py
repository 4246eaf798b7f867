"""``weir predict``: what is written is what the released numbers say, event by event."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.report.data import gather
from weir.pipelines.report.score import score
from weir.pipelines.results.events import tables
from weir.pipelines.results.models import models_at
from weir.pipelines.results.run import ResultFolder

N = 900

CONFIG = """\
name: lab
source: {{csv: events.csv}}
schema: {{time: at, id: id}}
key: {{column: site, declared: [east, west]}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-10T00:00:00Z}}
privacy: {{epsilon: 100000, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  features: [age, visits]
  ranges: {{age: [0, 100], visits: [0, 50]{more}}}
{model}
secret: {{file: secret.key}}
sink: {{parquet: out/}}
"""
CLASSES = """\
  algorithm: erm.sliding_window
  target: label
  classes: ["no", "yes"]
  block: 100
  window: 3
  regularise: 0.001
"""
NUMBERS = """\
  algorithm: regression.incremental
  target: spend
"""


def made(folder: Path, model: str, more: str, weir: Weir) -> Path:
    """Results of a run over events whose targets follow from features."""
    random = np.random.default_rng(3)
    age, visits = random.uniform(0, 100, N), random.uniform(0, 50, N)
    site = np.where(random.random(N) < 0.5, "east", "west")
    spend = np.where(site == "east", 2.0, -1.0) * age + visits
    table = pa.table(
        {
            "at": [f"2025-01-{1 + i * 9 // N:02d}T00:00:00Z" for i in range(N)],
            "id": [f"e{i}" for i in range(N)],
            "site": site,
            "age": age,
            "visits": visits,
            "spend": spend,
            "label": np.where(age / 100 + visits / 50 > 1, "yes", "no"),
        }
    )
    pyarrow.csv.write_csv(table, folder / "events.csv")
    (folder / "secret.key").write_bytes(b"k" * 32)
    (folder / "secret.key").chmod(0o600)
    (folder / "lab.yaml").write_text(CONFIG.format(model=model, more=more))
    done = weir("run", folder / "lab.yaml")
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.slow
def test_classes_are_the_likelier_ones_and_shares_are_told(tmp_path: Path, weir: Weir) -> None:
    made(tmp_path, CLASSES, "", weir)
    more = [
        "at,id,site,age,visits,spend,label",
        "x,a,east,90,45,,yes",
        "x,b,west,5,2,,no",
        "x,c,west,5,2,,maybe",
        "x,d,west,,2,,no",
        "x,e,north,5,2,,no",
    ]
    (tmp_path / "new.csv").write_text("\n".join(more) + "\n")
    told = weir("predict", tmp_path / "out", tmp_path / "new.csv", "--json")
    assert told.exit_code == 0, told.output
    facts = json.loads(told.stdout)
    assert facts["events"] == 5 and facts["predicted"] == 3
    assert facts["no_model"] == 1 and facts["no_features"] == 1
    assert facts["accuracy"] == 1.0, "of the two whose class is a declared one"
    table = pq.read_table(tmp_path / "new.predicted.parquet")
    assert table["predicted.label"].to_pylist() == ["yes", "no", "no", None, None]
    no, yes = table["share.no"].to_pylist(), table["share.yes"].to_pylist()
    assert no[3] is None and yes[4] is None
    losses = -np.log([yes[0], no[1]])
    assert facts["log_loss"] == pytest.approx(losses.mean(), rel=1e-9)
    assert facts["baseline"]["accuracy"] == 0.5
    assert facts["baseline"]["log_loss"] == pytest.approx(np.log(2))
    bins = facts["calibration"]["bins"]
    assert sum(row["events"] for row in bins) == 2 and all(row["right"] == 1 for row in bins)
    assert facts["calibration"]["error"] == pytest.approx(1 - (yes[0] + no[1]) / 2)
    for a, b in zip(no[:3], yes[:3], strict=True):
        assert abs(a + b - 1) < 1e-12
    assert yes[0] > 0.5 > yes[1]
    assert table["predicted.tick"].to_pylist() == [8, 8, 8, None, None]
    # By hand: theta is of features scaled to [-1, 1], shortened to clip.features (1).
    theta = models_at(ResultFolder.open(tmp_path / "out"), "theta", 8)["east"]
    x = np.array([0.8, 0.8])
    x /= np.linalg.norm(x)
    by_hand = 1 / (1 + np.exp(-(theta[:2] @ x + theta[2])))
    assert yes[0] == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.slow
def test_held_back_classes_are_scored_over_time(tmp_path: Path, weir: Weir) -> None:
    made(tmp_path, CLASSES, "", weir)
    found = score(gather(ResultFolder.open(tmp_path / "out")), tmp_path / "events.csv")
    (panel,) = found.panels
    assert panel.output.name == "share of right label"
    assert found.events == N and found.left_out == 0 and not found.scatters
    for series in panel.series:
        assert np.isnan(series.value[0, 0]), "before the first window there is no model"
        assert series.value[-1, 0] > 0.85
    for series, base in zip(panel.series, panel.base, strict=True):
        assert 0.3 < base.value[-1, 0] < series.value[-1, 0], "the most frequent class"
    drawn = weir("report", tmp_path / "out", "--holdout", tmp_path / "events.csv")
    assert drawn.exit_code == 0, drawn.output
    assert "share of right label" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.slow
def test_numbers_are_those_of_the_coefficients_of_the_events_own_key(
    tmp_path: Path, weir: Weir
) -> None:
    made(tmp_path, NUMBERS, ", spend: [-100, 300]", weir)
    told = weir("predict", tmp_path / "out", tmp_path / "events.csv", "--json", "--tick", "7")
    assert told.exit_code == 0, told.output
    facts = json.loads(told.stdout)
    assert facts["tick"] == 7 and facts["predicted"] == N and facts["accuracy"] is None
    assert facts["r2"]["spend"] > 0.99
    assert facts["log_loss"] is None and facts["calibration"] == {"error": None, "bins": []}
    spend = pq.read_table(tmp_path / "events.predicted.parquet")["spend"].to_numpy()
    middle = 1 - np.mean((spend - 100.0) ** 2) / spend.var()
    assert facts["baseline"]["r2"]["spend"] == pytest.approx(middle, rel=1e-9)
    table = pq.read_table(tmp_path / "events.predicted.parquet")
    assert set(table["predicted.tick"].to_pylist()) == {7}
    models = models_at(ResultFolder.open(tmp_path / "out"), "coefficients", 7)
    for i in (0, 1, 2, 3):
        row = {name: table[name][i].as_py() for name in ("site", "age", "visits")}
        by_hand = models[row["site"]] @ np.array([row["age"], row["visits"], 1.0])
        assert table["predicted.spend"][i].as_py() == pytest.approx(by_hand, rel=1e-12)
    words = weir("predict", tmp_path / "out", tmp_path / "events.csv", "-o", tmp_path / "p.csv")
    assert words.exit_code == 0 and "R² of spend" in words.output
    assert "(the middle of its range: " in words.output
    assert len(pyarrow.csv.read_csv(tmp_path / "p.csv")) == N


def test_an_empty_parquet_file_keeps_its_columns(tmp_path: Path, weir: Weir) -> None:
    made(tmp_path, CLASSES, "", weir)
    empty = pa.table({"site": pa.array([], pa.string()), "age": [0.0][:0], "visits": [0.0][:0]})
    pq.write_table(empty, tmp_path / "none.parquet")
    told = weir("predict", tmp_path / "out", tmp_path / "none.parquet")
    assert told.exit_code == 0, told.output
    names = pq.read_table(tmp_path / "none.predicted.parquet").schema.names
    assert names[3:] == ["predicted.label", "share.no", "share.yes", "predicted.tick"]


def test_files_that_no_table_can_hold_are_refused_by_name(tmp_path: Path) -> None:
    kind = {"name": "age", "type": ["string", "long"]}
    with (tmp_path / "mixed.avro").open("wb") as file:
        record = fastavro.parse_schema({"type": "record", "name": "r", "fields": [kind]})
        fastavro.writer(file, record, [{"age": "old"}, {"age": 7}])
    for name in ("broken.avro", "broken.arrow", "broken.parquet"):
        (tmp_path / name).write_bytes(b"none of these")
    for path in tmp_path.iterdir():
        with pytest.raises(ConfigError, match="DATA = .*cannot be read") as refused:
            list(tables(path, ["age"], "DATA"))
        assert "old" not in str(refused.value)


@pytest.mark.slow
def test_what_cannot_be_predicted_is_refused_by_name(tmp_path: Path, weir: Weir) -> None:
    made(tmp_path, CLASSES, "", weir)
    out, data = tmp_path / "out", tmp_path / "events.csv"
    (tmp_path / "short.csv").write_text("site,age\neast,1\n")
    (tmp_path / "words.csv").write_text("site,age,visits\neast,old,1\n")
    (tmp_path / "taken.csv").write_text("site,age,visits,share.no\neast,1,1,1\n")
    for words, told in (
        ((out, tmp_path / "gone.csv"), "is no file"),
        ((out, tmp_path / "events.doc"), "must end in one of"),
        ((out, tmp_path / "short.csv"), "has no column visits"),
        ((out, tmp_path / "words.csv"), "age"),
        ((out, tmp_path / "taken.csv"), "is a column already"),
        ((out, data, "--out", tmp_path / "p.doc"), "must end in one of .csv, "),
        ((out, data, "--out", tmp_path / "events.csv"), "exists already"),
        ((out, data, "--out", tmp_path / "nowhere" / "p.csv"), "cannot be written"),
        ((out, data, "--tick", "99"), "was not released: ticks are 0 to 8"),
        ((out, data, "--tick", "0"), "has no model yet"),
        ((tmp_path, data), "holds no results"),
    ):
        result = weir("predict", *words)
        assert result.exit_code == 2, (words, result.output)
        assert told in result.output, (words, result.output)
    assert not [path.name for path in tmp_path.iterdir() if "part" in path.name]
    plan = json.loads((out / "_plan.json").read_text())
    del plan["model_section"]
    (out / "_plan.json").write_text(json.dumps(plan))
    assert "released no models" in weir("predict", out, data).output


LABELS = """\
  algorithm: online.follow_the_leader
  target: bought
  loss: LOSS
"""
BUYERS = """at,id,site,age,visits,bought,zip,price,said
2025-01-05T10:00:00Z,a,east,90,45,1,01234,1.50,True
2025-01-06T11:30:00Z,b,west,5,2,0,99999,2,False
2025-01-07T00:00:00Z,c,west,80,49,0,00007,,True
,d,west,7,,1,10000,3.25,
"""


def buyers(folder: Path, weir: Weir, loss: str) -> Path:
    """Results of a model of a label that is given as a number."""
    model = LABELS.replace("LOSS", loss)
    config = CONFIG.format(model=model, more=", bought: [0, 1]")
    random = np.random.default_rng(5)
    age, visits = random.uniform(0, 100, N), random.uniform(0, 50, N)
    rows = [
        f"2025-01-{1 + i * 9 // N:02d}T00:00:00Z,e{i},{'east' if i % 2 else 'west'},"
        f"{age[i]:.3f},{visits[i]:.3f},{int(age[i] / 100 + visits[i] / 50 > 1)}"
        for i in range(N)
    ]
    (folder / "events.csv").write_text("\n".join(["at,id,site,age,visits,bought", *rows]) + "\n")
    (folder / "secret.key").write_bytes(b"k" * 32)
    (folder / "secret.key").chmod(0o600)
    (folder / "lab.yaml").write_text(config)
    done = weir("run", folder / "lab.yaml")
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_labels_that_are_numbers_are_right_or_wrong_and_have_no_r2(
    loss: str, tmp_path: Path, weir: Weir
) -> None:
    buyers(tmp_path, weir, loss)
    (tmp_path / "new.csv").write_text(BUYERS)
    told = weir("predict", tmp_path / "out", tmp_path / "new.csv", "--json")
    assert told.exit_code == 0, told.output
    facts = json.loads(told.stdout)
    assert facts["r2"] == {} and facts["predicted"] == 3
    assert facts["accuracy"] == pytest.approx(2 / 3)
    (tmp_path / "again.csv").write_text(BUYERS)
    shown = weir("predict", tmp_path / "out", tmp_path / "again.csv").stdout
    assert "66.67% of 3 known classes are right (a guess: 50.00%)" in shown and "R²" not in shown
    assert ("log loss" in shown) == ("calibration error" in shown) == (loss == "logistic")
    assert (facts["log_loss"] is None) == (loss == "hinge")
    found = score(gather(ResultFolder.open(tmp_path / "out")), tmp_path / "events.csv")
    (panel,) = found.panels
    assert panel.output.name == "share of right bought"
    assert all(series.value[-1, 0] > 0.8 for series in panel.series)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "ndjson"])
@pytest.mark.parametrize("out", ["csv", "parquet"])
def test_columns_that_no_model_reads_are_written_as_they_were(
    form: str, out: str, tmp_path: Path, weir: Weir
) -> None:
    buyers(tmp_path, weir, "logistic")
    rows = [line.split(",") for line in BUYERS.strip().split("\n")]
    given = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    new = tmp_path / f"new.{form}"
    if form == "csv":
        new.write_text(BUYERS)
    else:
        numeric = ("age", "visits", "bought")
        lines = [
            {
                name: float(text) if name in numeric and text else text or None
                for name, text in one.items()
            }
            for one in given
        ]
        new.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made_at = tmp_path / f"scored.{out}"
    told = weir("predict", tmp_path / "out", new, "--out", made_at)
    assert told.exit_code == 0, told.output
    if out == "csv":
        text = made_at.read_text().replace('"', "").split("\n")
        written = [
            dict(zip(text[0].split(","), line.split(","), strict=True)) for line in text[1:5]
        ]
    else:
        written = [
            {name: "" if one is None else str(one) for name, one in row.items()}
            for row in pq.read_table(made_at).to_pylist()
        ]
    for before, after in zip(given, written, strict=True):
        for name in ("at", "id", "site", "zip", "said"):
            assert after[name] == before[name], name
        if before["price"]:
            assert float(after["price"]) == float(before["price"])


def test_a_key_of_digits_is_the_text_that_it_is(tmp_path: Path, weir: Weir) -> None:
    made(tmp_path, NUMBERS, ", spend: [-200, 300]", weir)
    config = (tmp_path / "lab.yaml").read_text()
    (tmp_path / "lab.yaml").write_text(
        config.replace("declared: [east, west]", 'declared: ["007", "12"]').replace("out/", "o/")
    )
    events = (tmp_path / "events.csv").read_text()
    (tmp_path / "events.csv").write_text(events.replace("east", "007").replace("west", "12"))
    done = weir("run", tmp_path / "lab.yaml")
    assert done.exit_code == 0, done.output
    (tmp_path / "new.csv").write_text("site,age,visits\n007,50,10\n12,50,10\n")
    told = weir("predict", tmp_path / "o", tmp_path / "new.csv", "--json")
    assert json.loads(told.stdout)["no_model"] == 0
    assert pq.read_table(tmp_path / "new.predicted.parquet")["site"].to_pylist() == ["007", "12"]
