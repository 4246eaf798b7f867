"""Regressions on the command line: planned, run, reported; the same bits as ``simulate``."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.result_rows import result_rows
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

CONFIG = """\
name: shop
source: {csv: purchases.csv}
schema: {time: at, id: id}
key: {column: store, declared: [north, south]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-03T00:00:00Z}
privacy: {epsilon: 2.0, delta: 1e-6, protect_for: all}
model:
  algorithm: regression.incremental
  features: [items, hour]
  target: paid
  ranges: {items: [0, 8], hour: [0, 24], paid: [-16, 80]}
  clip: {features: 1.2}
  set: {l2_ball: 3}
  error: true
secret: {file: secret.key}
sink: {parquet: out/}
"""
HEADER = "at,id,store,items,hour,paid,weight"
START, HOUR = 1_704_067_200_000_000, 3_600_000_000
SECRET = "ab" * 32
STREAM = "source={pubsub: {subscription: projects/acme-1/subscriptions/all, payload: ndjson}}"
NAMES = ["theta", "coefficients", "band", "mse", "r2"]


def rows(n: int = 4800) -> list[str]:
    """A hundred purchases an hour: 6 an item, more in the evening."""
    rng, found = np.random.default_rng(0), []
    for i in range(n):
        tick, minute = divmod(i * 48 * 60 // n, 60)
        items, hour = int(rng.integers(0, 9)), tick % 24
        paid = 6 * items + hour / 2 + rng.normal() * 2
        found.append(
            f"2024-01-{1 + tick // 24:02d}T{hour:02d}:{minute:02d}:00Z,e{i},"
            f"{('north', 'south')[i % 2]},{items},{hour},{paid:.3f},{items / 10:.1f}"
        )
    return found


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A config with events and a secret in a folder of its own."""
    (tmp_path / "secret.key").write_text(SECRET)
    (tmp_path / "secret.key").chmod(0o600)
    write(tmp_path, rows())
    path = tmp_path / "shop.yaml"
    path.write_text(CONFIG)
    return path


def write(folder: Path, lines: list[str], header: str = HEADER) -> None:
    (folder / "purchases.csv").write_text("\n".join([header, *lines]) + "\n")


def words(text: str) -> str:
    return " ".join(text.split())


def columns_of(lines: list[str]) -> Events:
    """The lines as events."""
    cells = [line.split(",") for line in lines]
    times = [np.datetime64(cell[0][:-1], "us").astype(np.int64) for cell in cells]
    columns = {
        name: np.array([float(cell[place]) for cell in cells])
        for place, name in ((3, "items"), (4, "hour"), (5, "paid"), (6, "weight"))
    }
    return Events(np.array(times), [cell[2] for cell in cells], columns)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "release_every: 12\n"], ids=["every tick", "every 12"])
def test_a_run_is_what_simulate_says_bit_for_bit(weir: Weir, job: Path, more: str) -> None:
    job.write_text(CONFIG + more)
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    plan = Plan.from_yaml(CONFIG + more)
    found = {(r["key"], r["tick"], r["name"]): r for r in result_rows(job.parent / "out")}
    assert len(found) == 2 * 48 * len(NAMES)
    for one in simulate(plan, columns_of(rows()), bytes.fromhex(SECRET)):
        assert [release.name for release in one.released] == NAMES
        for release in one.released:
            for tick in range(48):
                row = found[one.key, tick, release.name]
                np.testing.assert_array_equal(np.array(row["value"], float), release.value[tick, 0])
                if release.stddev is None:
                    assert row["stddev"] is None
                else:
                    np.testing.assert_array_equal(
                        np.array(row["stddev"], float), release.stddev[tick, 0]
                    )


@pytest.mark.slow
def test_the_model_is_found_and_its_band_holds_the_truth(weir: Weir, job: Path) -> None:
    write(job.parent, rows(48_000))
    assert weir("run", job, "--set", "privacy.epsilon=8").exit_code == 0
    last = {(r["key"], r["name"]): r for r in result_rows(job.parent / "out") if r["tick"] == 47}
    for key in ("north", "south"):
        model = last[key, "coefficients"]
        for value, band, truth in zip(model["value"], model["stddev"], (6, 0.5, 0), strict=True):
            assert abs(value - truth) < 5 * band + 0.1
        assert model["stddev"][0] < 1
        assert last[key, "r2"]["value"][0] > 0.9
        assert last[key, "mse"]["value"][0] == pytest.approx(
            4, abs=5 * last[key, "mse"]["stddev"][0]
        )


@pytest.mark.slow
def test_the_plan_the_run_and_the_report_agree(weir: Weir, job: Path) -> None:
    text = words(weir("plan", job, "--full").stdout)
    for part in ("regression.incremental", "> blt", "coefficients", "r2", "state per key"):
        assert part in text, part
    facts = json.loads(weir("plan", job, "--json").stdout)
    assert [release["name"] for release in facts["releases"]] == NAMES
    assert facts["releases"][1]["labels"] == ["items", "hour", "intercept"]
    assert facts["guarantee"]["window"] is None and facts["state_bytes_per_key"] < 1000
    assert weir("run", job).exit_code == 0
    result = weir("report", job.parent / "out")
    assert result.exit_code == 0, result.output
    pages = list(job.parent.rglob("*.html"))
    assert len(pages) == 1 and "coefficients" in pages[0].read_text()


def test_a_stream_without_end_and_every_sum_that_knows_one(weir: Weir, job: Path) -> None:
    live = [STREAM, "clock.end=null"]
    for sets in (live, [*live, "mechanism.continual_sum=hybrid"]):
        result = weir("plan", job, "--json", *(w for one in sets for w in ("--set", one)))
        assert result.exit_code == 0, result.output
        facts = json.loads(result.stdout)
        assert facts["ticks"] is None and facts["guarantee"]["epsilon"] == 2.0
    sets = [*live, "mechanism.continual_sum=tree"]
    refused = weir("plan", job, *(word for one in sets for word in ("--set", one)))
    assert refused.exit_code == 2 and "needs an end" in words(refused.stderr)


@pytest.mark.slow
def test_several_targets_and_a_window(weir: Weir, job: Path) -> None:
    sets = ("model.target=[paid, weight]", "model.over=24", "model.ranges.weight=[0, 1]")
    result = weir("run", job, *(word for one in sets for word in ("--set", one)))
    assert result.exit_code == 0, result.output
    found = [row for row in result_rows(job.parent / "out") if row["name"] == "coefficients"]
    assert {row["over"] for row in found} == {24} and {len(row["value"]) for row in found} == {6}


@pytest.mark.slow
@pytest.mark.parametrize("sum", ["blt", "toeplitz", "tree", "hybrid", "window_tree"])
def test_runs_over_any_sum(weir: Weir, job: Path, sum: str) -> None:
    write(job.parent, rows(200))
    result = weir("run", job, "--set", f"mechanism.continual_sum={sum}", "--set",
                  "privacy.protect_for=8 ticks")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert len(result_rows(job.parent / "out")) == 2 * 48 * len(NAMES)


@pytest.mark.slow
def test_bad_values_are_counted_and_change_nothing_else(weir: Weir, job: Path) -> None:
    at = "2024-01-01T05:30:00Z"
    bad = [f"{at},x1,north,nan,5,10,0", f"{at},x2,north,,5,10,0", f"{at},x3,south,1,5,inf,0"]
    broken = [f"{at},z1,south,word,5,10,0"]
    moved = [f"{at},y1,south,3,5,1e9,0", f"{at},y2,south,-1e300,5,10,0"]
    write(job.parent, rows(480) + bad + broken + moved)
    result = weir("run", job, "--json", "--set", "model.clip={features: 9}")
    assert result.exit_code == 0, result.output
    counts = json.loads(result.stdout)["operator"]
    assert counts["non_finite"] == 4 and counts["clipped"] == 2 and counts["not_a_number"] == 1
    first = [row["value"] for row in result_rows(job.parent / "out")]
    inside = [f"{at},y1,south,3,5,80,0", f"{at},y2,south,0,5,10,0"]
    write(job.parent, rows(480) + inside)
    again = weir("run", job, "--set", "sink.parquet=other", "--set", "model.clip={features: 9}")
    assert again.exit_code == 0
    others = [row["value"] for row in result_rows(job.parent / "other")]
    assert repr(others) == repr(first)  # errors that are not told yet are not equal to themselves


@pytest.mark.slow
@pytest.mark.parametrize("lines", [[], rows()[7:8]], ids=["none", "one"])
@pytest.mark.parametrize("name", ["regression.incremental", "regression.two_trees"])
def test_no_event_or_one_releases_a_model_at_every_tick(
    weir: Weir, job: Path, lines: list[str], name: str
) -> None:
    write(job.parent, lines)
    text = CONFIG.replace("  error: true\n", "").replace("regression.incremental", name)
    job.write_text(text)
    assert weir("run", job).exit_code == 0
    found = [row for row in result_rows(job.parent / "out") if row["name"] == "theta"]
    assert len(found) == 2 * 48
    assert all(math.hypot(*row["value"]) <= 3 + 1e-9 for row in found)


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(weir: Weir, job: Path) -> None:
    write(job.parent, rows(480))
    assert weir("run", job, "--set", "sink={parquet: whole/, every: 12}").exit_code == 0
    whole = {path.name: path.read_bytes() for path in (job.parent / "whole").iterdir()}
    cut = job.parent / "cut"
    cut.mkdir()
    for name in {*sorted(whole)[:3], "_plan.json"} - {"_COMPLETE"}:
        (cut / name).write_bytes(whole[name])
    result = weir("run", job, "--set", "sink={parquet: cut/, every: 12}")
    assert result.exit_code == 0, result.output
    assert {path.name: path.read_bytes() for path in cut.iterdir()} == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sets", "field", "remedy"),
    [
        (["model.set={l9_ball: 1}"], "model.set.l9_ball", "l1_ball"),
        (["model.loss=logistic"], "model.loss", "squared"),
        (["model.intercept=false"], "model.error", "model.intercept"),
        (["model.clip={gradient: 1}"], "model.clip.gradient", "not a setting"),
        (["model.step=constant"], "model.step", "not a setting"),
        (["model.target=[paid, items]"], "model.target", "predict itself"),
        (["model.ranges.paid=null"], "model.ranges.paid", "is missing"),
        (["model.over=sliding"], "model.over", "number of ticks"),
        (["privacy.delta=0", "mechanism.noise=gaussian"], "privacy.delta", "k_norm"),
        (["model.algorithm=regression.increment"], "model.algorithm", "did you mean"),
    ],
)  # fmt: skip
def test_refused_before_any_data_are_read(
    weir: Weir, job: Path, sets: list[str], field: str, remedy: str
) -> None:
    (job.parent / "purchases.csv").unlink()
    for command in ("plan", "run"):
        result = weir(command, job, *(word for one in sets for word in ("--set", one)))
        assert result.exit_code == 2, result.output
        text = words(result.stderr)
        assert f"refused: {field}" in text and remedy in text, text
