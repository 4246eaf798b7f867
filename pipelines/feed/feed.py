"""Reading a recorded stream back, batch by batch, in the order of its file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.live import Live
from rich.text import Text

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed import synthetic
from weir.pipelines.feed.shape import Shape
from weir.pipelines.feed.synthetic import Shares, uniforms
from weir.pipelines.feed.targets import FeedTarget
from weir.pipelines.feed.truth import Truth
from weir.pipelines.terminal import console
from weir.transforms.decode.schema import Stamp
from weir.transforms.decode.time import to_time
from weir.transforms.formats.registry import FORMATS, format_of, suffixes
from weir.transforms.runtime.stream_time import PRESENT, StreamTime
from weir.transforms.sources.matching import require_regular


def read_batches(path: Path, config: JobConfig) -> Iterator[pa.RecordBatch]:
    """A recorded file in batches. CSV is written as the config's own source says.

    Raises:
      ConfigError: no such file, a pipe, not a format known here, or not readable; never quotes its
        content.
    """
    form = format_of(path)
    if form is None:
        raise ConfigError("--from", str(path), f"must end in one of {suffixes()}.")
    require_regular(str(path), "--from")
    if config.source is not None and form.name == "csv":
        form = FORMATS.of(form.name, config.source.text_form())
    try:
        for batch in form.batches(str(path)):
            time = config.schema_.time
            if time is not None and time.column not in batch.schema.names:
                raise ConfigError(
                    "schema.time.column",
                    time.column,
                    f"is not a column of {path.name}; name one that is.",
                )
            yield batch
    except FileNotFoundError:
        raise ConfigError("--from", str(path), "is no file.") from None
    except ConfigError:
        raise
    except Exception as error:
        # Parsers raise whatever their input leads them to, and quote the line they failed on.
        raise ConfigError(
            "--from", str(path), f"cannot be read as {form.name} ({type(error).__name__})."
        ) from None


def moments_of(batch: pa.RecordBatch, config: JobConfig) -> NDArray[np.int64]:
    """When each event arrived, as far as the recording says: (n,) microseconds since 1970.

    That is schema.arrival where it is declared, else the event time. Only for pacing a replay.

    Returns:
      zeros where events have no time.

    Raises:
      ConfigError: a time cannot be read; never quotes it.
    """
    role = "time" if config.schema_.arrival is None else "arrival"
    column = config.schema_.arrival or config.schema_.time
    if column is None:
        return np.zeros(batch.num_rows, dtype=np.int64)
    stamp = Stamp(column.column, column.format, column.zone or "UTC", f"schema.{role}")
    result = to_time(batch.column(column.column), stamp, "the recording")
    if result.null_count:
        raise ConfigError(
            f"schema.{role}.format",
            column.format,
            "does not fit a recorded event, so --speed cannot pace it; use --rate.",
        )
    return np.asarray(result.view(pa.int64()).to_numpy())


SLICE = 0.05
"""Seconds between two slices of a paced stream: its events leave so late, at most."""


@dataclass(frozen=True)
class Pace:
    """How fast events leave. Both None: as fast as they can be written.

    Attributes:
      rate: events per second.
      speed: times real time, for recorded streams (60: an hour a minute).
    """

    rate: float | None = None
    speed: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("--rate", self.rate), ("--speed", self.speed)):
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(name, value, "must be a finite number above 0.")
        if self.rate is not None and self.speed is not None:
            raise ConfigError("--speed", self.speed, "cannot be combined with --rate; keep one.")


@dataclass(frozen=True)
class Clockwork:
    """The machine's clock, replaceable in tests."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def feed(
    config: JobConfig,
    target: FeedTarget,
    *,
    events: int | None,
    seed: int,
    shares: Shares,
    pace: Pace,
    recorded: str | None = None,
    live: bool = False,
    stream: StreamTime | None = None,
    clockwork: Clockwork | None = None,
    told: Callable[[int], None] = lambda sent: None,
    truth: Truth | None = None,
    shape: Shape | None = None,
) -> int:
    """Sends a stream and returns how many messages were sent.

    Args:
      config: names the columns.
      target: where to.
      events: how many (recorded: at most; None: all of them).
      seed: of the synthetic values and of what is spoiled.
      shares: what is spoiled on purpose.
      pace: how fast.
      recorded: file to replay instead of making events up.
      live: event times are the present instead of the config's clock.
      stream: what wall time stands for; a recording with a speed and without this starts now.
      clockwork: the clock. told: called with the number of messages sent so far.
      truth: adds up what is made, before it is sent; closed at the end.
      shape: what is known of sizes and values of synthetic events that are spread over the clock.
    """
    clockwork = clockwork or Clockwork()
    if recorded is None and config.lookup is not None:
        raise ConfigError(
            "lookup",
            config.lookup.public,
            "adds columns to records that have none of them, and synthetic events would have them. "
            "Replay recorded events (--from), or --set lookup=null and feed a job without it.",
        )
    if recorded is not None:
        source = _spoil(read_batches(Path(recorded), config), shares, seed)
    elif live:
        source = _live(config, events or 10_000, seed, shares, pace, clockwork, stream or PRESENT)
    else:
        source = synthetic.batches(config, events or 10_000, seed, shares, shape=shape)
    sent = 0
    began = clockwork.now()
    for batch in source:
        if recorded is not None and events is not None:
            batch = batch.slice(0, events - sent)
        if pace.speed is not None and stream is None and batch.num_rows:
            stream = replay_from(int(moments_of(batch, config)[0]), pace.speed, clockwork)
        for part, due in _slices(batch, pace, config, stream):
            if pace.rate is not None:
                _sleep_until(began + sent / pace.rate, clockwork)
            elif due is not None:
                clockwork.sleep(max(0.0, due - clockwork.wall()))
            rows = np.arange(sent, sent + part.num_rows, dtype=np.uint64)
            broken = uniforms(seed, "@malformed", rows) < shares.malformed
            if truth is not None:
                truth.add(part, moments_of(part, config))
            target.write(part, broken.tolist())
            sent += part.num_rows
            told(sent)
        if recorded is not None and events is not None and sent >= events:
            break
    target.close()
    if truth is not None:
        truth.close()
    return sent


def replay_from(origin: int, speed: float, clockwork: Clockwork | None = None) -> StreamTime:
    """A replay that starts now. origin: microseconds since 1970."""
    clockwork = clockwork or Clockwork()
    return StreamTime(origin, int(clockwork.wall() * 1e6), speed)


def first_moment(recorded: str, config: JobConfig) -> int:
    """When the first event of a recording arrived, microseconds since 1970."""
    for batch in read_batches(Path(recorded), config):
        if batch.num_rows:
            return int(moments_of(batch, config)[0])
    raise ConfigError("--from", recorded, "holds no event.")


def setting(stream: StreamTime, kind: str = "pubsub") -> str:
    """A replay as a job's ``--set`` takes it. kind: of its source."""
    origin, started = (
        durations.show_timestamp(stream.origin),
        durations.show_timestamp(stream.started),
    )
    return (
        f'source.{kind}.replay={{origin: "{origin}", started: "{started}", '
        f"speed: {stream.speed:g}}}"
    )


def _slices(
    batch: pa.RecordBatch, pace: Pace, config: JobConfig, stream: StreamTime | None
) -> Iterator[tuple[pa.RecordBatch, float | None]]:
    """Small enough parts that the pace is even, and the wall time at which each is due, if any."""
    if pace.speed is not None and stream is not None and batch.num_rows:
        moments = np.maximum.accumulate(moments_of(batch, config))
        due = (stream.started + (moments - stream.origin) / stream.speed) / 1e6
        start = 0
        while start < batch.num_rows:
            stop = int(np.searchsorted(due, due[start] + SLICE, side="right"))
            yield batch.slice(start, stop - start), float(due[stop - 1])
            start = stop
        return
    step = max(1, batch.num_rows if pace.rate is None else int(pace.rate * SLICE))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step), None


def _live(
    config: JobConfig,
    events: int,
    seed: int,
    shares: Shares,
    pace: Pace,
    clockwork: Clockwork,
    stream: StreamTime,
) -> Iterator[pa.RecordBatch]:
    """Events whose time is the moment they are made, a slice at a time."""
    step = max(1, int((pace.rate or 20_000) * SLICE))
    for start in range(0, events, step):
        now = stream.at(int(clockwork.wall() * 1e6))
        rows = min(step, events - start)
        yield from synthetic.batches(config, rows, seed, shares, now=now, first=start)


def _spoil(stream: Iterator[pa.RecordBatch], shares: Shares, seed: int) -> Iterator[pa.RecordBatch]:
    """Repeats a share of a recorded stream. Its lateness is its own."""
    start = 0
    for batch in stream:
        yield batch
        if shares.duplicate > 0:
            rows = np.arange(start, start + batch.num_rows, dtype=np.uint64)
            again = uniforms(seed, "@again", rows) < shares.duplicate
            if again.any():
                yield batch.filter(pa.array(again))
        start += batch.num_rows


def _sleep_until(moment: float, clockwork: Clockwork) -> None:
    wait = moment - clockwork.now()
    if wait > 0:
        clockwork.sleep(wait)


def notes(config: JobConfig, shares: Shares, live: bool, recorded: bool) -> list[str]:
    """What a dry run with these options cannot show."""
    results = []
    if shares.late and recorded:
        results.append("--late is for synthetic events; a recorded stream keeps its own times.")
    elif shares.late and config.schema_.arrival is None and not live:
        results.append("nothing is late without schema.arrival (or Pub/Sub with --times now).")
    if shares.duplicate and config.schema_.id is None:
        results.append("without schema.id a duplicate cannot be distinguished from another event.")
    if config.secret is not None:
        results.append(
            "a run over these events under the config's secret gives its noise away: weir "
            "rehearse runs synthetic ones under a secret of its own; elsewhere --set another "
            "secret."
        )
    return results


class FeedProgress:
    """Shows how much was sent, on a terminal; prints nothing anywhere else."""

    def __init__(self) -> None:
        self._out = console(stderr=True)
        self._live: Live | None = None
        self._began = time.monotonic()

    def __enter__(self) -> FeedProgress:
        if self._out.is_terminal:
            self._live = Live(console=self._out, transient=True, refresh_per_second=5)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def told(self, sent: int) -> None:
        """Takes the number of events sent so far."""
        if self._live is not None:
            rate = sent / max(1e-9, time.monotonic() - self._began)
            self._live.update(Text(f"{sent:,} events sent, {rate:,.0f}/s", style="cyan"))
