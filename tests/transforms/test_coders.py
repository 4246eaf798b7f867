from __future__ import annotations

import contextlib
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.fuzz.target import sealed
from tests.transforms.doubles import CountSum, FakePlan, random_events
from weir.dpcore.arrays import arrays_of
from weir.dpcore.errors import CodecError
from weir.transforms.beam import heartbeat
from weir.transforms.beam.coders import NoisyStrideCoder, RecordBatchCoder
from weir.transforms.beam.kafka.position import PositionCoder, TopicPosition
from weir.transforms.beam.pubsub.restriction import Turn, TurnCoder
from weir.transforms.operators import partial_rows as rows
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.runtime import fence, stored_counts
from weir.transforms.runtime.acked import Acknowledged, ReadTurn
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


@pytest.mark.parametrize(
    ("what", "arrays"),
    [
        ("another type", b"O\x08\x01"),
        ("a width that numbers lack", b"i\x07\x01"),
        ("more dimensions than bytes", b"i\x08\xff"),
    ],
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(what: str, arrays: bytes) -> None:
    """Behind a checksum that fits: another build's, never numbers of something else."""
    data = pack(b"M", [np.arange(3)])
    with pytest.raises(CodecError, match="build that wrote"):
        unpack(b"M", sealed(data[:64] + arrays + data[67:]))
    for size in (-1, 2, 4, 1 << 62):
        with pytest.raises(CodecError, match="build that wrote"):
            unpack(b"M", sealed(data[:72] + size.to_bytes(8, "little", signed=True) + data[80:]))
    with pytest.raises(CodecError, match="stored bytes cannot be read by decode"):
        partial.decode(pack(partial.KIND, [np.arange(2)]))
    with pytest.raises(CodecError, match="stored bytes cannot be read by decode"):
        heartbeat.decode(pack(heartbeat.KIND, []))


def test_damaged_batches_are_refused_and_end_no_process() -> None:
    data = batch_to_bytes(random_events(3, FakePlan()))
    no_batch = pa.BufferOutputStream()
    pa.ipc.new_stream(no_batch, random_events(0, FakePlan()).schema).close()
    # A StopIteration here would end a loop over payloads as if there were no more.
    for some in (b"", data[:40], data[: len(data) // 2], bytes(memoryview(no_batch.getvalue()))):
        with pytest.raises(CodecError, match="stored bytes cannot be read by batch_from_bytes"):
            batch_from_bytes(some)
    indices = pa.array([0, 1 << 20], pa.int32())
    outside = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    with pytest.raises(CodecError, match="ArrowInvalid"):
        batch_from_bytes(batch_to_bytes(pa.RecordBatch.from_arrays([outside], ["k"])))
    rng = np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), 2).tolist():
            changed[at] = int(rng.integers(256))
        with contextlib.suppress(CodecError):
            for column in batch_from_bytes(bytes(changed)).columns:
                column.to_string()


def test_notes_and_positions_that_were_cut_are_refused(tmp_path: Path) -> None:
    for coder, value in (
        (PositionCoder(), TopicPosition("t", {0: 5})),
        (TurnCoder(), Turn(3, True)),
    ):
        data = coder.encode(value)
        assert coder.decode(data) == value
        with pytest.raises(CodecError, match="go on from an earlier checkpoint|Go on from"):
            coder.decode(data[:-3])
    note = Acknowledged(str(tmp_path), "s", 0)
    note.note(ReadTurn(4, 0))
    (path,) = (tmp_path / "_acknowledged").iterdir()
    path.write_bytes(path.read_bytes()[:7])
    with pytest.raises(CodecError, match="stored bytes cannot be read"):
        note.check(9)
    counts = tmp_path / "_counts"
    counts.mkdir()
    (counts / "000001-host-1.json").write_bytes(b'{"events": 3, "la')
    with pytest.raises(CodecError, match="stored bytes cannot be read"):
        stored_counts.kept(str(tmp_path))
    claim = fence.claim(str(tmp_path), "job")
    (tmp_path / fence.FOLDER / f"{claim.epoch:06d}").write_bytes(b"soon")
    with pytest.raises(CodecError, match="stored bytes cannot be read"):
        fence.moments(str(tmp_path), fence.FOLDER)
