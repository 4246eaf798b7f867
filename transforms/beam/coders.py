"""Coders of what travels between steps; importing this registers them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from apache_beam import coders

from weir.transforms.operators import stride
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.runtime.codec import batch_from_bytes, batch_to_bytes


class RecordBatchCoder(coders.Coder):
    """Arrow IPC for record batches (pickling a slice would send the whole parent)."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        """See ``batch_to_bytes``."""
        return batch_to_bytes(value)

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """See ``batch_from_bytes``."""
        return batch_from_bytes(encoded)

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """Bytes, without encoding: Beam asks for a sample of elements at every step."""
        return max(1, int(value.nbytes))

    def is_deterministic(self) -> bool:
        """Equal batches may differ in their buffers: not for keys."""
        return False

    def to_type_hint(self) -> type[pa.RecordBatch]:
        """The type this coder is registered for."""
        hint: type[pa.RecordBatch] = pa.RecordBatch
        return hint

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)


class NoisyStrideCoder(coders.Coder):
    """Header and plain arrays; never a pickle."""

    def encode(self, value: NoisyStride) -> bytes:
        """To bytes."""
        return stride.encode(value)

    def decode(self, encoded: bytes) -> NoisyStride:
        """From bytes."""
        return stride.decode(encoded)

    def estimate_size(self, value: NoisyStride) -> int:
        """Bytes, without encoding."""
        return 64 + sum(array.nbytes for array in value.arrays)

    def is_deterministic(self) -> bool:
        """The same stride always gives the same bytes."""
        return True

    def to_type_hint(self) -> type[Any]:
        """The type this coder is registered for."""
        return NoisyStride

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


coders.registry.register_coder(NoisyStride, NoisyStrideCoder)
