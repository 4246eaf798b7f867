"""Trees of projected, capped steps: the path that clips rest on, what a record moves, what is
learned."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import Lattice
from weir.dpcore.models.optimize.sfw import Sfw, TreeRun
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

pytestmark = pytest.mark.slow  # a plan takes a second

START = 1_704_067_200_000_000
CONFIG = """
name: capped
schema: {time: t, id: i}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T01:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
model:
  algorithm: optimize.NAME
  features: [a, b, c]
  target: y
  ranges: {a: [-1, 1], b: [-1, 1], c: [-1, 1], y: [-1, 1]}
  records: 8192
"""


SETS = {
    "l2_ball": ("sfw_tree", ""),
    "l1_ball": ("sfw_polyhedral", ""),
    "simplex": ("sfw_polyhedral", "  set: {simplex: 1}\n"),
}


@cache
def plan(more: str = "", name: str = "sfw_tree") -> Plan:
    return Plan.from_yaml(CONFIG.replace("NAME", name) + more)


def course(more: str = "", name: str = "sfw_tree") -> Sfw:
    built = plan(more, name).program.course  # type: ignore[attr-defined]
    assert isinstance(built, Sfw)
    return built


def longest(sfw: Sfw, run: TreeRun, gradients: Any) -> float:
    """Longest way from a node's point to its right child's, over what the clip there allows."""
    x = sfw.set.start()
    points, worst = [x] * (run.phases + 1), 0.0
    for index, stage in enumerate(run.stages):
        if stage.depth:
            way = float(np.linalg.norm(x - points[stage.depth - 1]))
            worst = max(worst, way * run.glm.smoothness / run.clip(stage.depth))
        for deeper in range(stage.depth, run.phases + 1):
            points[deeper] = x
        x = run.stepped(sfw.set, x[None], gradients(index, x)[None], stage.step)[0]
    return worst


class Uncapped(TreeRun):
    """A mutant whose steps are as long as those of Frank-Wolfe, with clips of capped ones."""

    def stepped(self, convex_set: Any, x: Any, gradient: Any, step: float) -> Any:
        return replace(TreeRun(**vars(self)), kappa=1.0).stepped(convex_set, x, gradient, step)


@pytest.mark.parametrize("convex_set", SETS)
def test_no_path_is_longer_than_the_clip_of_its_differences(convex_set: str) -> None:
    name, more = SETS[convex_set]
    sfw = course(more, name)
    run, d = sfw.runs[0], sfw.dimension
    assert run.kappa == 0.125 and run.phases == 6
    rng = np.random.default_rng(1)
    ways = rng.standard_normal((len(run.stages), d)) * 9
    one = np.ones(d) * 9.0  # all steps one way, as long as may be
    worst = 0.0
    for gradients in (
        lambda index, x: ways[index],
        lambda index, x: one,
        lambda index, x: -x * 100 + one / 100,
    ):
        found = longest(sfw, run, gradients)
        assert found <= 1 + 1e-9
        worst = max(worst, found)
    # From its middle a simplex has less room than a ball.
    assert worst > (0.3 if convex_set == "simplex" else 0.9)
    uncapped = longest(sfw, Uncapped(**vars(run)), lambda index, x: one * np.sign(0.5 - x))
    assert convex_set == "simplex" or uncapped > 1.5


class Unscaled(TreeRun):
    """A mutant that clips differences as Frank-Wolfe's steps need, for noise of capped ones."""

    def clip(self, depth: int) -> float:
        return replace(TreeRun(**vars(self)), kappa=0.0).clip(depth)


def most_moved(run: TreeRun, depth: int) -> float:
    """Largest sum of one row, over what its noise is made for: the steps may be any."""
    assert run.root is not None and run.right is not None
    rng, d = np.random.default_rng(depth), run.glm.dimension
    corners = np.sign(rng.standard_normal((64, d - 1))) / np.sqrt(d - 1)
    rows = np.concatenate([corners, np.sign(rng.standard_normal((64, 1)))], axis=1)
    clip, worst = run.clip(depth), 0.0
    resolution = Lattice.fitting(clip).resolution
    paid = (run.right.clip * 2.0 ** (1 - depth)) if depth else run.root.clip
    for _ in range(10):
        x, before = rng.standard_normal((2, d)) * 9
        for row in rows:
            sums = run.glm.sums(row[None], x, before if depth else None, clip, resolution)
            worst = max(worst, float(np.linalg.norm(sums)) * resolution / paid)
    return worst


@pytest.mark.parametrize("convex_set", SETS)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_no_record_moves_a_batch_by_more_than_its_noise_is_made_for(
    depth: int, convex_set: str
) -> None:
    name, more = SETS[convex_set]
    run = course(more, name).runs[0]
    assert 0.5 < most_moved(run, depth) <= 1
    if depth:
        assert most_moved(Unscaled(**vars(run)), depth) > 1.5


def test_a_record_pays_the_whole_budget_once_whatever_the_form() -> None:
    for more in ("", "  phases: 2\n", "  loss: logistic\n"):
        run = course(more).runs[0]
        assert run.loss.epsilon(1e-6) <= 1 + 1e-9
        assert run.loss.epsilon(1e-6) > 0.99
    assert "kappa" not in replace(course().runs[0], kappa=0.0).canonical()
    assert [run.phases for run in course().runs[:3]] == [6, 7, 7]
    facts = " ".join(words for _, words in plan().facts)
    assert "excess risk about" in facts and "at most" not in facts.partition("excess risk")[2][:20]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least", "paper"),
    [("sfw_tree", 0.6, "frank_wolfe"), ("sfw_polyhedral", 0.55, "tree")],
)
def test_capped_steps_learn_where_steps_to_corners_do_not(
    name: str, least: float, paper: str
) -> None:
    rng, n = np.random.default_rng(5), 8192
    x = rng.uniform(-1, 1, (n, 3))
    y = np.clip(x @ np.array([0.5, -0.3, 0.2]) + 0.1 * rng.standard_normal(n), -1, 1)
    columns = {**dict(zip("abc", x.T, strict=True)), "y": y}
    events = Events(np.full(n, START), None, columns, [f"e{i}" for i in range(n)])
    long = np.maximum(np.linalg.norm(x, axis=1), 1.0)
    points = np.concatenate([x / long[:, None], np.ones((n, 1))], axis=1)

    def explained(more: str) -> float:
        found = []
        for seed in range(25):
            (run,) = simulate(plan(more, name), events, bytes([seed]) * 32)
            value = run.released[0].value
            assert value is not None
            found.append(1 - float(np.mean((y - points @ value[-1, 0]) ** 2)) / float(y.var()))
        return float(np.median(found))

    assert explained("") > max(least, 0.2 + explained(f"  form: {paper}\n"))


@pytest.mark.parametrize(
    ("name", "more", "field"),
    [
        ("sfw_tree", "  form: projected\n  set: {lp_ball: {radius: 2, p: 1.5}}\n", "model.form"),
        ("sfw_tree", "  form: corners\n", "model.form"),
        ("sfw_polyhedral", "  form: projected\n  set: POLYTOPE\n", "model.form"),
        ("sfw_polyhedral", "mechanism: {noise: gumbel}\n", "mechanism.noise"),
        ("sfw_polyhedral", "  form: tree\nmechanism: {noise: gaussian}\n", "mechanism.noise"),
    ],
)
def test_what_projected_steps_do_not_serve_is_refused(name: str, more: str, field: str) -> None:
    corners = "{polytope: {vertices: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]]}}"
    with pytest.raises(ConfigError, match=field.replace(".", r"\.")):
        plan(more.replace("POLYTOPE", corners), name)


@pytest.mark.parametrize("name", ["sfw_tree", "sfw_polyhedral"])
def test_a_delta_below_the_grain_of_real_noise_takes_exact_noise(name: str) -> None:
    text = CONFIG.replace("NAME", name).replace("delta: 1e-6", "delta: 1e-15")
    assert {row.noise for row in Plan.from_yaml(text).alternatives} == {"discrete_gaussian"}
    with pytest.raises(ConfigError, match=r"privacy\.delta.*discrete_gaussian"):
        Plan.from_yaml(text + "mechanism: {noise: gaussian}\n")


def test_a_polyhedral_tree_chooses_vertices_where_projected_steps_do_not_serve() -> None:
    text = CONFIG.replace("NAME", "sfw_polyhedral")
    with pytest.raises(ConfigError, match=r"privacy\.delta.*form: tree"):
        Plan.from_yaml(text.replace("delta: 1e-6", "delta: 0"))
    pure = Plan.from_yaml(text.replace("delta: 1e-6", "delta: 0") + "  form: tree\n")
    assert pure.program.course.vertices is not None  # type: ignore[attr-defined]
    wide = text.replace("[a, b, c]", "{column: x, size: 17}").replace(
        "a: [-1, 1], b: [-1, 1], c: [-1, 1]", "x: [-1, 1]"
    )
    assert Plan.from_yaml(wide).program.course.vertices is not None  # type: ignore[attr-defined]
    mine = plan("", "sfw_polyhedral").program.course  # type: ignore[attr-defined]
    assert mine.vertices is None and mine.runs[0].kappa == 0.125 and mine.runs[0].glm.dual == 2.0
