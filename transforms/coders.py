"""How batches, partial leaves and mechanism states become bytes: Arrow IPC, and a header of our
own.

Nothing here is pickled. A payload is MAGIC, codec version, kind, plan digest, then plain numpy
arrays; so state written by another version of the code, or for another plan, is refused instead of
misread.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import coders
from numpy.typing import NDArray

from dpcore.errors import CodecError

MAGIC = b"WEIR"
VERSION = 1
NO_DIGEST = bytes(32)

_HEADER = struct.Struct("<4sBc2x32sI")
_ARRAY = struct.Struct("<cBB5x")


def pack(kind: bytes, arrays: Sequence[NDArray[Any]], digest: bytes = NO_DIGEST) -> bytes:
    """Arrays to bytes, deterministically.

    Args:
      kind: one byte that says what the arrays are.
      arrays: any shapes; bool, integers and floats, in little-endian order.
      digest: 32 bytes naming the plan, or zeros where a plan does not matter.
    """
    pieces: list[Any] = [_HEADER.pack(MAGIC, VERSION, kind, digest, len(arrays))]
    for array in arrays:
        shape = array.shape
        array = np.ascontiguousarray(array)
        pieces.append(_ARRAY.pack(array.dtype.kind.encode(), array.dtype.itemsize, len(shape)))
        pieces.append(struct.pack(f"<{len(shape)}q", *shape))
        if array.size:
            pieces.append(memoryview(array.reshape(-1).view(np.uint8)))
        pieces.append(bytes(-array.nbytes % 8))
    return b"".join(pieces)


def kind_of(data: bytes) -> bytes:
    """The kind byte of a packed payload."""
    return data[5:6]


def unpack(kind: bytes, data: bytes, digest: bytes = NO_DIGEST) -> list[NDArray[Any]]:
    """Arrays back from ``pack``: read-only views of ``data``.

    Raises:
      CodecError: another version, kind or plan than expected; names both sides.
    """
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise CodecError("stored bytes do not start with Weir's header: they are not ours.")
    _, version, found_kind, found_digest, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CodecError(
            f"stored bytes have codec version {version}, this build reads version {VERSION}: "
            "finish the run with the build that began it."
        )
    if found_kind != kind:
        raise CodecError(f"stored bytes are of kind {found_kind!r}, expected {kind!r}.")
    if found_digest != digest:
        raise CodecError(
            f"stored bytes belong to plan {found_digest.hex()}, this is plan {digest.hex()}: "
            "a changed plan starts a new run (compare the two with weir diff)."
        )
    arrays: list[NDArray[Any]] = []
    at = _HEADER.size
    for _ in range(count):
        letter, width, dimensions = _ARRAY.unpack_from(data, at)
        at += _ARRAY.size
        shape = struct.unpack_from(f"<{dimensions}q", data, at)
        at += 8 * dimensions
        size = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype=f"<{letter.decode()}{width}", count=size, offset=at)
        arrays.append(array.reshape(shape))
        at += size * width + -(size * width) % 8
    return arrays


def pack_names(names: Sequence[bytes]) -> list[NDArray[Any]]:
    """Byte strings as two arrays: offsets (n + 1,) int64 and the joined bytes (total,) uint8."""
    offsets = np.zeros(len(names) + 1, dtype=np.int64)
    np.cumsum([len(name) for name in names], out=offsets[1:])
    return [offsets, np.frombuffer(b"".join(names), dtype=np.uint8)]


def unpack_names(offsets: NDArray[Any], joined: NDArray[Any]) -> list[bytes]:
    """The inverse of ``pack_names``."""
    data, bounds = joined.tobytes(), offsets.tolist()
    return [data[low:high] for low, high in zip(bounds, bounds[1:], strict=False)]


def restore(template: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    """Puts arrays back into the structure of ``template`` (as made by ``program.init``).

    Raises:
      CodecError: the number or the types of the arrays do not fit.
    """
    queue = list(arrays)
    state = _restore(template, queue)
    if queue:
        raise CodecError(f"stored state has {len(queue)} arrays more than this mechanism keeps.")
    return state


def _restore(template: Any, queue: list[NDArray[Any]]) -> Any:
    if isinstance(template, np.ndarray):
        if not queue:
            raise CodecError("stored state has fewer arrays than this mechanism keeps.")
        array = queue.pop(0)
        if array.dtype != template.dtype or array.shape[1:] != template.shape[1:]:
            raise CodecError(
                f"stored state holds {array.dtype}{array.shape[1:]} where this mechanism keeps "
                f"{template.dtype}{template.shape[1:]}."
            )
        return array
    parts = [_restore(part, queue) for part in template]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """One record batch as an Arrow IPC stream: only its own rows, whatever it is a slice of."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(memoryview(sink.getvalue()))


def batch_from_bytes(data: bytes | memoryview) -> pa.RecordBatch:
    """The inverse of ``batch_to_bytes``; columns are views of ``data``."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()


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
        return pa.RecordBatch

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


beam.coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)
