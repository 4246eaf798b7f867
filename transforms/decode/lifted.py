"""Objects of place to number, lifted out of lines of JSON before the rest of a line is read.

Most of a wide event is one object, and an object of Python is dear. Where its keys are places as
they are written (no zeros first) and below the number of features, and its values plain numbers, a
kernel reads it and leaves a null in its stead; what is left of the line is read as any line is. A
line in which anything is odd stays as it is. So each line is read alone, and as it would be without
the kernel: what is cut out is a whole JSON value, and where one may stand a null may. Numbers
become the nearest doubles, in whole arithmetic; of two equal places the last counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.native import kernels
from weir.transforms.decode.lines import Chunk
from weir.transforms.decode.lists import from_entries
from weir.transforms.decode.nested import any_nested
from weir.transforms.decode.schema import EventSchema

Ints = NDArray[np.int64]

_LOOKED_AT = 16
_LEAST = 6
"""Bytes of a number and its place: "0":0, with what follows."""


@dataclass(frozen=True)
class Lifted:
    """Lines of which objects were lifted.

    Attributes:
      chunk: what is left of the lines. name: of the field.
      there: (n,) whether it was lifted. column: (n,) canonical, null where it was not.
    """

    chunk: Chunk
    name: str
    there: NDArray[np.bool_]
    column: Any

    def of(self, which: Ints, rest: Any) -> Any:
        """The column of some lines. rest: (m,) canonical, of those that were not lifted."""
        there = self.there[which]
        if there.all():
            return self.column if len(which) == len(self.chunk) else self.column.take(which)
        at = np.where(there, which, len(self.column) + np.arange(len(which)))
        return pa.concat_arrays([self.column, rest]).take(pa.array(at))


def lift(chunk: Chunk, schema: EventSchema) -> Lifted | None:
    """Lifts the objects of a chunk; None where there are none among its first lines, nothing to
    lift them with, or a field that may lie inside of them."""
    listed = schema.listed
    if kernels is None or listed is None or listed.column is None or any_nested(schema.needed):
        return None
    others = {schema.id, schema.unit, schema.time.column, *schema.keys}
    if schema.arrival is not None:
        others.add(schema.arrival.column)
    if listed.column in others:
        return None
    few = slice(0, _LOOKED_AT)
    first = _lifted(chunk.data, chunk.starts[few], chunk.ends[few], listed.column, listed.size)
    if (first[0] < 0).all():
        return None
    found = _lifted(chunk.data, chunk.starts, chunk.ends, listed.column, listed.size)
    lengths, places, numbers, data, starts, ends = found
    column = from_entries(lengths, places, numbers, listed.size)
    left = replace(chunk, data=data, starts=starts, ends=ends)
    return Lifted(left, listed.column, lengths >= 0, column)


def _lifted(
    data: bytes, starts: Ints, ends: Ints, name: str, size: int
) -> tuple[Ints, Ints, NDArray[np.float64], bytes, Ints, Ints]:
    """Lengths of the objects (n,), -1 where none was lifted; places and numbers of all, row after
    row; what is left, and where its lines lie."""
    assert kernels is not None
    n = len(starts)
    low, high = (int(starts[0]), int(ends[-1])) if n else (0, 0)
    some = memoryview(data)[low:high]
    room = len(some) // _LEAST + 1
    lengths, left_starts, left_ends = (np.empty(n, dtype=np.int64) for _ in range(3))
    places, numbers = np.empty(room, dtype=np.int64), np.empty(room)
    left = np.empty(len(some) + 3 * n, dtype=np.uint8)
    count, used = kernels.objects(
        some, starts - low, ends - low, name.encode(), size,
        lengths, places, numbers, left, left_starts, left_ends,
    )  # fmt: skip
    rest = left[:used].tobytes()
    return lengths, places[:count], numbers[:count], rest, left_starts, left_ends


__all__ = ["Lifted", "lift"]
