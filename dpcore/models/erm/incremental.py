"""Models fitted again to kept rows: the program, and its training off the path of ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.erm.schedule import RefitSchedule
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit import rows as lattice
from weir.dpcore.models.kit.kept import VOID, Dense, Prefix, row_digests
from weir.dpcore.models.kit.point import grid_of, to_grid
from weir.dpcore.models.kit.rows import (
    ScaledRows,
    Scaling,
    model_outputs,
    names_of_models,
    released_models,
)
from weir.dpcore.models.solvers.design import Design
from weir.dpcore.models.solvers.queries import Problem, Queries
from weir.dpcore.models.solvers.solver import BatchSolver
from weir.dpcore.noise.noise import NoiseOf
from weir.dpcore.program import OutputInfo, Released, TrainedProgram
from weir.dpcore.training import Job, Models, Slice, carried

WORK = 1 << 23
"""Numbers of rows that a slice reads where few blocks are fitted: a tenth of a second."""
STEP = 1 << 13
"""What a step costs next to its rows, in such numbers, and what a key adds to it."""
STEP_OF_KEY = 1 << 8
FEWEST = 8
"""Iterations of a slice at least: every slice makes the rows ready first, which costs as much as
eight iterations over them."""
ABREAST = 4
"""Blocks that have slices of ``WORK``; of more, each has less: a bundle on one of two workers then
has slices of a quarter of a second in all, however many blocks are fitted."""


class RefitState(NamedTuple):
    """What Tick holds of K keys (clean rows: to be protected).

    Attributes:
      waiting: rows since the last run.
      chain: (K, 2) uint64, XOR of the digests of all that each key has gathered.
      age: (K,) int64, ticks since the key's first.
    """

    waiting: Prefix
    chain: Digests
    age: Ints


@dataclass(frozen=True)
class ErmTraining:
    """Jobs of ``IncrementalErm``: one at each tick of the schedule, with the rows since the last.

    Train keeps the prefix, and a run starts from the model of the run before.

    Attributes:
      problem: what is minimised. solver: how. schedule: when. width: numbers in a row.
    """

    problem: Problem
    solver: BatchSolver
    schedule: RefitSchedule
    width: int

    form: ClassVar[int] = 1

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        return self.schedule.runs(first, stop)

    def gathered(self, n_keys: int) -> RefitState:
        chain, age = np.zeros((n_keys, 2), dtype=np.uint64), np.zeros(n_keys, dtype=np.int64)
        return RefitState(self.no_rows(n_keys), chain, age)

    def jobs(
        self, state: RefitState, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[RefitState, tuple[Job, ...]]:
        keyed, limit = noise(0), self.problem.limit
        first, chain = keyed.first_tick, state.chain.copy()
        due = set(self.due(first, first + len(leaves)))
        rows, waiting = state.waiting, list[RowLeaf]()
        jobs: list[Job] = []
        for i, digests in enumerate(row_digests(leaves, keyed)):
            chain ^= digests
            waiting.append(leaves[i])
            if first + i in due:
                age = (state.age + i + 1)[:, None]
                own = rows.with_rows(waiting, limit)
                jobs.append(Job(first + i, chain.copy(), age, own))
                rows, waiting = self.no_rows(len(chain)), []
        rows = rows.with_rows(waiting, limit)
        return RefitState(rows, chain, state.age + len(leaves)), tuple(jobs)

    def no_rows(self, n_keys: int) -> Prefix:
        return Prefix.empty(n_keys, self.width)

    def admit(self, kept: Prefix, job: Job) -> Prefix:
        """See Training: every later run reads all rows so far, within the limit."""
        return kept.joined(job.rows, self.problem.limit)

    def models(self, n_keys: int) -> Models:
        """See Training: the set's public start."""
        start = np.repeat(self.problem.set.start()[None], n_keys, axis=0)
        return (to_grid(start, grid_of(self.problem.set)),)

    def carry(self, n_keys: int) -> Any:
        return self.solver.carry(n_keys)

    def begin(self, job: Job, kept: Prefix, before: Models, noise: NoiseOf) -> Any:
        strength = np.asarray(self.problem.curvature * job.numbers[:, 0], dtype=np.float64)
        return self.solver.begin(self._queries(job, kept, noise), before[0], strength)

    def train_step(
        self, job: Job, kept: Prefix, carry: Any, noise: NoiseOf, iterations: int
    ) -> Slice:
        queries = self._queries(job, kept, noise, carry)
        carry, result, left = self.solver.advance(queries, carry, iterations)
        return Slice(carry, None if result is None else (result,), left)

    def _queries(self, job: Job, kept: Prefix, noise: NoiseOf, carry: Any = None) -> Queries:
        share = self.schedule.share(job.tick)
        assert share is not None
        design = design_of(kept, self.problem.gradients)
        paid = () if carry is None else (self.solver.paid(carry),)
        keyed, budget = noise(0), self.schedule.budget
        return Queries(self.problem, design, keyed, job.digests, budget, share, *paid)

    def iterations(self, n_keys: int, blocks: int) -> int:
        """See Training. As if every key had as many rows as it may."""
        each = n_keys * (self.problem.limit * self.problem.dimension + STEP_OF_KEY) + STEP
        return max(FEWEST, WORK // (each * -(-blocks // ABREAST)))

    def assemble(
        self, before: Models, fitted: Mapping[int, Models], first: int, ticks: int
    ) -> tuple[Models, tuple[Floats, ...]]:
        """See Training: between runs the last model is released again."""
        return carried(before, fitted, first, ticks)


def design_of(kept: Prefix, gradients: Gradients) -> Design:
    """Kept rows as floats, for a solver: those that have a gradient. Void ones have taken their
    place within cap and limit, and are in no sum and no count: that swaps, adds or removes one row.
    """
    dense = cast(Dense, kept.rows)
    said = dense[:, -1] != VOID
    rows = np.multiply(dense[said], lattice.STEP, dtype=np.float64)
    return Design.of(kept.keys[said], rows, kept.hashes[said], gradients)


FIXED = 40
"""Bytes of state of a key next to its rows and its model: two counts, age and digest."""


@dataclass(frozen=True)
class IncrementalErm(ScaledRows, TrainedProgram):
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
        record can pay within the window sum to 1 at most (``RefitSchedule``). A run starts from the
        last release, which is an output. Between runs nothing is computed.
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
    schedule: RefitSchedule
    cap: int
    algorithm: str
    pattern: Pattern | None = None

    @property
    def dimension(self) -> int:
        """d, length of theta."""
        return self.problem.dimension

    @property
    def training(self) -> ErmTraining:
        """What Tick, Train and Assemble do."""
        return ErmTraining(self.problem, self.solver, self.schedule, self.width)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units."""
        gradients, theta = self.problem.gradients, noisy[0]
        own = self.scaling.coefficients(theta, gradients.intercept, gradients.loss.labels)
        return released_models(theta, own)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival; of a
        user in a period, from the period's last tick on, and before it."""
        return self.schedule.loss(ticks if self.pattern is None else self.pattern.rows(ticks))

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The error of a solver is not additive: NaN."""
        moved = 2 * self.problem.changes * self.problem.lipschitz
        names = names_of_models(self.scaling, self.problem.gradients.intercept)
        return model_outputs(*names, moved)

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
