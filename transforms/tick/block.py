"""Steps one block from tick to tick: the part of Tick that knows no Beam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpcore.arrays import State, arrays_of, concatenate
from dpcore.errors import CodecError
from dpcore.program import Program
from transforms.release.noisy import NoisyStride, boundaries
from transforms.runtime import counters
from transforms.runtime.coders import (
    NO_MARK,
    header_of,
    pack,
    pack_names,
    restore,
    unpack,
    unpack_names,
)
from transforms.tick.noise_source import NoiseSource
from transforms.tick.pending import Pile, pile_of

KIND = b"M"


class Stepper:
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

    def load(self, data: bytes | None, first: int) -> None:
        """Takes stored state, or starts afresh without.

        Args:
          first: the next tick to step.

        Raises:
          CodecError: it belongs to another plan, another layout of keys, another secret, or a codec
            that this build does not know.
        """
        if data is None:
            self._state = self._program.init(len(self._keys)) if self._keys else None
            return
        offsets, joined, *arrays = unpack(KIND, data, self._layout)
        mark = header_of(data).mark
        if mark not in (NO_MARK, self._noise.mark(first)):
            raise CodecError(
                f"stored state up to tick {first} was made with other secrets than those given: "
                "noise of two secrets on the same data gives the data away. Go on with the secret "
                "of that run; a new one goes under secret.rotate, from a tick that is still ahead."
            )
        self._keys = tuple(unpack_names(offsets, joined))
        self._state = restore(self._program.init(1), arrays) if self._keys else None

    def dump(self, stop: int) -> bytes:
        """State to store, after every tick before ``stop``."""
        arrays = [] if self._state is None else arrays_of(self._state)
        mark = self._noise.mark(stop)
        return pack(KIND, [*pack_names(self._keys), *arrays], self._layout, mark)

    def advance(
        self, payloads: Sequence[bytes], first: int, stop: int
    ) -> Iterator[NoisyStride | bytes]:
        """Steps through [first, stop), every tick whether or not data came.

        Args:
          payloads: partial leaves of ticks >= first; what lies at or behind ``stop`` is given back.

        Yields:
          Payloads that are for later, as bytes, and then NoisyStrides in order of ticks.
        """
        pile = pile_of(self._program, payloads, stop)
        yield from pile.later
        born = self._admit(pile)
        for low, high in self._cut(first, stop, list(born)):
            yield self._step(low, high, born.get(low, ()), pile)

    def _admit(self, pile: Pile) -> dict[int, tuple[bytes, ...]]:
        """Rows for new keys: behind the old ones, in order of (tick, bytes); rows never move.

        Returns:
          Tick -> keys born then.
        """
        if not self._observed:
            return {}
        place = {key: row for row, key in enumerate(self._keys)}
        fresh = sorted((tick, name) for name, tick in pile.firsts().items() if name not in place)
        born: dict[int, tuple[bytes, ...]] = {}
        for tick, name in fresh:
            place[name] = len(place)
            born[tick] = (*born.get(tick, ()), name)
        pile.settle(place)
        return born

    def _cut(self, first: int, stop: int, born: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Strides; a key's birth begins a new one, and so does another secret."""
        edges = sorted({first, stop, *born, *self._noise.edges(first, stop)})
        for low, high in zip(edges, edges[1:], strict=False):
            width = max(1, len(self._keys)) * self._program.dimension
            yield from boundaries(low, high, self._every, width)

    def _step(self, low: int, high: int, born: tuple[bytes, ...], pile: Pile) -> NoisyStride:
        if born:
            fresh = self._program.init(len(born))
            self._state = fresh if self._state is None else concatenate([self._state, fresh])
            self._keys += born
        n, n_keys = high - low, len(self._keys)
        counters.add("ticks_released", n)
        if not n_keys:
            return NoisyStride(self._block, low, n, (), ())
        noise = self._noise.noise_of(self._keys, low)
        leaves = pile.leaves(low, high, n_keys)
        self._state, noisy = self._program.step(self._state, leaves, noise)
        return NoisyStride(self._block, low, n, self._keys, noisy)
