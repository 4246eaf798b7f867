from __future__ import annotations

from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from transforms.runner import on_flink


@pytest.mark.parametrize(
    "runner, expected",
    [("FlinkRunner", True), ("PrismRunner", False), ("DataflowRunner", False), (None, False)],
)
def test_flink_is_known_by_the_name_of_the_runner(runner: str | None, expected: bool) -> None:
    flags = [] if runner is None else [f"--runner={runner}"]
    assert on_flink(SimpleNamespace(options=PipelineOptions(flags))) is expected
    assert on_flink(beam.Pipeline()) is False
