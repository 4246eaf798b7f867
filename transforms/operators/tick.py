"""Tick: steps one block of keys from tick to tick, and draws noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import concatenate
from weir.dpcore.program import Program
from weir.transforms.operators import jobs
from weir.transforms.operators.block_cells import Content, init
from weir.transforms.operators.jobs import Numbered
from weir.transforms.operators.noise_source import NoiseSource
from weir.transforms.operators.pending import Pending, pending_of
from weir.transforms.operators.stride import NoisyStride, boundaries


class BlockState:
    """One block on its way from tick to tick: its keys in order of their rows, and its state.

    Args:
      program: what runs. noise: where its noise comes from.
      layout: 32 bytes that name the plan and its blocks.
      block: which block. every: ticks a sink's file covers; no stride crosses a multiple of it.
      content: what it is before the first tick to step.
      observed: whether keys are discovered.
    """

    def __init__(
        self,
        program: Program,
        noise: NoiseSource,
        layout: bytes,
        block: int,
        every: int,
        content: Content,
        observed: bool,
    ) -> None:
        self._program, self._noise, self._layout = program, noise, layout
        self._block, self._every, self._observed = block, every, observed
        self._keys, self._state, self._sent = content

    @property
    def content(self) -> Content:
        """What it is behind the last tick that was stepped."""
        return Content(self._keys, self._state, self._sent)

    def send(self, sent: Numbered) -> bytes:
        """A job as bytes."""
        training = self._program.training
        assert training is not None
        mark = self._noise.mark(sent.job.tick + 1)
        return jobs.encode(sent, training.form, self._layout, mark)

    def advance(
        self, leaves: Sequence[Any], first: int, stop: int
    ) -> Iterator[NoisyStride | Numbered]:
        """Steps through [first, stop), every tick whether or not data came.

        Args:
          leaves: of ticks [first, stop), in any order (see ``pending.pending_of``).

        Yields:
          NoisyStrides in order of ticks; where models are fitted elsewhere, each behind its jobs.
        """
        pending = pending_of(self._program, leaves)
        born = self._admit(pending)
        for low, high in self._cut(first, stop, list(born)):
            yield from self._step(low, high, born.get(low, ()), pending)

    def _admit(self, pending: Pending) -> dict[int, tuple[bytes, ...]]:
        """Rows for new keys: behind the old ones, in order of (tick, bytes); rows never move.

        Returns:
          Tick -> keys born then.
        """
        if not self._observed:
            return {}
        place = {key: row for row, key in enumerate(self._keys)}
        fresh = sorted((tick, name) for name, tick in pending.firsts().items() if name not in place)
        born: dict[int, list[bytes]] = {}
        for tick, name in fresh:
            place[name] = len(place)
            born.setdefault(tick, []).append(name)
        pending.settle(place)
        return {tick: tuple(names) for tick, names in born.items()}

    def _cut(self, first: int, stop: int, born: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Strides; a key's birth begins a new one, and so does another secret."""
        edges = sorted({first, stop, *born, *self._noise.edges(first, stop)})
        for low, high in zip(edges, edges[1:], strict=False):
            width = max(1, len(self._keys)) * self._program.dimension
            yield from boundaries(low, high, self._every, width)

    def _step(
        self, low: int, high: int, born: tuple[bytes, ...], pending: Pending
    ) -> Iterator[NoisyStride | Numbered]:
        if born:
            fresh = init(self._program, len(born))
            self._state = fresh if self._state is None else concatenate([self._state, fresh])
            self._keys += born
        n, n_keys = high - low, len(self._keys)
        if not n_keys:
            yield NoisyStride(self._block, low, n, (), ())
            return
        noise = self._noise.noise_of(self._keys, low)
        leaves = pending.leaves(low, high, n_keys)
        training = self._program.training
        noisy: tuple[NDArray[np.float64], ...] = ()
        if training is None:
            self._state, noisy = self._program.step(self._state, leaves, noise)
        else:
            self._state, result = training.jobs(self._state, leaves, noise)
            for job in result:
                yield Numbered(self._block, self._sent, self._keys, job)
                self._sent += 1
        yield NoisyStride(self._block, low, n, self._keys, noisy)
