"""How models of blocks are fitted off the path of ticks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.blocks.fitter import Draws, FitRun, Fitter
from weir.dpcore.models.blocks.partition import Blocks
from weir.dpcore.models.blocks.schedule import FitSchedule
from weir.dpcore.models.blocks.schedule import PlannedFit as Planned
from weir.dpcore.models.kit.kept import BlockRows, Prefix, row_digests, void
from weir.dpcore.noise.noise import NoiseOf
from weir.dpcore.training import Job, Models, Slice

WORK = 1 << 24
"""Products of a slice where few blocks of keys are fitted: a tenth of a second or less."""
STEP = 1 << 12
"""What an iteration costs next to its rows, in such products."""
FEWEST = 8
"""Iterations of a slice at least: every slice makes its rows ready first."""
ABREAST = 4
"""Blocks of keys that have slices of ``WORK``; of more, each has less."""


class BatchState(NamedTuple):
    """What Tick holds of K keys (clean rows: to be protected).

    Attributes:
      waiting: rows of blocks that are not complete.
      chain: (K, 2) uint64, XOR of the digests of all that each key has gathered.
      seen: (K,) int64, rows of each key so far.
    """

    waiting: Prefix
    chain: Digests
    seen: Ints


class Carry(NamedTuple):
    """Where a job is: which fit of which key, at which iteration, and the models so far.

    Attributes:
      at: (4,) int64: key, complete blocks, place among the fits, iteration.
      x, y: of the fit: of public lengths. slots, spans, shown: as in ``BlockTraining.models``.
    """

    at: Ints
    x: Floats
    y: Floats
    slots: Floats
    spans: Floats
    shown: Floats


@dataclass(frozen=True)
class BlockTraining:
    """Jobs at the ticks that may complete a block; each brings the rows of complete blocks.

    **Formal guarantees**: those of each level's fits, of ``FitSchedule`` for all of them, and of
    the cut for which rows a neighbour moves. What a fit starts from and is pulled to are released
    models. Its noise is keyed with the number of complete blocks, its place among the fits that
    they allow, the user key, and the digest of all that the key had gathered by that tick: where
    data differ all noise is new. How many iterations there are, and how they are cut into slices,
    follows from public numbers.

    Attributes:
      fitters: of each level of the schedule. schedule: which fits. cut: into blocks.
      width: numbers in a row. shared: whether rows say how many share their weight; then fits
        are of weighed rows. sparse: whether rows are packed without their zeros.
    """

    fitters: tuple[Fitter, ...]
    schedule: FitSchedule
    cut: Blocks
    width: int
    shared: bool = False
    sparse: bool = False

    @property
    def form(self) -> int:
        if self.sparse:
            return 4
        return 3 if self.shared else 2

    @property
    def dimension(self) -> int:
        """D."""
        return self.fitters[0].dimension

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        return self.cut.due(first, stop)

    def gathered(self, n_keys: int) -> BatchState:
        chain, seen = np.zeros((n_keys, 2), dtype=np.uint64), np.zeros(n_keys, dtype=np.int64)
        return BatchState(Prefix.empty(n_keys, self.width, self.sparse), chain, seen)

    def jobs(
        self, state: BatchState, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[BatchState, tuple[Job, ...]]:
        keyed = noise(0)
        first, chain = keyed.first_tick, state.chain.copy()
        due = set(self.due(first, first + len(leaves)))
        waiting, seen, fresh = state.waiting, state.seen.copy(), list[RowLeaf]()
        jobs: list[Job] = []
        for i, digests in enumerate(row_digests(leaves, keyed)):
            chain ^= digests
            fresh.append(leaves[i])
            if first + i in due:
                cut = self.cut.take(waiting, fresh, first + i, seen)
                numbers = np.stack([cut.before, cut.after], axis=1)
                jobs.append(Job(first + i, chain.copy(), numbers, cut.rows))
                waiting, seen = cut.waiting, seen + _counts(fresh)
                fresh = []
        if fresh:
            waiting, seen = self.cut.wait(waiting, fresh), seen + _counts(fresh)
        return BatchState(waiting, chain, seen), tuple(jobs)

    def no_rows(self, n_keys: int) -> BlockRows:
        return BlockRows.empty(n_keys, self.width + self.shared, self.sparse)

    def admit(self, kept: BlockRows, job: Job) -> BlockRows:
        """See Training: without blocks that no fit reads from here on."""
        following = job.numbers[:, 0] + 1
        oldest = {t: self.schedule.oldest(t) for t in np.unique(following).tolist()}
        bounds = np.array([oldest[t] for t in following.tolist()], dtype=np.int64)
        return kept.joined(job.rows, bounds)

    def models(self, n_keys: int) -> Models:
        """See Training: (K, S, D) the slots, all 0; (K, S, 2) the blocks behind each, and (K, 3)
        the slot that is released with the blocks behind it: -1 where there is nothing yet."""
        slots = self.schedule.slots
        return (
            np.zeros((n_keys, slots, self.dimension)),
            np.full((n_keys, slots, 2), -1.0),
            np.full((n_keys, 3), -1.0),
        )

    def carry(self, n_keys: int) -> Carry:
        return Carry(*self._nothing(), *self.models(n_keys))

    def _nothing(self) -> tuple[Ints, Floats, Floats]:
        first, second = (
            max(some) for some in zip(*(fitter.sizes for fitter in self.fitters), strict=True)
        )
        return np.zeros(4, dtype=np.int64), np.zeros(first), np.zeros(second)

    def begin(self, job: Job, kept: BlockRows, before: Models, noise: NoiseOf) -> Carry:
        return Carry(*self._nothing(), *(array.copy() for array in before))

    def train_step(
        self, job: Job, kept: BlockRows, carry: Carry, noise: NoiseOf, iterations: int
    ) -> Slice:
        done = int(carry.at[3])
        x, y = carry.x, carry.y
        slots, spans, shown = (array.copy() for array in carry[3:])
        left, failed = iterations, 0
        for key, complete, place in self._todo(job, *carry.at[:3].tolist()):
            if left <= 0:
                break
            fit = self.schedule.fits(complete)[place]
            keyed = noise(0).at(job.tick, slice(key, key + 1))
            draws = Draws(keyed, place, complete, job.digests[key])
            total = self.fitters[fit.level].steps
            run = self._run(kept, key, fit, slots[key], draws)
            if done == 0:
                x, y = run.start()
            steps = min(left, total - done)
            x, y = run.advance(x, y, done, steps)
            left, done = left - steps, done + steps
            if done < total or left <= 0:
                break
            left -= 1
            slots[key, fit.slot], wrong = run.finish(x, y)
            failed += wrong
            spans[key, fit.slot] = (fit.first, fit.last)
            self._show(key, complete, spans, shown)
            done = 0
        else:
            return Slice(carry, (slots, spans, shown), left, failed)
        at = np.array([key, complete, place, done], dtype=np.int64)
        return Slice(Carry(at, x, y, slots, spans, shown), None, 0, failed)

    def _todo(
        self, job: Job, key: int, complete: int, place: int
    ) -> Iterator[tuple[int, int, int]]:
        """(key, complete blocks, place) of every fit from one on."""
        for k in range(key, len(job.numbers)):
            before, after = job.numbers[k].tolist()
            start = max(before + 1, complete) if k == key else before + 1
            for t in range(start, after + 1):
                skip = place if k == key and t == complete else 0
                for i in range(skip, len(self.schedule.fits(t))):
                    yield k, t, i

    def _run(self, kept: BlockRows, key: int, fit: Planned, slots: Floats, draws: Draws) -> FitRun:
        """The fit, with its rows in hand."""
        fitter = self.fitters[fit.level]
        after = np.zeros(self.dimension) if fit.after is None else slots[fit.after]
        chosen = fitter.sample(draws)
        weights: Floats | None = None
        if self.shared:
            features, targets, weights = kept.weighed(key, fit.first, fit.last, chosen)
        else:
            features, targets = kept.of(key, fit.first, fit.last, self.width, chosen)
        places = _places(kept, key, fit) if fitter.by_place else None
        return fitter.fit(features, targets, after, draws, weights, places)

    def _show(self, key: int, complete: int, spans: Floats, shown: Floats) -> None:
        """What is released once a fit is done; nothing before a slot was fitted for this key."""
        result = self.schedule.shown(complete)
        if result is not None and spans[key, result.slot, 0] >= 0:
            shown[key] = result

    def iterations(self, n_keys: int, blocks: int) -> int:
        """See Training. As if every fit were the largest."""
        each = max(fitter.work for fitter in self.fitters) + STEP
        return max(FEWEST, WORK // (each * -(-blocks // ABREAST)))

    def assemble(
        self, before: Models, fitted: Mapping[int, Models], first: int, ticks: int
    ) -> tuple[Models, tuple[Floats, ...]]:
        """See Training: theta (ticks, K, D) and the blocks behind it (ticks, K, 2); NaN where there
        is nothing yet."""
        n_keys = len(before[0])
        theta, behind = np.empty((ticks, n_keys, self.dimension)), np.empty((ticks, n_keys, 2))
        newest = _newest(before)
        for i in range(ticks):
            if first + i in fitted:
                before = fitted[first + i]
                newest = _newest(before)
            theta[i], behind[i] = newest
        return tuple(model.copy() for model in before), (theta, behind)


def _newest(models: Models) -> tuple[Floats, Floats]:
    """(K, D) and (K, 2) of what is released."""
    slots, _, shown = models
    some: NDArray[np.bool_] = shown[:, 0] >= 0
    slot = np.maximum(shown[:, 0], 0).astype(np.int64)
    theta = np.where(some[:, None], slots[np.arange(len(slots)), slot], np.nan)
    return theta, np.where(some[:, None], shown[:, 1:], np.nan)


def _places(kept: BlockRows, key: int, fit: Planned) -> Ints:
    """(n,) places among all rows of a fit of those that are not void."""
    start = int(kept.counts[:key].sum())
    blocks = kept.blocks[start : start + int(kept.counts[key])]
    begin, end = np.searchsorted(blocks, [fit.first, fit.last + 1]).tolist()
    return np.flatnonzero(~void(kept.rows)[start + begin : start + end])


def _counts(leaves: list[RowLeaf]) -> Ints:
    """(K,) rows of each key."""
    return np.asarray(sum(leaf.counts for leaf in leaves), dtype=np.int64)
