"""Incremental ERM: a private batch solver, run now and then on all rows so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.erm.schedule import Schedule
from weir.dpcore.models.erm.training import ErmTraining
from weir.dpcore.models.online.pocg import model_outputs, models
from weir.dpcore.models.scaling import Scaling
from weir.dpcore.models.solvers.problem import Problem
from weir.dpcore.models.solvers.solver import BatchSolver
from weir.dpcore.program import CAPACITY, Bounded, NoiseOf, OutputInfo, Released
from weir.dpcore.training import Whole, whole_init, whole_step

FIXED = 40
"""Bytes of state of a key beside its rows and its model: two counts, age and digest."""


@dataclass(frozen=True)
class IncrementalErm:
    """A linear model per key, fitted in private to everything so far at some public ticks.

    At the ticks of the schedule a batch solver minimises F, the sum of the losses of the key's rows
    up to and with this tick; in between, the last model is released again.

    Formal guarantees:
      Unit: one event, or one user in a period. Relation: any. A cap makes the rows of a tick
        compete, and the limit the rows of a prefix, so whatever the relation a neighbour swaps at
        most one row of each prefix that it is in for another, or adds or removes one (see
        ``Prefix``); two under replace_anywhere.
        A user-period swaps, one after the other, as many as it has rows (``rows_of_user``).
      Users: what is seen within n ticks of a period's last one are the runs of the S + n - 1 ticks
        from its first on.
      Guarantee: each run costs at most its share of the budget (``Queries``), and the shares that a
        record can pay within the window sum to 1 at most (``Schedule``). A run starts from the last
        release, which is an output. Between runs nothing is computed.
      Noise: each run's is keyed with the digest of every leaf up to its tick, so that equal noise
        never meets different data: a run's rows, its start and all its iterates are functions of
        those leaves.
      How many rows a key has stays private: sums are not divided by it, and steps follow a noisy
        count that the budget pays for.
      Source: Kasiviswanathan, Nissim, Jin (2017), mechanism PrivIncERM, composed as Gaussian DP,
        zCDP or pure epsilon in place of advanced composition.

    Attributes:
      scaling: the public ranges. schedule: when. solver: how; made of ``problem``.
      problem: what is minimised. cap: rows a key and tick. algorithm: its name in the config.
      pattern: cells of a user in a period; None: the unit is an event.
    """

    scaling: Scaling
    problem: Problem
    solver: BatchSolver
    schedule: Schedule
    cap: int
    algorithm: str
    pattern: Pattern | None = None

    leaf: ClassVar[Literal["sum", "rows"]] = "rows"
    dtype: ClassVar[Any] = np.float64
    capacity: ClassVar[int] = CAPACITY
    row_width: ClassVar[int] = 0
    most_users: ClassVar[None] = None
    sums: ClassVar[tuple[()]] = ()

    @property
    def dimension(self) -> int:
        """d, length of theta."""
        return self.problem.dimension

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return len(self.scaling.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return tuple(dict.fromkeys(self.scaling.columns))

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) float64 in [-1, 1]: scaled by the public ranges."""
        return self.scaling.bound(columns, n_events)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Rows are kept, not summed."""
        raise TypeError(f"{self.algorithm} takes rows, not sums.")

    @property
    def training(self) -> ErmTraining:
        """What Tick, Train and Assemble do."""
        return ErmTraining(self.problem, self.solver, self.schedule, self.width)

    def init(self, n_keys: int) -> Whole:
        """No rows, and the set's public start."""
        return whole_init(self.training, n_keys)

    def step(
        self, state: Whole, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[Whole, tuple[Floats, ...]]:
        """A stride -> new state, and theta (n, K, d) released at each tick.

        leaves: n row leaves of K keys, one a tick.
        """
        return whole_step(self.training, state, leaves, noise)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units."""
        gradients = self.problem.gradients
        return models(noisy[0], self.scaling, gradients.intercept, gradients.loss.labels)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival; of a
        user in a period, from the period's last tick on, and before it."""
        return self.schedule.loss(ticks if self.pattern is None else self.pattern.rows(ticks))

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The error of a solver is not additive: NaN."""
        moved = 2 * self.problem.changes * self.problem.lipschitz
        return model_outputs(self.scaling, self.problem.gradients.intercept, moved)

    @property
    def row_bytes(self) -> int:
        """Bytes of state that a row takes: its numbers, and its hash."""
        return 4 * self.width + 16

    @property
    def waiting(self) -> int:
        """Rows of a key that wait for the next run, at most; a run adds them to the others."""
        return min(self.problem.limit, self.cap * self.schedule.longest)

    def state_bytes(self) -> int:
        """Bytes of state per key that has as many rows as it may."""
        rows = self.problem.limit + self.waiting
        return rows * self.row_bytes + FIXED + 8 * self.dimension

    def gradient_stddev(self, share: Fraction) -> float:
        """Stddev of a coordinate of the noise on a sum of gradients, in a run of this share."""
        return self.solver.stddev(self.schedule.budget, share)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the plan should know."""
        limit = self.problem.limit
        mebibytes = limit * self.row_bytes / 2**20
        users = () if self.pattern is None else (self._users(),)
        return (
            *users,
            f"Rows are kept: each adds {self.row_bytes} bytes to the state of its key, up to "
            f"{limit:,} rows ({mebibytes:,.1f} MiB) and {self.waiting:,} since the last fit; of "
            f"more, a keyed hash keeps {limit:,} of all so far.",
            self._runs(),
        )

    def _users(self) -> str:
        return (
            f"Noise covers {self.problem.changes:,} rows, for all that a user may have in a "
            "period: they are not bounded together here, as online.follow_the_leader bounds them."
        )

    def _runs(self) -> str:
        phases = self.schedule.phases
        share = float(self.schedule.smallest)
        if len(phases) == 1:
            return (
                f"A model is fitted every {phases[0].every:,} ticks, with {share:.3g} of the "
                "budget each time; in between the last one is released again."
            )
        return (
            f"A model is fitted every {phases[0].every:,} ticks at first, less and less often in "
            f"{len(phases)} phases that double, each with the same share of the budget; a clock "
            "with an end, or a protection that ends, gives each run far more."
        )

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "program": self.algorithm,
            "scaling": self.scaling.canonical(),
            "solver": self.solver.canonical(),
            "schedule": self.schedule.canonical(),
            "cap": self.cap,
            **({} if self.pattern is None else {"span": self.pattern.span}),
        }
