"""Rows of results as arrays, with their margins of error, and these as people read them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.dpcore.words import number
from weir.pipelines.results.files import is_flat, rows_in
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.transforms.release.table import INTERVAL, RELEASE_SCHEMA

Ints = NDArray[np.int64]

COLUMNS = ("key", "tick", "name", "over", "value", "stddev")


@dataclass(frozen=True)
class Batch:
    """Rows as numbers. key: codes into ``keys``; over: -1 = since the start; low, high: None where
    they were not read."""

    keys: list[str]
    key: Ints
    tick: Ints
    names: dict[str, int]
    name: Ints
    over: Ints
    value: pa.Array
    stddev: pa.Array
    low: pa.Array | None = None
    high: pa.Array | None = None

    def rows(self, output: ReleasedOutput, among: Ints) -> Ints:
        """Which of the rows ``among`` belong to an output."""
        code = self.names.get(output.name, -1)
        over = -1 if output.over is None else output.over
        mine: Ints = among[(self.name[among] == code) & (self.over[among] == over)]
        return mine


def batch_of(batch: pa.RecordBatch) -> Batch:
    key, name = batch["key"], batch["name"]
    return Batch(
        keys=[text or "" for text in key.dictionary.to_pylist()],
        key=key.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        tick=batch["tick"].to_numpy(),
        names={text: i for i, text in enumerate(name.dictionary.to_pylist())},
        name=name.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        over=batch["over"].fill_null(-1).to_numpy(),
        value=batch["value"],
        stddev=batch["stddev"],
        **{name: batch[name] for name in INTERVAL if name in batch.schema.names},
    )


Floats = NDArray[np.float64]


def ends(
    output: ReleasedOutput, value: Any, half: Any, low: Any = None, high: Any = None
) -> tuple[Floats, Floats]:
    """Both ends of the margins of some values.

    Args:
      output: of the values. value: (n, d). half: (n, d), half the width of the margin that the
        standard deviation gives. low, high: (n, d), as the rows have them; None: they do not.

    Returns:
      low, high: (n, d), as ``Flat`` writes them.
    """
    value, half = np.asarray(value, dtype=np.float64), np.asarray(half, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        least, most = value - half, value + half
    if output.interval and low is not None and high is not None:
        least = np.where(np.isfinite(low), low, least)
        most = np.where(np.isfinite(high), high, most)
    first, last = output.between
    if first is not None and last is not None:
        least = np.maximum(least, np.fmin(value, first))
        most = np.minimum(most, np.fmax(value, last))
    return least, most


OFF_CENTRE = 0.025
"""Of a margin's width: sides that differ by less are the same in the two digits that are shown."""


def lopsided(value: float, low: float, high: float) -> bool:
    """Whether a value does not lie in the middle of its margin."""
    return abs((high - value) - (value - low)) > OFF_CENTRE * (high - low)


def interval(value: float, low: float, high: float) -> str:
    """A value and both ends of its margin: ``264 (158 to 5,623)``."""
    return f"{number(value, 3)} ({number(low, 3)} to {number(high, 3)})"


def flat_table(run: ResultFolder) -> pa.Table:
    """All rows, of ``RELEASE_SCHEMA``, by tick. For what fits into memory.

    Raises:
      ConfigError: its files hold a row for each vector.
    """
    kinds = {field.name: field.type for field in RELEASE_SCHEMA}
    results = []
    for file in run.files:
        if file.path.stat().st_size and not is_flat(file):
            raise ConfigError(
                "sink.layout", "packed", "holds a row for each vector; write flat, or leave it out."
            )
        for batch in rows_in(file, kinds, RELEASE_SCHEMA.names):
            results.append(pa.Table.from_batches([batch]).cast(RELEASE_SCHEMA))
    table = pa.concat_tables(results) if results else RELEASE_SCHEMA.empty_table()
    if run.once:
        nulls = pa.nulls(table.num_rows, pa.int64())
        return table.set_column(table.schema.get_field_index("tick"), "tick", nulls)
    order = pc.sort_indices(table, sort_keys=[("tick", "ascending")])  # stable
    return table.take(order).combine_chunks()


Between = tuple[float | None, float | None]

_SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime | None:
    """A time in UTC; None beyond the year 9999."""
    try:
        return _EPOCH + timedelta(microseconds=int(microseconds))
    except OverflowError:
        return None


def show_time(microseconds: int, period: int) -> str:
    """A time as short as the period allows: the date alone for ticks of whole days."""
    when = moment(microseconds)
    if when is None:
        return f"{microseconds} us"
    if period % (86400 * _SECOND) == 0 and (when.hour, when.minute, when.second) == (0, 0, 0):
        return when.strftime("%Y-%m-%d")
    if period % (60 * _SECOND) == 0:
        return when.strftime("%Y-%m-%d %H:%M")
    text = when.strftime("%Y-%m-%d %H:%M:%S")
    return text if period % _SECOND == 0 else f"{text}.{when.microsecond:06d}"


def show_span(microseconds: int) -> str:
    """A length of time in its largest whole unit: "365 days", "15 minutes"."""
    units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    for name, seconds in units:
        if microseconds % (seconds * _SECOND) == 0:
            n = microseconds // (seconds * _SECOND)
            return f"{n:,} {name}{'' if n == 1 else 's'}"
    return f"{microseconds / 1000:,g} ms"


def decimals_for(error: float, value: float) -> int:
    """Decimals that the noise leaves meaningful: two digits of the error."""
    scale = error if math.isfinite(error) and error > 0 else abs(value) / 100
    if not math.isfinite(scale) or scale <= 0:
        return 0
    return max(0, min(8, 1 - math.floor(math.log10(scale))))


def show_value(value: float, half: float) -> tuple[str, str]:
    """A value and its 95 % half width: ("69,612", "312"); ("", "") parts where there is none."""
    if not math.isfinite(value):
        return "no value", ""
    decimals = decimals_for(half, value)
    text = f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")
    if text.strip("\N{MINUS SIGN}0.,") == "":
        text = text.lstrip("\N{MINUS SIGN}")
    return text, (f"{half:,.{decimals}f}" if math.isfinite(half) else "")


def show_margin(value: float, half: float, low: float, high: float) -> tuple[str, str]:
    """A value and its margin of error: ("69,612", "± 312"); ("264", "(158 to 5,623)") where the
    value does not lie in its middle. A part is "" where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)) or not lopsided(value, low, high):
        text, width = show_value(value, half)
        return text, f"\N{PLUS-MINUS SIGN} {width}" if width else ""
    shown = [number(x, 3).replace("-", "\N{MINUS SIGN}") for x in (value, low, high)]
    return shown[0], f"({shown[1]} to {shown[2]})"


def hidden(value: Floats, half: Floats, between: Between) -> NDArray[np.bool_]:
    """Where noise hides a value: its margin is wider than it, or as wide as all it could be."""
    low, high = between
    room = math.inf if low is None or high is None else high - low
    with np.errstate(invalid="ignore"):
        return np.asarray((half > np.abs(value)) | (2 * half >= room))


def cut(value: Floats, between: Between) -> Floats:
    """Numbers moved to public bounds; NaN stays."""
    low, high = between
    return value if low is None and high is None else np.clip(value, low, high)


def limits(
    value: Floats,
    half: Floats,
    between: Between,
    low: Floats | None = None,
    high: Floats | None = None,
) -> tuple[float, float]:
    """Ends of an axis for values, and for their margins within public bounds: a value beyond them
    is drawn where it is. Without low and high a margin is half on either side.

    A margin that is wide only at its beginning (a mean of few events) must not flatten the rest.
    """
    fine = np.isfinite(value)
    if not fine.any():
        return 0.0, 1.0
    seen = value[fine]
    sides = (half if low is None else value - low, half if high is None else high - value)
    under, above = (np.nan_to_num(side[fine], posinf=0.0) for side in sides)
    half = np.maximum(under, above)
    usual = 1.5 * min(float(np.quantile(half, 0.9)), 4 * float(np.median(half)))
    calm = (half <= usual) | (usual == 0)
    if calm.any():
        seen, under, above = seen[calm], under[calm], above[calm]
    else:
        under = above = np.zeros(len(seen))
    ends = cut(np.array([(seen - under).min(), (seen + above).max()]), between)
    first, last = min(float(ends[0]), float(seen.min())), max(float(ends[1]), float(seen.max()))
    if 0 < first < 0.4 * last:
        first = 0.0
    if not last > first:
        pad = abs(last) * 0.05 or 1.0
        return first - (pad if first else 0.0), last + pad
    pad = 0.04 * (last - first)
    return (
        first if first in (0.0, between[0]) else first - pad,
        last if last == between[1] else last + pad,
    )


def bin_name(label: str) -> str:
    """A bin for people: ``[1, 2)`` -> "1", ``[3, 5)`` -> "3 to <5", ``[10, inf)`` -> "10 or more".

    "1" is exact of whole numbers only, which bins of width 1 between whole edges are made for; the
    exact bin stays in tables and files.
    """
    ends = label.strip("[]()").split(", ")
    try:
        low, high = (float(end) for end in ends)
    except ValueError:
        return label
    if math.isinf(low):
        return "all" if math.isinf(high) else f"below {ends[1]}"
    if math.isinf(high):
        return f"{ends[0]} or more"
    if high == low + 1 and low == int(low):
        return ends[0] if label.endswith(")") else f"{ends[0]} or {ends[1]}"
    return f"{ends[0]} to {'<' if label.endswith(')') else ''}{ends[1]}"


def label_of(output: ReleasedOutput, i: int) -> str:
    """A component for people."""
    label = output.labels[i]
    return bin_name(label) if output.role == "bins" else label
