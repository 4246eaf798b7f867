"""Steps one block from tick to tick: the part of Tick that knows no Beam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.arrays import State, arrays_of, concatenate
from dpcore.errors import CodecError
from dpcore.program import Program
from transforms.release.noisy import NoisyStride, boundaries
from transforms.runtime.coders import (
    NO_MARK,
    header_of,
    kind_of,
    pack,
    pack_names,
    restore,
    unpack,
    unpack_names,
)
from transforms.tick import jobs
from transforms.tick.jobs import Numbered
from transforms.tick.noise_source import NoiseSource
from transforms.tick.pending import Pending, pending_of

KIND, GATHERED = b"M", b"G"
"""Kinds of stored state: what is released is made of it, or models are fitted elsewhere."""


class BlockState:
    """State of one block: its keys in order of their rows, and the program's arrays.

    Args:
      program: what runs. noise: where its noise comes from.
      layout: 32 bytes that name the plan and its blocks.
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
        self._sent = 0

    def load(self, data: bytes | None, first: int) -> None:
        """Takes stored state, or starts afresh without.

        Args:
          first: the next tick to step.

        Raises:
          CodecError: it belongs to another plan, another layout of keys, another secret, or a codec
            that this build does not know.
        """
        if data is None:
            self._state = self._init(len(self._keys)) if self._keys else None
            return
        arrays = self._unpacked(data, first)
        mark = header_of(data).mark
        if mark not in (NO_MARK, self._noise.mark(first)):
            raise CodecError(
                f"stored state up to tick {first} was made with other secrets than those given: "
                "noise of two secrets on the same data gives the data away. Go on with the secret "
                "of that run; a new one goes under secret.rotate, from a tick that is still ahead."
            )
        self._keys = tuple(unpack_names(*arrays[:2]))
        self._state = restore(self._init(1), arrays[2:]) if self._keys else None

    def _init(self, n_keys: int) -> State:
        training = self._program.training
        return self._program.init(n_keys) if training is None else training.gathered(n_keys)

    def _unpacked(self, data: bytes, first: int) -> list[NDArray[Any]]:
        """Names of keys and the state's arrays."""
        if self._program.training is None:
            return unpack(KIND, data, self._layout, first)
        if kind_of(data) == KIND:
            raise CodecError(
                "stored state is of a build that fitted models within Tick; this build fits them "
                "in a step of their own (Train) and cannot go on from it: go on with the build "
                "that wrote it, or start a new run."
            )
        sent, *arrays = unpack(GATHERED, data, self._layout, first)
        self._sent = int(sent[0])
        return arrays

    def dump(self, stop: int) -> bytes:
        """State to store, after every tick before ``stop``."""
        arrays = [] if self._state is None else arrays_of(self._state)
        arrays = [*pack_names(self._keys), *arrays]
        mark = self._noise.mark(stop)
        if self._program.training is None:
            return pack(KIND, arrays, self._layout, mark, stop)
        sent = np.array([self._sent], dtype=np.int64)
        return pack(GATHERED, [sent, *arrays], self._layout, mark, stop)

    def send(self, sent: Numbered) -> bytes:
        """A job as bytes."""
        training = self._program.training
        assert training is not None
        mark = self._noise.mark(sent.job.tick + 1)
        return jobs.encode(sent, training.form, self._layout, mark)

    def advance(
        self, payloads: Sequence[bytes], first: int, stop: int
    ) -> Iterator[NoisyStride | Numbered | bytes]:
        """Steps through [first, stop), every tick whether or not data came.

        Args:
          payloads: partial leaves of ticks >= first; what lies at or behind ``stop`` is given back.

        Yields:
          Payloads that are for later, as bytes, and then NoisyStrides in order of ticks; where
          models are fitted elsewhere, each behind its jobs.
        """
        pending = pending_of(self._program, payloads, stop)
        yield from pending.later
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
            fresh = self._init(len(born))
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
            self._state, found = training.jobs(self._state, leaves, noise)
            for job in found:
                yield Numbered(self._block, self._sent, self._keys, job)
                self._sent += 1
        yield NoisyStride(self._block, low, n, self._keys, noisy)
