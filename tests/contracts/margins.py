"""Margins of error of whatever is released, next to the truth that they are about.

Keys have noise of their own, so hundreds of keys with the same events are as many draws of one
release. What its margin is about differs: the same sums without noise, the least-squares model of
the events, or the errors and losses of the very models that were released. ``TRUTHS`` knows it for
every output of a model that publishes a margin; one that it does not know fails the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from tests.constant_noise import NoNoise
from weir.dpcore.aggregates.bounding import GATE
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.arrays import Floats
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.models.regression.accelerated import solve
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.lifting import solve_embedded
from weir.dpcore.models.regression.quadratic import PrivateQuadratic
from weir.dpcore.plan import Plan
from weir.dpcore.program import OutputInfo, Released, takes_rows
from weir.dpcore.simulate import leaves_for, simulate, sum_leaves

SECRET = bytes(range(32))
HOUR = 3_600_000_000


class Margin(NamedTuple):
    """An output of K keys at the last tick, (K, m) each.

    Attributes:
      info: what the plan says of it. value, stddev, low, high: as released. true: what it is about.
    """

    info: OutputInfo
    value: Floats
    stddev: Floats
    low: Floats
    high: Floats
    true: Floats

    @property
    def covered(self) -> Floats:
        """(m,) share of the keys whose margin holds the truth."""
        held = (self.low <= self.true) & (self.true <= self.high)
        return np.asarray(held.mean(axis=0))


def events_of(plan: Plan, each: int, seed: int = 7, missing: float = 0.0) -> Events:
    """The same ``each`` events of every key: features, a target that follows them, and users.

    missing: share of them without a target.
    """
    rng = np.random.default_rng(seed)
    keys = [key.decode() for key in plan.keys.ordered]
    ticks = plan.clock.ticks or 1
    times = plan.clock.start + rng.integers(0, ticks * plan.clock.period, each)
    u, v = rng.uniform(0, 2, each), rng.uniform(-1, 3, each)
    y = np.clip(6 + 2 * u - v + rng.normal(0, 1.5, each), 0, 16)
    y[1 : 1 + round(missing * each)] = np.nan
    columns = {"u": u, "v": v, "y": y, f"{GATE}y > 8": (y > 8).astype(float)}
    n = len(keys)
    users = [f"u{i}" for i in rng.integers(0, max(each // 3, 1), each)] if plan.person else None
    return Events(
        np.tile(times, n),
        [key for key in keys for _ in range(each)],
        {name: np.tile(column, n) for name, column in columns.items()},
        ids=[f"{key}{i}" for key in keys for i in range(each)],
        users=None if users is None else [f"{key}{who}" for key in keys for who in users],
    )


def publishes(released: Released) -> bool:
    """Whether an output has a margin."""
    return released.stddev is not None or released.low is not None


def margins(plan: Plan, each: int, missing: float = 0.0) -> list[Margin]:
    """Every output that publishes a margin; see ``events_of``.

    Raises:
      KeyError: nobody knows what the margin of one of them is about.
    """
    events = events_of(plan, each, missing=missing)
    runs = simulate(plan, events, SECRET)
    infos = {(one.name, one.over): one for one in plan.outputs}
    aggregates = isinstance(plan.program, Aggregates)
    exact = _exact(plan, events) if aggregates else [run.released for run in runs]
    found = []
    for at, one in enumerate(runs[0].released):
        if not publishes(one):
            continue

        def last(name: str, at: int = at) -> Floats:
            return np.stack([getattr(run.released[at], name)[-1, 0] for run in runs])

        value = last("value")
        stddev = np.full_like(value, np.nan) if one.stddev is None else last("stddev")
        low, high = value - plan.band * stddev, value + plan.band * stddev
        if one.low is not None:
            low, high = last("low"), last("high")
        if aggregates:
            true = np.stack([released[at].value[-1, 0] for released in exact])
        else:
            true = TRUTHS[one.name](plan, events, exact, one)
        found.append(Margin(infos[one.name, one.over], value, stddev, low, high, true))
    return found


def _exact(plan: Plan, events: Events) -> list[tuple[Released, ...]]:
    """The same without noise, and without the floors that keep averages from it; the caps of users
    choose alike."""
    with ExitStack() as stack:
        for kind in {type(mechanism) for mechanism in plan.program.sums}:
            stack.enter_context(patch.object(kind, "stddev", _tiny))
        return [run.released for run in simulate(plan, events, SECRET, noise=NoNoise(0))]


def _tiny(self: Any, ticks: Any, over: int | None) -> Floats:
    return np.full((len(ticks), self.dimension), 1e-9)


def _statistics(plan: Plan, events: Events) -> tuple[Any, Any]:
    """The program of a regression, and the moments of each key without noise."""
    program: Any = plan.program
    ticks = plan.clock.ticks or 1
    sums = sum_leaves(plan, bounded(plan, events, ticks, SECRET), ticks).sum(axis=0)
    return program, program.rows.moments.unpack(sums.astype(np.float64))


def _least_squares(plan: Plan, events: Events, *_: Any) -> Floats:
    """(K, k d) the model that plain least squares over the set finds."""
    program, found = _statistics(plan, events)
    quadratic = PrivateQuadratic(found.matrix, found.right)
    if isinstance(program, Incremental):
        return np.asarray(solve(quadratic, program.set, 1e-11).theta)
    image = program.image
    best = solve_embedded(quadratic, image.phi, image.spread, image.set, 1e-10, 20_000).theta
    return np.asarray(best @ image.phi.T)


def _flat(of: Callable[..., Floats]) -> Callable[..., Floats]:
    def found(*given: Any) -> Floats:
        made = of(*given)
        return made.reshape(len(made), -1)

    return found


def _own_units(plan: Plan, events: Events, *_: Any) -> Floats:
    program: Any = plan.program
    return np.asarray(program.rows.coefficients(_least_squares(plan, events)))


def _moments(plan: Plan, events: Events, *_: Any) -> Floats:
    program: Any = plan.program
    ticks = plan.clock.ticks or 1
    sums = sum_leaves(plan, bounded(plan, events, ticks, SECRET), ticks).sum(axis=0)
    return np.asarray(sums * program.rows.moments.resolution)


def _error(plan: Plan, events: Events, runs: list[tuple[Released, ...]], one: Released) -> Floats:
    """(K, k) errors on these events of the models that were released."""
    program, found = _statistics(plan, events)
    shape = (len(runs), len(program.rows.targets), -1)
    theta = np.stack([_named(run, "theta")[-1, 0] for run in runs]).reshape(shape)
    count = found.matrix[:, -1, -1][:, None]  # the square of the constant
    bend = np.sum((theta @ found.matrix) * theta, axis=2)
    error = found.squares - 2 * np.sum(found.right * theta, axis=2) + bend
    spread = found.squares - found.right[:, :, -1] ** 2 / count
    half = np.array([scaling.half[-1] for scaling in program.rows.scalings])
    return np.asarray(1 - error / spread if one.name == "r2" else error / count * half**2)


def _losses(plan: Plan, events: Events, runs: list[tuple[Released, ...]], one: Released) -> Floats:
    """(K, 2) clipped losses of the models that were played, in all and a tick."""
    program: Any = plan.program
    assert takes_rows(program)
    ticks = plan.clock.ticks or 1
    bound = bounded(plan, events, ticks, SECRET)
    leaves = leaves_for(plan, bound, ticks, SECRET)(list(range(len(runs))))
    gradients = program.gradients
    total = np.zeros(len(runs))
    for tick, leaf in enumerate(leaves(0, ticks)):
        played = np.stack([_named(run, "theta")[tick, 0] for run in runs])
        total += gradients.sums(played, leaf)[:, gradients.parameters]
    total *= gradients.loss_lattice.resolution
    return np.stack([total, total / ticks], axis=1)


def _named(run: tuple[Released, ...], name: str) -> Floats:
    return next(one.value for one in run if one.name == name)


TRUTHS: dict[str, Callable[..., Floats]] = {
    "theta": _flat(_least_squares),
    "projected": _flat(_least_squares),
    "coefficients": _flat(_own_units),
    "moments": _moments,
    "mse": _flat(_error),
    "r2": _flat(_error),
    "loss": _losses,
}
"""Output of a model -> what its margin is about. A new one comes here."""
