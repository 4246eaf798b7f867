"""``weir top``: the largest keys of a released count or sum, and how sure their order is.

Post-processing of what is released: it costs no budget. The order of noisy numbers is not that of
the true ones, so each key is told with the ranks that it can have, all keys together at 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text
from scipy.special import ndtri

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.config.section import nearest
from weir.dpcore.config.ticks import ticks_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.pricing.calibration import LAPLACE_BAND
from weir.dpcore.words import not_in_margin
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.pipelines.show.summary import one, starts
from weir.pipelines.terminal import count, heading, indent, span, table

CHANCE = 0.05
"""That the ranks of any key are told wrong."""


class Ranked(NamedTuple):
    """A key.

    Attributes:
      key: as people see it. value, stddev: as released.
      best, worst: ranks that it can have, 1 the largest.
    """

    key: str
    value: float
    stddev: float
    best: int
    worst: int


class Top(NamedTuple):
    """The largest keys at a tick.

    Attributes:
      of: name of the release. over: its span in ticks. tick, starts: which tick, and its date; None
        of a plan without a clock.
      keys: how many there are. ranked: the largest, in order. others: keys that are not among them
        and may belong there. margin: half the width of a 95 % margin of one key, in stddevs.
      by: columns of the grouping that they are of; None: the plan has one grouping.
      left_out: what public bounds keep out of the numbers, as the plan says it.
    """

    of: str
    over: int | None
    tick: int | None
    starts: str | None
    keys: int
    ranked: tuple[Ranked, ...]
    others: int
    band: float
    by: tuple[str, ...] | None = None
    left_out: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**self._asdict(), "ranked": [row._asdict() for row in self.ranked]}


def width(keys: int, band: float) -> float:
    """Half the width, in standard deviations, of margins that hold the numbers of all keys at once.

    A key's margin fails with CHANCE / keys at most, so that one of them fails with CHANCE at most.
    """
    each = CHANCE / max(1, keys)
    if band >= LAPLACE_BAND:
        return math.log(1 / each) / math.sqrt(2)
    return float(-ndtri(each / 2))


def ranks(value: Floats, error: Floats) -> tuple[Ints, Ints]:
    """The best and the worst rank of each of m numbers that lie within their errors: (m,) each."""
    low, high = value - error, value + error
    above = len(value) - np.searchsorted(np.sort(low), high, side="right")
    among = len(value) - np.searchsorted(np.sort(high), low, side="left")
    return above + 1, among


def top(
    directory: Path,
    k: int,
    name: str | None = None,
    over: str | None = None,
    tick: int | None = None,
    by: str | None = None,
) -> Top:
    """The k largest keys of a release.

    Args:
      directory: of results. name: of the release; None: the only one that can be ranked.
      over: its span, in ticks or as a duration, or "all"; None: the first that it has.
      tick: None: the last.
      by: columns of a grouping, with commas between; None: those of the finest.

    Raises:
      ConfigError: no results there, no such release or tick, or one without a number a key.
    """
    run = ResultFolder.open(directory)
    output = _output(run, name, over)
    columns = _grouping(run, by)
    named = tuple(column in (columns or ()) for column in run.key_columns)
    at = run.last_tick if tick is None else tick
    if not run.first_tick <= at <= run.last_tick:
        raise ConfigError(
            "--tick", at, f"is not among those released, {run.first_tick} to {run.last_tick}."
        )
    keys: list[str] = []
    values: list[float] = []
    errors: list[float] = []
    for batch in run.batches(["key", "tick", "name", "over", "value", "stddev"], at):
        mask = pc.and_(
            pc.equal(batch["tick"], at), pc.equal(batch["name"].cast(pa.string()), output.name)
        )
        for row in batch.filter(mask).to_pylist():
            if columns is not None:
                parts = run.values_of(row["key"])
                if tuple(part is not None for part in parts) != named:
                    continue
            if row["over"] == output.over and row["value"] and row["stddev"]:
                keys.append(run.shown(row["key"]))
                values.append(row["value"][0])
                errors.append(row["stddev"][0])
    value, stddev = np.array(values), np.array(errors)
    fine = np.isfinite(value) & np.isfinite(stddev)
    if len(fine) < 2 or not fine.all():
        raise ConfigError(
            "--of", output.name, f"has {count(int(fine.sum()), 'key')} with a number at tick {at}."
        )
    best, worst = ranks(value, stddev * width(len(value), run.band))
    order = sorted(range(len(keys)), key=lambda i: (-value[i], keys[i]))
    first = order[:k]
    others = sum(1 for i in order[k:] if best[i] <= k)
    rows = tuple(
        Ranked(keys[i], float(value[i]), float(stddev[i]), int(best[i]), int(worst[i]))
        for i in first
    )
    tick, when = (None, None) if run.once else (at, starts(_moment(run, at)))
    of = (output.name, output.over, tick, when, len(keys))
    return Top(*of, rows, others, run.band, columns, output.left_out)


def _grouping(run: ResultFolder, by: str | None) -> tuple[str, ...] | None:
    """The columns of the grouping that is asked for; None: the plan has one."""
    known = [tuple(column for column in run.key_columns if column in own) for own in run.groupings]
    if by is None:
        return max(known, key=len, default=None)
    asked = {word.strip() for word in by.split(",")}
    for own in known:
        if set(own) == asked:
            return own
    had = "; ".join(",".join(own) for own in known if own) or "none"
    raise ConfigError("--by", by, f"is no grouping of this plan with several keys; it has: {had}.")


def _moment(run: ResultFolder, tick: int) -> Any:
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=run.tick_start(tick))


def _ticks(run: ResultFolder, over: str) -> int | None:
    """A span as it is written -> ticks; None: since the start."""
    if over == "all":
        return None
    if over.isdecimal():
        return int(over)
    return ticks_of("--over", over, Clock(run.start, run.period, calendar=run.ruler.calendar))


def _output(run: ResultFolder, name: str | None, over: str | None) -> ReleasedOutput:
    """The release that is asked for: one number a key, with a known error."""
    fitting = [
        output
        for output in run.outputs
        if len(output.labels or ("",)) == 1 and not output.is_model and output.additive
    ]
    named = [item for item in fitting if name in (None, item.name)]
    names = list(dict.fromkeys(item.name for item in fitting))
    if name is None and len(names) > 1:
        raise ConfigError("--of", None, f"is missing: say which release, {' or '.join(names)}.")
    if not named:
        known = nearest(name, names) if name and names else "no release is one number a key."
        raise ConfigError("--of", name, known)
    spans = [item.over for item in named]
    if over is None:
        return named[0]
    ticks = _ticks(run, over)
    if ticks not in spans:
        had = ", ".join(span(item) for item in spans)
        raise ConfigError("--over", over, f"is no span of {named[0].name}; it has: {had}.")
    return named[spans.index(ticks)]


def render(found: Top, out: Console) -> None:
    """Prints it."""
    of_grouping = "" if found.by is None else f", of {', '.join(found.by)}"
    when = ""
    if found.tick is not None:
        when = f", {span(found.over)}, {found.starts} (tick {found.tick:,})"
    out.print(
        heading(
            f"Largest {len(found.ranked):,} of {count(found.keys, 'key')} by {found.of}"
            f"{of_grouping}{when}"
        )
    )
    built = table(
        "rank", "key", "value ± 95 % margin", "can be", right=("rank", "value ± 95 % margin")
    )
    for place, row in enumerate(found.ranked, 1):
        can = str(row.best) if row.best == row.worst else f"{row.best:,} to {row.worst:,}"
        built.add_row(f"{place:,}", row.key, one(row.value, row.stddev, found.band), can)
    out.print(indent(built))
    for sentence in sentences(found):
        out.print(indent(Text(sentence, style="dim")))


def sentences(found: Top) -> Sequence[str]:
    """What is to be known of the order."""
    k = len(found.ranked)
    sure = sum(1 for row in found.ranked if row.worst <= k)
    reported = [
        f"{sure:,} of these {k:,} are surely among the {k:,} largest; {count(found.others, 'key')} "
        "not shown may be among them too. What a key can be holds for all keys together, at 95 %.",
        "The largest of many noisy numbers are on average larger than the true ones behind them. "
        "Ranking what is released costs no budget.",
    ]
    return [reported[0], *filter(None, [not_in_margin(found.left_out)]), *reported[1:]]
