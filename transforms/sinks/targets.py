"""Where releases go: which files a plan has, tables for people, rows of BigQuery."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.leaves.keys import FEWEST, PER_BLOCK
from weir.dpcore.plan import Plan
from weir.transforms.release.few import FEW_SCHEMA, INDICES, Shape, shape_for
from weir.transforms.release.flat import Flat, Layout
from weir.transforms.release.table import (
    INTERVAL,
    INTERVAL_SCHEMA,
    PACKED_SCHEMA,
    RELEASE_SCHEMA,
    releases_only,
)
from weir.transforms.runtime import fence
from weir.transforms.runtime.signing import Signer
from weir.transforms.sinks import place
from weir.transforms.sinks.formats import texts
from weir.transforms.sinks.held import HeldWriter, twice
from weir.transforms.sinks.ranges import Ranges
from weir.transforms.sinks.wide import Wide
from weir.transforms.sinks.writer import FolderWriter, Writer

BIGQUERY_TYPES = {
    "tick": "INTEGER",
    "index": "INTEGER",
    INDICES: "INTEGER",
    "tick_start": "TIMESTAMP",
    "tick_end": "TIMESTAMP",
    "over": "INTEGER",
    "window": "INTEGER",
    "epsilon": "FLOAT",
    "delta": "FLOAT",
    "value": "FLOAT",
    "stddev": "FLOAT",
    "low": "FLOAT",
    "high": "FLOAT",
}
"""Everything else is STRING."""


MOST_ROWS = 1 << 24
"""Rows of a file, where a range can be cut into several: some 1.7 GB in the worker that sorts."""


def ranges_of(plan: Plan, every: int, parts: int = 1) -> Ranges:
    """Files of a plan's releases."""
    return Ranges(every, plan.clock.ticks, plan.keys.live_blocks, parts)


def parts_of(plan: Plan, every: int, layout: Layout) -> int:
    """In how many files a range of ticks is cut, so that none is too large for its worker.

    A power of two, and no more than there are blocks. Of keys that are found in the data nobody
    knows how many there will be: as many as their blocks are meant for, where those are more than
    the least.
    """
    keys, blocks = len(plan.keys.declared), len(plan.keys.live_blocks)
    if plan.keys.observed:
        keys = blocks * PER_BLOCK if blocks > FEWEST else 1
    wide = sum(output.dimension if layout == "flat" else 1 for output in plan.outputs)
    ticks = every if plan.clock.ticks is None else min(every, plan.clock.ticks)
    parts = 1
    while ticks * keys * wide > parts * MOST_ROWS and 2 * parts <= blocks:
        parts *= 2
    return parts


def files_of(plan: Plan, every: int, form: str, parts: int = 1) -> list[str]:
    """Names of all files of a plan's releases, in order; the plan's clock must have an end."""
    ranges = ranges_of(plan, every, parts)
    assert ranges.total is not None
    return [
        place.file_name(
            first, first + ranges.size(ranges.of(first)) - 1, form, place.Part(part, parts)
        )
        for first in range(0, ranges.total, every)
        for part in range(parts)
    ]


@dataclass(frozen=True)
class TableWriter(Writer):
    """A table for people on standard output.

    Attributes:
      hold: whether it waits in this process for ``print_held``.
      shape: how vectors become rows; None: as lists of every coordinate.
      wide: how rows are pivoted; None: they are not.
    """

    hold: bool = False
    shape: Shape | None = None
    wide: Wide | None = None

    def encode(self, table: pa.Table) -> bytes:
        """See Writer."""
        if self.wide is not None:
            return "".join(self.wide.lines(table)).encode()
        shown = table if self.shape is None else self.shape.table(table)
        return "".join(table_lines(shown)).encode()

    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        """See Writer."""
        lines = content.decode()
        if self.hold:
            _waiting[first] = lines
            return 0
        sys.stdout.write(lines)
        sys.stdout.flush()
        return 0


_waiting: dict[int, str] = {}
"""First tick of a range -> its table: what runs in this process have not shown yet."""


def forget_held() -> None:
    """Drops what was not shown; call before a run."""
    _waiting.clear()


def print_held() -> None:
    """Shows what waited, in order of ticks."""
    for first in sorted(_waiting):
        sys.stdout.write(_waiting[first])
    sys.stdout.flush()
    forget_held()


def table_lines(table: pa.Table) -> Iterator[str]:
    """Aligned rows: tick start, key, name with its label, over, value, stddev."""
    places = [INDICES] if INDICES in table.schema.names else []
    shown = ["tick_start", "key", "name", "over", *places, "value", "stddev"]
    missing = {"over": "all"}
    columns = {name: texts(table[name]).fill_null(missing.get(name, "")) for name in shown}
    if "label" in table.schema.names:
        named = pc.binary_join_element_wise(columns["name"], texts(table["label"]), " ")
        columns["name"] = pc.utf8_rtrim_whitespace(named)
    lines = [tuple(shown), *zip(*(column.to_pylist() for column in columns.values()), strict=True)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(shown))]
    for line in lines:
        padded = [word.ljust(width) for word, width in zip(line, widths, strict=True)]
        yield "  ".join(padded).rstrip() + "\n"


class ReleaseFiles(NamedTuple):
    """Where releases of a run go: which files there are, and what writes one.

    Attributes:
      ranges: of ticks. writer: of all parts.
    """

    ranges: Ranges
    writer: Writer


def folder(
    plan: Plan,
    path: str,
    form: str = "parquet",
    every: int = 128,
    hold: bool = False,
    layout: Layout = "flat",
    parts: int = 1,
    signer: Signer | None = None,
) -> ReleaseFiles:
    """Files of aligned ranges of ticks, sorted by (tick, key, name, over, index), moved into place
    whole.

    They are written without ``_plan.json`` and ``_COMPLETE``: see ``sinks.place.prepare`` and
    ``finish``, which are called before and after a run.

    Args:
      plan: says which ticks and blocks to wait for.
      path: of the folder, or a bucket (transforms/runtime/files.py).
      form: parquet, csv or ndjson.
      every: ticks a file covers.
      hold: whether the files wait in ``_held`` for ``sinks.held.publish``; then one that
        contradicts what is there fails.
      layout: of vectors: a row a coordinate (flat), or lists (packed).
      parts: files of a range, each with consecutive blocks of keys (see ``parts_of``); what a
        folder was begun with, it keeps.
      signer: of receipts of single files; those that are held get none.
    """
    shape = shape_for(plan, layout)
    writer: Writer = FolderWriter(path, form, shape, signer=signer)
    if hold:
        writer = HeldWriter(path, form, twice(plan), shape)
    return ReleaseFiles(ranges_of(plan, every, parts), writer)


def table(
    plan: Plan, every: int = 128, hold: bool = False, layout: Layout = "flat", wide: bool = False
) -> ReleaseFiles:
    """A table on standard output, range by range of ticks.

    Args:
      plan: says which ticks and blocks to wait for. every: ticks of a table.
      hold: whether it waits for ``print_held``.
      layout: of vectors: a row a coordinate (flat), or lists (packed).
      wide: a row a key and tick instead, with a column for each number and its margin.
    """
    pivoted = Wide.of(plan) if wide else None
    return ReleaseFiles(ranges_of(plan, every), TableWriter(hold, shape_for(plan, layout), pivoted))


def to_records(
    batch: pa.RecordBatch, shape: Shape | None, around: fence.Fence = fence.OPEN
) -> Iterator[dict[str, Any]]:
    """Rows as BigQuery takes them: times as text, no infinity; of a packed row no list for null."""
    around.look()
    rows = releases_only(batch) if shape is None else shape.batch(batch)
    for row in rows.to_pylist():
        for name in ("tick_start", "tick_end"):
            row[name] = None if row[name] is None else row[name].isoformat()
        if not isinstance(shape, Flat):
            for name in ("stddev", *INTERVAL):
                if name in row:
                    row[name] = row[name] or []
            if shape is not None:
                row.update(_known(row[INDICES], row["value"]))
        else:
            row.update({name: _finite(row[name]) for name in ("value", "stddev", "low", "high")})
        yield row


def _known(places: list[int] | None, value: list[float | None]) -> dict[str, list[Any]]:
    """Lists without nulls, which BigQuery has not: none of a vector that says nothing yet."""
    if places is None:
        return {INDICES: []}
    retained = [
        (place, item) for place, item in zip(places, value, strict=True) if item is not None
    ]
    return {INDICES: [place for place, _ in retained], "value": [item for _, item in retained]}


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def bigquery_schema(
    layout: Layout = "flat", few: bool = False, intervals: bool = False
) -> dict[str, Any]:
    """The columns of a layout in BigQuery's words. few: whether packed vectors have ``indices``.
    intervals: whether they have ``low`` and ``high``."""
    packed = FEW_SCHEMA if few else INTERVAL_SCHEMA if intervals else PACKED_SCHEMA
    return {
        "fields": [
            {
                "name": field.name,
                "type": BIGQUERY_TYPES.get(field.name, "STRING"),
                "mode": "REPEATED" if pa.types.is_list(field.type) else "NULLABLE",
            }
            for field in (RELEASE_SCHEMA if layout == "flat" else packed)
        ]
    }
