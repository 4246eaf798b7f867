"""Tables as people have them: ``weir init``, ``plan`` and ``run`` without an edit, or a refusal
that says what to do."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.pipelines.conftest import Weir
from weir.dpcore.config import yaml

START = datetime(datetime.now(UTC).year - 1, 3, 1, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {
        "date": START + timedelta(days=i % 90, hours=i % 24),
        "customer_id": f"c{i % 40}",
        "store": ("north", "south", "\u00f6st")[i % 3],
        "amount": i % 50 + 0.25,
    }
    for i in range(300)
]

Rows = list[dict[str, Any]]


def text_rows(spell: Callable[[datetime], str] = datetime.isoformat, **more: Any) -> Rows:
    """Times as text, and other columns by what gives their values."""
    return [
        {**row, "date": spell(row["date"]), **{n: give(i, row) for n, give in more.items()}}
        for i, row in enumerate(ROWS)
    ]


def csv(rows: Rows, delimiter: str = ",") -> str:
    lines = [delimiter.join(rows[0])]
    lines += [delimiter.join("" if v is None else str(v) for v in r.values()) for r in rows]
    return "\n".join(lines) + "\n"


def nulls(folder: Path) -> str:
    """Every column lacks a value here and there."""
    rows = text_rows(amount=lambda i, row: None if i % 7 == 0 else row["amount"])
    rows[50]["store"] = rows[60]["customer_id"] = None
    (folder / "nulls.csv").write_text(csv(rows))
    return "nulls.csv"


def mixed_types(folder: Path) -> str:
    """Numbers, texts of numbers and words in one field."""
    rows = text_rows(amount=lambda i, row: [row["amount"], str(i), "n/a"][min(i % 40, 2)])
    rows = [{**row, "amount": row["amount"] if i % 40 < 3 else 1.5} for i, row in enumerate(rows)]
    (folder / "mixed.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "mixed.ndjson"


def zones(folder: Path) -> str:
    """Times with different offsets, and with none."""
    spelled = ("%Y-%m-%dT%H:%M:%S+02:00", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ")
    rows = text_rows()
    for i, row in enumerate(rows):
        row["date"] = ROWS[i]["date"].strftime(spelled[i % 3])
    (folder / "zones.csv").write_text(csv(rows))
    return "zones.csv"


def byte_order_mark(folder: Path) -> str:
    """As Excel saves CSV UTF-8."""
    (folder / "bom.csv").write_bytes(
        b"\xef\xbb\xbf" + csv(text_rows()).replace("\n", "\r\n").encode()
    )
    return "bom.csv"


def decimal_commas(folder: Path) -> str:
    """As a spreadsheet in much of Europe saves it."""
    rows = text_rows(
        lambda at: at.strftime("%d.%m.%Y"),
        amount=lambda i, row: str(row["amount"]).replace(".", ","),
    )
    (folder / "komma.csv").write_text(csv(rows, ";"))
    return "komma.csv"


def latin_1(folder: Path) -> str:
    """Text that is no UTF-8."""
    (folder / "latin.csv").write_bytes(csv(text_rows()).encode("latin-1"))
    return "latin.csv"


def dictionary_columns(folder: Path) -> str:
    """Categories of pandas, with its index."""
    frame = pd.DataFrame(ROWS)
    frame["store"] = frame["store"].astype("category")
    frame["customer_id"] = frame["customer_id"].astype("category")
    frame.to_parquet(folder / "frame.parquet")
    return "frame.parquet"


def partitions(folder: Path) -> str:
    """A folder for each store."""
    frame = pd.DataFrame(ROWS)
    frame.to_parquet(folder / "sales", partition_cols=["store"])
    return "sales"


def nested_json(folder: Path) -> str:
    """Fields inside of fields."""
    rows = [
        {"meta": {"date": row["date"], "customer_id": row["customer_id"]},
         "body": {"store": row["store"], "amount": row["amount"]}}
        for row in text_rows()
    ]  # fmt: skip
    (folder / "nested.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "nested.ndjson"


def json_array(folder: Path) -> str:
    """One array over many lines."""
    (folder / "array.json").write_text(json.dumps(text_rows(), indent=1))
    return "array.json"


def zstd(folder: Path) -> str:
    """Packed, with times as numbers."""
    rows = text_rows(lambda at: str(int(at.timestamp())))
    pack = zstandard.ZstdCompressor().compress
    (folder / "packed.csv.zst").write_bytes(pack(csv(rows).encode()))
    return "packed.csv.zst"


def decimals_and_dates(folder: Path) -> str:
    """As a database exports it: decimals, days, large text, integers that may be null."""
    table = pa.Table.from_pylist(ROWS)
    days = table["date"].cast(pa.timestamp("us")).cast(pa.date32())
    table = table.set_column(0, "date", days)
    table = table.set_column(3, "amount", table["amount"].cast(pa.decimal128(12, 2)))
    table = table.set_column(2, "store", table["store"].cast(pa.large_string()))
    pq.write_table(table, folder / "export.parquet")
    return "export.parquet"


def no_times(folder: Path) -> str:
    """One table without a time: one release."""
    rows = [{k: v for k, v in row.items() if k != "date"} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows), folder / "once.parquet")
    return "once.parquet"


def sqlite(folder: Path) -> str:
    """A file of a database."""
    connection = sqlite3.connect(folder / "shop.db")
    connection.execute("CREATE TABLE t (a)")
    connection.commit()
    connection.close()
    return "shop.db"


def workbook(folder: Path) -> str:
    (folder / "sheet.csv").write_bytes(b"PK\x03\x04 a workbook")
    return "sheet.csv"


def commands(weir: Weir, folder: Path, table: Callable[[Path], str], *more: str) -> list[Any]:
    """Results of init, plan and run, up to the first that is refused."""
    config, results = folder / "c.yaml", []
    words = ("init", folder / table(folder), "-o", config, *more)
    for command in (words, ("plan", config), ("run", config)):
        results.append(weir(*command))
        if results[-1].exit_code:
            break
    return results


NAMES = ("--columns", "date,customer_id,store,amount")
WORK: dict[Callable[[Path], str], tuple[dict[str, Any], tuple[str, ...]]] = {
    nulls: ({"time": "date", "unit": "customer_id"}, ()),
    zones: ({"time": "date", "unit": "customer_id"}, ()),
    byte_order_mark: ({"time": "date", "unit": "customer_id"}, ()),
    decimal_commas: (
        {"time": {"column": "date", "format": "%d.%m.%Y", "zone": "UTC"}, "unit": "customer_id"},
        (),
    ),
    dictionary_columns: ({"time": "date", "unit": "customer_id"}, ()),
    partitions: ({"time": "date", "unit": "customer_id"}, ()),
    zstd: (
        {"time": {"column": "date", "format": "epoch_s", "zone": "UTC"}, "unit": "customer_id"},
        (),
    ),
    decimals_and_dates: ({"time": "date", "unit": "customer_id"}, ()),
    no_times: ({"unit": "customer_id"}, ()),
    # Keys of JSON may be people: somebody has to say which are names.
    mixed_types: ({"time": "date", "unit": "customer_id"}, NAMES),
    latin_1: ({"time": "date", "unit": "customer_id"}, ("--encoding", "latin-1")),
}
"""Table -> its schema, and what has to be said to ``weir init``."""
REFUSED: dict[Callable[[Path], str], tuple[str, str]] = {
    mixed_types: ("plan", "schema.time = '<COLUMN>': is a placeholder of `weir init`: fill it in"),
    nested_json: ("plan", "schema.time = '<COLUMN>': is a placeholder of `weir init`: fill it in"),
    latin_1: ("init", "say in which encoding, like --encoding latin-1 or --encoding cp1252"),
    json_array: ("init", "holds one JSON array; save it as NDJSON, one object a line"),
    sqlite: ("init", "read by source: {sql: {url: 'sqlite:///FILE', table: NAME}}"),
    workbook: ("init", "holds a zip archive or a workbook; unpack it, or save its sheet as CSV"),
}
"""Table -> the command that refuses it, and what it says to do."""


@pytest.mark.slow
@pytest.mark.parametrize("table", WORK, ids=lambda table: table.__name__)
def test_a_table_works_without_an_edit(
    weir: Weir, tmp_path: Path, table: Callable[[Path], str]
) -> None:
    schema, more = WORK[table]
    results = commands(weir, tmp_path, table, *more)
    assert [result.exit_code for result in results] == [0, 0, 0], results[-1].output
    config = yaml.parse_mapping((tmp_path / "c.yaml").read_text())
    found = {name: value for name, value in config["schema"].items() if name != "id"}
    assert found == schema
    assert re.search(r"\b(298|300)\s+events read", results[-1].stdout), results[-1].stdout
    if table is partitions:
        place = {"dataset": str(tmp_path / "sales"), "partitioning": "hive"}
        assert config["source"] == {"parquet": place}
        assert "# key: {column: store" in (tmp_path / "c.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("table", REFUSED, ids=lambda table: table.__name__)
def test_a_table_is_refused_with_what_to_do(
    weir: Weir, tmp_path: Path, table: Callable[[Path], str]
) -> None:
    command, message = REFUSED[table]
    results = commands(weir, tmp_path, table)
    assert len(results) == ["init", "plan", "run"].index(command) + 1
    assert results[-1].exit_code == 2 and message in " ".join(results[-1].stderr.split())


@pytest.mark.slow
def test_numbers_with_a_comma_are_refused_as_values(weir: Weir, tmp_path: Path) -> None:
    assert [r.exit_code for r in commands(weir, tmp_path, decimal_commas)] == [0, 0, 0]
    sums = "aggregates={paid: {sum: amount, clip: [0, 50]}}"
    words = ("--set", sums, "--set", f"sink.parquet={tmp_path / 'sums'}")
    result = weir("run", tmp_path / "c.yaml", *words)
    assert result.exit_code == 2
    assert "written with a decimal point" in " ".join(result.stderr.split())
