from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.transforms.beam.private_releases import PrivateReleases
from weir.transforms.beam.runner_quirks import (
    NO_SPLITS,
    WHOLE_BUNDLES,
    keep_bundles_whole,
    on_flink,
    require_whole_bundles,
)
from weir.transforms.runtime.secret import SecretRef

PLAN = Plan.from_yaml(
    "name: x\nkey: {column: k, declared: [a]}\n"
    "clock: {start: 2025-01-01T00:00:00Z, period: 1h, end: 2025-01-02T00:00:00Z}\n"
    "privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 24 ticks}\n"
    "schema: {time: at}\naggregates: {visits: {count: events}}\n"
)


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


@pytest.mark.parametrize(
    "runner, asked",
    [
        ("PrismRunner", True),
        ("DirectRunner", True),
        ("PortableRunner", True),
        (None, True),
        ("FlinkRunner", False),
        ("DataflowRunner", False),
    ],
)
def test_prism_is_asked_to_split_no_bundle(runner: str | None, asked: bool) -> None:
    flags = ["--experiments=other"] + ([] if runner is None else [f"--runner={runner}"])
    built = pipeline(*flags)
    keep_bundles_whole(built)
    keep_bundles_whole(built)
    found = built.options.view_as(DebugOptions).experiments
    assert found == ["other", *([NO_SPLITS] if asked else [])]


@pytest.mark.parametrize("bounded", [True, False])
def test_releases_are_built_so_that_prism_splits_no_bundle(bounded: bool) -> None:
    built = beam.Pipeline(options=PipelineOptions(["--runner=PrismRunner"]))
    events = built | beam.Create([]).with_output_types(pa.RecordBatch)
    assert events | PrivateReleases(PLAN, SecretRef.fresh(), bounded=bounded)
    assert NO_SPLITS in built.options.view_as(DebugOptions).experiments


def test_files_need_no_whole_bundles_and_streams_do() -> None:
    options = PipelineOptions(["--runner=FlinkRunner"])
    secret = SecretRef.fresh()
    built = beam.Pipeline(options=options)
    events = built | beam.Create([]).with_output_types(pa.RecordBatch)
    assert events | "Files" >> PrivateReleases(PLAN, secret)
    with pytest.raises(ConfigError, match=WHOLE_BUNDLES):
        events | "Stream" >> PrivateReleases(PLAN, secret, bounded=False)
