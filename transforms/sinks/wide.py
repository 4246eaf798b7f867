"""Releases as people read them: a row for each key and tick, a column for each number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.leaves.keys import shown_key
from weir.dpcore.plan import Plan
from weir.transforms.release.flat import Flat, Spot, chunk_of, labels_of
from weir.transforms.release.table import INTERVAL
from weir.transforms.sinks.formats import texts

COLUMNS = ("key", "tick_start", "name", "over", "value", "stddev")
"""What is read of rows."""

DIGITS = 6
"""Of a number whose noise is not known."""


@dataclass(frozen=True)
class Wide:
    """How rows are pivoted.

    Attributes:
      outputs: (name, over, labels of the coordinates), in the order of their columns.
      margin: half the width of a 95 % margin, in standard deviations of the noise.
      shown: a key as people read it. intervals: outputs whose margins are intervals of their own.
    """

    outputs: tuple[tuple[str, int | None, tuple[str, ...]], ...]
    band: float
    shown: Callable[[str], str]
    intervals: frozenset[Spot] = frozenset()

    @classmethod
    def of(cls, plan: Plan) -> Wide:
        """For the releases of a plan."""
        flat, described = Flat.of(plan), plan.program.describe(np.zeros(1, dtype=np.int64))
        intervals = frozenset((item.name, item.over) for item in described if item.interval)
        return cls(flat.outputs, flat.band, shown_key if plan.keys.listed else str, intervals)

    def lines(self, rows: pa.Table) -> Iterator[str]:
        """A table as aligned text, its titles first.

        Args:
          rows: COLUMNS, one a vector; the rows of a key and tick follow each other.
        """
        if not rows.num_rows:
            return
        columns = {name: chunk_of(rows[name]) for name in COLUMNS}
        ends = [chunk_of(rows[name]) for name in INTERVAL if name in rows.schema.names]
        cell, first = _cells(columns)
        keys = _text(columns["key"]).take(pa.array(first)).to_pylist()
        table = []
        if rows["tick_start"].null_count < rows.num_rows:
            starts = chunk_of(texts(rows["tick_start"].dictionary_encode()))
            table.append(["tick_start", *starts.take(pa.array(first)).to_pylist()])
        if any(keys):
            table.append(["key", *map(self.shown, keys)])
        names, overs = _text(columns["name"]).to_pylist(), _plain(columns["over"]).to_pylist()
        spots: dict[Spot, list[int]] = {}
        for row, spot in enumerate(zip(names, overs, strict=True)):
            spots.setdefault(spot, []).append(row)
        for name, over, labels in self.outputs:
            mine = spots.get((name, over))
            if mine is not None:
                apart = ends if (name, over) in self.intervals else []
                lists = (columns["value"], columns["stddev"], *apart)
                own = [item.take(pa.array(mine)) for item in lists]
                table += self._columns(title(name, over), labels, own, cell[mine], len(first))
        widths = [max(map(len, column)) for column in table]
        for line in zip(*table, strict=True):
            padded = [word.ljust(width) for word, width in zip(line, widths, strict=True)]
            yield "  ".join(padded).rstrip() + "\n"

    def _columns(
        self, name: str, labels: Sequence[str], lists: Any, cell: NDArray[np.int64], cells: int
    ) -> Iterator[list[str]]:
        """The columns of one output: of each coordinate the number, and its margin if it has one,
        or both ends of an interval."""
        values, errors, *ends = (column.to_pylist() for column in lists)
        banded = lists[1].null_count < len(lists[1])
        for at, label in enumerate(labels_of(labels, max(map(len, values)))):
            whole = f"{name} {label}".rstrip()
            numbers, bands = [""] * cells, [""] * cells
            sides = [[""] * cells for _ in ends]
            for i, (place, value, error) in enumerate(
                zip(cell.tolist(), values, errors, strict=True)
            ):
                if at < len(value):
                    half = None if error is None or error[at] is None else self.band * error[at]
                    if ends and None not in (pair := [end[i] and end[i][at] for end in ends]):
                        half = (pair[1] - pair[0]) / 2
                    numbers[place], bands[place] = number(value[at], half)
                    for side, end in zip(sides, ends, strict=True):
                        own = end[i]
                        side[place] = "" if own is None else number(own[at], half)[0]
            yield [whole, *numbers]
            if ends:
                for side_name, side in zip(INTERVAL, sides, strict=True):
                    yield [f"{whole} {side_name}", *side]
            elif banded:
                yield [f"\u00b1 {whole}", *bands]


def title(name: str, over: int | None) -> str:
    """What the columns of an output are called."""
    return name if over is None else f"{name} last {over}"


def number(value: float | None, half: float | None) -> tuple[str, str]:
    """A number and half its margin, in as many digits as the noise leaves; no separators."""
    if value is None:
        return "", ""
    if half is None or not math.isfinite(half) or half <= 0 or not math.isfinite(value):
        known = half is not None and not math.isnan(half)
        return f"{value:.{DIGITS}g}", f"{half:.{DIGITS}g}" if known else ""
    decimals = max(0, 1 - math.floor(math.log10(half)))
    return f"{value:.{decimals}f}", f"{half:.{decimals}f}"


def _cells(columns: dict[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which line each row belongs to, (n,), and the first row of each line."""
    key = columns["key"].indices.to_numpy(zero_copy_only=False)
    start = pc.fill_null(_plain(columns["tick_start"]).cast(pa.int64()), 0)  # none without a clock
    tick = start.to_numpy(zero_copy_only=False)
    fresh = np.ones(len(key), dtype=bool)
    fresh[1:] = (key[1:] != key[:-1]) | (tick[1:] != tick[:-1])
    return np.cumsum(fresh) - 1, np.flatnonzero(fresh)


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _text(column: Any) -> Any:
    return _plain(column).cast(pa.string())
