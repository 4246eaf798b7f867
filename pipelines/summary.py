"""The end of a run: the last releases with error bands, what was counted, what it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dpcore.plan import Plan
from pipelines.plan import band, one_line
from pipelines.results import Run
from pipelines.terminal import BAND, count, heading, number, span, table

TICKS = 3
"""Last ticks that are shown of every release; with --wide more."""
WIDE_TICKS = 12
KEYS = 5
"""Keys that are shown; the report draws all of them."""
BINS = 12

COUNTERS = {
    "events": "events read",
    "filtered": "left out by `where`",
    "malformed": "malformed",
    "too_long": "longer than limits.line_bytes",
    "missing_time": "without an event time",
    "before_start": "before clock.start",
    "after_end": "after clock.end",
    "late": "late",
    "overdue": "behind a released tick",
    "duplicate": "duplicates",
    "unknown_key": "of no declared key",
    "over_capacity": "beyond the room of a cell",
    "clipped": "values moved by a clip",
    "non_finite": "values missing or not finite, counted as 0",
    "out_of_range": "values outside a histogram",
    "divergent": "releases that came twice and differ (ALARM)",
}


@dataclass(frozen=True)
class Result:
    """What a run did.

    Attributes:
      plan: what ran. folder: of the results, or None. sink: where they are, in words.
      counters: the operator's counts; private numbers.
      seconds: how long it took.
      fresh_secret: whether the secret is lost with this process.
      dead_letters: folder of the dead letters, or None.
      note: something to know, or "".
    """

    plan: Plan
    folder: Path | None
    sink: str
    counters: Mapping[str, int]
    seconds: float
    fresh_secret: bool
    dead_letters: str | None = None
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """For ``weir run --json``."""
        guarantee = self.plan.guarantee
        return {
            "name": self.plan.name,
            "digest": self.plan.digest,
            "sink": self.sink,
            "complete": True,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "window": guarantee.window,
            "seconds": round(self.seconds, 3),
            "fresh_secret": self.fresh_secret,
            "dead_letters": self.dead_letters,
            "operator": dict(self.counters),
            "notes": list(self.notes),
        }


def render(result: Result, out: Console, wide: bool = False) -> None:
    """Prints the summary."""
    if result.folder is not None:
        run = Run.open(result.folder)
        out.print(heading(f"Last releases of {result.plan.name} (value ± 95 % band of the noise)"))
        rows = last_rows(run, WIDE_TICKS if wide else TICKS)
        width = band(result.plan)
        made = pivot(rows, width) if wide else long_table(rows, width)
        out.print(Padding(made, (0, 0, 0, 2), expand=False))
        hidden = hidden_keys(run)
        if hidden:
            out.print(Text(f"  and {count(hidden, 'more key')}", style="dim"))
    shown = [(n, result.counters[n]) for n in COUNTERS if result.counters.get(n)]
    if shown:
        out.print(heading("For the operator only: private counts, not to be passed on"))
        rows_ = table("", "", right=("",))
        rows_.show_header = False
        for name, value in shown:
            rows_.add_row(f"{value:,}", COUNTERS[name])
        out.print(Padding(rows_, (0, 0, 0, 2), expand=False))
    out.print(heading("Cost"))
    out.print(Text(f"  {one_line(result.plan)}"))
    if result.fresh_secret:
        out.print(
            Text(
                "  The secret of this run is gone: another run over the same events costs as much "
                "again. Keep one with --secret-file.",
                style="yellow",
            )
        )
    for note in result.notes:
        out.print(Text(f"  {note}", style="yellow"))
    events = result.counters.get("events", 0)
    rate = f", {events / result.seconds:,.0f} events/s" if events and result.seconds > 0 else ""
    out.print(heading("Where"))
    out.print(Text(f"  {result.sink}  ({result.seconds:.1f} s{rate})"))
    if result.dead_letters:
        out.print(Text(f"  {result.dead_letters}  (refused records: source, position, reason)"))
    if result.folder is not None:
        out.print(Text(f"  weir report {result.folder}  draws them"))


def last_rows(run: Run, ticks: int, keys: int = KEYS) -> list[dict[str, Any]]:
    """Rows of the last ticks of the first keys, in the order of key, name, over, tick."""
    kept = set(first_keys(run)[:keys])
    names = ["key", "tick", "tick_start", "name", "over", "value", "stddev"]
    first = max(0, run.last_tick - ticks + 1)
    found: list[dict[str, Any]] = []
    for batch in run.batches(names, first):
        mask = pc.and_(
            pc.greater_equal(batch["tick"], first),
            pc.is_in(batch["key"].cast(pa.string()), pa.array(sorted(kept), pa.string())),
        )
        found.extend(batch.filter(mask).to_pylist())
    order = {(o.name, o.over): i for i, o in enumerate(run.outputs)}
    found.sort(key=lambda r: (r["key"], order.get((r["name"], r["over"]), 0), r["tick"]))
    return found


def first_keys(run: Run) -> list[str]:
    """Keys of the last tick, in order."""
    found: set[str] = set()
    for batch in run.batches(["key", "tick"], run.last_tick):
        last = batch.filter(pc.equal(batch["tick"], run.last_tick))
        found.update(pc.unique(last["key"].cast(pa.string())).to_pylist())
    return sorted(found)


def hidden_keys(run: Run) -> int:
    """How many keys the table does not show."""
    return max(0, len(first_keys(run)) - KEYS)


def long_table(rows: Sequence[Mapping[str, Any]], width: float = BAND) -> Any:
    """One row per key, release and tick."""
    keyed = any(row["key"] for row in rows)
    made = table(*(["key"] if keyed else []), "release", "over", "tick", "starts", "value")
    for row in rows:
        made.add_row(
            *([row["key"]] if keyed else []),
            row["name"],
            span(row["over"]),
            f"{row['tick']:,}",
            starts(row["tick_start"]),
            shown(row["value"], row["stddev"], width),
        )
    return made


def pivot(rows: Sequence[Mapping[str, Any]], width: float = BAND) -> Any:
    """One row per key and tick, one column per release."""
    keyed = any(row["key"] for row in rows)
    columns: list[tuple[str, int | None]] = []
    cells: dict[tuple[str, int], dict[tuple[str, int | None], str]] = {}
    when: dict[tuple[str, int], str] = {}
    for row in rows:
        spot = (row["name"], row["over"])
        if spot not in columns:
            columns.append(spot)
        place = (row["key"], row["tick"])
        when[place] = starts(row["tick_start"])
        cells.setdefault(place, {})[spot] = shown(row["value"], row["stddev"], width)
    titles = [name if over is None else f"{name}\nlast {over}" for name, over in columns]
    made = table(*(["key"] if keyed else []), "tick", "starts", *titles)
    for (key, tick), values in sorted(cells.items()):
        made.add_row(
            *([key] if keyed else []),
            f"{tick:,}",
            when[key, tick],
            *(values.get(spot, "") for spot in columns),
        )
    return made


def shown(value: Sequence[float], stddev: Sequence[float] | None, width: float = BAND) -> str:
    """A value with its 95 % band, rounded to what the noise leaves of it."""
    parts = []
    for i, v in enumerate(value[:BINS]):
        s = None if stddev is None else stddev[i]
        if s is None or not math.isfinite(s) or s <= 0:
            parts.append(number(v))
            continue
        half = width * s
        decimals = max(0, 1 - math.floor(math.log10(half)))
        parts.append(f"{v:,.{decimals}f} ± {half:,.{decimals}f}")
    more = f" ... ({len(value):,} values)" if len(value) > BINS else ""
    return " | ".join(parts) + more


def starts(moment: Any) -> str:
    """A tick's start, without what is zero."""
    if not isinstance(moment, datetime):
        return str(moment)
    moment = moment.astimezone(UTC)
    if moment.hour == moment.minute == moment.second == moment.microsecond == 0:
        return moment.strftime("%Y-%m-%d")
    return moment.strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")
