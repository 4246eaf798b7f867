"""Steps one block from tick to tick: the part of Tick that knows no Beam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.mechanism import State
from dpcore.plan import CAPACITY
from dpcore.program import Program, concatenate
from transforms import partial, tally
from transforms.coders import flatten, pack, pack_names, restore, unpack, unpack_names
from transforms.noise_source import NoiseSource
from transforms.partial import PartialLeaf
from transforms.strides import NoisyStride, boundaries

KIND = b"M"
ROOM = 1 << 61
"""A cell with more events than CAPACITY is held within this: each coordinate clamped (1-Lipschitz)."""


class Stepper:
    """State of one block: its keys in order of their rows, and the program's arrays.

    Args:
      program: what runs. noise: where its noise comes from. layout: 32 bytes that name plan and blocks.
      block: which block. every: ticks a sink's file covers; no stride crosses a multiple of it.
      keys: declared keys in order; for discovered keys the block starts without any.
      observed: whether keys are discovered.
    """

    def __init__(
        self,
        program: Program,
        noise: NoiseSource,
        layout: bytes,
        block: int,
        every: int,
        keys: Sequence[bytes],
        observed: bool,
    ) -> None:
        self._program, self._noise, self._layout = program, noise, layout
        self._block, self._every, self._observed = block, every, observed
        self._keys = tuple(keys)
        self._state: State | None = None

    def load(self, data: bytes | None) -> None:
        """Takes stored state, or starts afresh without.

        Raises:
          CodecError: it belongs to another plan, another layout of keys, or another codec.
        """
        if data is None:
            self._state = self._program.init(len(self._keys)) if self._keys else None
            return
        offsets, joined, *arrays = unpack(KIND, data, self._layout)
        self._keys = tuple(unpack_names(offsets, joined))
        self._state = restore(self._program.init(1), arrays) if self._keys else None

    def dump(self) -> bytes:
        """State to store."""
        arrays = [] if self._state is None else flatten(self._state)
        return pack(KIND, [*pack_names(self._keys), *arrays], self._layout)

    def advance(
        self, payloads: Sequence[bytes], first: int, stop: int
    ) -> Iterator[NoisyStride | bytes]:
        """Steps through [first, stop), every tick whether or not data came.

        Args:
          payloads: partial leaves of ticks >= first; what lies at or behind ``stop`` is given back.

        Yields:
          NoisyStrides in order of ticks, and bytes: payloads that are for later.
        """
        parts = [partial.decode(data) for data in payloads]
        now: list[PartialLeaf] = []
        for data, part in zip(payloads, parts, strict=True):
            cut = int(np.searchsorted(part.ticks, stop))
            if cut == 0:
                yield data
                continue
            if cut < len(part.ticks):
                yield partial.encode(part.take(slice(cut, None)))
            now.append(part.take(slice(0, cut)))
        leaf = held_in_room(partial.merge(now, self._program.dimension), now)
        born, leaf = self._admit(leaf)
        for low, high in self._cut(first, stop, list(born)):
            here = slice(*np.searchsorted(leaf.ticks, [low, high]))
            yield self._step(low, high, born.get(low, ()), leaf.take(here))

    def _admit(self, leaf: PartialLeaf) -> tuple[dict[int, tuple[bytes, ...]], PartialLeaf]:
        """Rows for new keys: behind the old ones, in order of (tick, bytes); rows never move.

        Returns:
          Tick -> keys born then, and the leaf with rows of this block.
        """
        if not self._observed:
            return {}, leaf
        names = leaf.names
        first = np.zeros(len(names), dtype=np.int64)
        first[leaf.rows[::-1]] = leaf.ticks[::-1]  # ticks are sorted: the last write is the first
        place = {key: row for row, key in enumerate(self._keys)}
        seen = np.unique(leaf.rows).tolist()
        fresh = sorted((int(first[i]), names[i]) for i in seen if names[i] not in place)
        born: dict[int, tuple[bytes, ...]] = {}
        for tick, name in fresh:
            place[name] = len(place)
            born[tick] = (*born.get(tick, ()), name)
        rows = np.array([place.get(name, -1) for name in names], dtype=np.int64)
        return born, leaf._replace(rows=rows[leaf.rows])

    def _cut(self, first: int, stop: int, born: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Strides; a key's birth begins a new one."""
        edges = sorted({first, stop, *born})
        for low, high in zip(edges, edges[1:], strict=False):
            width = max(1, len(self._keys)) * self._program.dimension
            yield from boundaries(low, high, self._every, width)

    def _step(
        self, low: int, high: int, born: tuple[bytes, ...], leaf: PartialLeaf
    ) -> NoisyStride:
        if born:
            fresh = self._program.init(len(born))
            self._state = fresh if self._state is None else concatenate([self._state, fresh])
            self._keys += born
        n, n_keys = high - low, len(self._keys)
        tally.add("ticks_released", n)
        if not n_keys:
            return NoisyStride(self._block, low, n, (), ())
        leaves = np.zeros((n, n_keys, self._program.dimension), dtype=np.int64)
        leaves[leaf.ticks - low, leaf.rows] = leaf.values
        noise = self._noise.noise_of(self._keys, low)
        self._state, noisy = self._program.step(self._state, leaves, noise)
        return NoisyStride(self._block, low, n, self._keys, noisy)


def held_in_room(leaf: PartialLeaf, parts: Sequence[PartialLeaf]) -> PartialLeaf:
    """Cells with more events than CAPACITY: exact sums, each coordinate clamped to ROOM.

    A clamp of each coordinate is 1-Lipschitz, so one event still moves a leaf by no more than itself.
    """
    for cell in np.flatnonzero(leaf.counts > CAPACITY).tolist():
        total = np.zeros(leaf.values.shape[1], dtype=object)
        for part in parts:
            mine = (part.ticks == leaf.ticks[cell]) & _same_row(leaf, cell, part)
            total += part.values[mine].astype(object).sum(axis=0)
        leaf.values[cell] = [max(-ROOM, min(ROOM, int(value))) for value in total]
        tally.add("over_capacity", int(leaf.counts[cell]) - CAPACITY)
    return leaf


def _same_row(leaf: PartialLeaf, cell: int, part: PartialLeaf) -> NDArray[np.bool_]:
    row = int(leaf.rows[cell])
    if not leaf.names:
        return np.asarray(part.rows == row)
    name = leaf.names[row]
    return np.array([part.names[i] == name for i in part.rows], dtype=bool)
