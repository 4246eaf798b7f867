"""Models on the command line: planned, run, fed, compared; bad input counted or refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.result_rows import result_rows
from weir.dpcore.registry import MODELS

CONFIG = """\
name: flights
source: {csv: flights.csv}
schema: {time: at, id: id}
key: {column: carrier, declared: [AA, UA]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 8 ticks}
model:
  algorithm: online.follow_the_leader
  features: [late, distance]
  target: delay
  ranges: {late: [-30, 120], distance: [0, 5000], delay: [-60, 180]}
secret: {file: secret.key}
sink: {parquet: out/}
"""
HEADER = "at,id,carrier,late,distance,delay"


def rows() -> list[str]:
    """20 events an hour, all of them within their ranges."""
    return [
        f"2024-01-01T{hour:02d}:{2 * i:02d}:00Z,e{hour}-{i},{('AA', 'UA')[i % 2]},"
        f"{7 * i % 120},{251 * i},{(7 * i + hour) % 120}"
        for hour in range(24)
        for i in range(20)
    ]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A config with events and a secret in a folder of its own."""
    (tmp_path / "secret.key").write_text("ab" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    write(tmp_path, rows())
    path = tmp_path / "flights.yaml"
    path.write_text(CONFIG)
    return path


def write(folder: Path, lines: list[str], header: str = HEADER) -> None:
    (folder / "flights.csv").write_text("\n".join([header, *lines]) + "\n")


def chosen(name: str) -> list[str]:
    """Options that choose a model, with what it cannot do without."""
    fields = [f"model.algorithm={name}"]
    if name == "erm.sampled":
        fields += ["model.block=20"]
    elif name.startswith("erm."):
        fields += ["model.block=3h", "expect={events: 10}"]
    elif name == "optimize.frank_wolfe":
        fields += ["model.block=3h", "expect={events: 10}", "model.set={l1_ball: 1}"]
    return [part for field in fields for part in ("--set", field)]


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_plan_says_what_is_learned_and_released(weir: Weir, job: Path) -> None:
    result = weir("plan", job, "--full")
    assert result.exit_code == 0, result.output
    text = words(result.stdout)
    for part in (
        "online.follow_the_leader: window follow-the-leader",
        "delay, with loss squared",
        "late, distance, and a constant",
        "l2 ball of radius 2, dimension 3",
        "a gradient of l2 norm at most 0.866, and a loss of at most 1",
        "noise of the gradient sum",
        "for each event of a tick beyond the first, public, around 0: it fades",
        "events a tick counted in private, for 0.02 of the squared budget",
        "regret grows as the root of T",
        "theta coefficients in scaled units",
        "coefficients in the columns' own units",
        "loss losses since the start",
        "one event (replace_one)",
        "> blt",
        "state per key",
        "values of late are moved into [-30, 120]",
        "The running loss is paid from the same budget: it takes 0.1",
        "number of events per key and tick is not covered by the guarantee",
    ):
        assert part in text, part


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_plan_of_every_model_as_json(weir: Weir, job: Path, name: str) -> None:
    result = weir("plan", job, "--json", *chosen(name))
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert facts["algorithm"] == name
    names = [release["name"] for release in facts["releases"]]
    assert names[:2] == ["theta", "coefficients"]
    assert facts["releases"][1]["labels"] == ["late", "distance", "intercept"]
    assert facts["guarantee"]["relation"] == "replace_one"
    assert "replace_one" in json.dumps(facts["canonical"])
    assert weir("plan", job, *chosen(name)).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "shown", "warned"),
    [
        ("{l1_ball: 5}", "l1 ball of radius 5", False),
        ("{box: [-1, 1]}", "box [-1, 1]", False),
        ("{polytope: {vertices: [[0, 0, 0], [1, 0, 0], [0, 1, 1]]}}", "of 3 vertices", False),
        ("{product: [{l1_ball: 1, size: 2}, {box: [-1, 1], size: 1}]}", "x box [-1, 1]", False),
        ("{trace_norm_ball: {radius: 2, shape: [3, 1]}}", "radius 2, 3 x 1 matrices", True),
    ],
)
def test_sets_in_words_and_what_linear_oracles_cost(
    weir: Weir, job: Path, spec: str, shown: str, warned: bool
) -> None:
    sets = ("model.algorithm=online.conditional_gradient", f"model.set={spec}")
    result = weir("plan", job, "--full", *(word for one in sets for word in ("--set", one)))
    assert result.exit_code == 0, result.output
    text = words(result.stdout)
    assert shown in text
    assert ("is not guaranteed" in text.partition("Warnings")[2]) == warned


@pytest.mark.slow
def test_a_loss_of_labels_is_explained(weir: Weir, job: Path) -> None:
    text = words(weir("plan", job, "--full", "--set", "model.loss=logistic").stdout)
    assert "60, the middle of its range, and above is +1" in text
    text = words(weir("plan", job, "--full", "--set", "model.clip={loss: 0}").stdout)
    assert "running loss" not in text and "since the start, and per tick" not in text


@pytest.mark.slow
def test_it_runs_and_sums_up(weir: Weir, job: Path) -> None:
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    found = result_rows(job.parent / "out")
    assert len(found) == 2 * 24 * 4
    assert {(row["name"], len(row["value"]), row["stddev"] is None) for row in found} == {
        ("theta", 3, True),
        ("last", 3, True),
        ("coefficients", 3, True),
        ("loss", 2, False),
    }
    text = words(result.stdout)
    for part in (
        "coefficients",
        "intercept",
        "per_tick",
        "480 events read",
        "per event, protection horizon",
    ):
        assert part in text, part


@pytest.mark.slow
def test_made_up_events_fit_a_model(weir: Weir, job: Path) -> None:
    fed = weir("feed", job, "--events", 300, "--to", job.parent / "flights.csv")
    assert fed.exit_code == 0, fed.output
    assert set((job.parent / "flights.csv").read_text().partition("\n")[0].split(",")) == {
        word.strip('"') for word in HEADER.split(",")
    }
    assert weir("run", job).exit_code == 0


def test_two_models_are_compared(weir: Weir, job: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(CONFIG.replace("epsilon: 1.0", "epsilon: 2.0") + "\n")
    result = weir("diff", job, other, "--json")
    facts = json.loads(result.stdout)
    assert [row["field"] for row in facts["fields"]] == ["privacy.epsilon"]
    first, second = (sums["gradient"] for sums in facts["sums"])
    assert 1.8 < first / second < 2.1
    text = words(weir("diff", job, other).stdout)
    assert "noise of the sum of gradients" in text and "(absent)" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sets", "field", "remedy"),
    [
        (["model.set={simplex: 0}"], "model.set.simplex", "above 0"),
        (["model.set={l3_ball: 1}"], "model.set.l3_ball", "l1_ball"),
        (["model.set={permutations: 4}"], "model.set.permutations", "3 coefficients"),
        (["model.set={polytope: {vertices: [[0, 1]]}}"], "model.set.polytope.vertices.0", "3"),
        (["model.set={product: [{l1_ball: 1, size: 2}]}"], "model.set.product", "3 coefficients"),
        (["model.set={trace_norm_ball: {radius: 1, shape: [2, 2]}}"], "model.set", "dimension"),
        (["model.loss=squarred"], "model.loss", "squared"),
        (["model.loss={quantile: 2}"], "model.loss.quantile", "(0, 1)"),
        (["model.algorithm=online.leader"], "model.algorithm", "did you mean"),
        (["model.ranges.delay=null"], "model.ranges.delay", "is missing"),
        (["privacy.delta=0", "mechanism.noise=gaussian"], "privacy.delta", "k_norm"),
        (["privacy.delta=0", "mechanism.continual_sum=blt"], "mechanism.continual_sum", "cannot"),
        (["model.algorithm=online.conditional_gradient", "model.set={l2_ball: 1}"],
         "model.algorithm", "follow_the_leader"),
        (["aggregates={n: {count: events}}"], "model", "keep one"),
        (["where=late > 'x'"], "where", "as a number"),
    ],
)  # fmt: skip
def test_refused_before_any_data_are_read(
    weir: Weir, job: Path, sets: list[str], field: str, remedy: str
) -> None:
    (job.parent / "flights.csv").unlink()
    for command in ("plan", "run"):
        result = weir(command, job, *(word for one in sets for word in ("--set", one)))
        assert result.exit_code == 2, result.output
        text = words(result.stderr)
        assert f"refused: {field}" in text and remedy in text, text


def test_a_missing_column_is_named(weir: Weir, job: Path) -> None:
    write(job.parent, rows(), HEADER.replace("distance", "miles"))
    result = weir("run", job)
    assert result.exit_code == 2
    assert "model.features = 'distance': is not a column of" in words(result.stderr)
    write(job.parent, rows(), HEADER.replace("delay", "minutes"))
    assert "model.target = 'delay'" in words(weir("run", job).stderr)


@pytest.mark.slow
def test_bad_values_are_moved_or_teach_nothing_and_are_counted(weir: Weir, job: Path) -> None:
    at = "2024-01-01T05:30:00Z"
    bad = [f"{at},x1,AA,nan,10,5", f"{at},x2,AA,,10,5", f"{at},x3,AA,1,inf,5"]
    moved = [f"{at},y1,UA,1,10,1e9", f"{at},y2,UA,-1e300,10,-1e9"]
    broken = [f"{at},z1,UA,word,10,1"]
    write(job.parent, rows() + bad + moved + broken)
    result = weir("run", job, "--json")
    assert result.exit_code == 0, result.output
    counts = json.loads(result.stdout)["operator"]
    assert counts["non_finite"] == 4 and counts["clipped"] == 3 and counts["not_a_number"] == 1
    first = [row["value"] for row in result_rows(job.parent / "out")]

    inside = [f"{at},y1,UA,1,10,180", f"{at},y2,UA,-30,10,-60"]
    write(job.parent, rows() + inside)
    assert weir("run", job, "--set", "sink.parquet=other").exit_code == 0
    assert [row["value"] for row in result_rows(job.parent / "other")] == first


@pytest.mark.slow
@pytest.mark.parametrize("lines", [[], rows()[7:8]], ids=["none", "one"])
@pytest.mark.parametrize("name", MODELS)
def test_no_event_or_one_releases_a_model_at_every_tick(
    weir: Weir, job: Path, lines: list[str], name: str
) -> None:
    write(job.parent, lines)
    result = weir("run", job, *chosen(name))
    assert result.exit_code == 0, result.output
    found = [row for row in result_rows(job.parent / "out") if row["name"] == "coefficients"]
    assert len(found) == 2 * 24


@pytest.mark.slow
def test_a_cap_is_counted(weir: Weir, job: Path) -> None:
    result = weir("run", job, "--json", "--set", "model.cap=4")
    assert json.loads(result.stdout)["operator"]["over_capacity"] == 24 * 2 * 6


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(weir: Weir, job: Path) -> None:
    assert weir("run", job, "--set", "sink={parquet: whole/, every: 6}").exit_code == 0
    whole = {path.name: path.read_bytes() for path in (job.parent / "whole").iterdir()}
    cut = job.parent / "cut"
    cut.mkdir()
    kept = sorted(whole)[:3]
    for name in {*kept, "_plan.json"} - {"_COMPLETE"}:
        (cut / name).write_bytes(whole[name])
    result = weir("run", job, "--set", "sink={parquet: cut/, every: 6}")
    assert result.exit_code == 0, result.output
    assert "Went on from" in result.stdout
    assert {path.name: path.read_bytes() for path in cut.iterdir()} == whole
