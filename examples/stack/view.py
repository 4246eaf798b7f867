"""The screen of ``make stack``: the newest release of every key, its error, and how it went.

``python -m examples.stack.view CONFIG FOLDER`` shows a folder that another machine writes.
"""

from __future__ import annotations

import bisect
import contextlib
import io
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, load
from weir.pipelines.results.files import ResultFile, read_file, result_files
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.pipelines.terminal import NARROWEST, console, number, table
from weir.transforms.runtime.stream_time import PRESENT

KEYS = 16
"""Keys that fit on a screen."""

OUTPUTS = 4
"""Columns of releases that fit on a screen."""

MEMORY = 16
"""Ticks of the little curve."""

WIDEST = 20
"""Characters of a key that are never broken."""

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Shown:
    """What the machines tell.

    Attributes:
      state: of the job. counts: of the server. checkpoints: completed so far.
      feeding: whether events still come. events: read by the job so far.
      per_second: events read in a second, lately; None: not known yet.
    """

    state: str
    counts: Mapping[str, int]
    checkpoints: int
    feeding: bool
    events: int = 0
    per_second: float | None = None


class View:
    """Follows a folder of releases; every file is read once.

    Args:
      folder: of the releases; need not be there yet.
      job: the config. truth: what the synthetic events come to, as ``weir feed --truth`` writes it.
    """

    def __init__(self, folder: Path, job: JobConfig, truth: Path | None = None) -> None:
        self._folder = folder
        self._truth = None if truth is None else Exact(truth)
        self._began = time.monotonic()
        self._job = job
        self._seen: set[str] = set()
        self._run: ResultFolder | None = None
        self._latest: dict[tuple[str, str, int | None], tuple[int, float, float]] = {}
        self._curves: dict[str, dict[int, float]] = {}
        self._end = 0
        self.last_tick = -1
        """Newest tick that was released."""
        self.ticks = 0
        """How many ticks were released."""

    def draw(self, shown: Shown | None = None) -> Group:
        """Reads what is new and draws all. ``shown``: None where only the folder is known."""
        self._read()
        if self._truth is not None:
            self._truth.read()
        body = self._waiting(shown) if self._run is None else self._body()
        return Group(self._head(shown), Text(), body, Text(), self._foot(shown))

    def _read(self) -> None:
        if not self._folder.is_dir():
            return
        fresh = [f for f in result_files(self._folder) if f.path.name not in self._seen]
        if self._run is None and fresh:
            try:
                self._run = ResultFolder.open(self._folder)
            except ConfigError:
                return
        for file in fresh:
            self._take(file)
            self._seen.add(file.path.name)

    def _take(self, file: ResultFile) -> None:
        assert self._run is not None
        band = self._run.band
        parts = {(o.name, o.over): o.part or 0 for o in self._outputs()}
        first = self._outputs()[0]
        columns = ["key", "tick", "tick_end", "name", "over", "value", "stddev"]
        ticks = set()
        for batch in read_file(file, columns, self._run.sizes):
            for row in batch.to_pylist():
                place = (row["name"], row["over"])
                ticks.add(row["tick"])
                if row["tick"] >= self.last_tick:
                    self.last_tick = row["tick"]
                    self._end = int(row["tick_end"].timestamp() * 1e6)
                if place not in parts:
                    continue
                part = parts[place]
                value, error = row["value"][part], row["stddev"]  # a model's has none
                deviation = math.nan if error is None or error[part] is None else error[part]
                cell = (row["key"], *place)
                if row["tick"] >= self._latest.get(cell, (0,))[0]:  # files come in any order
                    self._latest[cell] = (row["tick"], value, band * deviation)
                if place == (first.name, first.over):
                    self._curves.setdefault(row["key"], {})[row["tick"]] = value
        self.ticks += len(ticks)

    def _outputs(self) -> list[ReleasedOutput]:
        assert self._run is not None
        run = self._run
        # Coefficients in the user's units say all that the scaled ones do.
        wanted = [o for o in run.outputs if o.role != "scaled_model"]
        return [output.shown() for output in wanted[:OUTPUTS]]

    def _head(self, shown: Shown | None) -> Text:
        text = Text()
        text.append(f"weir  {self._job.name}", style="bold cyan")
        if shown is not None:
            style = "green" if shown.state == "RUNNING" else "yellow"
            text.append(f"   job {shown.state}", style=style)
        if self.last_tick >= 0:
            text.append(f"   tick {self.last_tick:,} ended {durations.show_timestamp(self._end)}")
            source = self._job.source
            if source is not None and not source.bounded and source.stream == PRESENT:
                text.append(f", {max(0.0, time.time() - self._end / 1e6):.1f} s ago")
        return text

    def _waiting(self, shown: Shown | None) -> RenderableType:
        """What has happened on the way to the first release, and what is awaited."""
        waited = time.monotonic() - self._began
        if shown is None:
            return Text(f"no release yet; waited {waited:.0f} s", style="dim")
        done = [
            ("the job runs", shown.state == "RUNNING"),
            ("events are published", shown.counts["messages"] > 0),
            (
                "workers have started and read them",
                shown.counts.get("deliveries", shown.events) > 0,
            ),
            ("a checkpoint is stored", shown.checkpoints > 0),
            ("a tick is over, and the first hold with it: the first release", False),
        ]
        text, awaited = Text(), True
        for words, true in done:
            mark, style = ("\u2713", "green") if true else ("\u2022", "")
            if not true:
                style, awaited = ("bold" if awaited else "dim"), False
            text.append(f"  {mark} {words}\n", style=style)
        text.append(f"  waited {waited:.0f} s; most of it is the start of workers (30 to 60 s)")
        return text

    def _body(self) -> RenderableType:
        outputs = self._outputs()
        names = [f"{output.name} {_span(output.over)}" for output in outputs]
        made = table("key", *names, f"last {MEMORY}", right=tuple(names))
        made.columns[-1].no_wrap = True
        keys = sorted(self._curves)
        made.columns[0].min_width = min(WIDEST, max(map(len, keys[:KEYS]), default=0))
        for key in keys[:KEYS]:
            cells = [self._cell(key, output) for output in outputs]
            made.add_row(key, *cells, curve(self._recent(key)))
        if len(keys) > KEYS:
            made.add_row(f"and {len(keys) - KEYS:,} more")
        return made

    def _recent(self, key: str) -> list[float]:
        """The first output of a key in its newest ticks, in order; forgets older ones."""
        known = self._curves[key]
        self._curves[key] = {tick: known[tick] for tick in sorted(known)[-MEMORY:]}
        return list(self._curves[key].values())

    def _cell(self, key: str, output: ReleasedOutput) -> str:
        found = self._latest.get((key, output.name, output.over))
        if found is None:
            return ""
        tick, value, band = found
        told = number(value) if math.isnan(band) else f"{number(value)} ± {number(band, 2)}"
        exact = None if self._truth is None else self._truth.total(key, output, tick)
        return told if exact is None else f"{told} ({number(exact)})"

    def _foot(self, shown: Shown | None) -> Text:
        parts = []
        if shown is not None:
            feeding = "" if shown.feeding else " (the feed has ended)"
            rate = "" if shown.per_second is None else f", {shown.per_second:,.0f}/s"
            parts = [
                f"{shown.counts['messages']:,} messages sent{feeding}",
                *([f"{shown.counts['acks']:,} acknowledged"] if "acks" in shown.counts else []),
                f"{shown.events:,} events read{rate}",
                f"{shown.checkpoints:,} checkpoints",
            ]
        told = ", ".join([*parts, f"{self.ticks:,} ticks released"])
        text = Text(f"{told}; ± is the 95 % margin of the noise", style="dim")
        if self._truth is not None:
            text.append(
                "; in brackets the truth before noise and clip, which only synthetic events may "
                "show"
            )
        return text.append("; Ctrl-C ends it")


class Exact:
    """What synthetic events come to: follows a file of ``weir feed --truth``."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self._sums: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self._newest = -1

    def read(self) -> None:
        """Takes the lines that are new and whole."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                entry = orjson.loads(line)
                self._newest = entry["tick"]
                for key, totals in entry["totals"].items():
                    for name, total in totals.items():
                        sums = self._sums.setdefault((key, name), [(-1, 0.0)])
                        sums.append((entry["tick"], sums[-1][1] + total))

    def total(self, key: str, output: ReleasedOutput, tick: int) -> float | None:
        """The true value of a release; None where it is not known (yet)."""
        if tick > self._newest or not any(name == output.name for _, name in self._sums):
            return None
        sums = self._sums.get((key, output.name), [(-1, 0.0)])
        before = -1 if output.over is None else tick - output.over
        return _upto(sums, tick) - _upto(sums, before)


def _upto(sums: list[tuple[int, float]], tick: int) -> float:
    """The running sum after a tick. sums: (tick, running sum), in order of ticks."""
    place = bisect.bisect_right(sums, tick, key=lambda entry: entry[0])
    return sums[place - 1][1] if place else 0.0


def _span(over: int | None) -> str:
    """The span of a release in few words."""
    if over is None:
        return "in all"
    return "per tick" if over == 1 else f"in {over:,} ticks"


def curve(values: Sequence[float]) -> str:
    """Numbers as a row of bars, from the least to the largest of them."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(
        BARS[round((value - low) / step)] if math.isfinite(value) else " " for value in values
    )


def save_picture(drawn: RenderableType, path: Path) -> None:
    """Writes a screen as SVG."""
    recorder = Console(file=io.StringIO(), record=True, width=NARROWEST, highlight=False)
    recorder.print(drawn)
    path.write_text(recorder.export_svg(title="make stack"))


def main(config: str, folder: str) -> None:
    """Shows a folder until Ctrl-C."""
    view = View(Path(folder), load(Path(config)))
    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(console=console(), auto_refresh=False) as live,
    ):
        last = -1
        while True:
            drawn = view.draw()
            if live.console.is_terminal or view.last_tick > last:
                live.update(drawn, refresh=True)
                if not live.console.is_terminal:  # a log: every picture is kept
                    live.console.print(drawn)
            last = view.last_tick
            time.sleep(1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
