"""The screen of ``make stack``: the newest release of every key, its error, and how it went.

``python -m examples.stack.view CONFIG FOLDER`` shows a folder that another machine writes.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dpcore.config import durations
from dpcore.errors import ConfigError
from pipelines.config.job import JobConfig, load
from pipelines.results.files import ResultFile, read_file, result_files
from pipelines.results.run import Output, Run
from pipelines.terminal import NARROWEST, console, number, table
from transforms.runtime.stream_time import PRESENT

KEYS = 16
"""Keys that fit on a screen."""

OUTPUTS = 4
"""Columns of releases that fit on a screen."""

MEMORY = 24
"""Ticks of the little curve."""

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Shown:
    """What the machines tell.

    Attributes:
      state: of the job. counts: of the Pub/Sub server. checkpoints: completed so far.
      feeding: whether events still come.
    """

    state: str
    counts: Mapping[str, int]
    checkpoints: int
    feeding: bool


class View:
    """Follows a folder of releases; every file is read once.

    Args:
      folder: of the releases; need not be there yet.
      job: the config.
    """

    def __init__(self, folder: Path, job: JobConfig) -> None:
        self._folder = folder
        self._job = job
        self._seen: set[str] = set()
        self._run: Run | None = None
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
        return Group(self._head(shown), Text(), self._body(), Text(), self._foot(shown))

    def _read(self) -> None:
        if not self._folder.is_dir():
            return
        fresh = [f for f in result_files(self._folder) if f.path.name not in self._seen]
        if self._run is None and fresh:
            try:
                self._run = Run.open(self._folder)
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
        for batch in read_file(file, columns):
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

    def _outputs(self) -> list[Output]:
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

    def _body(self) -> RenderableType:
        if self._run is None:
            return Text("no release yet", style="dim")
        outputs = self._outputs()
        names = [f"{output.name}, {_span(output.over)}" for output in outputs]
        made = table("key", *names, outputs[0].name, right=tuple(names))
        made.columns[-1].no_wrap = True
        keys = sorted(self._curves)
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

    def _cell(self, key: str, output: Output) -> str:
        found = self._latest.get((key, output.name, output.over))
        if found is None:
            return ""
        _, value, band = found
        return number(value) if math.isnan(band) else f"{number(value)} ± {number(band, 2)}"

    def _foot(self, shown: Shown | None) -> Text:
        parts = []
        if shown is not None:
            feeding = "" if shown.feeding else " (the feed has ended)"
            parts = [
                f"{shown.counts['messages']:,} messages sent{feeding}",
                f"{shown.counts['acks']:,} acknowledged",
                f"{shown.checkpoints:,} checkpoints",
            ]
        told = ", ".join([*parts, f"{self.ticks:,} ticks released"])
        return Text(f"{told}; ± is the 95 % band of the noise; Ctrl-C ends it", style="dim")


def _span(over: int | None) -> str:
    """The span of a release in few words."""
    if over is None:
        return "all"
    return "tick" if over == 1 else f"{over:,} ticks"


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
