"""A line of progress next to a blocking run: events read, ticks released, rate, time left."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from weir.dpcore.plan import Plan
from weir.pipelines.sources.source import Source
from weir.transforms.runtime.reasons import UNREAD

_log = logging.getLogger(__name__)
LOGGED = 30.0
"""Seconds between two records of progress in the log."""
INTERVAL = 0.2
"""Seconds between two looks at the counts."""


@dataclass(frozen=True)
class Total:
    """How much there is to do; None where that cannot be known.

    Attributes:
      rows: events in the input. size: its bytes.
      ticks: ticks of the clock, times the blocks that are stepped.
    """

    rows: int | None = None
    size: int | None = None
    ticks: int | None = None
    blocks: int = 1

    @classmethod
    def of(cls, source: Source, plan: Plan) -> Total:
        """What there is to read and to step, as far as that is inexpensive to know."""
        rows, size = None, None
        with contextlib.suppress(Exception):  # the run itself will say what is wrong with the files
            rows, size = source.amount()
        return cls(rows, size, plan.clock.ticks, len(plan.keys.live_blocks))


def fraction(counts: Mapping[str, int], total: Total) -> float | None:
    """Which part of the work is done, in [0, 1]; None where that cannot be told.

    Reading comes first and stepping follows, so the two halves count alike.
    """
    read: float | None = None
    if total.rows:
        read = min(1.0, _records(counts) / total.rows)
    elif total.size and counts.get("bytes"):
        read = min(1.0, counts["bytes"] / total.size)
    stepped = counts.get("ticks_released", 0)
    if total.ticks is None:
        return read
    share = min(1.0, stepped / (total.ticks * total.blocks)) if total.ticks else 1.0
    if read is None:
        return share if stepped else None
    return (read + share) / 2


def _records(counts: Mapping[str, int]) -> int:
    """Records seen, whatever became of them."""
    return sum(counts.get(name, 0) for name in ("events", *UNREAD))


def line(counts: Mapping[str, int], total: Total, elapsed: float) -> str:
    """One line for a person. ``elapsed``: seconds since the start."""
    events = counts.get("events", 0)
    parts = [f"{events:,} events read"]
    if elapsed >= 1 and events:
        parts.append(f"{events / elapsed:,.0f}/s")
    stepped = counts.get("ticks_released", 0) // max(1, total.blocks)
    if stepped or total.ticks is not None:
        of = f" of {total.ticks:,}" if total.ticks is not None else ""
        parts.append(f"{stepped:,}{of} ticks released")
    done = fraction(counts, total)
    if done and elapsed >= 1:
        left = elapsed * (1 - done) / done
        parts.append(f"about {_seconds(left)} left" if done < 1 else "writing")
    else:
        parts.append(f"{_seconds(elapsed)} so far")
    return ", ".join(parts)


def _seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


class Progress:
    """Shows ``line`` on a terminal until it is left; elsewhere it goes to the log now and then."""

    def __init__(
        self,
        out: Console,
        counts: Callable[[], Mapping[str, int]],
        total: Callable[[], Total],
        interval: float = INTERVAL,
    ) -> None:
        self._out = out
        self._counts = counts
        self._total = total
        self._interval = interval
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        show = self._show if self._out.is_terminal else self._log
        if self._out.is_terminal or _log.isEnabledFor(logging.INFO):
            self._thread = threading.Thread(target=show, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _show(self) -> None:
        began = time.monotonic()
        total = self._total()
        with Live(console=self._out, transient=True, auto_refresh=False) as live:
            while not self._stop.wait(self._interval):
                text = line(self._counts(), total, time.monotonic() - began)
                live.update(Text(text, style="cyan"), refresh=True)

    def _log(self) -> None:
        began = time.monotonic()
        total = self._total()
        while not self._stop.wait(LOGGED):
            counts = self._counts()
            text = line(counts, total, time.monotonic() - began)
            _log.info(text, extra={"fields": {"operator": dict(counts)}})
