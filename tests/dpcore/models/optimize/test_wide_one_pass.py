"""One-pass models of sparse rows: what tables of the same rows give, within their bounds."""

from __future__ import annotations

import math
import tracemalloc
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.dpcore.models.optimize.arrays import fit
from tests.dpcore.models.optimize.instances import noise_of, read
from tests.dpcore.models.optimize.script import Script
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.kit.rows import STEP, Scaling, norms, shortened, shortened_sparse
from weir.dpcore.models.optimize import glm as points
from weir.dpcore.models.optimize import glm as walk
from weir.dpcore.models.optimize import phased_erm
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.models.optimize.vertices import MANY, VertexChoice
from weir.dpcore.noise.noise import label
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

P = 4200
START, HOUR = 1_704_067_200_000_000, 3_600_000_000
CONFIG = """
name: wide
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T06:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: all, relation: replace_one}}
model:
  algorithm: optimize.{algorithm}
  features: {{column: x, size: {size}, most: {most}}}
  target: y
  loss: {loss}
  records: {records}
  ranges: {{x: [-2, 2], y: [-1, 1]}}
  {more}
"""
CASES: dict[str, tuple[str, str]] = {
    "gaussian": ("sfw_tree", "noise: gaussian"),
    "generalised": (
        "sfw_tree",
        "set: {lp_ball: {radius: 2, p: 1.5}}\n  noise: generalised_gaussian",
    ),
    "discrete": ("sfw_tree", "set: {lp_ball: {radius: 2, p: 1.2}}\n  noise: discrete_gaussian"),
    "tree": ("sfw_polyhedral", "form: tree"),
    "simplex": ("sfw_polyhedral", "set: {simplex: 1}"),
    "one_sample": ("sfw_polyhedral", "form: one_sample"),
    "halving": ("phased_sgd", "form: halving"),
    "box": ("phased_sgd", "form: halving\n  set: {box: [-0.3, 0.7]}"),
    "learned": ("phased_sgd", "form: learned"),
    "erm": ("phased_sgd", "form: erm\n  passes: 1"),
    "erm, box": ("phased_sgd", "form: erm\n  passes: 1\n  set: {box: [-0.3, 0.7]}"),
}
"""Name -> algorithm, and what makes it that one."""


@cache
def plan(
    case: str,
    size: int = P,
    records: int = 32,
    loss: str = "squared",
    epsilon: float = 2.0,
    delta: float = 1e-5,
    most: int = 40,
    more: str = "",
) -> Plan:
    algorithm, own = CASES[case]
    return Plan.from_yaml(
        CONFIG.format(
            algorithm=algorithm,
            size=size,
            records=records,
            loss=loss,
            epsilon=epsilon,
            delta=delta,
            most=most,
            more="\n  ".join([own, *([more] if more else [])]),
        )
    )


def program(case: str, **settings: Any) -> Any:
    found = plan(case, **settings).program
    assert isinstance(found, OnePass) and found.inputs.sparse
    return found


def lists(n: int, size: int = P, seed: int = 0, filled: int = 12) -> SparseRows:
    """Rows of a few numbers, some outside of the range, some all zero, some not finite."""
    rng = np.random.default_rng(seed)
    drawn = [np.sort(rng.choice(size, filled, replace=False)) for _ in range(n)]
    at = np.array(drawn).reshape(n, filled)
    value = rng.choice([-3.0, -1.0, 0.5, 2.0], (n, filled))
    value[rng.random((n, filled)) < 0.02] = np.nan
    lengths = np.where(rng.random(n) < 0.1, 0, filled)
    keep = np.arange(filled) < lengths[:, None]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return SparseRows(offsets, at[keep].astype(np.int32), value[keep], size)


def rows_for(made: Any, n: int, seed: int = 0) -> SparseRows:
    rng = np.random.default_rng(seed + 100)
    size = made.inputs.size
    given = {"x": lists(n, size, seed), "y": rng.uniform(-1.3, 1.3, n)}
    found: SparseRows = made.bound(given, n).rows
    return found


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over the rows of a table go from the first number to the last, as those of sparse rows
    do."""

    def row_dot(left: Any, right: Any) -> Any:
        return np.add.accumulate(left * right, axis=1)[:, -1]

    monkeypatch.setattr(points, "row_dot", row_dot)
    for module in (walk, phased_erm):
        monkeypatch.setattr(module, "inner", points.dot)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "absolute"])
@pytest.mark.parametrize("case", CASES)
def test_sparse_rows_give_the_bits_of_a_table_of_them(case: str, loss: str, in_order: None) -> None:
    if (case == "learned" and loss != "squared") or ("erm" in case and loss == "logistic"):
        loss = "{huber: 0.3}"
    made = program(case, loss=loss)
    rows = rows_for(made, 240 if case != "one_sample" else 110)
    assert np.isnan(rows.last).any() and (rows.lengths <= 1).any()
    found, own = read(made, rows, None, (1, 17, 33, 90))
    table = rows.dense()
    want, other = read(made, table)
    assert [one.run for one in found] == [one.run for one in want] and len(found) >= 1
    for one, two in zip(found, want, strict=True):
        assert one.model.tobytes() == two.model.tobytes()
        assert one.model.any()
    assert all(np.array_equal(own[name], other[name]) for name in own)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_in_pieces_are_rows_at_once(case: str) -> None:
    made = program(case)
    rows = rows_for(made, 100)
    whole, state = read(made, rows)
    for cuts in ((1, 2, 3, 50, 51, 74), tuple(range(100)), (31, 32, 33, 60)):
        found, own = read(made, rows, None, cuts)
        assert [one.model.tobytes() for one in found] == [one.model.tobytes() for one in whole]
        assert all(own[name].tobytes() == state[name].tobytes() for name in own)


@pytest.mark.slow
@pytest.mark.parametrize("q", [1.5, 2.0, 3.0, 21.0, math.inf])
def test_rows_are_cut_to_the_dual_norm_as_those_of_a_table(q: float) -> None:
    made = program("gaussian")
    n, rng = 300, np.random.default_rng(1)
    given = lists(n)
    given = SparseRows(given.offsets, given.indices, np.nan_to_num(given.values), P)
    scaled = np.clip(given.dense() / 2, -1, 1)
    for bound in (1.0, 0.37, 5.0):
        flat = np.clip(given.values / 2, -1, 1)
        found, longer = shortened_sparse(flat, given.rows, n, bound, q)
        want, told = shortened(scaled, q, bound)
        out = SparseRows(given.offsets, given.indices, found, P).dense()
        np.testing.assert_array_equal(out, want)
        assert longer == told and norms(out, q).max() <= bound
        assert (found / STEP == np.rint(found / STEP)).all()
    # A record by itself: others next to it change nothing.
    some = rng.permutation(n)[:20]
    columns = {"x": lists(n), "y": np.full(n, 0.5)}
    rows = made.bound(columns, n).rows
    alone = made.bound({"x": lists(n)[some], "y": np.full(20, 0.5)}, 20).rows
    np.testing.assert_array_equal(rows.digests()[some], alone.digests())


def test_features_keep_the_norm_that_is_paid_for() -> None:
    for case, q in (("tree", math.inf), ("gaussian", 2.0), ("generalised", 3.0), ("box", 2.0)):
        made = program(case, more="clip: {features: 0.6}")
        assert made.inputs.dual == q and made.inputs.norm == 0.6
        rows = rows_for(made, 200)
        features = rows.features.dense()
        assert norms(features, q).max() <= 0.6
        assert (rows.features.lengths <= 40).all()
        glm = made.course.runs[0].glm
        sparse_points, targets, void = glm.split(rows)
        w = np.random.default_rng(3).standard_normal(P + 1)
        for before in (None, -w):
            bound = glm.lipschitz if before is None else 1e-3
            found = glm.gradients(sparse_points, targets, void, w, before, bound)
            assert norms(found, q).max() <= bound and not found[void].any()


def events(n: int, seed: int = 0, dense: bool = False) -> Events:
    rng = np.random.default_rng(seed)
    x = lists(n, seed=seed)
    columns = {"x": x.dense() if dense else x, "y": rng.uniform(-1, 1, n)}
    times = START + np.arange(n) * (6 * HOUR // max(n, 1))
    return Events(times, None, columns, [f"e{i}" for i in range(n)])


def released(made: Plan, given: Events) -> dict[str, Any]:
    (found,) = simulate(made, given, bytes(32))
    return {one.name: one.value[:, 0] for one in found.released}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_stream_of_lists_is_that_of_a_table(case: str) -> None:
    made = plan(case)
    one, two = (released(made, events(130, dense=dense)) for dense in (False, True))
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)
    told = np.isfinite(one["theta"][:, 0])
    assert 0 < told.sum() < len(told) and one["theta"][told].any()
    course: Any = made.program.course  # type: ignore[attr-defined]
    assert course.set.contains(one["theta"][told], 1e-6).all()
    np.testing.assert_array_equal(one["coefficients"][told, :P], one["theta"][told, :P] / 2)
    infos = {info.name: info for info in made.program.describe(np.arange(6))}
    assert infos["theta"].sparse == course.set.sparse == ("form" in CASES[case][1] and
        case in ("tree", "one_sample") or case == "simplex")  # fmt: skip
    assert infos["theta"].labels[17] == "x[17]" and infos["coefficients"].dimension == P + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all zero", "one each", "ends", "void"])
@pytest.mark.parametrize("case", CASES)
def test_odd_rows(case: str, kind: str) -> None:
    n, table = 110, np.zeros((110, P))
    if kind == "one each":
        table[np.arange(n), np.arange(n) * 7] = 1.5
    elif kind == "ends":
        table[:, 0], table[:, -1] = -5.0, 1e300
    elif kind == "void":
        table[:, 3] = np.inf
    times, y = START + np.arange(n) * (6 * HOUR // n), np.tile([-1.0, 1.0], n // 2)
    ids = [f"e{i}" for i in range(n)]
    given = Events(times, None, {"x": SparseRows.from_dense(table), "y": y}, ids)
    theta = released(plan(case), given)["theta"][-1]
    assert np.isfinite(theta).all()
    few = released(plan(case), events(10))
    assert all(np.isnan(values).all() for values in few.values()), "fewer than a run"
    none = released(plan(case), events(0))
    assert all(np.isnan(values).all() for values in none.values())


@pytest.mark.slow
@pytest.mark.parametrize("case", ["tree", "gaussian", "halving", "learned"])
def test_no_table_of_the_rows_is_made(case: str) -> None:
    """3,000 rows of 100,000 numbers would be 2.4 GB; what is made is vectors of so many."""
    size = 100_000
    made = program(case, size=size, records=1000)
    rows = rows_for(made, 3000)
    own = {name: array[0] for name, array in made.course.init(1)._asdict().items()}
    from weir.dpcore.models.optimize.course import Drawn

    tracemalloc.start()
    try:
        made.course.read(own, rows, 0, Drawn(noise_of(), np.zeros(2, dtype=np.uint64)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 8 * size, f"{peak / (8 * size):.0f} vectors"
    assert made.state_bytes() < 26 * 8 * size


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_arrays_and_sparse_matrices_give_the_same_model(case: str) -> None:
    made = program(case)
    x, y = np.nan_to_num(lists(70).dense()) / 2, np.random.default_rng(1).uniform(-1, 1, 70)
    x[5, 7] = np.nan
    one, two = (
        fit(made.course, form, y, made.inputs.norm, made.inputs.dual, bytes(32))
        for form in (x, sparse.coo_array(x))
    )
    assert one.coef.tobytes() == two.coef.tobytes() and one.coef.any()
    x[6, 8] = 0.25
    other = fit(made.course, x, y, made.inputs.norm, made.inputs.dual, bytes(32))
    assert other.coef.tobytes() != one.coef.tobytes()
    with pytest.raises(ConfigError, match=f"{P}"):
        fit(
            made.course,
            sparse.csr_array(x[:, 1:]),
            y,
            made.inputs.norm,
            made.inputs.dual,
            bytes(32),
        )


def neighbours(made: Any, n: int, script: Script) -> list[list[np.ndarray]]:
    """What releases are made of: of rows, then of the same with one of them replaced."""
    rows, rng = rows_for(made, n, 5), np.random.default_rng(6)
    pulls = made.bound(
        {"x": SparseRows.from_dense(rng.choice([-2.0, 2.0], (3, P))), "y": [1.0, -1.0, np.nan]}, 3
    ).rows
    script.start()
    read(made, rows)
    for place in range(0, n, 9):
        for k in range(3):
            changed = SparseRows.concatenate([rows[:place], pulls[k : k + 1], rows[place + 1 :]])
            script.start()
            read(made, changed)
    return script.seen


@pytest.mark.slow
@pytest.mark.parametrize("case", ["gaussian", "generalised", "halving", "box", "learned", "erm"])
def test_a_sparse_record_moves_one_release_by_its_sensitivity_at_most(
    script: Script, case: str
) -> None:
    made = program(case)
    whole, *changed = neighbours(made, 100, script)
    most = 0.0
    for one in changed:
        moves = [b - a for a, b in zip(whole, one, strict=True)]
        moved = [i for i, move in enumerate(moves) if move.any()]
        assert len(moved) <= 1
        for i in moved:
            own, move = script.scales[i], moves[i].astype(float)
            if case in ("gaussian", "generalised"):
                share = float(norms(move[None], own.dual)[0]) / own.sensitivity
            else:
                share = float(np.linalg.norm(move)) / own.noise.moved
            most = max(most, share)
    least = 1e-3 if case == "box" else 0.05  # in a box of so many sides no row is near the worst
    assert least < most <= 1


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("case", ["tree", "simplex", "one_sample"])
def test_sparse_records_move_scores_by_what_is_paid_for(
    script: Script, case: str, delta: float
) -> None:
    made = program(case, delta=delta)
    whole, *changed = neighbours(made, 60 if case == "one_sample" else 100, script)
    worst = 0.0
    for one in changed:
        spent = 0.0
        for a, b, scale in zip(whole, one, script.scales, strict=True):
            ratio = float(np.ptp(b - a)) / scale
            spent += ratio * ratio / 8 if delta else ratio
        worst = max(worst, spent)
    assert 0.01 * made.loss(None).value < worst <= made.loss(None).value


@pytest.mark.slow
def test_without_noise_a_wide_model_learns() -> None:
    """Three of 4,200 features make the target; records enough, hardly any noise."""
    n, rng = 8_000, np.random.default_rng(2)
    dense = np.zeros((n, 3))
    dense[:] = rng.choice([-2.0, 2.0], (n, 3))
    offsets = np.arange(n + 1) * 4
    places = np.concatenate(
        [np.tile([1, 50, 4000], (n, 1)), rng.integers(4001, P, (n, 1))], axis=1
    ).astype(np.int32)
    values = np.concatenate([dense, rng.choice([-2.0, 2.0], (n, 1))], axis=1)
    x = SparseRows(offsets, places.ravel(), values.ravel(), P)
    y = dense @ [0.2, -0.15, 0.1]
    for case in ("tree", "halving", "learned"):
        made = program(case, records=n, epsilon=1e4, delta=1e-9, more="intercept: false")
        rows = made.bound({"x": x, "y": y}, n).rows
        (found,), _ = read(made, rows)
        apart = rows.features.csr @ found.model - y
        assert np.mean(apart**2) < 0.25 * np.mean(y**2), case
        assert set(np.argsort(-np.abs(found.model))[:3].tolist()) == {1, 50, 4000}, case


def test_many_vertices_are_chosen_among_by_few_logarithms() -> None:
    made = program("tree")
    vertices: VertexChoice = made.course.vertices
    assert vertices.count >= MANY
    gradient = np.random.default_rng(0).standard_normal(P + 1)
    digest = np.array([3, 4], dtype=np.uint64)
    for k in range(20):
        labels = label(1, k)
        one = vertices.chosen(gradient, 0.7, 1.0, noise_of(), labels, digest)
        gumbel = vertices.draw(noise_of(), labels, digest)[0]
        assert one.tobytes() == vertices.choose(gradient, 0.7, 1.0, gumbel).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("case", ["gaussian", "tree", "halving"])
@pytest.mark.parametrize("wide", [True, False])
def test_predictions_are_of_rows_as_they_were_learned_from(
    case: str, loss: str, wide: bool
) -> None:
    """Moved into their ranges and shortened: longer rows than the clip, and rows that are void."""
    rng, n = np.random.default_rng(4), 60
    text = CONFIG.format(
        algorithm=CASES[case][0], size=P, records=32, loss=loss, epsilon=2.0, delta=1e-5, most=40,
        more="clip: {features: 0.7}\n  " + CASES[case][1],
    )  # fmt: skip
    given: Any = {"x": lists(n)}
    if not wide:
        text = text.replace(f"{{column: x, size: {P}, most: 40}}", "[a, b]")
        text = text.replace("x: [-2, 2]", "a: [0, 10], b: [-1, 5]")
        given = {"a": rng.uniform(-1, 12, n), "b": rng.uniform(-2, 6, n)}
        given["a"][3], given["b"][4] = np.nan, np.inf
    made = Plan.from_yaml(text)
    program: Any = made.program
    bounded = program.bound({**given, "y": np.zeros(n)}, n).rows
    rows = bounded.csr[:, :-1].toarray() if wide else bounded[:, :-1]
    void = np.isnan(bounded.last if wide else bounded[:, -1])
    assert void.any() and np.abs(rows).max() <= 0.7
    theta = rng.normal(size=rows.shape[1] + 1)
    model = program.inputs.coefficients(theta, True, loss != "squared")
    found = made.config.model.predict(given, model).columns
    score = rows @ theta[:-1] + theta[-1]
    if loss == "squared":
        np.testing.assert_allclose(found["predicted.y"][~void], score[~void], atol=1e-6)
    else:
        assert (found["predicted.y"][~void] == np.where(score[~void] >= 0, 1, -1)).all()
    assert all(np.isnan(values[void]).all() for values in found.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "settings", "field", "words"),
    [
        ("halving", {"more": "set: {l1_ball: 1}"}, "model.set", "optimize.sfw_polyhedral"),
        ("learned", {"more": "set: {lp_ball: {radius: 1, p: 3}}"}, "model.set", "l2_ball"),
        ("erm", {"more": "passes: 8"}, "model.passes", "keep the rows"),
        ("gaussian", {"more": "ranges: {x: [0, 2], y: [-1, 1]}"}, "model.ranges.x", "middle"),
        ("tree", {"more": "set: {l2_ball: 1}"}, "model.set", "l1_ball"),
        ("gaussian", {"delta": 0.0}, "privacy.delta", "sfw_polyhedral"),
        ("gaussian", {"size": 1 << 20, "more": "phases: 10"}, "model.records", "phases"),
        ("tree", {"most": 5000}, "model.features.most", "size"),
    ],
)
def test_what_cannot_be_served_is_refused(case: str, settings: Any, field: str, words: str) -> None:
    more = settings.get("more", "")
    algorithm, own = CASES[case]
    text = CONFIG.format(
        algorithm=algorithm,
        size=settings.get("size", P),
        records=32,
        loss="squared",
        epsilon=2.0,
        delta=settings.get("delta", 1e-5),
        most=settings.get("most", 40),
        more=own,
    )
    key = more.partition(":")[0]
    lines = [line for line in text.splitlines() if not key or not line.startswith(f"  {key}:")]
    with pytest.raises(ConfigError) as caught:
        Plan.from_yaml("\n".join([*lines, f"  {more}" if more else ""]))
    assert caught.value.field == field and words in caught.value.remedy


def test_pure_epsilon_is_served_where_vertices_are_chosen() -> None:
    for case in ("tree", "one_sample"):
        made = plan(case, delta=0.0)
        assert made.program.loss(None).kind == "pure"
        assert np.isfinite(released(made, events(40))["theta"][-1]).all()


def test_the_scaling_of_the_target_is_all_that_a_wide_program_has() -> None:
    made = program("tree")
    assert made.inputs.scaling == Scaling(("y",), (-1.0,), (1.0,))
    assert made.columns == ("x", "y") and made.lists == {"x": P}
    told = made.canonical()
    assert "scaling" not in told and told["inputs"]["dual"] == math.inf.hex()
