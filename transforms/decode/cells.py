"""Fields of plain lines of CSV in C: a bad line costs itself, and no other its way.

A line is plain where it has as many fields as there are names, is UTF-8 without a byte order mark
and without bytes that steer (but tabs), its quotes are around whole fields and have none inside,
and numbers that are asked for are spelled as JSON spells them, or missing. Whether it is follows
from the line and from what is asked. What is read of a plain line is what
``transforms.decode.csv`` reads of it by Arrow; every other goes there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from weir.dpcore.native import kernels
from weir.transforms.decode.fields import Plain, column
from weir.transforms.decode.lines import Chunk

_UNUSED = -1
_TEXT, _NUMBER = 0, 1


def plain_cells(
    chunk: Chunk, fields: int, types: Mapping[int, pa.DataType], delimiter: str
) -> Plain | None:
    """Reads the plain lines of a chunk.

    Args:
      fields: of a line. types: string or double, of the fields that are needed, by place.

    Returns:
      columns by the names "c0", "c1", ... of places; None where the kernel is missing.
    """
    n, k = len(chunk), len(types)
    if kernels is None or not n or len(chunk.data) >= 1 << 31:
        return None
    wanted = np.full((fields, 2), _UNUSED, dtype=np.int64)
    for at, (place, kind) in enumerate(types.items()):
        wanted[place] = _NUMBER if kind == pa.float64() else _TEXT, at
    values, sizes = np.empty((k, n), dtype=np.int64), np.empty((k, n), dtype=np.int64)
    there, lines = np.empty((k, n), dtype=np.bool_), np.empty(n, dtype=np.bool_)
    kernels.cells(
        chunk.data, chunk.starts, chunk.ends, wanted, values, sizes, there, lines,
        delimiter.encode(),
    )  # fmt: skip
    m = int(np.count_nonzero(lines))
    columns = {
        f"c{place}": column(
            chunk.data, int(wanted[place, 0]), values[at, :m], sizes[at, :m], there[at, :m]
        )
        for at, place in enumerate(types)
    }
    return Plain(lines, columns)
