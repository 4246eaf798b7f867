"""A record of a sliding window, against all that the proof gives away: every fit that learns of it.

What is released shows the last model of each chain alone, under the noise of all; the proof counts
every one as shown. So does this attack: it makes the fits of a record's life, with a label and with
the other, and reads the likelihood ratio off their noise, whose law is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.audit.twins.models import LABELS, model
from weir.dpcore.audit.distinguish import STRICT, Counts, epsilon_bound
from weir.dpcore.continual.unit import draw_units
from weir.dpcore.models.blocks.fitter import Minimised
from weir.dpcore.models.blocks.schedule import used
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import loads

TRIALS = 150_000
WINDOW = model(
    f"algorithm: erm.sliding_window, {LABELS}, intercept: false, block: 1, window: 31, "
    "regularise: 1, split: paper",
    "{time: at, id: id}",
    ticks=1,
    delta=0.0,
    epsilon=1.0,
)
"""A hinge far from its corner: a label that turns moves a fit by all that its noise is made for."""


def apart(program: Any, level: int) -> float:
    """How far a label that turns moves the fit of a level, in lattice steps."""
    own = program.levels[level]
    made, rows, found = Minimised(program.objective, own), int(own.divisor), []
    for turned in (1.0, -1.0):
        labels = np.full(rows, -1.0)
        labels[0] = turned
        fit = made.fit(np.ones((rows, 1)), labels, np.zeros(1), None)  # type: ignore[arg-type]
        x, _ = fit.advance(*fit.start(), 0, made.steps)
        assert fit.certified(x)
        found.append(x[0])
    return float(abs(found[0] - found[1]) / own.noise.resolution)


def log_ratios(program: Any) -> tuple[Any, Any]:
    """(TRIALS,) each: of all fits of a record's life, with the label and with the other."""
    uses = max(used(program.schedule), key=lambda one: one.total())
    assert sorted(uses.items()) == [(level, 1) for level in range(len(program.levels))]
    names = tuple(b"%d" % i for i in range(TRIALS))
    found = []
    for secret in (b"1", b"2"):
        noise = KeyedNoise(RootKey.derive(secret * 32, "fits", bytes(32)), 0, names, 0)
        total = np.zeros(TRIALS)
        for level in uses:
            own, moved = program.levels[level], apart(program, level)
            digests = np.zeros((1, TRIALS, 2), dtype=np.uint64)
            kind, scale = own.noise.kind, own.noise.scale
            drawn = draw_units(kind, noise, label(level, 1), digests, scale, (1.0,))
            at = drawn[0, :, 0] + (moved if secret == b"1" else 0.0)
            total += (np.abs(at) - np.abs(at - moved)) / scale
        found.append(total)
    return found[0], found[1]


def proven(program: Any) -> float:
    """Lower bound of epsilon, at the outcomes that say most."""
    with_it, without = log_ratios(program)
    cut = 0.999 * float(max(with_it.max(), without.max()))
    return epsilon_bound(Counts.of(with_it, without, cut), 0.0, STRICT)


def four_l(program: Any) -> Any:
    """Algorithm 5 of Watson et al. as printed: noise 6 L for the base and 4 L for updates, under
    the sensitivity that the paper itself states."""
    levels, top = [], len(program.levels) - 1
    for at, (size, own) in enumerate(zip(program.schedule.sizes, program.levels, strict=True)):
        cost = 1 / 3 if at == top else 1 / (2 * size)
        levels.append(replace(own, noise=replace(own.noise, scale=own.noise.sensitivity / cost)))
    return replace(program, levels=tuple(levels))


def test_every_fit_of_a_sliding_window_together_costs_what_is_claimed() -> None:
    program: Any = Plan.from_config(loads(WINDOW).plan_config()).program
    assert program.loss(None).kind == "pure" and 0.999 < program.loss(None).value <= 1.0
    for ratios in log_ratios(program):
        assert 0.95 < np.abs(ratios).max() <= 1.0
    assert 0.7 < proven(program) <= 1.0


def test_the_papers_4l_in_the_sliding_window_is_caught() -> None:
    program: Any = Plan.from_config(loads(WINDOW).plan_config()).program
    assert proven(four_l(program)) > 1.0
