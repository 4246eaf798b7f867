from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from dpcore.errors import ConfigError
from dpcore.plan import Plan
from transforms.private_releases import PrivateReleases
from transforms.runtime.flink_quirks import WHOLE_BUNDLES, on_flink, require_whole_bundles
from transforms.runtime.secret import SecretRef


@pytest.mark.parametrize(
    "runner, expected",
    [("FlinkRunner", True), ("PrismRunner", False), ("DataflowRunner", False), (None, False)],
)
def test_flink_is_known_by_the_name_of_the_runner(runner: str | None, expected: bool) -> None:
    flags = [] if runner is None else [f"--runner={runner}"]
    assert on_flink(SimpleNamespace(options=PipelineOptions(flags))) is expected
    assert on_flink(beam.Pipeline()) is False


def pipeline(*flags: str) -> Any:
    return SimpleNamespace(options=PipelineOptions(list(flags)))


@pytest.mark.parametrize("more", [(), (f"--{WHOLE_BUNDLES}=false",)])
def test_a_stream_on_flink_needs_whole_bundles(more: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=f"Add --{WHOLE_BUNDLES}"):
        require_whole_bundles(pipeline("--runner=FlinkRunner", *more))


@pytest.mark.parametrize(
    "flags",
    [
        ("--runner=FlinkRunner", f"--{WHOLE_BUNDLES}"),
        ("--runner=FlinkRunner", f"--{WHOLE_BUNDLES}=true"),
        ("--runner=PrismRunner",),
        (),
    ],
)
def test_whole_bundles_are_an_option_of_flink_alone(flags: tuple[str, ...]) -> None:
    require_whole_bundles(pipeline(*flags))


def test_files_need_no_whole_bundles_and_streams_do() -> None:
    plan = Plan.from_yaml(
        "name: x\nkey: {column: k, declared: [a]}\n"
        "clock: {start: 2025-01-01T00:00:00Z, period: 1h, end: 2025-01-02T00:00:00Z}\n"
        "privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 24}\n"
        "schema: {time: at}\naggregates: {visits: {count: events}}\n"
    )
    options = PipelineOptions(["--runner=FlinkRunner"])
    secret = SecretRef.fresh()
    built = beam.Pipeline(options=options)
    events = built | beam.Create([]).with_output_types(pa.RecordBatch)
    assert events | "Files" >> PrivateReleases(plan, secret)
    with pytest.raises(ConfigError, match=WHOLE_BUNDLES):
        events | "Stream" >> PrivateReleases(plan, secret, bounded=False)
