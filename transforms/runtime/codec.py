"""How batches, partial leaves and mechanism states become bytes: Arrow IPC, and a header of our
own.

Nothing here is pickled. A payload is MAGIC, codec version, kind, plan digest, mark of the secrets,
a checksum of all the rest, then plain numpy arrays; so what was stored for another plan, or was
damaged since, is refused instead of misread, and what an earlier version of the code stored is read
by that version's reader.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import CodecError, in_words

MAGIC = b"WEIR"
VERSION = 1
"""What this build writes; it reads every version in ``READERS``."""
NO_DIGEST = bytes(32)
NO_MARK = bytes(16)

_ARRAY = struct.Struct("<cBB5x")
_LETTERS = (b"b", b"i", b"u", b"f")


class Header(NamedTuple):
    """What stands before the arrays.

    Attributes:
      version: of the codec. kind: one byte that says what the arrays are.
      digest: 32 bytes naming the plan. mark: 16 bytes naming the secrets; NO_MARK if not written.
      count: how many arrays. size: bytes of the header.
      sum: CRC-32 of every other byte.
    """

    version: int
    kind: bytes
    digest: bytes
    mark: bytes
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks for
    size: int
    sum: int


_HEADER = struct.Struct("<4sBc2x32s16sII")
_SUM = struct.Struct("<I")
_SUM_AT = _HEADER.size - _SUM.size


def _read_1(data: bytes) -> Header:
    _, version, kind, digest, mark, count, checksum = _HEADER.unpack_from(data)
    return Header(version, kind, digest, mark, count, _HEADER.size, checksum)


READERS: dict[int, Callable[[bytes], Header]] = {1: _read_1}
"""Stored state outlives the code that wrote it: a version is never taken out of this table."""


def pack(
    kind: bytes,
    arrays: Sequence[NDArray[Any]],
    digest: bytes = NO_DIGEST,
    mark: bytes = NO_MARK,
    at: int = 0,
) -> bytes:
    """Arrays to bytes, deterministically.

    Args:
      kind: one byte that says what the arrays are.
      arrays: any shapes; bool, integers and floats, in little-endian order.
      digest: 32 bytes naming the plan, or zeros where a plan does not matter.
      mark: 16 bytes naming the secrets behind what is stored, or zeros where none are.
      at: the tick that they belong to, where it is stored elsewhere; only ``unpack`` with the same
        takes them.
    """
    pieces: list[Any] = [_HEADER.pack(MAGIC, VERSION, kind, digest, mark, len(arrays), 0)]
    for array in arrays:
        shape = array.shape
        array = np.ascontiguousarray(array)
        pieces.append(_ARRAY.pack(array.dtype.kind.encode(), array.dtype.itemsize, len(shape)))
        pieces.append(struct.pack(f"<{len(shape)}q", *shape))
        if array.size:
            flat = array.reshape(-1).view(np.uint8)
            pieces.append(memoryview(flat))  # type: ignore[arg-type]  # untyped before Python 3.12
        pieces.append(bytes(-array.nbytes % 8))
    result = tick_sum(at)
    for piece in pieces:
        result = zlib.crc32(piece, result)
    pieces[0] = pieces[0][:_SUM_AT] + _SUM.pack(result)
    return b"".join(pieces)


def tick_sum(at: int) -> int:
    """What a checksum begins with, so that bytes are of one tick alone."""
    return zlib.crc32(struct.pack("<q", at)) if at else 0


def check(data: bytes, at: int = 0) -> Header:
    """The header of a packed payload whose bytes are as they were stored.

    Raises:
      CodecError: see ``header_of``; or a bit of it, or the tick that it belongs to, is another.
    """
    header = header_of(data)
    view = memoryview(data)
    result = zlib.crc32(view[:_SUM_AT], tick_sum(at))
    result = zlib.crc32(view[header.size :], zlib.crc32(bytes(_SUM.size), result))
    if result != header.sum:
        raise CodecError(
            f"stored bytes of kind {header.kind!r} are damaged: their checksum is {result:08x}, "
            f"not {header.sum:08x}. Nothing is released from them: go on from an earlier "
            "checkpoint, or a copy of this one."
        )
    return header


def kind_of(data: bytes) -> bytes:
    """The kind byte of a packed payload: in the same place in every version."""
    return data[5:6]


def header_of(data: bytes) -> Header:
    """The header of a packed payload.

    Raises:
      CodecError: not ours, cut short, or of a version that this build cannot read.
    """
    if len(data) <= len(MAGIC) or data[:4] != MAGIC:
        raise CodecError("stored bytes do not start with Weir's header: they are not ours.")
    read = READERS.get(data[4])
    if read is None:
        known = ", ".join(str(version) for version in READERS)
        raise CodecError(
            f"stored bytes have codec version {data[4]}, this build reads versions {known}: "
            "go on with the build that wrote them, or a later one."
        )
    try:
        return read(data)
    except struct.error:
        raise CodecError("stored bytes are cut short.") from None


def numbers_at(data: bytes) -> int:
    """Where the numbers of the first array of a packed payload begin; it has one dimension.

    Raises:
      CodecError: see ``check``.
    """
    return check(data).size + _ARRAY.size + 8


def malformed(kind: bytes) -> CodecError:
    """What is said of bytes whose checksum fits and whose content does not."""
    return CodecError(
        f"stored bytes of kind {kind!r} do not hold what this build stores under it. Go on with "
        "the build that wrote them."
    )


@in_words
def unpack(kind: bytes, data: bytes, digest: bytes = NO_DIGEST, at: int = 0) -> list[NDArray[Any]]:
    """Arrays back from ``pack``: read-only views of ``data``.

    Raises:
      CodecError: another version, kind or plan than expected; names both sides. Damaged bytes.
    """
    header = check(data, at)
    if header.kind != kind:
        raise CodecError(f"stored bytes are of kind {header.kind!r}, expected {kind!r}.")
    if header.digest != digest:
        raise CodecError(
            f"stored bytes belong to plan {header.digest.hex()}, this is plan {digest.hex()}: "
            "a changed plan starts a new run (compare the two with weir diff)."
        )
    arrays: list[NDArray[Any]] = []
    place = header.size
    for _ in range(header.count):
        letter, width, dimensions = _ARRAY.unpack_from(data, place)
        place += _ARRAY.size
        shape = struct.unpack_from(f"<{dimensions}q", data, place)
        place += 8 * dimensions
        size = math.prod(shape)
        if letter not in _LETTERS or min(shape, default=0) < 0 or place + size * width > len(data):
            raise malformed(kind)
        array = np.frombuffer(data, dtype=f"<{letter.decode()}{width}", count=size, offset=place)
        arrays.append(array.reshape(shape))
        place += size * width + -(size * width) % 8
    if place != len(data):
        raise malformed(kind)
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


def batch_to_bytes(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    """One record batch as an Arrow IPC stream: only its own rows, whatever it is a slice of.
    compression: zstd, lz4, or none; readers see which."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(memoryview(sink.getvalue()))


@in_words
def batch_from_bytes(data: bytes | memoryview) -> pa.RecordBatch:
    """The inverse of ``batch_to_bytes``; columns are views of ``data``.

    Raises:
      CodecError: it is no batch.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batch = reader.read_next_batch()
    except (pa.ArrowSerializationError, pa.ArrowCapacityError) as error:  # of no usual kind
        raise ValueError(type(error).__name__) from None
    batch.validate(full=True)  # offsets and indices of damaged bytes would end the process later
    _ = batch.schema.names  # raises for names that are no text
    return batch
