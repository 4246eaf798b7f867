"""``weir estimate --reconcile``: releases of several groupings as figures that add up."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from rich.console import Console
from rich.text import Text

from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates.reconcile import KeySums, non_negative, reconciled
from weir.pipelines.estimates.estimate import FOLDER, read_rows
from weir.pipelines.estimates.grid import of_folder
from weir.pipelines.results.plan_file import ESTIMATES
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import show_time, show_value
from weir.pipelines.terminal import heading, indent, span, table
from weir.transforms.runtime import files

FILE = "reconciled.csv"
ROWS = 20
"""Keys that are shown of a run."""
SCHEMA = pa.schema(
    [
        ("release", pa.string()),
        ("key", pa.string()),
        ("tick", pa.int64()),
        ("name", pa.string()),
        ("label", pa.string()),
        ("over", pa.int64()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
WHAT = (
    "Moved onto their sums by least squares, from the releases alone: epsilon does not change. "
    "They are estimates, not releases. Figures that cannot be below 0 are not: the total stays, "
    "and its parts are moved. The margin is of noise only, before that."
)
FINE = 1e-9
"""Relative differences of noise that are rounding."""


@dataclass(frozen=True)
class AddedUp:
    """What a call gave.

    Attributes:
      run: the folder. table: all rows. path: where they are. last: last tick.
      left_out: outputs that do not add up.
    """

    run: ResultFolder
    table: pa.Table
    path: Path
    last: int
    left_out: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values: the rows of the last tick."""
        latest = self.table.filter(pc.equal(self.table["tick"], self.last))
        return {
            "path": str(self.path), "rows": self.table.num_rows, "tick": self.last,
            "reconciled": latest.to_pylist(), "left_out": list(self.left_out), "what": WHAT,
        }  # fmt: skip


def reconcile(directory: Path, names: Sequence[str] | None = None) -> AddedUp:
    """Writes figures that add up into the folder.

    Raises:
      ConfigError: nothing there adds up, with the reason.
    """
    run = ResultFolder.open(directory)
    rows, left_out = added_up(run, names)
    path = directory / FOLDER / FILE
    path.parent.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    pyarrow.csv.write_csv(rows, buffer, options)
    files.replace(str(path), buffer.getvalue())
    return AddedUp(run, rows, path, run.last_tick, left_out)


def stored(run: ResultFolder) -> pa.Table | None:
    """Figures that add up that lie in a folder, up to the tick of the last call; None: there are
    none."""
    path = run.directory / FOLDER / FILE
    rows = read_rows(path.read_bytes(), SCHEMA) if path.exists() else None
    return rows if rows is not None and rows.num_rows else None


def added_up(
    run: ResultFolder, names: Sequence[str] | None = None
) -> tuple[pa.Table, tuple[str, ...]]:
    """Rows of all ticks, and outputs that are left out."""
    facts = run.plan.get(ESTIMATES) or {}
    known = {str(name): bool(floor) for name, floor in facts.get("adds_up") or ()}
    every = list(dict.fromkeys(output.name for output in run.outputs))
    if "adds_up" not in facts:
        raise ConfigError(
            "--reconcile",
            str(run.directory),
            "needs releases of several groupings, and this plan has one; add key.groups, like "
            "groups: [[city], [city, product], []].",
        )
    if (run.plan.get("canonical") or {}).get("discovery") is not None:
        raise ConfigError(
            "--reconcile",
            str(run.directory),
            "cannot add up keys that were found in private: a total counts the events of the "
            "others too, which no release shows. Read the releases of each grouping.",
        )
    for name in names or ():
        if name not in every:
            raise ConfigError("--name", name, f"is no output; {nearest(name, every)}")
        if name not in known:
            raise ConfigError(
                "--name",
                name,
                "does not add up over keys: users, means and ratios of a coarser key are not the "
                "sum of its parts. Read its releases.",
            )
    wanted = [name for name in (names or every) if name in known]
    if not wanted:
        raise ConfigError(
            "--reconcile", every, "has no count or sum of events here; read the releases."
        )
    pieces = list(_tables(run, wanted, known))
    left_out = tuple(name for name in every if name not in known)
    return pa.concat_tables([SCHEMA.empty_table(), *pieces]).combine_chunks(), left_out


def _tables(run: ResultFolder, names: Sequence[str], known: dict[str, bool]) -> Iterator[pa.Table]:
    grid = of_folder(run, names)
    labels = {output.name: output.labels or ("",) for output in run.outputs}
    for (name, over), values in grid.value.items():
        spreads = grid.stddev[name, over]
        for part in range(values.shape[2]):
            own, spread = values[:, :, part], spreads[:, :, part]
            for ticks, places in _alike(own, spread):
                keys = [run.values_of(grid.keys[at]) for at in places]
                some = np.ix_(ticks, places)
                moved, half = _moved(keys, own[some], spread[some], known[name], run.band)
                low = moved - half
                shape = moved.shape
                yield pa.table(
                    {
                        "release": [run.name] * moved.size,
                        "key": [grid.keys[at] for at in places] * shape[0],
                        "tick": np.repeat(grid.first + ticks, shape[1]),
                        "name": [name] * moved.size,
                        "label": [labels[name][part]] * moved.size,
                        "over": [over] * moved.size,
                        "value": moved.ravel(),
                        "low": (np.maximum(low, 0.0) if known[name] else low).ravel(),
                        "high": (moved + half).ravel(),
                    },
                    schema=SCHEMA,
                )


def _alike(values: Floats, stddev: Floats) -> Iterator[tuple[Any, list[int]]]:
    """Ticks with the same keys, whose noise has the same proportions; and these keys."""
    groups: dict[bytes, tuple[list[int], list[int]]] = {}
    for t in range(len(values)):
        places = np.flatnonzero(np.isfinite(values[t]) & (stddev[t] > 0))
        if not len(places):
            continue
        ratios = np.round(stddev[t, places] / stddev[t, places].max() / FINE)
        code = places.tobytes() + ratios.tobytes()
        groups.setdefault(code, ([], places.tolist()))[0].append(t)
    for ticks, own in groups.values():
        yield np.asarray(ticks), own


def _moved(
    keys: Sequence[Any], values: Floats, stddev: Floats, floor: bool, band: float
) -> tuple[Floats, Floats]:
    """Figures that add up, and half of their margins: (n, K) each."""
    try:
        sums = KeySums.of(keys)
    except ConfigError:  # so far there are keys of one grouping only
        return values, band * stddev
    result = reconciled(sums, values, stddev[0])
    half = band * result.stddev * (stddev / stddev[0])
    moved = non_negative(sums, result.values, result.stddev) if floor else result.values
    return moved, half


def render(result: AddedUp, console: Console) -> None:
    """The figures of the last tick."""
    run, latest = result.run, result.table.filter(pc.equal(result.table["tick"], result.last))
    start = show_time(run.tick_start(result.last), run.period)
    console.print(heading(f"{run.name}: figures that add up, tick {result.last:,} ({start})"))
    shown = table("key", "name", "label", "over", "value", "95 % margin", right=("value",))
    rows = latest.to_pylist()
    for row in rows[:ROWS]:
        half = row["high"] - row["value"]
        ends = [show_value(row[end], half)[0] for end in ("value", "low", "high")]
        cells = (run.shown(row["key"]), row["name"], row["label"], span(row["over"]))
        shown.add_row(*cells, ends[0], f"{ends[1]} to {ends[2]}")
    console.print(indent(shown))
    if len(rows) > ROWS:
        console.print(indent(Text(f"and {len(rows) - ROWS:,} more rows in {result.path}")))
    console.print(indent(Text(WHAT, style="dim")))
    for name in result.left_out:
        console.print(indent(Text(f"{name}: does not add up over keys.", style="dim")))
