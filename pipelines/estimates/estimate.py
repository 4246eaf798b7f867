"""``weir estimate``: estimates of the releases in a folder, and where the next call goes on."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from rich.console import Console
from rich.text import Text

from weir.dpcore.errors import DAMAGE, ConfigError
from weir.dpcore.estimates.rules import LEAST_TICKS
from weir.dpcore.estimates.sources import facts_of
from weir.dpcore.plan import Plan
from weir.pipelines.estimates.estimator import ESTIMATE_SCHEMA, Estimator
from weir.pipelines.estimates.grid import ReleaseGrid, of_folder, of_table
from weir.pipelines.estimates.words import SURPRISE, WHAT
from weir.pipelines.results.plan_file import ESTIMATES
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import show_time, show_value
from weir.pipelines.terminal import heading, indent, span, table
from weir.transforms.runtime import files
from weir.transforms.sinks import place

FOLDER, LIVE, HINDSIGHT, STATE = "_estimates", "live.csv", "hindsight.csv", "state.npz"
"""Inside a folder of results: estimates, and where the next call goes on."""
ROWS = 20
"""Keys that are shown of an output."""


@dataclass(frozen=True)
class Estimated:
    """What a call gave.

    Attributes:
      run: the folder. table: all rows. path: where they are. fresh: how many of them are new.
      refused: outputs without estimates, and why. last: last tick.
    """

    run: ResultFolder
    table: pa.Table
    path: Path
    fresh: int
    refused: dict[str, str]
    last: int

    def to_json(self) -> dict[str, Any]:
        """Plain values: the rows of the last tick."""
        latest = self.table.filter(pc.equal(self.table["tick"], self.last))
        return {
            "path": str(self.path), "rows": self.table.num_rows, "new_rows": self.fresh,
            "tick": self.last, "estimates": latest.to_pylist(), "refused": self.refused,
            "what": WHAT,
        }  # fmt: skip


def estimator_of(
    run: ResultFolder, names: Sequence[str] | None = None, remember: bool = False
) -> Estimator:
    """The filters of a folder of results, before its first tick.

    Raises:
      ConfigError: its plan says nothing of estimates, or refuses them.
    """
    facts = run.plan.get(ESTIMATES)
    if facts is None:
        raise ConfigError(
            "directory",
            str(run.directory),
            f"has no {ESTIMATES} in its {place.PLAN_FILE}: an earlier version of Weir began it. "
            "Run its config again into another folder.",
        )
    labels = {output.name: output.labels for output in run.outputs}
    return Estimator(run.name, facts, labels, names, remember)


def estimates_of(run: ResultFolder, names: Sequence[str] | None, hindsight: bool) -> pa.Table:
    """All estimates of a folder, computed from its first tick on; nothing is written."""
    estimator = estimator_of(run, names, hindsight)
    return _all(estimator, of_folder(run, estimator.read), hindsight)


def of_releases(
    plan: Plan, releases: pa.Table, names: Sequence[str] | None = None, hindsight: bool = False
) -> pa.Table:
    """Estimates of releases in memory, rows of ``RELEASE_SCHEMA``."""
    labels = {output.name: output.labels for output in plan.outputs}
    estimator = Estimator(plan.name, facts_of(plan), labels, names, hindsight)
    return _all(estimator, of_table(releases, estimator.read), hindsight)


def _all(estimator: Estimator, grid: ReleaseGrid, hindsight: bool) -> pa.Table:
    live = estimator.add(grid)
    rows = list(estimator.hindsight()) if hindsight else live
    _refuse_short(estimator, len(rows))
    return pa.concat_tables([ESTIMATE_SCHEMA.empty_table(), *rows]).combine_chunks()


def _refuse_short(estimator: Estimator, rows: int) -> None:
    ticks = max((c.ticks for several in estimator.cohorts.values() for c in several), default=0)
    if not rows and ticks < LEAST_TICKS:
        raise ConfigError(
            "directory",
            f"{ticks} ticks",
            f"are too few: a key has estimates from its {LEAST_TICKS}th tick on. Wait for more.",
        )


def estimate(
    directory: Path, names: Sequence[str] | None = None, hindsight: bool = False
) -> Estimated:
    """Writes estimates into the folder. Live ones go on where the last call stopped; in hindsight
    all are computed again, since every release changes them.

    Raises:
      ConfigError: the folder has none, with the reason.
    """
    run = ResultFolder.open(directory)
    folder = directory / FOLDER
    if hindsight:
        rows = estimates_of(run, names, True)
        estimator = estimator_of(run, names)
        path = folder / HINDSIGHT
        _write(path, _csv(rows, True))
        return Estimated(run, rows, path, rows.num_rows, estimator.refused, run.last_tick)
    estimator = estimator_of(run, names)
    path, state = folder / LIVE, folder / STATE
    before = _resumed(estimator, run, path, state)
    fresh: list[pa.Table] = []
    if run.last_tick > estimator.last:
        grid = of_folder(run, estimator.read, estimator.last + 1)
        fresh = estimator.add(grid)
    rows = pa.concat_tables([ESTIMATE_SCHEMA.empty_table(), *fresh])
    text = before + _csv(rows, not before)
    everything = read_rows(text, ESTIMATE_SCHEMA)
    _refuse_short(estimator, everything.num_rows)
    _write(path, text)
    buffer = io.BytesIO()
    own: dict[str, Any] = {"size": np.array(len(text)), "of": np.array(_mark(run, estimator))}
    np.savez(buffer, allow_pickle=False, **own, **estimator.to_arrays())
    _write(state, buffer.getvalue())
    count = rows.num_rows
    return Estimated(run, everything, path, count, estimator.refused, estimator.last)


def stored(run: ResultFolder) -> pa.Table | None:
    """Estimates that lie in a folder: in hindsight, if they are of its last tick; else live ones;
    None: there are none."""
    folder = run.directory / FOLDER
    for name in (HINDSIGHT, LIVE):
        path = folder / name
        rows = read_rows(path.read_bytes(), ESTIMATE_SCHEMA) if path.exists() else None
        if rows is None or not rows.num_rows:
            continue
        if name == LIVE or pc.max(rows["as_of"]).as_py() == run.last_tick:
            return rows
    return None


def refreshed(directory: Path) -> None:
    """Takes the ticks that came since live estimates were written into a folder, if they were."""
    if (directory / FOLDER / LIVE).exists():
        with suppress(ConfigError):  # what is wrong with them is said by weir estimate
            estimate(directory)


def _mark(run: ResultFolder, estimator: Estimator) -> str:
    """What stored filters are of: the plan, and the outputs."""
    return " ".join([str(run.plan.get("layout")), *estimator.names])


def _resumed(estimator: Estimator, run: ResultFolder, path: Path, state: Path) -> bytes:
    """Puts the filters where the last call left them; gives what it wrote, or nothing."""
    if not (path.exists() and state.exists()):
        return b""
    text, filters = path.read_bytes(), io.BytesIO(state.read_bytes())
    try:
        with np.load(filters, allow_pickle=False) as stored:
            arrays = dict(stored)
        size = int(arrays.pop("size"))
        if str(arrays.pop("of")) != _mark(run, estimator) or len(text) < size:
            return b""
        estimator.restore(arrays)
    except (*DAMAGE, BadZipFile, zlib.error, RuntimeError, MemoryError):  # sizes may be damaged
        raise ConfigError(
            "directory",
            str(state),
            "cannot be read as the filters of the last call: it was damaged or changed. Remove it "
            "to compute all estimates again.",
        ) from None
    return text[:size]


def _csv(rows: pa.Table, header: bool) -> bytes:
    if not rows.num_rows and not header:
        return b""
    buffer = io.BytesIO()
    rows = rows.combine_chunks()  # pyarrow 25 writes garbage for an empty chunk without a header
    options = pyarrow.csv.WriteOptions(include_header=header, quoting_style="needed")
    pyarrow.csv.write_csv(rows, buffer, options)
    return buffer.getvalue()


def read_rows(text: bytes, schema: pa.Schema) -> pa.Table:
    """The rows of a CSV file that was written with these columns.

    Raises:
      ConfigError: it was damaged.
    """
    kinds = {field.name: field.type for field in schema}
    options = pyarrow.csv.ConvertOptions(
        column_types=kinds,
        null_values=[""],
        strings_can_be_null=False,
        include_columns=schema.names,
    )
    try:
        return pyarrow.csv.read_csv(pa.BufferReader(text), convert_options=options)
    except DAMAGE:
        raise ConfigError(
            "directory",
            FOLDER,
            "holds a file that cannot be read: it was damaged or changed. Remove it to compute all "
            "again.",
        ) from None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    files.replace(str(path), content)


def render(result: Estimated, console: Console) -> None:
    """The estimates of the last tick next to their releases."""
    run, latest = result.run, result.table.filter(pc.equal(result.table["tick"], result.last))
    start = show_time(run.tick_start(result.last), run.period)
    console.print(heading(f"{run.name}: estimates of tick {result.last:,} ({start})"))
    names = dict.fromkeys(latest["name"].to_pylist())
    grid = of_folder(run, names, result.last)
    releases = {
        (key, *spot, i): (values[0, k, i], grid.stddev[spot][0, k, i])
        for spot, values in grid.value.items()
        for k, key in enumerate(grid.keys)
        for i in range(values.shape[2])
    }
    shown = table(
        "key", "name", "label", "over", "release", "estimate", "95 % interval", "",
        right=("release", "estimate"),
    )  # fmt: skip
    places: dict[tuple[str, str, int | None], int] = {}
    rows = latest.to_pylist()
    for row in rows:
        spot = (row["key"], row["name"], row["over"])
        at = places[spot] = places.get(spot, -1) + 1
        value, stddev = releases[(*spot, at)]
        text, half = show_value(value, run.band * stddev)
        ends = (row["estimate"], row["estimate_low"], row["estimate_high"])
        if row["model"] == "release":
            numbers, mark = ["=", ""], "no better than the release"
        else:
            wide = (row["estimate_high"] - row["estimate_low"]) / 2
            value_, low, high = (show_value(end, wide)[0] for end in ends)
            numbers, mark = [value_, f"{low} to {high}"], "surprise" * row["surprise"]
        if len(shown.rows) < ROWS:
            cells = (run.shown(row["key"]), row["name"], row["label"], span(row["over"]))
            shown.add_row(*cells, f"{text} \N{PLUS-MINUS SIGN} {half}", *numbers, mark)
    console.print(indent(shown))
    if len(rows) > ROWS:
        console.print(indent(Text(f"and {len(rows) - ROWS:,} more rows in {result.path}")))
    for text in (WHAT, *([SURPRISE] if any(row["surprise"] for row in rows) else [])):
        console.print(indent(Text(text, style="dim")))
    for name, reason in result.refused.items():
        console.print(indent(Text(f"{name}: {reason}", style="dim")))
