"""Follow the leader of squared losses, from noisy moments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.algorithm import Compiled
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.base import ContinualSum, SumState, canonical_mechanism
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.leaves.lattice import Lattice, clip_l2
from weir.dpcore.models.fields import SquaredLoss, algorithm_field
from weir.dpcore.models.gradients import typical_reach
from weir.dpcore.models.kit.point import to_grid
from weir.dpcore.models.kit.rows import (
    Scaling,
    is_void,
    model_outputs,
    names_of_models,
    released_models,
)
from weir.dpcore.models.moments import BITS, Moments, leaf_of
from weir.dpcore.models.online.regularisation import pull_of_second_order
from weir.dpcore.models.online.rule import OverSet
from weir.dpcore.models.online.second_order import FARTHEST, solve_positive, unpack
from weir.dpcore.models.online.section import OnlineModel
from weir.dpcore.models.words import centre_words
from weir.dpcore.pricing.alternatives import Offer, best_sum, check_named
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import MOST_SUM, Bounded, NoiseOf, OutputInfo, Program, Released
from weir.dpcore.words import number


@dataclass(frozen=True)
class RidgeLeader(OverSet):
    """x_{t+1} = Proj_P(argmin of x' Q x / 2 - <q, x> + (r_t/2) ||x - centre||^2), Q and q released
    sums of x x^T and x y; r_t = mu t, t ticks so far, or r_t = mu, which fades.

    Pivots are raised to r_t, below which no clean system has any, and as ``solve_positive`` says:
    noise may make Q indefinite.
    Where the constraint binds, the projection of the unconstrained solution is not the constrained
    one.

    **Formal guarantees**: post-processing of the sums.

    Attributes:
      set: P, which projects. curvature: mu. centre: d numbers. growth: of r_t.
    """

    growth: Literal["linear", "constant"] = "linear"

    rule: ClassVar[str] = "ridge_leader"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.set.projects:
            raise ConfigError(
                "model.set", self.set.name, "has no projection, which online.pqftl needs."
            )

    def __call__(self, statistics: Floats, ticks: Floats) -> Floats:
        """statistics: (K, D) in units of the data; ticks: (K,), 0 or more -> (K, d) to play."""
        d = self.set.dimension
        out = np.repeat(self.set.start()[None], len(statistics), axis=0)
        some = np.flatnonzero(ticks > 0)
        if some.size:
            matrix, right = unpack(statistics[some], d)
            grown = ticks[some] if self.growth == "linear" else np.ones(some.size)
            ridge = self.curvature * grown
            diagonal = np.arange(d)
            matrix[:, diagonal, diagonal] += ridge[:, None]
            right += ridge[:, None] * self._centre
            solved = solve_positive(matrix, right, ridge)
            # Nothing that noise makes of a system may reach a projection as infinity.
            solved = np.nan_to_num(np.clip(solved, -FARTHEST, FARTHEST))
            out[some] = self.set.project(solved)
        return to_grid(out, self._grid)

    def numbers(self) -> Mapping[str, Any]:
        return {} if self.growth == "linear" else {"growth": self.growth}


NAME = "online.pqftl"
LATTICE = Lattice(2.0**-BITS)
"""Of features and target; products are whole multiples of its square."""


class PqftlState(NamedTuple):
    """State of K learners.

    Attributes:
      sums: of the continual sum (clean: to be protected).
      released: (K, D) what it released at the last tick, lattice units.
      waiting: (K, D) clean sum of the leaves since the last release, where that is at every n-th
        tick.
    """

    sums: SumState
    released: Floats
    waiting: Any = ()


@dataclass(frozen=True)
class Pqftl(Program):
    """A linear model per key: the ridge solution of noisy running sums of (x x^T, x y).

    At tick t theta_t is released: a function of what was released before, made of earlier ticks'
    events. The noise has d (d + 1) / 2 + d coordinates where a gradient has d, and no gradient is
    clipped: the sensitivity grows with the square of the features' length.

    Formal guarantees:
      Unit: one event. Relation: the plan's; a leaf is a plain sum, so rows do not compete.
      Sensitivity: x (with its intercept) is clipped to l2 norm ``reach`` and truncated toward zero
        to a lattice together with |y| <= 1; products are exact, so that the joint change of
        (svec(x x^T), x y) is at most ``Moments.sensitivity``, which ``mechanism`` was given. A void
        row is the event (0, 0), its constant included.
      Guarantee: that of the continual sum. All the rest is post-processing. Every n-th tick: as
        ``dpcore.spaced.Spaced``: an event is in one sum of n leaves, and meets ceil(w / n) releases
        within w ticks of its arrival.
      Source: Jain, Kothari, Thakurta (2012), PQFTL; sums and sensitivity as in incremental
        regression, Kasiviswanathan, Nissim, Jin (2017), joint.

    Attributes:
      scaling: the public ranges. rule: what follows from the sums. mechanism: the continual sum.
      reach: X, bound on ||x||_2. intercept: whether theta ends with one.
      every: n, ticks from one release of the sums to the next.
    """

    scaling: Scaling
    rule: RidgeLeader
    mechanism: ContinualSum
    reach: float
    intercept: bool
    every: int = 1

    def every_nth(self, every: int) -> Pqftl:
        return replace(self, every=every)

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf."""
        return self.mechanism.dimension

    @property
    def moments(self) -> Moments:
        """What a leaf holds."""
        return moments_of(len(self.scaling.columns) - 1 + self.intercept, self.reach)

    @property
    def capacity(self) -> int:
        """Events of a key in n ticks that exact sums have room for, spread evenly."""
        return max(1, self.moments.capacity // self.every)

    @property
    def row_width(self) -> int:
        """Numbers in a row: few rows are smaller than their moments, and summed late."""
        return self.moments.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return tuple(dict.fromkeys(self.scaling.columns))

    @property
    def algorithm(self) -> str:
        """Its name in the config."""
        return NAME

    @property
    def curvature(self) -> float:
        """mu, which every tick adds."""
        return self.rule.curvature

    @property
    def regret(self) -> str:
        """What is known about its regret, for people."""
        return (
            "Regret grows as a power of ln T while the set's constraint does not bind; where it "
            "binds, projecting the ridge solution loses a constant at every tick."
        )

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Scaled features, with their constant, and target on the lattice; void rows are 0."""
        scaled = self.scaling.bound(columns, n_events)
        features = scaled.rows[:, :-1]
        if self.intercept:
            features = np.concatenate([features, np.ones((n_events, 1))], axis=1)
        x, over, _ = clip_l2(features, self.reach)
        y = scaled.rows[:, -1:]
        if over:  # the target too: such an event counts for less, and pulls no coefficient
            longest = np.abs(features).argmax(axis=1)[:, None]
            before = np.take_along_axis(features, longest, axis=1)
            after = np.take_along_axis(x, longest, axis=1)
            y = y * np.divide(after, before, out=np.ones_like(y), where=before != 0)
        rows = np.concatenate([x, y], axis=1)
        rows[is_void(scaled.rows)] = 0.0
        rows = LATTICE.truncate(rows)
        return Bounded(rows.astype(np.float64), scaled.clipped + over, scaled.non_finite)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Exact sums per cell."""
        return self.moments.accumulate(rows, cells, n_cells)

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return (self.mechanism,)

    def init(self, n_keys: int) -> PqftlState:
        """No data."""
        shape = (n_keys, self.dimension)
        waiting = () if self.every == 1 else np.zeros(shape, dtype=np.int64)
        return PqftlState(self.mechanism.init(n_keys), np.zeros(shape), waiting)

    def step(
        self, state: PqftlState, leaves: Ints, noise: NoiseOf
    ) -> tuple[PqftlState, tuple[Floats, ...]]:
        """A stride -> new state, and the sums (n, K, D) that were released before each tick."""
        if self.every == 1:
            sums, (released,) = self.mechanism.step(state.sums, leaves, noise(0))
            before = np.concatenate([state.released[None], released[:-1]])
            return PqftlState(sums, released[-1].copy()), (before,)
        keyed, (sums, last, waiting), before = noise(0), state, np.empty(leaves.shape)
        for i, leaf in enumerate(leaves):
            before[i], tick = last, keyed.first_tick + i
            waiting = np.clip(waiting + np.clip(leaf, -MOST_SUM, MOST_SUM), -MOST_SUM, MOST_SUM)
            if (tick + 1) % self.every == 0:
                here = keyed.at(tick // self.every)
                sums, (new,) = self.mechanism.step(sums, waiting[None], here)
                last, waiting = new[0], np.zeros_like(waiting)
        return PqftlState(sums, last.copy(), waiting), (before,)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units."""
        n, n_keys, size = noisy[0].shape
        flat = (noisy[0] * LATTICE.resolution**2).reshape(n * n_keys, size)
        theta = self.rule(flat, np.repeat((ticks // self.every).astype(np.float64), n_keys))
        theta = theta.reshape(n, n_keys, -1)
        return released_models(theta, self.scaling.coefficients(theta, self.intercept, False))

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """That of the continual sum, in its own steps."""
        return self.mechanism.loss(None if ticks is None else -(-ticks // self.every))

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev of a solution is not additive: NaN."""
        names = names_of_models(self.scaling, self.intercept)
        return model_outputs(*names, self.mechanism.sensitivity)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return self.mechanism.state_bytes() + 8 * self.dimension * (1 + (self.every > 1))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        whole = {
            "program": NAME,
            "scaling": self.scaling.canonical(),
            "intercept": self.intercept,
            "lattice": LATTICE.resolution.hex(),
            "reach": self.reach.hex(),
            "whole": True,
            "rule": self.rule.canonical(),
            "mechanism": canonical_mechanism(self.mechanism),
        }
        return whole if self.every == 1 else {"release_every": self.every, "of": whole}


def moments_of(dimension: int, reach: float) -> Moments:
    """Of x with ||x||_2 <= reach, its constant in it, and one target in [-1, 1]."""
    return Moments(dimension, 1, False, reach, 1.0)


class PqftlModel(OnlineModel):
    """Follow the leader of squared losses, from noisy moments."""

    algorithm: Literal["online.pqftl"] = algorithm_field("online.pqftl")
    loss: SquaredLoss = Field(default="squared", description="squared.", examples=["squared"])

    title: ClassVar[str] = "follow the leader of squared losses, from noisy moments"
    about: ClassVar[str] = (
        "The baseline: running sums of the products of features and target, then the ridge "
        "solution, projected onto the set. Where curvature is not given the ridge is as large as "
        "the noise needs, and fades relative to the events."
    )
    source: ClassVar[str] = "Jain, Kothari & Thakurta 2012"
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> Compiled:
        """Over the best continual sum for it.

        Raises:
          ConfigError: what it cannot serve: a set without projection, or what the continual sum
            refuses.
        """
        check_named(terms)
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)
        convex_set = parse_set(self.set, self.dimension)
        fades = self.curvature is None
        reach = typical_reach(len(self.features), self.intercept) * (1 + 2.0**-30)
        ticks = terms.ticks()
        RidgeLeader(convex_set, 1.0, self.middle)  # what it refuses does not depend on the sum

        def build(mechanism: ContinualSum) -> Offer[Pqftl]:
            worst = float(mechanism.stddev(ticks, None)[:, -1].max()) * LATTICE.resolution**2
            if fades:
                ridge = pull_of_second_order(None, math.sqrt(self.dimension) * worst)
                rule = RidgeLeader(convex_set, ridge, self.middle, "constant")
            else:
                rule = RidgeLeader(convex_set, self.mu(terms), self.middle)
            program = Pqftl(scaling, rule, mechanism, reach, self.intercept)
            return Offer(program, worst**2, {"moments over=all": worst})

        leaf = leaf_of(moments_of(self.dimension, reach), None, terms)
        return self.compiled(*best_sum(leaf, terms, build))

    def own_facts(self, program: Pqftl) -> Iterator[tuple[str, str]]:
        """Curvature, length of events, and regret."""
        if program.rule.growth == "linear":
            yield from super().own_facts(program)
            return
        around = centre_words(program.curvature, self.centre).partition(" a tick")[2]
        pull = f"{number(program.curvature)} in all{around}: it fades relative to the events"
        yield "curvature", pull
        yield "events", f"of more than length {number(program.reach)} (scaled) are shortened to it"
        yield "regret", program.regret
