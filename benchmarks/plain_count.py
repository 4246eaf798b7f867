"""What does a stream of private counts take, compared with plain counts as one writes them in Beam?

    python -m benchmarks.plain_count [--seconds 40] [--only arrow] [--stream kafka]

On one Flink of two slots, in the same run, through the same server and the same reader: the
job of `benchmarks.stream_throughput`, with deduplication, noise, ticks and files; and a count and a
sum by key over windows of a second without privacy, as a user of Beam would write them: an element
for each event, FixedWindows, CombinePerKey, lines of text. The plain one drops no copies and writes
no error margins. Each is offered more than it takes, for so long that it has some 30 s to do;
counted
is what is acknowledged, that is in a checkpoint (one each 2 s). Short: NDJSON for 10 s; nothing is
written.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from benchmarks.harness import Bench, main
from benchmarks.stream_load import ROOT, Load, Streaming, config_of, served, started
from benchmarks.stream_throughput import Case, load_of, run, taken
from weir.pipelines.config.job import load as load_config
from weir.pipelines.engines import job_server
from weir.pipelines.graph.parts import parts_of

KEYS = 24
RATES = {
    "ndjson": (500_000, 150_000),
    "arrow": (700_000, 150_000),
    "avro": (500_000, 150_000),
}
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


@contextmanager
def plain(folder: Path, load: Load) -> Iterator[Streaming]:
    """Server, cluster and the plain job of a load; ended on leaving."""
    out = folder / "out"
    out.mkdir(parents=True)
    with served(load) as (server, cluster, host):
        config = config_of(folder, load, host=host)
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
        call = ["-c", "from benchmarks.plain_count import submit; submit()"]
        words = [*call, str(config), str(out), *flags]
        with started(words, folder, server, ROOT) as process:
            yield Streaming(out, process, server, cluster, host)
            if not process.alive:
                raise RuntimeError((folder / "job.log").read_text(errors="replace")[-3000:])


def measure(bench: Bench) -> None:
    """Each form, plain and private."""
    bench.keys, stream = ("stream", "job", "form"), bench.args.stream
    only, seconds = ("ndjson", 10) if bench.short else (bench.args.only, bench.args.seconds)
    with bench.folder() as folder:
        for form, (ours, theirs) in RATES.items():
            if only not in (None, form):
                continue
            load = load_of(Case(form, SIZE, KEYS, 2, theirs, stream), seconds)
            with plain(folder / f"{form}-plain", load) as job:
                found = taken(job, load)
            private = run(folder / form, seconds, Case(form, SIZE, KEYS, 2, ours, stream))
            for name, offered, row in (("plain", theirs, found), ("private", ours, private)):
                bench.row(
                    stream=stream,
                    job=name,
                    form=form,
                    offered_events_per_s=offered,
                    events_per_s=row["events_per_s"],
                    busy_us_per_event=row["busy_us_per_event"],
                    acked_share=row["acked_share"],
                    began_late=row["began_late"],
                )


if __name__ == "__main__":
    main(
        measure,
        seconds=40,
        only={"choices": list(RATES)},
        stream={"choices": ["pubsub", "kafka"], "default": "pubsub"},
    )
