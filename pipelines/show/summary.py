"""The end of a run: the last releases with error margins, what was counted, what it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from weir.dpcore.errors import WeirError
from weir.dpcore.pricing.calibration import BAND
from weir.dpcore.words import left_out_lines
from weir.pipelines.results.files import HELD_FOLDER, result_files
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import ends, interval, lopsided
from weir.pipelines.results.verdict import COUNTERS, Result, judge
from weir.pipelines.runners.options import HELD
from weir.pipelines.show.plan import one_line
from weir.pipelines.terminal import count, heading, indent, least_width, number, pairs, span, table
from weir.transforms.release.table import INTERVAL
from weir.transforms.runtime.reasons import Refused, refused_by_field

TICKS = 3
"""Last ticks that are shown of every release; with --wide more."""
WIDE_TICKS = 12
KEYS = 5
"""Keys that are shown; the report draws all of them."""
BINS = 12

ALONE = (
    "That is this plan alone: what other plans release of the same events adds to it, with the "
    "same secret too."
)
SECRET_GONE = (
    "The secret of this run is gone: another run over the same events costs as much again. Keep "
    "one with --secret-file."
)

Labels = Mapping[tuple[str, int | None], Sequence[str]]


def render(result: Result, out: Console, wide: bool = False) -> None:
    """Prints the summary; of a run that is held back no released value."""
    drawn = result.state != HELD
    if result.state == HELD:
        held_back(result, out)
    elif result.folder is not None and result_files(result.folder):
        run = ResultFolder.open(result.folder)
        which = "Releases" if result.plan.clock.once else "Last releases"
        of = f"{which} of {result.plan.name}"
        out.print(heading(f"{of} (value ± 95 % margin of the noise)"))
        drawn = not run.is_empty
        if drawn:
            last_releases(result, run, out, wide)
        else:
            out.print(indent(Text(none_live(result))))
    # A run that released something tells that it read nothing; one that published reads nothing.
    reported = {"events": 0} if result.counters.get("ticks_released") else {}
    counts = {**reported, **{name: n for name, n in result.counters.items() if n}}
    shown = [(name, counts[name]) for name in COUNTERS if name in counts]
    if shown:
        out.print(heading("For the operator only: private counts, not to be passed on"))
        counts_of = ((f"{value:,}", COUNTERS[name]) for name, value in shown)
        out.print(indent(pairs(counts_of, ("",))))
    named = [row for row in refused_by_field(result.counters) if row.field]
    if named and result.state != HELD:
        out.print(Padding(refused_table(named), (1, 0, 0, 2), expand=False))
    out.print(heading("Cost"))
    free = result.state == HELD and result.ledger is None
    unseen = "nothing as long as nobody sees it; published: " if free else ""
    out.print(indent(Text(f"{unseen}{one_line(result.plan)}")))
    out.print(indent(Text(ALONE, style="dim")))
    if result.ledger is not None:
        of = f"Ledger, {result.ledger['scope']}: {result.ledger['words']}."
        out.print(indent(Text(of)))
    gone = [SECRET_GONE] if result.fresh_secret and result.state != HELD else []
    for note in (*gone, *result.notes):
        out.print(indent(Text(note, style="yellow")))
    events = result.counters.get("events", 0)
    rate = f", {events / result.seconds:,.0f} events/s" if events and result.seconds > 0 else ""
    out.print(heading("Where"))
    out.print(indent(Text(f"{result.sink}  ({result.seconds:.1f} s{rate})")))
    if result.dead_letters:
        what = "(refused: source, position, field, reason)"
        out.print(indent(Text(f"{result.dead_letters}  {what}")))
    if result.folder is not None and result.folder.is_dir() and drawn:
        out.print(indent(Text(f"weir report {result.folder}  draws them")))


def last_releases(result: Result, run: ResultFolder, out: Console, wide: bool) -> None:
    """The table of a run's last ticks."""
    rows = last_rows(run, WIDE_TICKS if wide else TICKS)
    width = result.plan.band
    labels = {(output.name, output.over): output.labels for output in run.outputs}
    built = pivot(rows, width) if wide else fitting(rows, width, labels, out.width - 2)
    out.print(indent(built))
    banded = {(row["name"], row["over"]) for row in rows if row["low"] is not None}
    reported = (
        (item.name, item.left_out, (item.name, item.over) in banded) for item in run.outputs
    )
    for line in left_out_lines(reported):
        out.print(indent(Text(line, style="dim")))
    hidden = hidden_keys(run)
    if hidden:
        out.print(indent(Text(f"and {count(hidden, 'more key')}", style="dim")))


def fitting(rows: Sequence[Mapping[str, Any]], width: float, labels: Labels, columns: int) -> Any:
    """The long table of as many of the last ticks as there is room for, one at least."""
    for first in sorted({row["tick"] for row in rows}):
        built = long_table([row for row in rows if row["tick"] >= first], width, labels)
        if least_width(built) <= columns:
            break
    return built


def none_live(result: Result) -> str:
    """What is said where no key was live at any tick."""
    if result.plan.discovery is None:
        return "No key was live at any tick: nothing is released."
    users = result.plan.discovery.discover.min_users
    return (
        f"No key was found: it takes {count(users, 'user')} of a key in a period, and as many by a "
        "noisy count as weir plan tells."
    )


def refused_table(rows: Sequence[Refused], loss: tuple[str, str] | None = None) -> Any:
    """Fields and what was wrong with them; what became of the records.

    Args:
      rows: by field and reason.
      loss: how many files, and what share of all bytes, could not be read; None where all could.
    """
    built = table("field", "refused", "count", "records", right=("count",))
    if loss is not None:
        built.add_row("(file)", "could not be read", *loss)
    for row in rows:
        retained = "rejected" if row.put_aside else "kept, the value counts as missing"
        built.add_row(
            row.field or "(record)", row.reason.replace("_", " "), f"{row.count:,}", retained
        )
    return built


def held_back(result: Result, out: Console) -> None:
    """Says what was rejected, and by which field."""
    assert result.verdict is not None
    out.print(heading("Held back: what was rejected (private counts, for the operator only)"))
    verdict = result.verdict
    lost = (f"{verdict.lost_files:,}", f"unknown: {100 * verdict.lost:.3g} % of the bytes")
    reported = refused_table(verdict.rows, lost if verdict.lost_bytes else None)
    out.print(indent(reported))


def lossy(result: Result, limit: float) -> str | None:
    """What stderr says of a run that left records out, or had none, and is published; else None.

    Args:
      limit: ``limits.refused``.
    """
    results = judge(result.counters, limit)
    if result.fails or not results.known:
        return None
    return results.note if results.passes else f"{results}. {results.remedy}."


def failure(result: Result) -> WeirError:
    """What the operator must know of a run that rejected too much, met a damaged file, or whose
    releases differ."""
    if result.divergent:
        differ = count(result.divergent, "release")
        return WeirError(
            f"{differ} came twice and differ: two jobs, or two versions of events or code, were at "
            f"work on {result.sink}. What was there first stays; find the cause before you use "
            "what came later (docs/how-to/troubleshoot.md, When releases diverge)."
        )
    verdict = result.verdict
    assert verdict is not None
    why = f"{verdict}"
    if verdict.lost_bytes and result.dead_letters:
        why += f" ({result.dead_letters} lists them)"
    if result.state != HELD:
        return WeirError(
            f"{why}. {result.sink} publishes as it goes, so the releases are out. {verdict.remedy}."
        )
    counted = spent_of(result)
    if result.folder is None:
        cost = counted or "but no budget is spent, because nobody has seen it"
        allow = "name a folder as the sink, and publish what could be read with --publish"
        if not verdict.lost_bytes:
            allow = "show it with --set limits.refused=1"
        return WeirError(
            f"nothing is shown: {why}. Noise was drawn, {cost}. {verdict.remedy}; or {allow}."
        )
    private = f"{result.sink.rstrip('/')}/{HELD_FOLDER}"
    cost = counted or f"but no budget is spent as long as nobody sees {private}"
    again = "take a new secret and a new folder" if counted else "remove that folder"
    return WeirError(
        f"nothing is published: {why}. Noise was drawn, {cost}. {verdict.remedy}; then {again} and "
        "run again. Or publish what is in it: the same command with --publish, which reads no data."
    )


def spent_of(result: Result) -> str:
    """What the ledger counts of a run that is held back, in words; "" where none was asked."""
    if result.ledger is None:
        return ""
    entry = result.ledger["entry"]
    return f"and the run is counted in the ledger as spent (entry {entry}), published or not"


def last_rows(run: ResultFolder, ticks: int, keys: int = KEYS) -> list[dict[str, Any]]:
    """Rows of the last ticks of the first keys, in the order of key, name, over, tick."""
    retained = set(first_keys(run)[:keys])
    names = ["key", "tick", "tick_start", "name", "over", "value", "stddev", *run.interval_columns]
    first = max(0, run.last_tick - ticks + 1)
    results: list[dict[str, Any]] = []
    for batch in run.batches(names, first):
        mask = pc.and_(
            pc.greater_equal(batch["tick"], first),
            pc.is_in(batch["key"].cast(pa.string()), pa.array(sorted(retained), pa.string())),
        )
        results.extend(batch.filter(mask).to_pylist())
    for row in results:
        row.update(_ends(run, row))
    order = {(o.name, o.over): i for i, o in enumerate(run.outputs)}
    results.sort(key=lambda r: (r["key"], order.get((r["name"], r["over"]), 0), r["tick"]))
    shown = [{**row, "key": run.shown(row["key"])} for row in results]
    if run.ruler.calendar is None:
        return shown
    return [{**row, "tick_start": _wall(run, row["tick"])} for row in shown]


def _ends(run: ResultFolder, row: Mapping[str, Any]) -> dict[str, Any]:
    """Both ends of the margins of a row's values; None where they have none."""
    output = next((o for o in run.outputs if (o.name, o.over) == (row["name"], row["over"])), None)
    stddev, low, high = (
        None if row.get(name) is None else np.array(row[name], dtype=np.float64)
        for name in ("stddev", *INTERVAL)
    )
    if output is None or (stddev is None and low is None):
        return dict.fromkeys(INTERVAL)
    value = np.array(row["value"], dtype=np.float64)
    half = np.full_like(value, np.nan) if stddev is None else run.band * stddev
    pair = ends(output, value, half, low, high)
    return {name: end.tolist() for name, end in zip(INTERVAL, pair, strict=True)}


def _wall(run: ResultFolder, tick: int) -> datetime:
    """When a tick began, by the clocks of its zone."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=run.tick_start(tick))


def first_keys(run: ResultFolder) -> list[str]:
    """Keys of the last tick, in order."""
    result: set[str] = set()
    for batch in run.batches(["key", "tick"], run.last_tick):
        last = batch.filter(pc.equal(batch["tick"], run.last_tick))
        result.update(pc.unique(last["key"].cast(pa.string())).to_pylist())
    return sorted(result)


def hidden_keys(run: ResultFolder) -> int:
    """How many keys the table does not show."""
    return max(0, len(first_keys(run)) - KEYS)


def long_table(
    rows: Sequence[Mapping[str, Any]], width: float = BAND, labels: Labels | None = None
) -> Any:
    """One row per key, release and bin; one column per tick.

    Args:
      rows: of the results, in order. width: of a margin, in standard deviations.
      labels: (name, over) -> names of the components.
    """
    keyed = any(row["key"] for row in rows)
    ticks = sorted({(row["tick"], starts(row["tick_start"])) for row in rows})
    cells: dict[tuple[str, str, int | None, int], dict[int, str]] = {}
    sizes: dict[tuple[str, int | None], int] = {}
    for row in rows:
        size = len(row["value"])
        sizes[row["name"], row["over"]] = size
        for i in range(min(size, BINS)):
            place = (row["key"], row["name"], row["over"], i)
            cells.setdefault(place, {})[row["tick"]] = _cell(row, i, width)
    once = all(row["tick_start"] is None for row in rows)
    titles = tuple(f"{when}\n(tick {tick:,})" for tick, when in ticks) if not once else ("value",)
    spans = [] if once else ["over"]
    built = table(*(["key"] if keyed else []), "release", *spans, "", *titles, right=titles)
    for (key, name, over, i), values in cells.items():
        names = (labels or {}).get((name, over), ())
        size = sizes[name, over]
        label = "" if size == 1 else names[i] if i < len(names) else f"{i + 1}"
        built.add_row(
            *([key if i == 0 else ""] if keyed else []),
            name if i == 0 else "",
            *([] if once else [span(over) if i == 0 else ""]),
            label if i < BINS - 1 or size <= BINS else f"{label} (of {size:,})",
            *(values.get(tick, "") for tick, _ in ticks),
        )
    return built


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
        cells.setdefault(place, {})[spot] = shown(row, width)
    titles = [name if over is None else f"{name}\nlast {over}" for name, over in columns]
    once = all(row["tick_start"] is None for row in rows)
    times = () if once else ("tick", "starts")
    built = table(*(["key"] if keyed else []), *times, *titles)
    for (key, tick), values in sorted(cells.items()):
        built.add_row(
            *([key] if keyed else []),
            *(() if once else (f"{tick:,}", when[key, tick])),
            *(values.get(spot, "") for spot in columns),
        )
    return built


def shown(row: Mapping[str, Any], width: float = BAND) -> str:
    """The components of a row's value, each with its margin of error."""
    size = len(row["value"])
    parts = [_cell(row, i, width) for i in range(min(size, BINS))]
    more = f" ... ({size:,} values)" if size > BINS else ""
    return " | ".join(parts) + more


def _cell(row: Mapping[str, Any], i: int, width: float) -> str:
    """One component of a row's value, with its margin of error."""
    stddev, *pair = (
        None if row.get(name) is None else row[name][i] for name in ("stddev", *INTERVAL)
    )
    return one(row["value"][i], stddev, width, *pair)


def one(
    value: float,
    stddev: float | None,
    width: float = BAND,
    low: float | None = None,
    high: float | None = None,
) -> str:
    """A number with its 95 % margin of error, rounded to what the noise leaves of it.

    Args:
      width: of half a margin, in standard deviations. low, high: its ends, where they are known.
    """
    half = width * stddev if stddev is not None else math.nan
    if low is not None and high is not None and math.isfinite(high - low):
        if lopsided(value, low, high):
            return interval(value, low, high)
        if not math.isclose(half, (high - low) / 2, rel_tol=1e-6):  # an interval of its own
            half = (high - low) / 2
    if not math.isfinite(half) or half <= 0 or not math.isfinite(value):
        return number(value)
    decimals = max(0, 1 - math.floor(math.log10(half)))
    return f"{value:z,.{decimals}f} ± {half:,.{decimals}f}"


def starts(moment: Any) -> str:
    """A tick's start, without what is zero."""
    if not isinstance(moment, datetime):
        return str(moment)
    at: datetime = moment.astimezone(UTC)
    if at.hour == at.minute == at.second == at.microsecond == 0:
        return at.strftime("%Y-%m-%d")
    text = at.strftime("%Y-%m-%d %H:%M:%S")
    if at.microsecond:
        return f"{text}.{at.microsecond // 1000:03d}"
    return text.removesuffix(":00") if at.second == 0 else text
