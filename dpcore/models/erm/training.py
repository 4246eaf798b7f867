"""How incremental ERM is fitted off the path of ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.erm.schedule import Schedule
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit import rows as lattice
from weir.dpcore.models.kit.grid import grid_of, to_grid
from weir.dpcore.models.kit.kept import VOID, Dense, Prefix, row_digests
from weir.dpcore.models.solvers.design import Design
from weir.dpcore.models.solvers.problem import Problem
from weir.dpcore.models.solvers.queries import Queries
from weir.dpcore.models.solvers.solver import BatchSolver
from weir.dpcore.noise.noise import NoiseOf
from weir.dpcore.training import Job, Models, Slice, carried

WORK = 1 << 23
"""Numbers of rows that a slice reads where few blocks are fitted: a tenth of a second."""
STEP = 1 << 13
"""What a step costs beside its rows, in such numbers, and what a key adds to it."""
STEP_OF_KEY = 1 << 8
FEWEST = 8
"""Iterations of a slice at least: every slice makes the rows ready first, which costs as much as
eight iterations over them."""
ABREAST = 4
"""Blocks that have slices of ``WORK``; of more, each has less: a bundle on one of two workers then
has slices of a quarter of a second in all, however many blocks are fitted."""


class Gathered(NamedTuple):
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
    schedule: Schedule
    width: int

    form: ClassVar[int] = 1

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        """See Training."""
        return self.schedule.runs(first, stop)

    def gathered(self, n_keys: int) -> Gathered:
        """See Training."""
        chain, age = np.zeros((n_keys, 2), dtype=np.uint64), np.zeros(n_keys, dtype=np.int64)
        return Gathered(self.no_rows(n_keys), chain, age)

    def jobs(
        self, state: Gathered, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[Gathered, tuple[Job, ...]]:
        """See Training."""
        keyed, limit = noise(0), self.problem.limit
        first, chain = keyed.first_tick, state.chain.copy()
        due = set(self.due(first, first + len(leaves)))
        rows, waiting = state.waiting, list[RowLeaf]()
        found: list[Job] = []
        for i, digests in enumerate(row_digests(leaves, keyed)):
            chain ^= digests
            waiting.append(leaves[i])
            if first + i in due:
                age = (state.age + i + 1)[:, None]
                own = rows.with_rows(waiting, limit)
                found.append(Job(first + i, chain.copy(), age, own))
                rows, waiting = self.no_rows(len(chain)), []
        rows = rows.with_rows(waiting, limit)
        return Gathered(rows, chain, state.age + len(leaves)), tuple(found)

    def no_rows(self, n_keys: int) -> Prefix:
        """See Training."""
        return Prefix.empty(n_keys, self.width)

    def admit(self, kept: Prefix, job: Job) -> Prefix:
        """See Training: every later run reads all rows so far, within the limit."""
        return kept.joined(job.rows, self.problem.limit)

    def models(self, n_keys: int) -> Models:
        """See Training: the set's public start."""
        start = np.repeat(self.problem.set.start()[None], n_keys, axis=0)
        return (to_grid(start, grid_of(self.problem.set)),)

    def carry(self, n_keys: int) -> Any:
        """See Training."""
        return self.solver.carry(n_keys)

    def begin(self, job: Job, kept: Prefix, before: Models, noise: NoiseOf) -> Any:
        """See Training."""
        strength = np.asarray(self.problem.curvature * job.numbers[:, 0], dtype=np.float64)
        return self.solver.begin(self._queries(job, kept, noise), before[0], strength)

    def train_step(
        self, job: Job, kept: Prefix, carry: Any, noise: NoiseOf, iterations: int
    ) -> Slice:
        """See Training."""
        queries = self._queries(job, kept, noise, carry)
        carry, found, left = self.solver.advance(queries, carry, iterations)
        return Slice(carry, None if found is None else (found,), left)

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
