"""What one process keeps aside: read once, and only where every step is in that process."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment

from dpcore.errors import CodecError
from dpcore.leaves.id_hash import id_hashes
from transforms.runtime.aside import Aside, in_one_process
from transforms.select.names import Names
from transforms.select.users import Way

NOTHING = type(None)


def test_a_value_is_read_once() -> None:
    kept: Aside[str, None] = Aside.of("a run", NOTHING)
    name, other = kept.put("one"), kept.put("two")
    again: Aside[str, None] = Aside.of("a run", NOTHING)
    assert again is kept and again.take(name) == "one" and len(again) == 1
    with pytest.raises(CodecError, match="repeated a bundle, or has workers in other processes"):
        again.take(name)
    assert again.take(other) == "two" and len(Aside.of("another run", NOTHING)) == 0


def test_nothing_is_left_once_nobody_holds_it() -> None:
    name = Aside.of("a short run", NOTHING).put("one")
    with pytest.raises(CodecError, match="not there"):
        Aside.of("a short run", NOTHING).take(name)


def test_events_go_aside_as_they_are() -> None:
    batch = pa.RecordBatch.from_pydict({"@tick": [1, 2]})
    aside, plain = Way(bytes(32), "some run"), Way(bytes(32))
    held: Aside[pa.RecordBatch, Names] = Aside.of("some run", Names)
    for way in (aside, plain):
        way.open()
    data = aside.encode(batch)
    assert len(data) < 128 and len(held) == 1 and aside.decode(data) is batch
    assert plain.decode(plain.encode(batch)) == batch


def test_names_are_numbers_aside() -> None:
    held: Aside[pa.RecordBatch, Names] = Aside.of("a run of names", Names)
    way = Way(bytes(32), "a run of names")
    way.open()
    texts = [["a", "", "b", "a"], ["c", "b", "\u00e9", "c"]]
    batches = [
        pa.RecordBatch.from_arrays([pa.array(part).dictionary_encode()], names=["@key"])
        for part in texts
    ]
    hashes = [id_hashes(batch.column("@key").dictionary, bytes(16)).hashes for batch in batches]
    coded = [way.named(*both) for both in zip(batches, hashes, strict=True)]
    assert [batch.column("@key").to_pylist() for batch in coded] == [[0, 1, 2, 0], [3, 2, 4, 3]]
    assert [way.renamed(batch).column("@key").to_pylist() for batch in coded] == texts
    plain = Way(bytes(32))
    assert plain.named(batches[0], hashes[0]) is batches[0] is plain.renamed(batches[0])
    assert len(held) == 0


def test_many_names_find_their_numbers_whatever_their_slots() -> None:
    names, texts = Names(), [f"name {i}" for i in range(800)]
    rng = np.random.default_rng(3)
    numbers: dict[str, int] = {}
    for size in (3, 500, 10, 2_500, 2_500):
        some = rng.choice(texts, size).tolist()
        column = pa.array(some).dictionary_encode()
        hashes = id_hashes(column.dictionary, bytes(16)).hashes
        hashes[:, 1] &= np.uint64(7)  # they all want the same few slots
        found = names.coded(column, hashes)
        assert names.decoded(found).to_pylist() == some
        for text, number in zip(some, found.to_pylist(), strict=True):
            assert numbers.setdefault(text, number) == number
    assert sorted(numbers.values()) == list(range(len(numbers)))
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["new", "new", "other"]))
    hashes = id_hashes(twice.dictionary, bytes(16)).hashes
    assert names.decoded(names.coded(twice, hashes)).to_pylist() == ["new", "new", "other"]


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
