"""The sentences and tables of a report, the same on every surface."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weir.dpcore.config.durations import show_duration
from weir.dpcore.leaves.clock import UTC, shown_unit
from weir.dpcore.pricing.choice import loss_words
from weir.dpcore.words import left_out_lines, number, sentence
from weir.pipelines.report.data import (
    PARTS_LISTED,
    TICKS_LISTED,
    Last,
    Panel,
    ReportData,
    Series,
    largest,
)
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.pipelines.results.series import label_of, show_span, show_time

Titles = list[tuple[str, ...]]
ALL_ROWS = "all rows"
"""What a release without a clock is of."""
Cell = tuple[float, float, float, float]
"""Value, half the width of its margin of error, and its ends."""
Table = tuple[Titles, list[tuple[str, list[Cell]]]]
NO_CELL: Cell = (math.nan, math.nan, math.nan, math.nan)


def short(value: Any) -> str:
    """A privacy parameter: 1.0 -> "1", 1e-06 -> "1e-6", None and inf -> "none"."""
    if value is None or (isinstance(value, str) and value.lower() in ("inf", "infinity")):
        return "none"
    size = float(value)
    if math.isinf(size):
        return "none"
    text = f"{size:.4g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text


def when(run: ResultFolder, tick: int) -> str:
    """The start of a tick as a date or time; without a clock: what is released, in words."""
    if run.once:
        return ALL_ROWS
    return show_time(run.tick_start(tick), run.period)


def lasts(run: ResultFolder, ticks: int, zone: bool = False) -> str:
    """How long so many ticks last: "7 days", "3 months". zone: whether to name that of a clock."""
    calendar = run.ruler.calendar
    if calendar is None:
        return show_span(ticks * run.period)
    named = calendar.zone if zone else UTC
    return shown_unit(ticks * calendar.days, ticks * calendar.months, named)


def duration(run: ResultFolder, ticks: int) -> str:
    """ "365 ticks (365 days)"."""
    return f"{ticks:,} tick{'' if ticks == 1 else 's'} ({lasts(run, ticks)})"


def span(output: ReleasedOutput, run: ResultFolder) -> str:
    """ "since the start", "each tick alone (1 day)", "last 7 ticks (7 days)", "all rows"."""
    if run.once:
        return ALL_ROWS
    if output.over is None:
        return output.span
    return f"{output.span} ({lasts(run, output.over)})"


def facts(data: ReportData) -> str:
    """One line under the title."""
    run = data.run
    keys = "" if data.keyless else "; 1 key" if data.keys == 1 else f"; {data.keys:,} keys"
    if run.once:
        return f"A differentially private release of all rows{keys}."
    count = run.last_tick - run.first_tick + 1
    ticks = f"{count:,} tick{'' if count == 1 else 's'} of {lasts(run, 1, zone=True)}"
    first, last = when(run, run.first_tick), when(run, run.last_tick)
    dates = first if first == last else f"{first} to {last}"
    return f"Differentially private releases, {dates}: {ticks}{keys}."


def unfinished(run: ResultFolder) -> str:
    """What is missing, or ""."""
    if run.complete:
        return ""
    if run.once:
        return "This run is not complete. Run it again to go on from there."
    planned = run.ticks_planned
    done = run.last_tick + 1
    so_far = f"{done:,} of {planned:,} ticks" if planned else f"{done:,} ticks so far"
    return f"This run is not complete: it has released {so_far}. Run it again to go on from there."


def numbers(run: ResultFolder) -> list[tuple[str, str]]:
    """The guarantee in numbers: (value, label)."""
    guarantee = run.plan.get("guarantee") or {}
    epsilon, delta, window = run.promise
    relation = guarantee.get("relation")
    lasting = "always" if window is None else lasts(run, window)
    label = "protected" if window is None else f"protection horizon ({window:,} ticks)"
    results = [(short(epsilon), "epsilon"), (short(delta), "delta")]
    results += [] if run.once else [(lasting, label)]
    results.append((f"one {unit(run)}", RELATIONS.get(str(relation), "privacy unit")))
    return results


RELATIONS = {
    "add_remove": "added or removed",
    "replace_one": "replaced in its place",
    "replace_anywhere": "replaced, anywhere",
}
"""What neighbouring streams do with the privacy unit."""


def noun(run: ResultFolder) -> str:
    """What one event is, by the config's ``schema.noun``; "event" where it tells none."""
    return str(run.plan.get("noun") or "event")


def unit(run: ResultFolder) -> str:
    """What is protected: "event", "purchase", "user in 3 months", "user"."""
    guarantee = run.plan.get("guarantee") or {}
    name, per = str(guarantee.get("unit", "event")), period(run)
    name = noun(run) if name == "event" else name
    return name if per is None else f"{name} in {per}"


def period(run: ResultFolder) -> str | None:
    """In which span a user is protected: "3 months", "7d"; None: the unit is an event, or all that
    a user does is protected."""
    per = (run.plan.get("user") or {}).get("per")
    return show_duration(per) if isinstance(per, int) else per


def statement(run: ResultFolder) -> str:
    """The guarantee in words, as the plan states it."""
    guarantee = run.plan.get("guarantee") or {}
    text = guarantee.get("statement")
    if text:
        return str(text)
    return (
        "The folder has no _plan.json, so the guarantee is known only by its numbers, "
        "which every row carries."
    )


def budget(run: ResultFolder) -> str:
    """How the ledger stood when the run began, or ""."""
    reported = run.plan.get("ledger")
    return (
        f"Budget of {reported['scope']} when this run began: {reported['words']}."
        if reported
        else ""
    )


def expiration(run: ResultFolder) -> list[tuple[str, str, str]]:
    """(released within, epsilon, delta) for people; rows beyond the clock's end become one."""
    rows: list[tuple[str, str, str]] = []
    if run.once:
        return rows  # nothing is released later
    for item in run.plan.get("expiration") or []:
        ticks = item.get("ticks")
        over = ticks is None or (run.ticks_planned is not None and ticks >= run.ticks_planned)
        within = "for ever" if over else duration(run, int(ticks))
        if over and run.ticks_planned is not None:
            within = f"the whole clock, {duration(run, run.ticks_planned)}"
        epsilon = short(item.get("epsilon"))
        gone = epsilon == "none"
        rows.append(
            (within, "no protection" if gone else epsilon, "" if gone else short(item.get("delta")))
        )
        if over:
            break
    return rows


def every_period(run: ResultFolder) -> tuple[str, str, str] | None:
    """(who, epsilon, delta) of a user who is present in every period; None where the unit is an
    event, or no plan says it."""
    row = (run.plan.get("user") or {}).get("every_period")
    if not row:
        return None
    epsilon, delta = short(row["epsilon"]), short(row["delta"])
    return sentence(str(row["who"])), epsilon.replace("none", "no bound"), delta


def against(run: ResultFolder) -> str:
    """Title of the table of `expiration`: whose loss, and from when it counts."""
    if (run.plan.get("guarantee") or {}).get("unit") != "user":
        since = " after it arrived"
    else:
        per = (run.plan.get("user") or {}).get("per")
        since = " from the last tick of its period on" if per else ""
    return f"Privacy loss over time: of one {unit(run)}, from everything released{since}"


READING = {"lines": "Every line is what was released.", "banded": "", "bare": ""}
"""How a picture is read where no plan says it."""


def how_to_read(data: ReportData) -> str:
    """What the picture means, and what it does not say, in the words of the algorithm."""
    reading = data.run.plan.get("reading") or READING
    banded = any(map(is_banded, data.panels))
    said = [reading["lines"], reading["banded" if banded else "bare"]]
    said += dict.fromkeys(panel.output.reading for panel in data.panels)
    text = " ".join(part for part in said if part).replace("{band}", f"{data.run.band:.3g}")
    if data.run.once:
        text = text.replace("Every line", "Every number", 1)
    if data.ranked_by is not None:
        by = f"{data.ranked_by.name}, {span(data.ranked_by, data.run)}"
        text += (
            f" Of {data.keys:,} keys, {len(data.drawn)} are drawn: the first by their last private "
            f"value ({by})."
        )
    text += "" if data.estimates is None else data.estimates.words
    if data.stride > 1:
        text += f" One tick in {data.stride} is drawn."
    return text


def columns(data: ReportData) -> list[tuple[ReleasedOutput, int, tuple[str, ...]]]:
    """(output, component, title) of the last values; of long models those furthest from 0, other
    long vectors are left to the charts."""
    results = []
    own = any(panel.output.role == "model" for panel in data.panels)
    for panel in sorted(
        data.panels, key=lambda item: (item.output.over is None, item.output.is_model)
    ):
        output = panel.output
        long = len(output.labels) > 12
        if (long and not output.is_model) or output.role == "trace":
            continue
        if output.role == "scaled_model" and own and not data.chosen:
            continue
        over = "all" if output.over is None else f"last {output.over}"
        over = "each tick" if output.over == 1 else over
        over = "" if output.is_model or data.run.once else over
        for i in largest(panel, PARTS_LISTED) if long else range(len(output.labels)):
            title = (output.name, label_of(output, i), over)
            results.append((output, i, tuple(filter(None, title))))
    return results


def left_out(data: ReportData) -> list[str]:
    """What bounds keep out of the outputs of the table of last values, in a sentence each; and what
    the newest figures say of the true ones, where there is one key."""
    shown = {(output.name, output.over) for output, _, _ in columns(data)}
    panels = [item for item in data.panels if (item.output.name, item.output.over) in shown]
    lines = left_out_lines(
        (panel.output.name, panel.output.left_out, is_banded(panel)) for panel in panels
    )
    return [*lines, *filter(None, (at_least(panel, data.run) for panel in panels))]


def at_least(panel: Panel, run: ResultFolder) -> str:
    """What the newest figure of a single key says of the true one, where bounds only lower it; ""
    where there are several figures, or nothing can be said."""
    output = panel.output
    if output.below is None or not output.left_out or len(panel.series) != 1:
        return ""
    newest = panel.series[0].newest
    if newest.low.shape != (1, 1) or not np.isfinite(newest.low).all():
        return ""
    low = number(max(float(newest.low[0, 0]), 0.0), 4)
    condition = f", {output.below}" if output.below else ""
    day = when(run, int(newest.ticks[-1]))
    what = f"{output.name}, {span(output, run)}, {day}"
    return f"{what}: with 97.5 % certainty the true figure is at least {low}{condition}."


def is_banded(panel: Panel) -> bool:
    """Whether a margin of error is known of any of its values."""
    return any(np.isfinite(item.half).any() for item in panel.series)


def last_caption(data: ReportData) -> str:
    """What the table of last values shows."""
    day = when(data.run, data.run.last_tick)
    if data.keys == 1:
        which = "The releases" if data.run.once else "The last ticks"
        return f"{which}, with the 95 % margin of error"
    listed = len(data.listed)
    which = f"{listed:,} of {data.keys:,} keys" if listed < data.keys else "all keys"
    values = "Values" if data.run.once else f"Last values ({day})"
    return f"{values} of {which}, with the 95 % margin of error"


def last_values(data: ReportData) -> Table:
    """Last ticks of the only key, or last values of the first keys."""
    chosen = columns(data)
    titles = [title for _, _, title in chosen]
    if data.keys == 1:
        by_spot = {
            (panel.output.name, panel.output.over): panel.series[0]
            for panel in data.panels
            if panel.series
        }
        last = data.run.last_tick
        ticks = range(max(data.run.first_tick, last - TICKS_LISTED + 1), last + 1)
        body = []
        for tick in ticks:
            cells = []
            for output, i, _ in chosen:
                series = by_spot.get((output.name, output.over))
                at: Any = np.flatnonzero(series.ticks == tick) if series is not None else []
                if series is None or not len(at):
                    cells.append(NO_CELL)
                else:
                    cells.append(_cell(series, (at[0], i)))
            body.append((when(data.run, tick), cells))
        return [("" if data.run.once else "date",), *titles], body
    body = []
    for key in data.listed:
        cells = []
        for output, i, _ in chosen:
            result = data.last.get((key, output.name, output.over))
            cells.append(NO_CELL if result is None else _cell(result, i))
        body.append((key or "(empty)", cells))
    return [("key",), *titles], body


def _cell(held: Series | Last, at: Any) -> Cell:
    value, half, low, high = (
        float(item[at]) for item in (held.value, held.half, held.low, held.high)
    )
    return value, half, low, high


def alternatives(run: ResultFolder) -> tuple[list[str], list[list[str]]]:
    """The mechanisms that the plan compared."""
    head = ["mechanism", "noise", "error, best = 1", "state per key", "loss"]
    head += ["epsilon in 10 windows", "note"]
    body = []
    for item in run.plan.get("alternatives") or []:
        score, state = item.get("score"), item.get("state_bytes_per_key")
        later = item.get("epsilon_10w")
        body.append(
            [
                f"{item.get('mechanism', '')}{' (chosen)' if item.get('chosen') else ''}",
                str(item.get("noise") or "").replace("_", " "),
                f"{score:.2f}" if isinstance(score, (int, float)) else "",
                f"{state:,} bytes" if state else "",
                loss_words(item["loss"]) if item.get("loss") else "",
                short(later) if later is not None else "",
                str(item.get("note") or ""),
            ]
        )
    return head, body
