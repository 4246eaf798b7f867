"""What one process keeps aside: read once, and only where every step is in that process."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment

from dpcore.errors import CodecError
from transforms.runtime.aside import Aside, in_one_process
from transforms.select.users import Way


def test_a_value_is_read_once() -> None:
    kept: Aside[str] = Aside.of("a run")
    name, other = kept.put("one"), kept.put("two")
    again: Aside[str] = Aside.of("a run")
    assert again is kept and again.take(name) == "one" and len(again) == 1
    with pytest.raises(CodecError, match="repeated a bundle, or has workers in other processes"):
        again.take(name)
    assert again.take(other) == "two" and len(Aside.of("another run")) == 0


def test_nothing_is_left_once_nobody_holds_it() -> None:
    name = Aside.of("a short run").put("one")
    with pytest.raises(CodecError, match="not there"):
        Aside.of("a short run").take(name)


def test_events_go_aside_as_they_are() -> None:
    batch = pa.RecordBatch.from_pydict({"@tick": [1, 2]})
    aside, plain = Way(bytes(32), "some run"), Way(bytes(32))
    held: Aside[pa.RecordBatch] = Aside.of("some run")
    for way in (aside, plain):
        way.open()
    data = aside.encode(batch)
    assert len(data) < 128 and len(held) == 1 and aside.decode(data) is batch
    assert plain.decode(plain.encode(batch)) == batch


@pytest.mark.parametrize(
    ("runner", "options", "found"),
    [
        (FnApiRunner(), [], True),
        (FnApiRunner(bundle_repeat=1), [], False),
        (FnApiRunner(), ["--direct_runner_bundle_repeat=2"], False),
        (FnApiRunner(), ["--direct_running_mode=multi_processing"], False),
        (FnApiRunner(EmbeddedPythonGrpcEnvironment.default()), [], False),
        (beam.runners.DirectRunner(), [], False),
    ],
)
def test_only_one_process_that_repeats_nothing_will_do(
    runner: object, options: list[str], found: bool
) -> None:
    assert in_one_process(beam.Pipeline(runner, PipelineOptions(options))) is found
