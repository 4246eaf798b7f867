"""Lists of numbers in typed columns, of every type and encoding, for the contract that each is read
alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from tests.contracts import alone_columns
from weir.dpcore.config.schema import ListColumn
from weir.transforms.decode.cast import plain_type

SIZE = 4
TIME = 1_700_000_000_000_000

NUMBERS = st.sampled_from([0.0, -0.0, 1.5, -2.0, 1e300, math.nan, math.inf])
PLACES = st.sampled_from([0, 1, 2, 3, 3, 4, -1, 2**31 + 1, -(2**31)])
MAYBE = st.none()


def lists(items: st.SearchStrategy[Any], most: int = SIZE + 2) -> st.SearchStrategy[Any]:
    right = st.lists(items, min_size=SIZE, max_size=SIZE)
    return right | right | MAYBE | st.lists(items, max_size=most)


_INNER = (
    *(pa.float64(), pa.float32(), pa.float16(), pa.int32(), pa.int64(), pa.uint8()),
    *(pa.decimal32(3, 1), pa.decimal64(12, 3), pa.decimal128(30, 5), pa.decimal256(60, 5)),
)
_KINDS = (
    *(pa.list_, pa.large_list, pa.list_view, pa.large_list_view),
    *(lambda inner: pa.list_(inner, SIZE), lambda inner: pa.fixed_shape_tensor(inner, [SIZE])),
)
_FORMS = ("plain", "plain", "dictionary", "runs")


def _encoded(values: Any, form: str) -> Any:
    """A list each, or in a dictionary with small indices, or in runs."""
    count = len(values)
    if form == "plain":
        return values
    if form == "dictionary":
        missing = values.is_null().to_numpy(zero_copy_only=False)
        places = pa.array(range(count), pa.int8(), mask=missing)
        return pa.DictionaryArray.from_arrays(places, values)
    kind = pa.run_end_encoded(pa.int32(), values.type)
    ends = pa.array(range(1, count + 1), pa.int32())
    return pa.Array.from_buffers(kind, count, [None], children=[ends, values])


@cache
def _held(kind: pa.DataType, form: str, parquet: bool) -> bool:
    """Whether Arrow can make such a column, and write and read it."""
    if isinstance(kind, pa.BaseExtensionType) and form == "dictionary":
        return False
    try:
        made = _encoded(_values([None, [1] * SIZE], kind), form)
        batch = pa.RecordBatch.from_arrays([made], names=["x"])
        (alone_columns.parquet if parquet else alone_columns.arrow)([batch], 2)
    except (pa.ArrowException, NotImplementedError, TypeError):
        return False
    return True


def _values(values: Sequence[Any], kind: pa.DataType) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


class Lists(NamedTuple):
    """Columns of lists, and records."""

    kinds: pa.Schema
    form: str
    records: list[tuple[Any, ...]]

    def batch(self, some: Sequence[Any]) -> pa.RecordBatch:
        """Some records."""
        columns = list(zip(*some, strict=True)) if some else [()] * len(self.kinds)
        times, *arrays = [
            _values(list(c), f.type) for c, f in zip(columns, self.kinds, strict=True)
        ]
        made = [times, *(_encoded(one, self.form) for one in arrays)]
        return pa.RecordBatch.from_arrays(made, names=self.kinds.names)


def _item(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_floating(kind):
        return NUMBERS.map(lambda one: min(one, 1e30)) | MAYBE
    low = 0 if kind == pa.uint8() else -5
    return st.integers(low, 9) | MAYBE


@st.composite
def tables(draw: st.DrawFn, listed: ListColumn, parquet: bool = False) -> Lists:
    kinds = st.builds(
        lambda make, inner: (make(inner), inner), *map(st.sampled_from, (_KINDS, _INNER))
    )
    forms = st.tuples(kinds, st.sampled_from(_FORMS))
    (kind, inner), form = draw(forms.filter(lambda one: _held(one[0][0], one[1], parquet)))
    if listed.column is not None:
        fixed = pa.types.is_fixed_size_list(plain_type(kind))
        cells = (
            st.lists(_item(inner), min_size=SIZE, max_size=SIZE) | MAYBE
            if fixed
            else lists(_item(inner))
        )
        made = draw(st.lists(st.tuples(st.just(TIME), cells), min_size=2, max_size=6))
        return Lists(pa.schema([("t", pa.int64()), ("x", kind)]), form, made)
    places = draw(st.sampled_from([pa.int32(), pa.int64(), pa.uint64(), pa.uint8()]))
    low, high = (0, 255) if places == pa.uint8() else (-(2**31), 2**31 - 1)
    low = 0 if places == pa.uint64() else low
    spot = PLACES.map(lambda at: min(max(at, low), high)) | MAYBE
    cells = pairs(spot, _item(inner))
    made = draw(st.lists(cells.map(lambda pair: (TIME, *pair)), min_size=2, max_size=6))
    if pa.types.is_fixed_size_list(plain_type(kind)):
        kind = pa.list_(inner)
    held = pa.schema([("t", pa.int64()), ("i", pa.list_(places)), ("v", kind)])
    return Lists(held, form if _held(pa.list_(places), form, parquet) else "plain", made)


def pairs(spot: Any, item: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    good = st.lists(
        st.tuples(st.integers(0, SIZE - 1), item), max_size=SIZE, unique_by=lambda one: one[0]
    ).map(lambda made: ([at for at, _ in made], [value for _, value in made]))
    odd = st.tuples(st.none() | st.lists(spot, max_size=6), st.none() | st.lists(item, max_size=6))
    return good | good | odd
