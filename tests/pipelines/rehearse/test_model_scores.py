"""What models keep of the loss that they could explain: by hand, of every kind of target."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri

from tests.pipelines.conftest import Weir
from weir.dpcore.leaves.sparse_rows import MOST_DENSE, SparseRows
from weir.dpcore.models.blocks.objective import Softmax
from weir.dpcore.models.kit.loss import Absolute, Hinge, Huber, Logistic, PinballLoss, Squared
from weir.pipelines.config.job import loads
from weir.pipelines.feed import synthetic
from weir.pipelines.feed.synthetic import Shares, batches, targets, uniforms
from weir.pipelines.rehearse import model_scores
from weir.pipelines.rehearse.model_scores import NO_MODEL, ModelScore, TargetLoss
from weir.pipelines.rehearse.rehearse import Rehearsal, rehearse
from weir.pipelines.results.events import without_numbers
from weir.pipelines.show.rehearsal import explained
from weir.pipelines.terminal import console

CONFIG = """\
name: rides
source: {csv: private.csv}
schema: {time: at, id: id}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T20:00:00Z}
privacy: {epsilon: EPSILON, delta: 1e-6, protect_for: all}
model:
  algorithm: NAME
  features: [a, b]
  target: y
"""
NUMBERS = "  ranges: {a: [0, 10], b: [-1, 1], y: [0, 50]}\n"
LABELS = "  ranges: {a: [0, 10], b: [-1, 1]}\n"


@pytest.fixture(autouse=True)
def unadvised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.pipelines.rehearse.rehearse.advised", lambda *_: ())


def events(n: int = 400) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(2)
    a, b = np.round(rng.uniform(0, 10, n), 3), np.round(rng.uniform(-1, 1, n), 3)
    return a, b, np.round(10 + 2 * a + 8 * b + rng.normal(0, 4, n), 3)


def dry_run(
    folder: Path, name: str, more: str, y: Any = None, epsilon: float = 5, n: int = 400
) -> Rehearsal:
    a, b, own = events(n)
    rows = zip(a, b, own if y is None else y, strict=True)
    lines = [
        f"2024-01-01T{i // 20:02d}:00:00Z,{i},{','.join(map(str, row))}"
        for i, row in enumerate(rows)
    ]
    (folder / "public.csv").write_text("\n".join(["at,id,a,b,y", *lines]) + "\n")
    text = CONFIG.replace("NAME", name).replace("EPSILON", str(epsilon)) + more
    return rehearse(loads(text, folder=folder), folder / "out", on=str(folder / "public.csv"))


def test_losses_and_shares_are_those_of_the_events(tmp_path: Path) -> None:
    found = dry_run(tmp_path, "regression.incremental", NUMBERS, epsilon=1e6)
    (score,) = found.models
    a, b, y = events()
    scaled = np.clip(y / 25 - 1, -1, 1)
    assert (y > 50).any() or (y < 0).any()  # beyond the range
    points = np.stack([a / 5 - 1, b, np.ones(len(a))], axis=1)
    best = np.linalg.lstsq(points, scaled, rcond=None)[0]
    least = float(np.mean((scaled - points @ best) ** 2)) / 2
    assert (score.target, score.loss, score.events, score.keys) == ("y", "squared", 400, 1)
    assert score.constant == pytest.approx(scaled.var() / 2, rel=1e-6)
    assert score.best == pytest.approx(least, rel=1e-6) and score.best <= score.quiet
    assert score.model == pytest.approx(least, rel=1e-2)  # next to no noise, of the same regression
    assert score.share == pytest.approx(1, abs=0.02) and score.quiet_share <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more", "loss"),
    [
        ("online.follow_the_leader", "  loss: {quantile: 0.5}\n" + NUMBERS, "quantile 0.5"),
        ("regression.erm", "  solver: steps\n" + NUMBERS, "squared"),
        ("erm.output_perturbation", "  block: 400\n" + NUMBERS, "huber"),
        ("erm.output_perturbation", "  block: 400\n  classes: [no, yes]\n" + LABELS, "logistic"),
        ("erm.output_perturbation", "  block: 400\n  classes: [0, 1, 2]\n" + LABELS, "softmax"),
        ("erm.output_perturbation",
         "  block: 400\n  classes: [no, yes]\n  loss: hinge\n" + LABELS, "hinge"),
        ("optimize.phased_sgd", "  records: 256\n  loss: logistic\n" + NUMBERS, "logistic"),
        ("optimize.frank_wolfe", "  block: 400\n  set: {l1_ball: 2}\n" + NUMBERS, "squared"),
    ],
)  # fmt: skip
def test_models_of_every_family_lie_between_the_best_and_what_noise_makes_of_them(
    tmp_path: Path, name: str, more: str, loss: str
) -> None:
    _, _, y = events()
    if "[no, yes]" in more:
        y = np.where(y > 20, "yes", "no")
    elif "classes" in more:
        y = np.digitize(y, [15, 25])
    found = dry_run(tmp_path, name, more, y, epsilon=50)
    (score,) = found.models
    assert score.loss == loss and score.events == 400
    assert score.best < score.constant and score.best <= score.quiet + 1e-12
    assert 0.1 < score.share <= 1.001 and 0.2 < score.quiet_share <= 1
    assert found.to_json()["models"][0]["share"] == score.share


def test_the_least_loss_is_that_of_brute_force() -> None:
    y = np.array([-0.5, -0.1, 0.3, 0.9])
    labels = np.array([-1.0, 1.0, 1.0, 1.0])
    ones, grid = np.ones((4, 1)), np.linspace(-3, 3, 60_001)
    own: Any = None
    for loss, at in (
        (Absolute(), y),
        (PinballLoss(0.8), y),
        (Logistic(), labels),
        (Hinge(), labels),
    ):
        brute = min(np.mean([loss.value(grid, np.full_like(grid, t)) for t in at], axis=0))
        found = TargetLoss(own, "y", loss).least(ones, at)
        assert found == pytest.approx(float(brute), rel=2e-3)


@pytest.mark.parametrize(
    "loss", [Squared(), Huber(0.5), Absolute(), PinballLoss(0.8), Logistic(), Hinge(), Softmax(3)]
)
def test_the_constant_is_the_best_of_all(loss: Any) -> None:
    rng, own = np.random.default_rng(4), None
    y = rng.beta(2, 5, 301)
    if isinstance(loss, Softmax):
        y = np.floor(3 * y)
    elif loss.labels:
        y = np.where(y > 0.4, 1.0, -1.0)
    measure: Any = TargetLoss(own, "y", loss)  # type: ignore[arg-type]
    least = measure.least(np.ones((len(y), 1)), y)
    assert measure.constant(y) == pytest.approx(least, rel=1e-3)
    assert measure.constant(y) <= least + 1e-9
    if isinstance(loss, (Softmax, Logistic)):
        assert measure.constant(np.ones(5)) == 0


def test_targets_are_clipped_to_their_range() -> None:
    text = CONFIG.replace("NAME", "regression.incremental").replace("EPSILON", "1") + NUMBERS
    model = loads(text, folder=Path()).model
    assert model is not None
    found = TargetLoss.of(model, "y").actual(
        pa.chunked_array([[-1e9, 0.0, 25.0, None, 50.0, 80.0]])
    )
    np.testing.assert_array_equal(found, [-1, -1, 0, np.nan, 1, 1])


def test_models_of_the_last_ticks_are_held_to_events_of_those(tmp_path: Path) -> None:
    more = "  over: 5\n" + NUMBERS
    (score,) = dry_run(tmp_path, "regression.incremental", more, n=360).models
    assert score.events == 60  # the last tick is the 20th, events end with the 18th
    y = np.clip(events(360)[2][300:] / 25 - 1, -1, 1)
    assert score.constant == pytest.approx(y.var() / 2, rel=1e-9)
    (tmp_path / "early").mkdir()
    found = dry_run(tmp_path / "early", "regression.incremental", more, n=120)
    assert found.models == ()
    assert "events with all its columns in the last 5 ticks" in found.result.notes[-1]


def test_no_model_yet_is_a_sentence(tmp_path: Path) -> None:
    found = dry_run(tmp_path, "erm.output_perturbation", "  block: 1000\n" + NUMBERS)
    assert found.models == () and NO_MODEL in found.to_json()["notes"]


TWO = CONFIG.replace("  features: [a, b]\n  target: y\n", "  features: [a]\n  target: [y, z]\n")
TWO += "  ranges: {a: [0, 10], y: [0, 50], z: [-1, 1]}\nkey: {column: k, declared: [p, q, r]}\n"


def two_targets(folder: Path) -> tuple[Rehearsal, Any, Any, Any]:
    a, z, y = events()
    k = np.array(["p"] * 200 + ["q"] * 150 + ["r"] * 50)[np.random.default_rng(1).permutation(400)]
    lines = [
        f"2024-01-01T{i // 20:02d}:00:00Z,{i},{k[i]},{a[i]},{y[i]},{z[i]}" for i in range(len(a))
    ]
    (folder / "public.csv").write_text("\n".join(["at,id,k,a,y,z", *lines]) + "\n")
    text = TWO.replace("NAME", "regression.incremental").replace("EPSILON", "100")
    job = loads(text, folder=folder)
    return rehearse(job, folder / "out", on=str(folder / "public.csv")), k, y, z


def test_two_targets_of_several_keys(tmp_path: Path) -> None:
    found, k, y, z = two_targets(tmp_path)
    assert [score.target for score in found.models] == ["y", "z"]
    for score, scaled in zip(found.models, (np.clip(y / 25 - 1, -1, 1), z), strict=True):
        constant = sum(scaled[k == key].var() / 2 * (k == key).sum() for key in "pqr") / len(k)
        assert (score.events, score.keys) == (400, 3)
        assert score.constant == pytest.approx(constant, rel=1e-9)
        assert score.best <= score.quiet + 1e-12 and score.best < score.constant
    assert found.models[0].share > 0.5


def test_of_many_keys_those_with_most_events_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_scores, "MOST_KEYS", 2)
    found, *_ = two_targets(tmp_path)
    assert [(score.keys, score.events) for score in found.models] == [(2, 350)] * 2
    assert "Of the models of 3 keys, those of the 2 keys with most events" in found.result.notes[-1]


LISTED = CONFIG.replace("csv: private.csv", "ndjson: private.ndjson")
LISTED = LISTED.replace("[a, b]", "{column: x, size: SIZE}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "more"),
    [
        ("regression.incremental", 4, ""),
        ("optimize.frank_wolfe", MOST_DENSE + 4, "  set: {l1_ball: 1}\n  block: 1500\n"),
    ],
)
def test_lists_are_expanded_for_the_events_that_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int, more: str
) -> None:
    rng, n = np.random.default_rng(6), 1600
    x = np.where(rng.random((n, 4)) < 0.5, 0.0, np.round(rng.uniform(-1, 1, (n, 4)), 3))
    y = np.round(x @ [1.0, -0.5, 0.5, 0.2] / 2, 4)
    rows = [
        {"at": f"2024-01-01T{i // 80:02d}:00:00Z", "id": str(i), "y": y[i],
         "x": None if i == 7 else {str(j): x[i, j] for j in range(4) if x[i, j]}}
        for i in range(n)
    ]  # fmt: skip
    (tmp_path / "public.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = LISTED.replace("NAME", name).replace("EPSILON", "1000").replace("SIZE", str(size))
    job = loads(text + more + "  ranges: {x: [-1, 1], y: [-1, 1]}\n", folder=tmp_path)
    monkeypatch.setattr(model_scores, "MOST_NUMBERS", 1200 * 5)
    expanded: list[int] = []
    own, dense = model_scores.model_scores, SparseRows.dense

    def counted(rows: SparseRows) -> Any:
        expanded.append(len(rows))
        return dense(rows)

    def looked_at(*args: Any) -> Any:
        with monkeypatch.context() as within:
            within.setattr(SparseRows, "dense", counted)
            return own(*args)

    monkeypatch.setattr("weir.pipelines.rehearse.rehearse.model_scores", looked_at)
    (score,) = rehearse(job, tmp_path / "out", on=str(tmp_path / "public.ndjson")).models
    wide = size > MOST_DENSE
    assert expanded == ([] if wide else [1200])
    assert score.events == (1000 if wide else 1200)
    assert score.best < score.constant and score.share > 0.5


def test_events_that_lack_a_number_of_a_list() -> None:
    table = np.array([[0, 0, 0], [1, np.nan, 0], [0, 0, 0], [2, 3, 4], [np.inf, 0, np.nan]])
    found = without_numbers(
        {"x": SparseRows.from_dense(table), "a": np.array([0, 0, np.nan, 0, 0])}
    )
    assert found.tolist() == [False, True, True, False, True]


def test_a_share_is_none_where_nothing_can_be_explained() -> None:
    score = ModelScore("y", "squared", 9, 1, 0.5, 0.6, 0.5, 0.5)
    assert math.isnan(score.share) and score.to_json()["share"] is None
    poor = ModelScore("y", "squared", 9, 1, 0.5, 0.49, 0.3, 0.25)
    assert poor.share == pytest.approx(0.04) and poor.quiet_share == pytest.approx(0.8)
    out = console()
    with out.capture() as shown:
        out.print(explained((score, poor)))
    text = shown.get()
    assert text.count("a constant would do as well") == 2  # the first lost to it
    assert " ".join(text.split()).count("share without noise") == 1


def test_targets_of_synthetic_events_follow_their_features() -> None:
    text = CONFIG.replace("NAME", "regression.incremental").replace("EPSILON", "1") + NUMBERS
    model, rows = loads(text, folder=Path()).model, np.arange(20_000, dtype=np.uint64)
    assert model is not None
    u = targets(model, 3, rows)["y"]
    assert abs(np.mean(u) - 0.5) < 0.01 and abs(np.var(u) - 1 / 12) < 0.005  # as uniform as all
    features = np.stack([ndtri(uniforms(3, name, rows)) for name in "ab"])
    correlations = [np.corrcoef(ndtri(u), item)[0, 1] for item in features]
    assert np.allclose(correlations, [0.5, -0.5], atol=0.02)  # half of the variance together


def test_synthetic_columns_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def counted(seed: int, column: str, rows: Any) -> Any:
        drawn.append(column)
        return uniforms(seed, column, rows)

    text = CONFIG.replace("NAME", "erm.output_perturbation").replace("EPSILON", "1") + LABELS
    job = loads(text + "  classes: [no, yes]\n  block: 400\n", folder=Path())
    (plain,) = batches(job, 50, 3, Shares())
    monkeypatch.setattr(synthetic, "uniforms", counted)
    (again,) = batches(job, 50, 3, Shares())
    assert drawn.count("y") == 1 and again.equals(plain)


def test_the_command_shows_what_models_keep(weir: Weir, tmp_path: Path) -> None:
    text = CONFIG.replace("NAME", "regression.incremental").replace("EPSILON", "1") + NUMBERS
    (tmp_path / "rides.yaml").write_text(text)
    found = weir("rehearse", tmp_path / "rides.yaml", "--events", 500, "--json")
    (score,) = json.loads(found.stdout)["models"]
    assert score["events"] == 500 and 0.3 < 1 - score["best"] / score["constant"] < 0.6
    assert score["best"] <= score["quiet"] and score["share"] <= 1.001
