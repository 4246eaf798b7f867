"""Fields of plain lines of JSON in C: a bad line costs itself, and no other its way.

A line is plain where it is one object in strict JSON and UTF-8, whose fields that are asked for
are there once at most, each null or of the kind that most first lines have, texts without escapes,
whole numbers of at most 18 digits. Whether it is follows from the line and from what is asked. What
is read of a plain line is what ``transforms.decode.json_lines`` reads of it; every other goes
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.native import kernels
from weir.transforms.decode.lines import Chunk
from weir.transforms.decode.nested import steps

_KINDS: dict[pa.DataType, int] = {pa.string(): 0, pa.float64(): 1, pa.int64(): 2, pa.bool_(): 3}
_OBJECT = 4
_TOP = -1
_MOST = 4096


class Plain(NamedTuple):
    """What was read.

    Attributes:
      lines: (n,) which of the lines are plain.
      columns: of those, in their order.
    """

    lines: NDArray[np.bool_]
    columns: dict[str, Any]


class _Nodes(NamedTuple):
    """Fields that are asked for, as the kernel has them; and the columns of each name."""

    names: bytes
    nodes: NDArray[np.int64]
    kinds: list[int]
    places: dict[str, list[int]]


def plain(chunk: Chunk, keep: NDArray[np.bool_], types: Mapping[str, pa.DataType]) -> Plain | None:
    """Reads the plain ones of some lines.

    Args:
      keep: (n,) which. types: of the fields that are needed, by name.

    Returns:
      None where the kernel is missing, or cannot read fields of such types and names.
    """
    if kernels is None or len(chunk.data) >= 1 << 31:
        return None
    nodes = _nodes(types)
    if nodes is None:
        return None
    kept = np.flatnonzero(keep)
    n, k = len(kept), len(nodes.kinds)
    values, sizes = np.empty((k, n), dtype=np.int64), np.empty((k, n), dtype=np.int64)
    there, is_plain = np.empty((k, n), dtype=np.bool_), np.empty(n, dtype=np.bool_)
    starts, ends = chunk.starts[kept], chunk.ends[kept]
    kernels.fields(
        chunk.data, starts, ends, nodes.names, nodes.nodes, values, sizes, there, is_plain
    )
    m = int(np.count_nonzero(is_plain))
    found = [
        column(chunk.data, kind, values[c, :m], sizes[c, :m], there[c, :m])
        for c, kind in enumerate(nodes.kinds)
    ]
    columns = {name: _first([found[c] for c in places]) for name, places in nodes.places.items()}
    lines = np.zeros(len(keep), dtype=bool)
    lines[kept] = is_plain
    return Plain(lines, columns)


def _nodes(types: Mapping[str, pa.DataType]) -> _Nodes | None:
    """A tree of names: a field inside of others may also be one whose name holds the dots."""
    places: dict[tuple[str, ...], int] = {}
    rows: list[tuple[bytes, int, int, int]] = []
    kinds: list[int] = []
    columns: dict[str, list[int]] = {}

    def inside(path: tuple[str, ...]) -> int:
        if not path:
            return _TOP
        if path not in places:
            rows_before = inside(path[:-1])
            places[path] = len(rows)
            rows.append((path[-1].encode(), rows_before, _OBJECT, 0))
        return places[path]

    for name, kind in types.items():
        if kind not in _KINDS:
            return None
        columns[name] = []
        for path in ((name,), steps(name)):
            if not path:
                continue
            parent = inside(path[:-1])
            if path in places:  # a value and an object that holds values, in two roles
                return None
            places[path] = len(rows)
            rows.append((path[-1].encode(), parent, _KINDS[kind], len(kinds)))
            columns[name].append(len(kinds))
            kinds.append(_KINDS[kind])
    if any(
        rows[place][2] != _OBJECT
        for path, place in places.items()
        for place in _above(path, places)
    ):
        return None
    if len(rows) > _MOST:
        return None
    ends = np.cumsum([len(row[0]) for row in rows]).tolist()
    nodes = np.array(
        [(end - len(row[0]), len(row[0]), *row[1:]) for end, row in zip(ends, rows, strict=True)],
        dtype=np.int64,
    )
    return _Nodes(b"".join(row[0] for row in rows), nodes, kinds, columns)


def _above(path: tuple[str, ...], places: Mapping[tuple[str, ...], int]) -> list[int]:
    return [places[path[:depth]] for depth in range(1, len(path))]


def column(
    data: bytes,
    kind: int,
    values: NDArray[np.int64],
    sizes: NDArray[np.int64],
    there: NDArray[np.bool_],
) -> Any:
    """(m,) values of a field, null where it is not there."""
    every = bool(there.all())
    if kind == 0:
        return _texts(data, values, sizes, there, every)
    mask = None if every else ~there
    if kind == 1:
        return pa.array(values.view(np.float64), mask=mask)
    return pa.array(values if kind == 2 else values != 0, mask=mask)


def _texts(
    data: bytes,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    there: NDArray[np.bool_],
    every: bool,
) -> Any:
    if not every:
        starts, sizes = np.where(there, starts, 0), np.where(there, sizes, 0)
    offsets = np.empty(len(starts) + 1, dtype=np.int32)
    out = np.empty(int(sizes.sum()), dtype=np.uint8)
    assert kernels is not None
    kernels.gather(data, starts, sizes, offsets, out)
    valid = None
    if not every:
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.StringArray.from_buffers(len(starts), buffers[1], buffers[2], buffers[0])


def _first(columns: list[Any]) -> Any:
    """Of a field that may be in two places the value that comes first."""
    if len(columns) == 1 or not columns[0].null_count:
        return columns[0]
    if columns[0].null_count == len(columns[0]):
        return columns[1]
    return pc.coalesce(*columns)
