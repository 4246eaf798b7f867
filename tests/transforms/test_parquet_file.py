"""Files of Parquet as Weir writes them, read by Arrow and beside Arrow's own."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from transforms.release.few import FEW_SCHEMA, PLACES
from transforms.release.flat import FLAT_SCHEMA
from transforms.release.table import IN_FLIGHT_SCHEMA, NUMBERS, RELEASE_SCHEMA
from transforms.sinks import parquet_file, parquet_pages
from transforms.sinks.parquet_file import parquet_bytes
from transforms.sinks.parquet_levels import bits_of, hybrid, packed
from transforms.sinks.thrift import Long, struct, varint

UTC = pa.timestamp("us", tz="UTC")
WORDS = ["", "a", "b" * 300, "schön", "日本", "\x00"]


def by_arrow(table: pa.Table) -> bytes:
    """The same table by Arrow's writer."""
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False)
    return sink.getvalue()


def opened(content: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(content))


def alike(table: pa.Table, content: bytes) -> None:
    """Whether a file says of a table what Arrow's does, NaN and -0.0 to the bit."""
    mine, theirs = opened(content), opened(by_arrow(table))
    assert mine.schema.equals(theirs.schema)
    assert mine.schema_arrow.equals(theirs.schema_arrow)
    assert mine.metadata.num_rows == table.num_rows
    found, wanted = mine.read(), theirs.read()
    for name in table.schema.names:
        one, other = (part[name].combine_chunks() for part in (found, wanted))
        assert bits(one).equals(bits(other)), name
    batches = pa.Table.from_batches(mine.iter_batches(7), mine.schema_arrow)
    assert batches.num_rows == table.num_rows


def bits(column: Any) -> pa.Array:
    """Doubles as the integers that they are stored as."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_list(column.type):
        inner = bits(column.flatten())
        lengths = pa.compute.list_value_length(column).to_pylist()
        return pa.array([str(lengths), str(inner.to_pylist())])
    return column.view(pa.int64()) if pa.types.is_floating(column.type) else column


def masked(rng: np.random.Generator, values: Any, share: float, kind: Any = None) -> pa.Array:
    """An array of which a share is null."""
    return pa.array(values, kind, mask=rng.random(len(values)) < share)


def column_of(kind: str, n: int, nulls: float, rng: np.random.Generator) -> pa.Array:
    """n values of a kind."""
    if kind == "alike":
        return masked(rng, np.full(n, 7.0), nulls)
    if kind == "runs":
        return masked(rng, np.repeat(rng.normal(size=n // 40 + 1), 40)[:n], nulls)
    if kind == "few":
        return masked(rng, rng.integers(0, 5, n), nulls)
    if kind == "small":
        return masked(rng, rng.integers(-5, 5, n).astype(np.int32), nulls)
    if kind == "odd":
        chosen = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310], n)
        return masked(rng, chosen, nulls)
    if kind == "noise":
        return masked(rng, rng.normal(size=n), nulls)
    if kind == "times":
        return masked(rng, rng.integers(0, 1 << 50, n), nulls, pa.int64()).view(UTC)
    if kind == "text":
        return masked(rng, rng.choice(WORDS, n).astype(object), nulls, pa.string())
    if kind == "coded":
        index = masked(rng, np.sort(rng.integers(0, len(WORDS), n)).astype(np.int8), nulls)
        return pa.DictionaryArray.from_arrays(index, pa.array([*WORDS, "in no row"]))
    if kind == "coded times":
        index = masked(rng, rng.integers(0, 3, n).astype(np.int32), nulls)
        return pa.DictionaryArray.from_arrays(index, pa.array([5, 1, 3], pa.int64()).view(UTC))
    if kind == "single":
        index = masked(rng, np.zeros(n, np.int8), nulls)
        return pa.DictionaryArray.from_arrays(index, pa.array([0.25]))
    width = {"lists of one": (1, 2), "lists": (0, 5), "places": (0, 3)}[kind]
    lengths = rng.integers(*width, n)
    total = int(lengths.sum())
    values, kind_of = masked(rng, rng.normal(size=total), nulls / 2), NUMBERS
    if kind == "places":
        values, kind_of = pa.array(rng.integers(0, 9, total).astype(np.int32)), PLACES
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    gone = rng.random(n) < nulls
    return pa.ListArray.from_arrays(
        offsets, values, kind_of, mask=pa.array(gone) if gone.any() else None
    )


KINDS = (
    "alike", "runs", "few", "small", "odd", "noise", "times", "text", "coded", "coded times",
    "single", "lists of one", "lists", "places",
)  # fmt: skip


@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000])
def test_what_is_written_is_what_arrow_writes(n: int, nulls: float) -> None:
    rng = np.random.default_rng(n + int(10 * nulls))
    table = pa.table({kind: column_of(kind, n, nulls, rng) for kind in KINDS})
    alike(table, parquet_bytes(table))
    alike(table, parquet_bytes(table, single=KINDS, ordered=("coded", "coded times", "single")))


@pytest.mark.parametrize("page", [8, 64, 1024])
@pytest.mark.parametrize("group", [1, 24, 333])
def test_many_pages_and_groups(monkeypatch: pytest.MonkeyPatch, page: int, group: int) -> None:
    monkeypatch.setattr(parquet_pages, "PAGE", page)
    monkeypatch.setattr(parquet_file, "GROUP_ROWS", group)
    rng = np.random.default_rng(page)
    table = pa.table({kind: column_of(kind, 100, 0.2, rng) for kind in KINDS})
    content = parquet_bytes(table, single=("noise",))
    assert opened(content).metadata.num_row_groups == -(-100 // group)
    alike(table, content)


def test_a_word_of_no_row_may_be_null() -> None:
    index = pa.array([0, None, 0], pa.int8())
    column = pa.DictionaryArray.from_arrays(index, pa.array(["a", None]))
    found = opened(parquet_bytes(pa.table({"x": column}))).read()
    assert found["x"].to_pylist() == ["a", None, "a"]


def test_words_of_other_rows_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "GROUP_ROWS", 8)
    rng = np.random.default_rng(7)
    words = pa.array([f"{i:0100}" for i in range(64)])
    index = pa.array(rng.permutation(64).astype(np.int32))
    table = pa.table({"key": pa.DictionaryArray.from_arrays(index, words)})
    content = parquet_bytes(table)
    alike(table, content)
    metadata = opened(content).metadata
    sizes = [metadata.row_group(i).column(0).total_uncompressed_size for i in range(8)]
    assert max(sizes) < 9 * 104 + 100


@pytest.mark.parametrize("long", [1, 100])
@pytest.mark.parametrize("words", [[0.5, 1.5, 9.0, -3.0, 7.0], ["b", "", "ä", "a", "z"]])
def test_the_same_rows_are_the_same_bytes_however_they_are_coded(words: Any, long: int) -> None:
    rng = np.random.default_rng(9)
    chosen = np.repeat(rng.integers(0, 4, 500), long)  # the last word is of no row
    order = rng.permutation(5)
    twice = pa.array([*words, *(words[i] for i in order)])
    place = np.where(rng.random(len(chosen)) < 0.5, chosen, 5 + np.argsort(order)[chosen])
    plain = pa.array(words).take(pa.array(chosen))
    columns = [
        plain.dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array(chosen), pa.array(words)),
        pa.DictionaryArray.from_arrays(pa.array(place), twice),
    ]
    (written,) = {parquet_bytes(pa.table({"x": column})) for column in columns}
    alike(pa.table({"x": plain}), written)


def test_chunks_are_joined() -> None:
    rng = np.random.default_rng(5)
    parts = [pa.table({kind: column_of(kind, n, 0.1, rng) for kind in KINDS}) for n in (9, 0, 30)]
    table = pa.concat_tables(parts)
    alike(table, parquet_bytes(table))


@pytest.mark.parametrize("schema", [FLAT_SCHEMA, IN_FLIGHT_SCHEMA, FEW_SCHEMA, RELEASE_SCHEMA])
def test_columns_of_releases(schema: pa.Schema) -> None:
    alike(schema.empty_table(), parquet_bytes(schema.empty_table()))


def test_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="no column of a release"):
        parquet_bytes(pa.table({"x": pa.array([1.0], pa.float32())}))


def test_ends_are_told_of_what_is_there() -> None:
    index = pa.array([2, 2, None, 1], pa.int8())
    table = pa.table(
        {
            "sorted": pa.DictionaryArray.from_arrays(index, pa.array([1, 5, 9, 11])),
            "not": pa.DictionaryArray.from_arrays(index, pa.array(["z", "b", "é", "a"])),
            "none": pa.DictionaryArray.from_arrays(pa.nulls(4, pa.int8()), pa.array([1])),
        }
    )
    group = opened(parquet_bytes(table, ordered=table.schema.names)).metadata.row_group(0)
    found = [group.column(i).statistics for i in range(3)]
    assert [(one.min, one.max, one.null_count) for one in found[:2]] == [(5, 9, 1), ("b", "é", 1)]
    assert found[2] is None
    filters = [("sorted", "=", 9)]
    content = io.BytesIO(parquet_bytes(table, ordered=table.schema.names))
    assert pq.read_table(content, filters=filters)["not"].to_pylist() == ["é", "é"]


def test_noise_is_not_compressed_and_what_repeats_is() -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"noise": rng.normal(size=9999), "whole": rng.integers(0, 9, 9999) * 1.0})
    group = opened(parquet_bytes(table, single=("noise", "whole"))).metadata.row_group(0)
    assert [group.column(i).compression for i in range(2)] == ["UNCOMPRESSED", "SNAPPY"]


def test_columns_that_repeat_take_no_room() -> None:
    n = 1 << 17
    tick = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.arange(128, dtype=np.int32), n // 128)), pa.array(np.arange(128))
    )
    assert len(parquet_bytes(pa.table({"tick": tick, "stddev": np.ones(n)}))) < 3000


def unpacked(data: bytes, bits: int, count: int) -> list[int]:
    """What a reader makes of runs and packed numbers: the format's own words, number by number."""
    found: list[int] = []
    at = 0
    while len(found) < count:
        head = shift = 0
        while True:
            byte = data[at]
            at += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        size = bits if head & 1 else (bits + 7) // 8
        for _ in range(head >> 1 if head & 1 else 1):
            number = int.from_bytes(data[at : at + size], "little")
            at += size
            if head & 1:
                found += [number >> (bits * i) & (1 << bits) - 1 for i in range(8)]
            else:
                found += [number] * (head >> 1)
    assert at == len(data)
    return found[:count]


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 8, 9, 14, 16, 17, 24, 31, 32])
def test_levels(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for n in (0, 1, 5, 8, 9, 64, 1001):
        numbers = rng.integers(0, 1 << bits, n)
        assert unpacked(hybrid(numbers, bits), bits, n) == numbers.tolist()
        assert len(packed(numbers, bits)) == -(-n // 8) * bits
        long = np.repeat(numbers, 100)
        assert unpacked(hybrid(long, bits), bits, len(long)) == long.tolist()
    assert bits_of((1 << bits) - 1) == bits


def test_thrift() -> None:
    assert [varint(n) for n in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]
    assert struct({1: 3, 2: None, 3: Long(-1), 4: "é", 5: True, 7: {1: False}}) == bytes.fromhex(
        "1506 2601 1802c3a9 11 2c 12 00 00".replace(" ", "")
    )
    assert struct({1: [1, -2], 2: [], 3: [{}] * 15}) == bytes.fromhex(
        "19 25 02 03 19 0c 19 fc 0f".replace(" ", "")
    ) + bytes(16)
    with pytest.raises(ValueError, match="order"):
        struct({2: 1, 1: 1})
    with pytest.raises(TypeError, match="float"):
        struct({1: 1.5})
