"""``make stack``: a whole live stream on this machine, from a server to releases on screen.

Starts a server of Pub/Sub, or of Kafka, and a Flink cluster of two TaskManagers, submits a job with
``weir run``, feeds it with ``weir feed`` and shows what it releases. Ctrl-C, or ``--seconds``, ends
all of it and leaves no process behind. The events are synthetic, or a recorded file that is
replayed.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import click
from rich.console import Console
from rich.live import Live

from examples.stack.replay import LEAD, Prepared, Replay
from examples.stack.streams import STREAMS
from examples.stack.view import Shown, View, save_picture
from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.cli.base import FAILED, REFUSED
from weir.pipelines.config.job import JobConfig, load
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.processes import EngineFailed, Process, Workplace, sweep
from weir.pipelines.runners.ending import counters_of
from weir.pipelines.terminal import console, count
from weir.transforms.runtime.secret import SecretRef

CONFIG = Path(__file__).with_name("live.yaml")
ENDLESS = 10**12
"""Events that a feed may send."""

SUBMITTED = 180.0
"""Seconds in which the job must run."""

FIRST = 240.0
"""Seconds in which a job releases something; most of them are the start of its workers."""

LOOK = 0.5
"""Seconds between two looks at the releases."""

COUNTED = 3.0
"""Seconds between two looks at Flink's counters, which cost it some work."""

AVERAGED = 20.0
"""Seconds over which events per second are averaged."""

PLACES = ("weir-stack-", "weir-live-", "weir-pubsub-", "weir-kafka-", "weir-flink-")
"""Temporary folders of a stack; those of a killed one are removed by the next."""


class Stack:
    """All parts of a live stream; a context manager that ends every one of them.

    Args:
      config: of the job; its source, sink, secret and engine folder are replaced, and it
        keeps no dead letters.
      out: folder of the releases.
      replay: what to feed; None: synthetic events.
      rate: synthetic events per second.
      tell: takes a sentence for the person who waits.
      kind: of the stream, pubsub or kafka.
    """

    def __init__(
        self,
        config: Path,
        out: Path,
        replay: Replay | None = None,
        rate: float = 1000.0,
        tell: Console | None = None,
        kind: str = "pubsub",
    ) -> None:
        self._config = config
        self._job = load(config)
        self.out = out.absolute()
        self._replay = replay
        self._prepared: Prepared | None = None
        self._rate = rate
        self._tell = tell or console(stderr=True)
        self._workplace = Workplace("weir-stack-")
        self._folder = self._workplace.folder
        self._counted: deque[tuple[float, int]] = deque()
        self.stream = STREAMS[kind]()
        self.cluster: FlinkCluster | None = None
        self.feed: Process | None = None

    def start(self) -> Stack:
        """Starts everything and returns when the job runs and is fed.

        Raises:
          ConfigError: the config, or a folder of releases that is not empty.
          WeirError: a part is not installed or did not start.
        """
        if self.out.exists() and any(self.out.iterdir()):
            raise ConfigError("--out", str(self.out), "is not empty; name a new folder.")
        left = [folder for prefix in PLACES for folder in sweep(prefix)]
        if left:
            self._say(f"removed what a killed stack left: {count(len(left), 'temporary folder')}")
        self.stream.start()
        environment = self.stream.environment
        self._say(f"server of {self.stream.kind} at {self.stream.address}")
        self.cluster = FlinkCluster(self._folder / "flink", environment=environment).start()
        self._say(f"Flink with two TaskManagers: {self.cluster.url}")
        if self._replay is not None:
            self._prepared = self._replay.prepare(self._job, self._folder)
        settings = self._settings()
        self._submit(settings, environment)
        hold = f" once its first hold of {self.stream.hold} s is over" if self.stream.hold else ""
        self._say(f"the job runs; releases come{hold}")
        self._begin_feed(settings, environment)
        return self

    def stop(self) -> None:
        """Ends everything; the releases stay."""
        if self.feed is not None:
            self.feed.stop(3.0)
        if self.cluster is not None:
            self.cluster.stop()
        self.stream.stop()
        self._workplace.remove()

    def look(self) -> Shown:
        """What there is to see now.

        Raises:
          EngineFailed: the feed or the job has failed.
        """
        assert self.cluster is not None and self.feed is not None
        jobs = self.cluster.rest.jobs()
        state = jobs[0]["state"] if jobs else "GONE"
        if state in ("FAILED", "GONE"):
            raise EngineFailed(f"the job is {state}; see {self.cluster.url}")
        self._count(jobs[0]["jid"])
        return Shown(
            state=state,
            counts=self.stream.counts(),
            checkpoints=self._checkpoints(jobs[0]["jid"]),
            feeding=self.feed.alive,
            events=self._counted[-1][1],
            per_second=self._per_second,
        )

    def _count(self, job: str) -> None:
        """Asks Flink for the events read, now and then."""
        assert self.cluster is not None
        now = time.monotonic()
        if self._counted and now < self._counted[-1][0] + COUNTED:
            return
        self._counted.append((now, counters_of(self.cluster.rest, job).get("events", 0)))
        while now - self._counted[0][0] > AVERAGED:
            self._counted.popleft()

    @property
    def _per_second(self) -> float | None:
        """Events read in a second, over the last looks: Flink counts them in lumps."""
        (then, before), (now, after) = self._counted[0], self._counted[-1]
        return (after - before) / (now - then) if now > then else None

    def __enter__(self) -> Stack:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.stop()

    def _checkpoints(self, job: str) -> int:
        assert self.cluster is not None
        return int(self.cluster.rest.checkpoints(job)["counts"]["completed"])

    def _say(self, text: str) -> None:
        self._tell.print(f"weir: {text}", style="dim")

    def _settings(self) -> list[str]:
        """``--set`` of the job: what of the config belongs to this machine and this hour."""
        source = self.stream.source
        values = {
            "sink": f"{{parquet: {self.out}, every: 1}}",
            "secret": f"{{file: {self._secret()}}}",
            "engine.checkpoints": str(self._folder / "state"),
            "dead_letters": "null",
        }
        if self._prepared is None:
            period = self._job.clock.to_clock().period
            values["clock.start"] = durations.show_timestamp(
                time.time_ns() // 1000 // period * period
            )
            values["clock.end"] = "null"
        else:
            values |= self._prepared.settings
            source += ", " + self._prepared.source
        values["source"] = f"{{{self.stream.kind}: {{{source}}}}}"
        return [word for item in values.items() for word in ("--set", "=".join(item))]

    def _secret(self) -> Path:
        path = self._folder / "secret.key"
        path.touch(mode=0o600)
        path.write_text(SecretRef.fresh().resolve().hex())
        return path

    def _submit(self, settings: list[str], environment: Mapping[str, str]) -> None:
        assert self.cluster is not None
        run = Process(
            "weir run",
            [
                *(sys.executable, "-m", "weir", "run", str(self._config), *settings),
                *("--runner", "flink", "--flink-master", self.cluster.master, "--detach"),
            ],
            self._folder / "run.log",
            environment,
        )
        deadline = time.monotonic() + SUBMITTED
        while run.alive and time.monotonic() < deadline:
            time.sleep(0.1)
        if run.alive or not self.cluster.rest.jobs(live=True):
            run.wait_until(lambda: False, 0.0, "the job ran")
        run.stop()

    def _begin_feed(self, settings: list[str], environment: Mapping[str, str]) -> None:
        what = (
            ["--times", "now", "--rate", f"{self._rate:g}", "--events", str(ENDLESS), *self._exact]
            if self._prepared is None
            else ["--from", str(self._prepared.file)]
        )
        self.feed = Process(
            "weir feed",
            [
                *(sys.executable, "-m", "weir", "feed", str(self._config), *settings),
                *("--to", self.stream.target, *what),
            ],
            self._folder / "feed.log",
            environment,
        )

    @property
    def truth(self) -> Path | None:
        """Where the feed writes what its synthetic events come to; None where nothing is synthetic
        or
        nothing is counted or summed."""
        counts = any(one.kind in ("count", "sum") for one in self._job.aggregates.values())
        return self._folder / "truth.ndjson" if self._replay is None and counts else None

    @property
    def _exact(self) -> list[str]:
        return [] if self.truth is None else ["--truth", str(self.truth)]

    @property
    def patience(self) -> float:
        """Seconds in which a first release must come."""
        if self._prepared is None:
            return FIRST
        period = self._job.clock.to_clock().period
        return FIRST + LEAD + (period + self._prepared.delay) / 1e6 / self._prepared.speed

    @property
    def job(self) -> JobConfig:
        """The config as it is in the file."""
        return self._job


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1)
@click.option(
    "--from",
    "recorded",
    type=click.Path(exists=True, path_type=Path),
    help="Replay this file, not synthetic events.",
)
@click.option(
    "--speed", type=float, default=24.0, show_default=True, help="Of a replay, times real time."
)
@click.option(
    "--rate", type=float, default=1000.0, show_default=True, help="Synthetic events per second."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the releases in this new folder.",
)
@click.option(
    "--seconds",
    type=float,
    help="End by itself so long after the first release of a fed stream.  [default: on Ctrl-C]",
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the last screen in this SVG file.",
)
def main(
    words: tuple[str, ...],
    recorded: Path | None,
    speed: float,
    rate: float,
    out: Path | None,
    seconds: float | None,
    picture: Path | None,
) -> None:
    """Run a config as a live stream on this machine and show its releases.

    WORDS: the config, and kafka for a stream of Kafka.

    \b
      make stack
      make stack STACK=kafka
      make stack STACK="--rate 2000 --out live-out"
      make stack STACK="examples/flights/flights.yaml --from examples/flights/flights.csv"
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    kind = next((word for word in words if word in STREAMS), "pubsub")
    config = Path(next((word for word in words if word not in STREAMS), CONFIG))
    temporary = None if out else Workplace("weir-live-")
    folder = out if temporary is None else temporary.folder / "out"
    assert folder is not None
    replay = None if recorded is None else Replay(recorded, speed)
    try:
        with Stack(config, folder, replay, rate, kind=kind) as stack:
            released = show(stack, seconds, picture)
        click.echo(f"weir: {released:,} ticks released; everything is stopped.", err=True)
    except KeyboardInterrupt:
        click.echo("weir: everything is stopped.", err=True)
    except ConfigError as error:
        click.echo(f"weir: refused: {error}", err=True)
        sys.exit(REFUSED)
    except WeirError as error:
        click.echo(f"weir: failed: {error}", err=True)
        sys.exit(FAILED)
    finally:
        if temporary is not None:
            temporary.remove()


def show(stack: Stack, seconds: float | None, picture: Path | None = None) -> int:
    """Shows releases until Ctrl-C or until the time is over; returns how many ticks there were.

    Args:
      stack: runs. seconds: how long after the first release, once the feed sends; None: until
        Ctrl-C. picture: an SVG file for the last screen.

    Raises:
      EngineFailed: the job or the feed has failed, or nothing is released.
    """
    view = View(stack.out, stack.job, stack.truth)
    began = time.monotonic()
    first: float | None = None
    with Live(console=console(), refresh_per_second=4) as live:
        try:
            while first is None or seconds is None or time.monotonic() < first + seconds:
                shown = stack.look()
                live.update(view.draw(shown))
                if first is None and view.ticks and shown.counts["messages"]:
                    first = time.monotonic()
                if first is None and time.monotonic() > began + stack.patience:
                    raise EngineFailed(f"nothing was released in {stack.patience:.0f} s.")
                time.sleep(LOOK)
        except KeyboardInterrupt:
            pass
    if not live.console.is_terminal:
        live.console.print()  # the last line of a live screen in a file has no end
    if picture is not None:
        save_picture(view.draw(stack.look()), picture)
    return view.ticks


if __name__ == "__main__":
    main()
