"""What one record may change, replayed at every release; and that tempting variants are caught."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.dpcore.models.optimize.instances import noise_of, plan, program, read, rows_for
from tests.dpcore.models.optimize.script import Script
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.loss import Logistic, Squared
from weir.dpcore.models.kit.rows import norms
from weir.dpcore.models.optimize.course import Drawn
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.phased import Phase
from weir.dpcore.models.optimize.phased_erm import averaged, spread_of
from weir.dpcore.models.optimize.sfw import TreeRun
from weir.dpcore.models.optimize.tree import reached, stages_for
from weir.dpcore.noise.noise import label

N = 140  # three runs of 20, 40, 80 records
FEW = 60  # two of them, where every record is a step


def worst_rows(made: Any, seed: int) -> np.ndarray:
    """(4, width): rows that pull as far as any."""
    rng = np.random.default_rng(seed)
    p = made.width - 1
    signs = rng.choice([-1.0, 1.0], (4, p))
    columns = {name: signs[:, j] for j, name in enumerate(made.columns[:-1])}
    columns[made.columns[-1]] = np.array([1.0, -1.0, 1.0, np.nan])
    return np.asarray(made.bound(columns, 4).rows)


def replayed(
    script: Script, made: Any, n: int = N, seed: int = 1, quiet: bool = False
) -> list[list[np.ndarray]]:
    """Runs over neighbours: the rows, then the same with one of them replaced, place by place.

    quiet: rows without errors, a straight line through 0."""
    rows, others = rows_for(made, n, seed), worst_rows(made, seed)
    if quiet:
        rows = np.asarray(np.where(np.isnan(rows), 0.0, rows))
        rows[:, -1] = np.round(rows[:, 0] * 2.0**19) * 2.0**-20
    else:
        rows[::3] = worst_rows(made, seed + 1)[np.arange(len(rows[::3])) % 4]
    script.start()
    read(made, rows)
    for place in range(0, n, 7 if n <= N else 11):
        for other in others:
            changed = rows.copy()
            changed[place] = other
            script.start()
            read(made, changed)
    assert len({len(one) for one in script.seen}) == 1
    return script.seen


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize("case", ["gaussian", "generalised", "discrete"])
def test_a_record_moves_one_noisy_mean_by_its_sensitivity_at_most(
    script: Script, case: str, loss: str
) -> None:
    made = program(case, loss=loss)
    whole, *changed = replayed(script, made)
    most = 0.0
    for one in changed:
        moves = [b - a for a, b in zip(whole, one, strict=True)]
        moved = [i for i, move in enumerate(moves) if move.any()]
        assert len(moved) <= 1
        for i in moved:
            node = script.scales[i]
            size = float(norms(moves[i][None].astype(float), node.dual)[0])
            most = max(most, size / node.sensitivity)
    assert most <= 1
    assert most > 0.3
    assert made.loss(None).epsilon(1e-5) <= 2 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("case", ["tree", "one_sample"])
def test_selections_cost_what_is_said(script: Script, case: str, loss: str, delta: float) -> None:
    made = program(case, loss=loss, delta=delta)
    whole, *changed = replayed(script, made, FEW if case == "one_sample" else N)
    worst = 0.0
    for one in changed:
        spent = 0.0
        for a, b, scale in zip(whole, one, script.scales, strict=True):
            ratio = float(np.ptp(b - a)) / scale
            spent += ratio * ratio / 8 if delta else ratio
        worst = max(worst, spent)
    paid = made.loss(None)
    assert paid.kind == ("zcdp" if delta else "pure")
    assert 0.05 * paid.value < worst <= paid.value
    assert paid.epsilon(delta) <= 2 * (1 + 1e-9)


def apart(phase: int, late: int = 1) -> list[tuple[int, float]]:
    """(depth, way to the right child in diameters) of a phase whose steps all lead to the one end
    of [0, 1] from the other; late: 1, or 0 for steps that are longer."""
    found: list[tuple[int, float]] = []
    starts = [0] * (phase + 1)
    for stage in (one for one in stages_for(1 << phase, phase) if one.phase == phase):
        if stage.depth:
            x = 0.0
            for leaf in range(starts[stage.depth - 1], stage.leaf):
                step = 2 / ((1 << phase) + leaf + late)
                x = (1 - step) * x + step
            found.append((stage.depth, x))
        starts[stage.depth :] = [stage.leaf] * (phase + 1 - stage.depth)
    return found


@pytest.mark.parametrize("phase", range(1, 8))
def test_no_steps_to_vertices_take_a_point_further_than_differences_are_clipped(phase: int) -> None:
    """Of every right child, and attained before the first of each depth."""
    ways = [way / reached(phase, depth) for depth, way in apart(phase)]
    assert len(ways) == (1 << phase) - 1 and max(ways) == pytest.approx(1, rel=1e-12)
    assert {depth for depth, way in apart(phase) if way > reached(phase, depth) * 0.999999} == {
        *range(1, phase + 1)
    }
    longer = max(way / reached(phase, depth) for depth, way in apart(phase, late=0))
    assert longer > 1.0 + 0.5 / (1 << phase)  # a mutant: eta = 2 / (n + l)


class Papers(TreeRun):
    """A mutant: differences are clipped as the papers have it, for noise of the ways of steps."""

    def bound(self, phase: int, depth: int) -> float:
        return self.clip(depth)


def most_spent(course: Any, run: TreeRun, pure: bool) -> float:
    """What one swapped record costs at most at the scales of a run, by what its leaves read."""
    rng, worst = np.random.default_rng(3), 0.0
    d = run.glm.dimension
    rows = np.array([[*x, y] for x in ([1, 1], [1, -1], [-1, 1]) for y in (-1.0, 1.0)])
    for r, scale in enumerate(run.scales, start=1):
        for depth in range(r + 1):
            clip, size = run.bound(r, depth), run.batch >> depth
            points = rng.standard_normal((8, 2, d)) * 9
            for x, before in [*points, (np.eye(d)[0] * 9, -np.eye(d)[0] * 9)]:
                sums = [
                    run.glm.sums(row[None], x, before if depth else None, clip, 2.0**-30) * 2.0**-30
                    for row in rows
                ]
                moved = max(
                    float(np.ptp(course.vertices.scores((one - two) / size)))
                    for one in sums
                    for two in sums
                )
                ratio = moved / scale
                assert moved <= run.moved * (1 + 1e-6) or isinstance(run, Papers)
                worst = max(worst, (1 << (r - depth)) * (ratio if pure else ratio * ratio / 8))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["{huber: 2}", "{huber: 0.5}"])
@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_leaves_that_choose_vertices_pay_for_the_worst_record_and_no_more(
    delta: float, loss: str
) -> None:
    """Records at corners, at any two models: the whole budget is reached, and never passed."""
    course = program("tree", loss=loss, delta=delta, d=2, records=400, more="phases: 3\n  "
                     "intercept: false").course  # fmt: skip
    run = course.runs[0]
    assert run.pure == (delta == 0) and len(run.scales) == 3
    paid = run.loss.value
    assert 0.98 * paid < most_spent(course, run, run.pure) <= paid * (1 + 1e-9)
    if delta or loss == "{huber: 2}":  # where slopes at the roots are not the most, or any two are
        assert most_spent(course, Papers(**vars(run)), run.pure) > 1.2 * paid


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
@pytest.mark.parametrize(
    "where", ["{box: [-1, 1]}", "{l2_ball: 1}", "{lp_ball: {radius: 1, p: 3}}"]
)
def test_a_record_moves_one_average_by_its_sensitivity_at_most(
    script: Script, loss: str, where: str
) -> None:
    made = program("phased", loss=loss, set=where)
    whole, *changed = replayed(script, made)
    most = 0.0
    for one in changed:
        moves = [float(np.linalg.norm(b - a)) for a, b in zip(whole, one, strict=True)]
        assert sum(move > 0 for move in moves) <= 1
        units = [phase.noise.moved for phase in script.scales]
        most = max(most, *(move / unit for move, unit in zip(moves, units, strict=True)))
    assert 0.1 < most <= 1


@pytest.mark.parametrize("where", ["{box: [-1, 1]}", "{l2_ball: 2}"])
def test_clipped_residuals_are_what_a_step_pays_for(script: Script, where: str) -> None:
    """Records that pull as far as any, one of them swapped; noise is for half the slope."""
    more = "intercept: false\n  step: 0.02"  # a short one, so that later steps hide nothing
    made = program("phased", loss="squared", set=where, d=1, more=more)
    paper = program("phased", loss="{huber: 100}", set=where, d=1, more=more)
    own, wide = made.course.runs[0], paper.course.runs[0]
    assert own.glm.slope == 0.5 and wide.glm.slope > 1.9
    assert wide.glm.slope == replace(wide.glm, loss=Squared()).slope  # none that could be clipped
    eta = own.phases[0].eta
    assert own.phases[0].noise.moved / (2 * 0.5 * eta) == pytest.approx(1, rel=1e-3)

    def most(glm: Glm) -> float:
        """Of what is paid for, by steps along a loss with the noise of the clipped one."""
        for some in (script.seen, script.outputs, script.scales):
            some.clear()
        runs = (replace(own, glm=glm), *made.course.runs[1:])
        taken = replace(made, course=replace(made.course, runs=runs))
        whole, *changed = replayed(script, taken, 19)
        pairs = [
            float(np.linalg.norm(b - a)) / phase.noise.moved
            for one in changed
            for a, b, phase in zip(whole, one, script.scales, strict=True)
        ]
        return max(pairs)

    assert 0.5 < most(own.glm) <= 1
    assert most(replace(own.glm, loss=Squared())) > 1.5  # a mutant: residuals are not clipped


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2.0, 1e3])
@pytest.mark.parametrize("loss", ["squared", "{huber: 0.5}"])
def test_a_record_moves_one_residual_or_one_average_under_any_bound(
    script: Script, loss: str, epsilon: float
) -> None:
    """With little noise bounds fall to where data are; each pays for its own."""
    made = program("learned", loss=loss, epsilon=epsilon, d=1, more="intercept: false")
    whole, *changed = replayed(script, made, 300, quiet=epsilon > 2)
    most = {"gauge": 0.0, "average": 0.0}
    for one in changed:
        moves = [float(np.linalg.norm(b - a)) for a, b in zip(whole, one, strict=True)]
        assert sum(move > 0 for move in moves) <= 1
        for phase, move in zip(script.scales, moves, strict=True):
            name = "average" if phase.eta else "gauge"
            most[name] = max(most[name], move / phase.noise.moved)
    assert all(0.1 < found <= 1 for found in most.values()), most
    rungs = {one.run.glm.slope for one in made.course.ladder[0]}
    assert len(rungs) > 10
    units = {p.noise.stddev for p in script.scales if not p.eta}
    assert epsilon < 3 or len(units) > 4, "bounds did not fall"
    assert made.loss(None).epsilon(1e-5) <= epsilon * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["absolute", "{quantile: 0.9}", "hinge", "squared"])
@pytest.mark.parametrize("passes", [1, 2, 8])
def test_a_record_moves_one_minimiser_by_its_sensitivity_at_most(
    script: Script, loss: str, passes: int
) -> None:
    """With a step far beyond 2 / beta too."""
    more = f"passes: {passes}\n  keep: 100\n  step: {3.0 if passes == 2 else 0.2}"
    made = program("erm, any", loss=loss, more=more, set="{l2_ball: 1}")
    whole, *changed = replayed(script, made)
    most = 0.0
    for one in changed:
        moves = [float(np.linalg.norm(b - a)) for a, b in zip(whole, one, strict=True)]
        assert sum(move > 0 for move in moves) <= 1
        units = [phase.noise.moved for phase in script.scales]
        most = max(most, *(move / unit for move, unit in zip(moves, units, strict=True)))
    assert 0.05 < most <= 1, most
    assert made.loss(None).epsilon(1e-5) <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("passes", [1, 3, 8])
def test_two_passes_over_neighbours_part_as_far_as_is_said(passes: int) -> None:
    """One coordinate, straight losses, no set in the way: the bound is all but attained."""
    n, eta = 64, 0.1
    gamma, kept = 2 / (eta * n), []
    for first in (1.0, -1.0):
        x, points, t = 0.0, [], 0
        for _ in range(passes):
            for i in range(n):
                t += 1
                x = x * t / (t + 1) - (first if i == 0 else 1.0) / (gamma * (t + 1))
                points.append(x)
        kept.append(np.mean(points[-averaged(n, passes) :]))
    apart = abs(kept[0] - kept[1]) / (spread_of(n, passes) * eta)
    assert 0.97 < apart <= 1


def test_a_step_beyond_the_condition_is_refused() -> None:
    """eta_i <= 2 / beta is a condition of privacy: not a warning."""
    glm = program("phased", loss="logistic").course.runs[0].glm
    most = 8 / glm.smoothness
    plan("phased", loss="logistic", more=f"step: {most * 0.999}")
    with pytest.raises(ConfigError, match=r"model\.step.*2 / beta"):
        plan("phased", loss="logistic", more=f"step: {most * 1.001}")


def test_beyond_the_condition_steps_do_take_points_apart() -> None:
    """What the condition is for: three times the step, and one record moves the average by more
    than noise is there for."""
    glm = Glm(Squared(), 1, False, 2.0, 1.0, 1.0)
    for times, apart in ((1.0, False), (3.0, True)):
        eta = times * 2 / glm.smoothness
        one, two, worst = 0.0, 0.0, 0.0
        two += eta * 0.01
        for _ in range(6):
            one, two = one - eta * one, two - eta * two
            worst = max(worst, abs(one - two))
        assert (worst > eta * 0.01 * 1.01) == apart


def test_clipping_each_gradient_would_break_the_smoothness_that_is_paid_for() -> None:
    """Trap: two gradients clipped one by one in their norm are no smaller apart where the model
    is: it is the difference that is clipped."""
    glm = Glm(Squared(), 2, False, 2.0, 1.0, 4.0)
    points = np.array([[1.0, 0.0]])
    target, void = np.array([1.0]), np.array([False])
    w, before = np.array([1.0, 0.0]), np.array([1.0 - 1e-3, 0.0])
    bound = glm.smoothness * 1e-4
    found = glm.gradients(points, target, void, w, before, bound)
    assert np.abs(found).max() <= bound
    apart = glm.gradients(points, target, void, w, None, 5.0) - glm.gradients(
        points, target, void, before, None, 5.0
    )
    assert np.abs(apart).max() > bound


@pytest.mark.parametrize("q", [1.5, 2.0, 3.0, 7.0, math.inf])
def test_gradients_keep_their_bound_whatever_the_rows_are(q: float) -> None:
    glm = Glm(Logistic(), 3, True, q, 0.7, 2.0)
    made = program("gaussian", d=3)
    rows = rows_for(replace(made, inputs=replace(made.inputs, dual=q, norm=0.7)), 400)
    points, targets, void = glm.split(rows)
    assert norms(points, q).max() <= glm.reach
    rng = np.random.default_rng(2)
    for w in rng.standard_normal((5, 4)) * 1e3:
        full = glm.gradients(points, targets, void, w, None, glm.lipschitz)
        assert norms(full, q).max() <= glm.lipschitz and not full[void].any()
        small = glm.gradients(points, targets, void, w, -w, 1e-3)
        assert norms(small, q).max() <= 1e-3


def test_gradients_that_are_not_finite_are_nothing() -> None:
    class Odd(Squared):
        def derivative(self, prediction: Any, target: Any) -> Any:
            return np.where(prediction > 0, np.nan, np.inf)

    glm = Glm(Odd(), 1, False, 2.0, 1.0, 1.0)
    points = np.array([[0.5], [-0.5]])
    none = np.array([False, False])
    found = glm.gradients(points, np.zeros(2), none, np.ones(1), None, 2.0)
    assert not found.any()


def test_the_scale_of_the_right_children_is_that_of_the_root_at_any_depth() -> None:
    """4 L1 M / b whatever the depth; halving the clip with the batch is what keeps it."""
    run = program("gaussian", records=4000).course.runs[0]
    moves = [2 * run.clip(j) / (run.batch >> j) for j in range(1, run.phases + 1)]
    exact = 4 * run.glm.smoothness * run.diameter / run.batch
    assert moves == pytest.approx([exact] * run.phases)


@pytest.mark.slow
def test_the_noise_of_a_gauge_has_its_scale_and_no_other() -> None:
    course = program("learned", epsilon=1.0).course
    rung = course.ladder[0][0]
    digest = np.zeros(2, dtype=np.uint64)
    told = np.array(
        [
            course._noisy(rung.gauge, np.array([0.5]), Drawn(noise_of(), digest), label(9, i))[0]
            for i in range(2_000)
        ]
    )
    share = told.std() / rung.gauge.noise.stddev
    assert 0.93 < share < 1.07, "four deviations"
    assert abs(told.mean() - 0.5) < 4 * told.std() / math.sqrt(2_000)


@pytest.mark.parametrize("case", ["gaussian", "generalised", "discrete", "tree", "phased", "erm"])
def test_noise_at_nine_tenths_of_the_scale_breaks_the_promise(case: str) -> None:
    course = program(case).course
    run = course.runs[0]
    if case == "tree":
        less = replace(run, scales=tuple(0.9 * scale for scale in run.scales))
    elif case in ("phased", "erm"):
        less = replace(run, phases=tuple(quieter(phase) for phase in run.phases))
    else:
        less = replace(run, root=replace(run.root, scale=0.9 * run.root.scale))
    assert run.loss.epsilon(1e-5) <= 2 < less.loss.epsilon(1e-5)


def quieter(phase: Phase) -> Phase:
    """With nine tenths of its noise."""
    return phase._replace(noise=replace(phase.noise, scale=0.9 * phase.noise.scale))


def test_a_quieter_gauge_breaks_the_promise() -> None:
    rung = program("learned").course.ladder[0][0]
    less = rung._replace(gauge=quieter(rung.gauge))
    assert rung.loss.epsilon(1e-5) <= 2 < less.loss.epsilon(1e-5)
