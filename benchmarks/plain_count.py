"""What does a stream of private counts take, beside plain counts as one writes them in Beam?

    python -m benchmarks.plain_count [--seconds 40] [--only arrow]

On one Flink of two slots, in the same run, through the same Pub/Sub server and the same reader: the
job of `benchmarks.stream_throughput`, with deduplication, noise, ticks and files; and a count and a
sum by key over windows of a second without privacy, as a user of Beam would write them: an element
for each event, FixedWindows, CombinePerKey, lines of text. The plain one drops no copies and writes
no error bands. Each is offered more than it takes, for so long that it has some 30 s to do; counted
is what is acknowledged, that is in a checkpoint (one each 2 s). Writes
benchmarks/results/plain_count.csv.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from benchmarks.stream_load import Load, config_of, publishing, write
from benchmarks.stream_throughput import STARTS, measure, slope
from tests.runners.jobs import ROOT
from tests.runners.messages import Post
from weir.pipelines.config.job import load as load_config
from weir.pipelines.engines import job_server
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.pubsub import PubSubServer
from weir.pipelines.graph.parts import parts_of

KEYS = 24
RATES = {"ndjson": (500_000, 150_000), "arrow": (700_000, 150_000)}
"""Events a second offered: to ours, and to the plain one."""
SIZE = 500


class ToEvents(beam.DoFn):
    """A batch -> an element for each event: (key, amount) at its time."""

    def process(self, batch: pa.RecordBatch) -> Iterator[TimestampedValue[tuple[str, float]]]:
        """As canonical batches have them."""
        keys = batch.column("@key").to_pylist()
        times = batch.column("@time").cast(pa.int64()).to_pylist()
        for key, at, amount in zip(keys, times, batch.column("amount").to_pylist(), strict=True):
            yield TimestampedValue((key, float(amount)), at / 1e6)


class CountAndSum(beam.CombineFn):
    """How many, and their sum."""

    def create_accumulator(self) -> tuple[int, float]:
        """None yet."""
        return 0, 0.0

    def add_input(self, accumulator: tuple[int, float], element: float) -> tuple[int, float]:
        """One more."""
        return accumulator[0] + 1, accumulator[1] + element

    def merge_accumulators(self, accumulators: Any) -> tuple[int, float]:
        """All of them."""
        counts, sums = zip(*accumulators, strict=True)
        return sum(counts), sum(sums)

    def extract_output(self, accumulator: tuple[int, float]) -> tuple[int, float]:
        """As it is."""
        return accumulator


class WriteLines(beam.DoFn):
    """Appends lines to a file of the bundle's own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def start_bundle(self) -> None:
        """Nothing yet."""
        self._lines: list[str] = []

    def process(
        self, element: tuple[str, tuple[int, float]], window: Any = beam.DoFn.WindowParam
    ) -> None:
        """A line."""
        key, (count, total) = element
        self._lines.append(f"{window.start},{key},{count},{total}\n")

    def finish_bundle(self) -> None:
        """One file."""
        if self._lines:
            name = f"{os.getpid()}-{time.time_ns()}.csv"
            (Path(self._folder) / name).write_text("".join(self._lines))


def submit() -> None:
    """Runs the plain pipeline; called in a process of its own, so that workers can import this."""
    config, out, *flags = sys.argv[1:]
    parts = parts_of(load_config(Path(config)), look=False)
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    read = pipeline | "Read" >> parts.source.open(parts.plan, parts.limits)
    (
        read.events
        | "Events" >> beam.ParDo(ToEvents()).with_output_types(tuple[str, float])
        | "Seconds" >> beam.WindowInto(FixedWindows(1))
        | "Count" >> beam.CombinePerKey(CountAndSum())
        | "Write" >> beam.ParDo(WriteLines(out))
    )
    pipeline.run().wait_until_finish()


@dataclass(frozen=True)
class Plain:
    """The plain job. Attributes: as ``slope`` needs them."""

    process: subprocess.Popen[bytes]
    server: PubSubServer
    post: Post

    @property
    def running(self) -> Plain:
        """Itself: it has a process."""
        return self

    def acked(self) -> int:
        """Messages that a checkpoint holds."""
        counts = self.server.counts(self.post.topic)
        return counts["messages"] - counts["unacked"]


@contextmanager
def plain(folder: Path, load: Load) -> Iterator[Plain]:
    """Server, cluster and the plain job of a load; ended on leaving."""
    out = folder / "out"
    out.mkdir(parents=True)
    with (
        PubSubServer() as server,
        FlinkCluster(environment={"PUBSUB_EMULATOR_HOST": server.host}) as cluster,
        Post(server.host, "plain") as post,
    ):
        config = config_of(folder, load, post.subscription)
        flags = [
            "--runner=FlinkRunner",
            f"--flink_master={cluster.master}",
            f"--flink_job_server_jar={job_server.jar()}",
            "--environment_type=PROCESS",
            f"--environment_config={cluster.environment_config()}",
            "--parallelism=2",
            "--streaming",
            "--checkpointing_interval=2000",
            "--max_bundle_time_mills=50",
            "--max_bundle_size=20000",
            "--finish_bundle_before_checkpointing",
        ]
        call = "from benchmarks.plain_count import submit; submit()"
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PUBSUB_EMULATOR_HOST": server.host,
        }
        with (folder / "plain.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", call, str(config), str(out), *flags],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield Plain(process, server, post)
            if process.poll() is not None:
                raise RuntimeError((folder / "plain.log").read_text(errors="replace")[-3000:])
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its job server too
            process.wait()


def measure_plain(folder: Path, seconds: int, form: str, rate: int) -> dict[str, Any]:
    """The plain job."""
    start = int(time.time()) + STARTS + rate * seconds // 400_000
    load = Load(start, seconds, rate, SIZE, KEYS, form=form)
    with plain(folder, load) as job:
        process = publishing(job.server.host, job.post.topic, load)
        late = time.time() > load.start
        began = time.time()
        per_second, acked = slope(job, load)
        took = time.time() - max(began, load.start)
        process.terminate()
        process.join()
        lines = sum(path.read_text().count("\n") for path in (folder / "out").glob("*.csv"))
    return {
        "form": form,
        "offered_events_per_s": rate,
        "events_per_s": round(per_second * SIZE),
        "acked_share": round(acked / load.messages, 3),
        "seconds": round(took),
        "lines": lines,
        "began_late": late,
    }


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--only", choices=list(RATES))
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="weir-plain-") as folder:
        for form, (ours, theirs) in RATES.items():
            if given.only not in (None, form):
                continue
            found = measure_plain(Path(folder) / f"{form}-plain", given.seconds, form, theirs)
            private = measure(Path(folder) / form, given.seconds, (form, SIZE, KEYS, 2, ours))
            names = ("offered_events_per_s", "events_per_s", "acked_share", "began_late")
            rows += [
                {"job": "plain", "form": form} | {name: found[name] for name in names},
                {"job": "private", "form": form} | {name: private[name] for name in names},
            ]
            for row in rows[-2:]:
                print(row | {"load_average": round(os.getloadavg()[0], 1)}, flush=True)
            write("plain_count.csv", rows)


if __name__ == "__main__":
    main()
