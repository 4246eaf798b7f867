"""Numbers as they are handed on: of the same bits with kernels and without."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from weir.dpcore.native import kernels
from weir.transforms.decode import cast
from weir.transforms.decode.cast import to_number, to_numbers
from weir.transforms.decode.columnar import decode_batches
from weir.transforms.decode.counted import _absent
from weir.transforms.decode.schema import EventSchema, Stamp

SIGNALS, QUIET, NEGATIVE, OTHER = (
    struct.unpack("<d", struct.pack("<Q", bits))[0]
    for bits in (0x7FF0000000000001, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000123)
)
COLUMNS = {
    "plain": pa.array([1.5, 0.0, -7e300, 5e-324]),
    "negative zero": pa.array([1.0, -0.0, 2.0]),
    "nan": pa.array([QUIET, 1.0, NEGATIVE, OTHER, np.inf]),
    "a nan that signals": pa.array(np.array([SIGNALS, 1.0, -0.0])),
    "nulls": pa.array([None, 1.0, -0.0, None, QUIET]),
    "a slice": pa.array([-0.0, *np.arange(20.0), None])[1:20],
    "half": pa.array([-0.0, 1.0, None, np.nan], pa.float32()),
    "whole": pa.array([0, -1, None], pa.int64()),
    "text": pa.array(["-0", "1e3", "nan", "", "x", None]),
    "truth": pa.array([True, None, False]),
    "none": pa.nulls(4),
    "empty": pa.array([], pa.float64()),
    "chunks": pa.chunked_array([pa.array([1.0, -0.0]), pa.array([np.nan])]),
    "words": pa.array(["-0", "2", None]).dictionary_encode(),
}


def bits(values: Any) -> bytes:
    return np.asarray(values.to_numpy(zero_copy_only=False)).tobytes()


@pytest.mark.parametrize("name", COLUMNS)
def test_numbers_are_the_same_to_the_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = COLUMNS[name]
    fast = to_numbers(given)
    with monkeypatch.context() as patch:
        patch.setattr(cast, "kernels", None)
        slow = to_numbers(given)
    assert bits(fast.values) == bits(slow.values)
    assert fast.values.type == slow.values.type == pa.float64() and not fast.values.null_count
    assert (fast.bad is None) == (slow.bad is None)
    assert not np.signbit(fast.values.to_numpy()[fast.values.to_numpy() == 0]).any()
    expected = int(pc.sum(pc.is_null(slow.values, nan_is_null=True)).as_py() or 0)
    assert fast.missing == (None if kernels is None else expected)
    assert bits(to_number(given)[0]) == bits(fast.values)


@pytest.mark.usefixtures("compiled")
def test_a_column_without_negative_zeros_stays_where_it_is() -> None:
    assert kernels is not None
    given = COLUMNS["plain"]
    assert to_numbers(given).values is given
    for n in (0, 1, 7, 8, 9, 1000):
        values = np.arange(1.0, n + 1)
        assert kernels.doubles(values) == (0, 0)
        if n:
            values[-1] = -0.0
            assert kernels.doubles(values) == (0, 1)
            values[:] = np.nan
            assert kernels.doubles(values) == (n, 0)
    with pytest.raises(ValueError, match="aligned"):
        kernels.doubles(np.zeros(9, dtype=np.uint8))
    with pytest.raises(ValueError, match="aligned"):
        kernels.doubles(np.zeros(9, dtype=np.uint8)[1:])


def test_numbers_may_lie_anywhere() -> None:
    values = np.array([1.0, -0.0, np.nan, 2.0])
    buffers = [None, pa.py_buffer(b"-" + values.tobytes()).slice(1)]
    given = pa.Array.from_buffers(pa.float64(), len(values), buffers)
    assert bits(to_numbers(given).values) == bits(to_numbers(pa.array(values)).values)


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_missing_is_counted_alike(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where some events are rejected, and their values with them."""
    schema = EventSchema(Stamp("t"), columns={"x": "number", "y": "number"})
    n = 500
    rng = np.random.default_rng(3)
    columns = {
        "t": pa.array(np.arange(n), mask=(rng.random(n) < 0.1) if refused else None).view(
            pa.timestamp("us", "UTC")
        ),
        "x": pa.array(np.where(rng.random(n) < 0.2, np.nan, 1.0), mask=rng.random(n) < 0.1),
        "y": pa.array(rng.integers(0, 9, n)),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    found = []
    for used in (kernels, None):
        with monkeypatch.context() as patch:
            patch.setattr(cast, "kernels", used)
            (decoded,) = decode_batches([batch], schema, "f")
        assert decoded.events is not None
        assert bool(decoded.absent) == (used is not None and not refused)
        found.append(_absent(decoded.events, decoded.absent))
    assert found[0] == found[1] and found[0]["x"] > 90 and found[0]["y"] == 0
