"""An assembly: the newest models of one block, and the ticks that wait for newer ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weir.dpcore.arrays import concatenate
from weir.dpcore.errors import in_words
from weir.dpcore.training import Models, Training
from weir.transforms.operators import stride as strides
from weir.transforms.operators.jobs import FITTED, decode_fitted
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.runtime.codec import kind_of, pack, pack_names, restore, unpack, unpack_names

KIND = b"A"
Waiting = tuple[int, int, int]
"""(first tick, ticks, keys) of a stride."""


class Assembly:
    """Everything in it is released or public: no rows, no secret.

    Args:
      training: of the program. layout: 32 bytes that name the plan and its blocks. block: which.
      stored: as ``dump`` gave it; None: nothing was released yet.

    Raises:
      CodecError: stored bytes of another plan or layout.
    """

    def __init__(self, training: Training, layout: bytes, block: int, stored: bytes | None) -> None:
        self._training, self._layout, self._block = training, layout, block
        self._next = 0
        self._keys: tuple[bytes, ...] = ()
        self._models: Models = training.models(0)
        self._strides: list[Waiting] = []
        self._fitted: dict[int, Models] = {}
        if stored is not None:
            self._load(stored)

    @in_words
    def _load(self, data: bytes) -> None:
        head, strides, ticks, offsets, joined, *arrays = unpack(KIND, data, self._layout)
        template = self._training.models(1)
        size = len(template)
        (self._next,) = head.tolist()
        self._strides = [(first, n, keys) for first, n, keys in strides.tolist()]
        self._keys = tuple(unpack_names(offsets, joined))
        self._models = restore(template, arrays[:size])
        for i, tick in enumerate(ticks.tolist(), 1):
            self._fitted[tick] = restore(template, arrays[size * i : size * (i + 1)])

    def dump(self) -> bytes:
        """What to store. It grows with the ticks that wait, and not otherwise."""
        arrays = [
            np.array([self._next], dtype=np.int64),
            np.array(self._strides, dtype=np.int64).reshape(-1, 3),
            np.array(list(self._fitted), dtype=np.int64),
            *pack_names(self._keys),
            *self._models,
        ]
        for models in self._fitted.values():
            arrays += models
        return pack(KIND, arrays, self._layout)

    def early(self, payload: bytes) -> bool:
        """Whether a payload is models of a tick whose stride is not there: nothing waits for it."""
        return not self._strides and kind_of(payload) == FITTED

    def take(self, payload: bytes) -> Iterator[NoisyStride]:
        """A stride without arrays, or models; yields the strides that are whole now, in order."""
        if kind_of(payload) == FITTED:
            fitted = decode_fitted(payload)
            self._fitted[fitted.tick] = fitted.models
        else:
            stride = strides.decode(payload)
            self._strides.append((stride.first_tick, stride.ticks, len(stride.keys)))
            self._strides.sort()
            if len(stride.keys) > len(self._keys):
                self._keys = stride.keys  # keys never move: those of earlier strides come first
        while self._strides and self._strides[0][0] == self._next:
            first, ticks, n_keys = self._strides.pop(0)
            due = self._training.due(first, first + ticks) if n_keys else ()
            missing = [tick for tick in due if tick not in self._fitted]
            stop = missing[0] if missing else first + ticks
            if stop > first:
                yield self._release(first, stop - first, n_keys, due)
            self._next = stop
            if missing:
                self._strides.insert(0, (stop, first + ticks - stop, n_keys))
                return

    def _release(self, first: int, ticks: int, n_keys: int, due: tuple[int, ...]) -> NoisyStride:
        if not n_keys:
            return NoisyStride(self._block, first, ticks, (), ())
        born = n_keys - len(self._models[0])
        if born:
            self._models = concatenate([self._models, self._training.models(born)])
        fitted = {tick: self._fitted.pop(tick) for tick in due if tick < first + ticks}
        self._models, arrays = self._training.assemble(self._models, fitted, first, ticks)
        return NoisyStride(self._block, first, ticks, self._keys[:n_keys], arrays)


def outline(stride: NoisyStride) -> tuple[int, bytes]:
    """A stride of which only the ticks and keys are known yet."""
    return stride.block, strides.encode(stride)
