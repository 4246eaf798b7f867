"""What a file says of its columns, from the command line: read whole, or refused before a run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contracts import alone_columns
from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.result_rows import result_rows
from tests.transforms.avro_files import record_of
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed.feed import read_batches
from weir.pipelines.results.events import numbers, tables

HOURS = [f"2024-01-01T{at % 24:02d}:00:00Z" for at in range(3_001)]


def names_in_pieces(index: pa.DataType, names: list[str]) -> pa.ChunkedArray:
    """Names with small indices, in pieces that have a dictionary each, as chunks of pandas have."""
    parts = [names[at : at + 100] for at in range(0, len(names), 100)]
    kind = pa.dictionary(index, pa.string())
    return pa.chunked_array([pa.array(part).dictionary_encode().cast(kind) for part in parts])


def events_of(stores: Any, ids: Any) -> pa.Table:
    count = len(ids)
    return pa.table({"at": HOURS[:count], "id": ids, "store": stores, "amount": [1.5] * count})


def avro(some: list[dict[str, Any]], store: Any) -> bytes:
    out = io.BytesIO()
    kinds = {"at": "string", "id": "string", "store": store, "amount": "double"}
    fastavro.writer(out, fastavro.parse_schema(record_of(kinds)), some)
    return out.getvalue()


def config(folder: Path, source: str, epsilon: float = 1.0) -> Path:
    path = folder / "shop.yaml"
    text = SMALL.replace("{csv: events.csv}", source).replace("1.0", str(epsilon), 1)
    path.write_text(text.replace("continual_sum: tree, noise: gaussian", "noise: gaussian"))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "arrow", "avro", "csv"])
def test_a_glob_whose_second_file_cannot_be_read_is_refused_before_a_run(
    weir: Weir, tmp_path: Path, kind: str
) -> None:
    first = {"at": HOURS[0], "id": "1", "store": "north", "amount": 1.5}
    said = "key.column = 'store': is of type struct in"
    if kind == "csv":
        (tmp_path / "1.csv").write_text(f"at,id,store,amount\n{HOURS[0]},1,north,1\n")
        (tmp_path / "2.csv").write_text(f"at,id,shop,amount\n{HOURS[0]},1,north,1\n")
        said = "key.column = 'store': is not a column of"
    elif kind == "avro":
        inner = {"type": "record", "name": "inner", "fields": [{"name": "z", "type": "string"}]}
        (tmp_path / "1.avro").write_bytes(avro([first], "string"))
        (tmp_path / "2.avro").write_bytes(avro([first | {"store": {"z": "north"}}], inner))
    else:
        for name, store in (("1", "north"), ("2", {"z": "north"})):
            table = pa.Table.from_pylist([first | {"store": store}])
            alone_columns.write_to(tmp_path / f"{name}.{kind}", table)
    path = config(tmp_path, f"{{{kind}: '*.{kind}'}}")
    result = weir("run", path)
    told = " ".join(result.stderr.split())
    assert result.exit_code == 2 and said in told and f"2.{kind}" in told, told
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int64()], ids=str)
def test_no_user_moves_a_count_by_more_than_one(weir: Weir, tmp_path: Path, index: Any) -> None:
    """The 129th name of a column whose indices are small, and an id that is no text."""
    ids = [f"u{at}" for at in range(3_000)]
    stores = ["north"] * 3_000
    table = events_of(stores, names_in_pieces(index, ids))
    raw = pa.StringArray.from_buffers(1, *pa.array([b"\xff"], pa.binary()).buffers()[1:])
    one = pa.DictionaryArray.from_arrays(pa.array([0], index), raw)
    more = pa.table({"at": HOURS[:1], "id": one, "store": ["north"], "amount": [1.5]})
    source = config(tmp_path, "{parquet: events.parquet}", 100_000.0)
    found = []
    for some in (table, pa.concat_tables([table, more])):
        pq.write_table(some, tmp_path / "events.parquet", row_group_size=1 << 20)
        out = tmp_path / f"out{len(found)}"
        assert weir("run", source, "--set", f"sink.parquet={out}").exit_code == 0
        found.append([row["value"] for row in result_rows(out) if row["name"] == "visits"])
    (before, after) = (np.concatenate(one) for one in found)
    assert before.max() > 2_900 and np.abs(before - after).max() < 1.5


@pytest.mark.slow
def test_objects_over_several_lines_are_named(weir: Weir, tmp_path: Path) -> None:
    rows = [{"at": HOURS[at], "id": at, "store": "north", "amount": 1.5} for at in range(50)]
    data = tmp_path / "e.ndjson"
    for form in ({"indent": 2}, {"indent": 1, "separators": (",", ":")}):
        data.write_text("".join(json.dumps(row, **form) + "\n" for row in rows))
        for words in (("run", config(tmp_path, "{ndjson: e.ndjson}")), ("init", data)):
            result = weir(*words)
            told = " ".join(result.stderr.split())
            assert result.exit_code == 2
            assert "holds JSON objects over several lines; write one object a line" in told
            assert "jq -c ." in told and "north" not in told
    # Of some that are whole, the others are malformed one by one.
    lines = [json.dumps(row) for row in rows]
    data.write_text("\n".join([json.dumps(rows[0], indent=2), *lines * 4]) + "\n")
    assert weir("run", config(tmp_path, "{ndjson: e.ndjson}")).exit_code == 0


def test_what_reads_a_file_beside_a_run_reads_it_alike(tmp_path: Path) -> None:
    """``weir predict``, ``score`` and ``feed``: the same columns, and durations are no numbers."""
    ids = [f"u{at}" for at in range(300)]
    table = events_of(names_in_pieces(pa.int8(), ids), ids)
    took = pa.array(range(300), pa.duration("ms"))
    zoned = pa.array(range(300), pa.timestamp("ms", "Asia/Kolkata"))
    table = table.append_column("took", took).append_column("zoned", zoned)
    path = tmp_path / "e.parquet"
    pq.write_table(table, path, row_group_size=1 << 20)
    job = JobConfig.from_yaml(SMALL)
    for found in (
        pa.concat_tables(tables(path, ["store"], "DATA")),
        pa.Table.from_batches(read_batches(path, job)),
    ):
        assert found["store"].to_pylist() == ids
        assert found.schema.field("took").type == took.type
        assert found.schema.field("zoned").type == zoned.type
        with pytest.raises(ConfigError, match="'took': must hold numbers"):
            numbers(found, "took", "DATA")


def test_a_mark_is_none_of_a_files_words(tmp_path: Path) -> None:
    rows = [{"at": HOURS[at], "id": at, "store": "north", "amount": 1.5} for at in range(3)]
    path = tmp_path / "e.ndjson"
    path.write_text("".join("\ufeff" + json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (table,) = tables(path, ["amount"], "DATA")
    assert table["id"].to_pylist() == [0, 1, 2]
    (batch,) = read_batches(path, JobConfig.from_yaml(SMALL))
    assert batch.column("id").to_pylist() == [0, 1, 2]


def test_nanoseconds_of_older_writers_end_at_no_year(tmp_path: Path) -> None:
    """Times of 96 bits: read as nanoseconds of 64, the year 3237 was one of 2068."""
    from tests.transforms.events import collect
    from weir.transforms.decode.schema import EventSchema, Stamp
    from weir.transforms.formats.registry import FORMATS

    times = pa.array([10**12, 4 * 10**13, -(10**12)], pa.timestamp("ms"))
    sink = io.BytesIO()
    pq.write_table(pa.table({"t": times}), sink, use_deprecated_int96_timestamps=True)
    events, dead = collect(
        FORMATS["parquet"].decode_bytes(sink.getvalue(), EventSchema(Stamp("t")), "f")
    )
    assert not dead
    assert [event["@time"].year for event in events] == [2001, 3237, 1938]


def test_init_joins_no_column_that_some_file_cannot_give(weir: Weir, tmp_path: Path) -> None:
    plain = events_of(["north"] * 3, ["a", "b", "c"])
    for name, store in (("nothing", pa.nulls(3)), ("struct", pa.array([{"z": "north"}] * 3))):
        folder = tmp_path / name
        folder.mkdir()
        pq.write_table(plain, folder / "1.parquet")
        pq.write_table(plain.set_column(2, "store", store), folder / "2.parquet")
        result = weir("init", folder)
        told = " ".join(result.stderr.split())
        assert (result.exit_code == 0) == (name == "nothing"), told
        if name == "struct":
            assert "2.parquet" in told and "holds values of another type in store than" in told
