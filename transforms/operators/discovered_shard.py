"""Steps one block whose keys are found in private: ``BlockState`` for such plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from weir.dpcore.arrays import Ints
from weir.dpcore.discovery.prefilter import prefilter
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.discovery.step import step
from weir.dpcore.discovery.waiting import Block
from weir.dpcore.program import Program
from weir.transforms.operators.noise_source import NoiseSource
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.operators.pending import PendingSums
from weir.transforms.operators.stride import NoisyStride, boundaries


class DiscoveredShard:
    """One block on its way from tick to tick; see ``dpcore.discovery.step``.

    Strides end where public numbers say so, and tell from which tick on each of their keys is live:
    how many keys wait, and what is known of them, shapes nothing that leaves. Where all of a period
    is stepped at once, keys that cannot be found in it are told first
    (``dpcore.discovery.prefilter``).

    Args:
      program: what runs; its leaves are sums. rule: when a key is found.
      noise: where its noise comes from.
      block: which block. every: ticks a sink's file covers; no stride crosses a multiple of it.
      content: what it is before the first tick to step.
    """

    def __init__(
        self,
        program: Program,
        rule: DiscoveryRule,
        noise: NoiseSource,
        block: int,
        every: int,
        content: Block,
    ) -> None:
        self._program, self._rule, self._noise = program, rule, noise
        self._block, self._every = block, every
        self.content = content

    def advance(
        self, leaves: Sequence[PartialLeaf], first: int, stop: int
    ) -> Iterator[NoisyStride]:
        """Steps through [first, stop), every tick whether or not data came.

        Args:
          leaves: of ticks [first, stop), in any order.

        Yields:
          NoisyStrides in order of ticks.
        """
        pending = PendingSums(self._program, leaves)
        inside = {*self._noise.edges(first, stop), *self._rule.edges(first, stop)}
        edges = sorted({first, stop, *inside})
        for begin, end in zip(edges, edges[1:], strict=False):
            low = begin
            aside = self._aside(begin, end, pending)
            while low < end:
                width = max(1, len(self.content.live)) * self._program.dimension
                _, high = next(boundaries(low, end, self._every, width))
                waiting = int(np.searchsorted(aside, high))
                yield self._step(low, high, pending, waiting)
                low = high

    def _aside(self, begin: int, end: int, pending: PendingSums) -> Ints:
        """Of a whole period: takes keys away that cannot be found, and tells the first tick of
        each, in order."""
        rule = self._rule
        last = rule.periods.last(int(rule.periods.of(np.array([begin]))[0]))
        if rule.start(begin) != begin or last != end - 1:
            return np.zeros(0, dtype=np.int64)
        live, gone, firsts = set(self.content.live), list[bytes](), [np.zeros(0, dtype=np.int64)]
        for names, cells in pending.groups(begin, end):
            inside = self._noise.sampled(names, rule.discover.sample)
            fresh = np.array(
                [
                    name not in live and retained
                    for name, retained in zip(names, inside, strict=True)
                ],
                dtype=bool,
            )
            if not fresh.all():
                cells = cells.renumbered(np.where(fresh, np.cumsum(fresh) - 1, -1))
                names = [names[row] for row in np.flatnonzero(fresh).tolist()]
            out = prefilter(rule, self._noise, names, cells, begin, end)
            first = np.full(len(names), end, dtype=np.int64)
            first[cells.rows[::-1]] = cells.ticks[::-1]  # ticks are sorted: the last is the first
            firsts.append(first[out])
            gone += [names[row] for row in np.flatnonzero(out).tolist()]
        pending.leave_out(begin, end, gone)
        return np.sort(np.concatenate(firsts))

    def _step(self, low: int, high: int, pending: PendingSums, aside: int) -> NoisyStride:
        names, cells = pending.cells(low, high)
        self.content, piece = step(
            self._program, self._rule, self._noise, self.content, names, cells, low, high, aside
        )
        return NoisyStride(self._block, low, high - low, piece.keys, piece.arrays, piece.births)
