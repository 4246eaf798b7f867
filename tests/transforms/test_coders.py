from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import CountSum, FakePlan, random_events
from weir.dpcore.arrays import arrays_of
from weir.dpcore.errors import CodecError
from weir.transforms.beam import heartbeat
from weir.transforms.beam.coders import NoisyStrideCoder, RecordBatchCoder
from weir.transforms.operators import partial_rows as rows
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.runtime.codec import (
    batch_from_bytes,
    batch_to_bytes,
    pack,
    pack_names,
    restore,
    unpack,
    unpack_names,
)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "bool", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 0, 4), (5, 3), ()])
def test_arrays_come_back(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    after = np.array([1.5])
    found = unpack(b"x", pack(b"x", [array, after], bytes(range(32))), bytes(range(32)))
    assert found[0].dtype == array.dtype and found[0].shape == array.shape
    np.testing.assert_array_equal(found[0], array)
    np.testing.assert_array_equal(found[1], after)


def test_another_plan_is_refused_and_both_are_named() -> None:
    data = pack(b"M", [], b"\x01" * 32)
    with pytest.raises(CodecError, match="01" * 32 + ".*" + "02" * 32):
        unpack(b"M", data, b"\x02" * 32)


def test_another_version_kind_or_author_is_refused() -> None:
    data = pack(b"M", [])
    with pytest.raises(CodecError, match="version 9"):
        unpack(b"M", data[:4] + b"\x09" + data[5:])
    with pytest.raises(CodecError, match="kind"):
        unpack(b"L", data)
    with pytest.raises(CodecError, match="not ours"):
        unpack(b"M", b"garbage")


def test_names_come_back() -> None:
    for names in ([], [b""], [b"a", b"", b"\xff\x00b"]):
        assert unpack_names(*pack_names(names)) == names


def test_states_come_back() -> None:
    state = CountSum().init(3)
    found = restore(CountSum().init(1), arrays_of(state))
    assert type(found) is type(state)
    for left, right in zip(arrays_of(found), arrays_of(state), strict=True):
        np.testing.assert_array_equal(left, right)
    with pytest.raises(CodecError, match="fewer"):
        restore(state, arrays_of(state)[:1])
    with pytest.raises(CodecError, match="more"):
        restore(state, arrays_of(state) * 2)
    with pytest.raises(CodecError, match="keeps"):
        restore(state, arrays_of(state)[::-1])


def test_a_slice_is_sent_without_its_parent() -> None:
    batch = random_events(50_000, FakePlan())
    data = batch_to_bytes(batch.slice(10, 10))
    assert len(data) < 4_000 < len(pickle.dumps(batch)) // 100
    assert batch_from_bytes(data).equals(batch.slice(10, 10))


def test_the_coder_of_batches_is_registered() -> None:
    import apache_beam as beam

    coder = beam.coders.registry.get_coder(pa.RecordBatch)
    assert isinstance(coder, RecordBatchCoder)
    batch = random_events(10, FakePlan())
    assert coder.decode(coder.encode(batch)).equals(batch, check_metadata=True)


def test_strides_come_back() -> None:
    arrays = (np.random.default_rng(0).normal(size=(4, 2, 3)), np.zeros((4, 2, 1)))
    stride = NoisyStride(5, 100, 4, (b"a", b"bc"), arrays)
    coder = NoisyStrideCoder()
    found = coder.decode(coder.encode(stride))
    assert (found.block, found.first_tick, found.ticks, found.keys) == (5, 100, 4, (b"a", b"bc"))
    for left, right in zip(found.arrays, arrays, strict=True):
        np.testing.assert_array_equal(left, right)
    assert not found.born_later
    born = coder.decode(coder.encode(replace(stride, births=np.array([0, 3]))))
    assert born.keys == stride.keys and born.births.tolist() == [0, 3] and born.born_later
    empty = coder.decode(coder.encode(NoisyStride(0, 0, 8, (), ())))
    assert empty.keys == () and empty.arrays == () and empty.ticks == 8


def test_partial_leaves_come_back() -> None:
    ones = np.ones(3, dtype=np.int64)
    leaf = PartialLeaf(
        np.array([4, 4, 9]), np.array([0, 1, 0]), ones, np.arange(6).reshape(3, 2), (b"x", b"y")
    )
    data = partial.encode(leaf)
    found = partial.decode(data)
    assert partial.tick_range(data) == (4, 9) and found.names == leaf.names
    for left, right in zip(found[:4], leaf[:4], strict=True):
        np.testing.assert_array_equal(left, right)
    assert not heartbeat.is_heartbeat(data) and heartbeat.is_heartbeat(heartbeat.encode(7))
    assert heartbeat.decode(heartbeat.encode(7)) == 7
    assert rows.KIND != partial.KIND
