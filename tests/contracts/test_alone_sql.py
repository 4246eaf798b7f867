"""Each row of a table is read alone, in every database: whatever stands next to it, the same values
and reasons; no value makes the read of another fail."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tests.contracts.test_alone import Outcome, _by_place
from tests.pipelines.ledger.conftest import database, postgres  # noqa: F401 - fixtures
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.sources.sql.opened import DATABASES, TableRows, open_database
from weir.transforms.sources.sql.table import SqlTable

ROLES = {
    "time": EventSchema(Stamp("v")),
    "epoch": EventSchema(Stamp("v", "epoch_s")),
    "key": EventSchema(keys=("v",)),
    "id": EventSchema(id="v"),
    "unit": EventSchema(unit="v"),
    "number": EventSchema(columns={"v": "number"}),
    "text": EventSchema(columns={"v": "text"}),
    "boolean": EventSchema(columns={"v": "boolean"}),
    "any": EventSchema(columns={"v": "any"}),
}

Columns = dict[str, list[str]]
"""Type of a column -> its values, as SQL spells them."""

SQLITE: Columns = {
    "": [
        *("1", "0", "-1", "9223372036854775807", "2.5", "1e999", "-1e999", "0.1", "NULL", "''"),
        *("'7'", "'0x1f'", "'north'", "x'ff'", "CAST(x'61ff' AS TEXT)", "x'6f6b'", "'nan'"),
        *("'2024-01-01'", "'2024-13-01'", "'2024-01-01T00:00:00+02:00'", "1704067200", "' 8 '"),
    ],
    "INTEGER": ["1", "'seven'", "'8'", "2.5", "NULL", "x'ff'", "9223372036854775808"],
    "BOOLEAN": ["0", "1", "2", "'true'", "NULL", "'no'"],
    "TEXT": ["1", "'a'", "NULL", "x'ff'", "1e300"],
}
TYPED: Columns = {
    "integer": ["1", "-2147483648", "NULL"],
    "bigint": ["9223372036854775807", "9007199254740993", "NULL"],
    "double precision": ["'NaN'", "'Infinity'", "'-Infinity'", "0.1", "1e308", "5e-324", "NULL"],
    "numeric(38, 10)": ["1.5", "9999999999999999999999999999.9999999999", "NULL"],
    "boolean": ["true", "false", "NULL"],
    "date": ["'2024-01-01'", "'infinity'", "'-infinity'", "'0044-03-15 BC'", "NULL"],
    "timestamp": ["'2024-01-01 00:00:00.000001'", "'infinity'", "'12024-01-01'", "NULL"],
    "timestamptz": ["'2024-01-01 00:00:00+05:30'", "'infinity'", "'-infinity'", "NULL"],
    "text": ["'north'", "''", "'7'", "'1e400'", "'\u00fc'", "'2024-01-01'", "'true'", "NULL"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "NULL"],
    "interval": ["'1 day'", "NULL"],
}
POSTGRES: Columns = {
    **TYPED,
    "numeric": ["'NaN'", "1e1000", "'Infinity'", "0.1", "123456789012345678901234567890", "NULL"],
    "bytea": ["'\\xff'", "NULL"],
    "json": ["'{\"a\": 1}'", "'7'", "NULL"],
    "integer[]": ["'{1,2}'", "NULL"],
}
DUCKDB: Columns = {
    **{kind: values for kind, values in TYPED.items() if "BC" not in "".join(values)},
    "date": ["'2024-01-01'", "'infinity'", "'0044-03-15 (BC)'", "NULL"],
    "hugeint": ["170141183460469231731687303715884105727", "-1", "NULL"],
    "enum('a', 'b')": ["'a'", "'b'", "NULL"],
    "timestamp_s": ["'2024-01-01'", "NULL"],
    "timestamp_ns": ["'2024-01-01 00:00:00.000000001'", "NULL"],
    "blob": ["'\\xFF'", "NULL"],
    "integer[]": ["[1, 2]", "NULL"],
}
COLUMNS = {"sqlite": SQLITE, "duckdb": DUCKDB, "postgresql": POSTGRES}

Write = Callable[[str, Sequence[str]], SqlTable]
"""Type of the column and values -> the table that holds them, one row each."""


@pytest.fixture(params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def write(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Write]:
    count = 0
    address = request.getfixturevalue("database") if kind == "postgresql" else ""

    def statements(column: str, values: Sequence[str], name: str) -> list[str]:
        rows = [f'INSERT INTO "{name}" VALUES ({at}, {value})' for at, value in enumerate(values)]
        return [f'CREATE TABLE "{name}" (i integer, v {column})', *rows]

    def written(column: str, values: Sequence[str]) -> SqlTable:
        nonlocal count
        count += 1
        path = tmp_path / f"{count}.db"
        if kind == "postgresql":
            name = f"t{count}"
            with psycopg.connect(address, autocommit=True) as server:
                for statement in statements(column, values, name):
                    server.execute(statement)  # type: ignore[arg-type]
            return SqlTable(address, (name,))
        connect: Any = sqlite3.connect if kind == "sqlite" else duckdb.connect
        connection = connect(str(path))
        for statement in statements(column, values, "t"):
            connection.execute(statement)
        if kind == "sqlite":
            connection.commit()
        connection.close()
        return SqlTable(f"{kind}:///{path}", ("t",))

    yield written


def outcomes(table: SqlTable) -> dict[str, list[Outcome]]:
    """Role -> what becomes of each row, by its number."""
    reading, results = TableRows(open_database(table, None)), {}
    for role, schema in ROLES.items():
        found = _by_place(reading.decode(schema))
        rows = sum(map(len, reading.batches(schema)))
        assert {source for source, _ in found} <= {table.name}
        results[role] = [found.get((table.name, at), (None, ())) for at in range(rows)]
    reading.close()
    return results


@pytest.mark.slow
def test_a_row_is_read_alone(kind: str, write: Write) -> None:
    for column, values in COLUMNS[kind].items():
        together = outcomes(write(column, values))
        turned = outcomes(write(column, values[::-1]))
        alone = [outcomes(write(column, [value])) for value in values]
        for role in ROLES:
            assert len(together[role]) == len(values)
            assert together[role] == turned[role][::-1], (column, role)
            assert together[role] == [one[role][0] for one in alone], (column, role)


@pytest.mark.slow
def test_values_mean_what_they_are(kind: str, write: Write) -> None:
    """Digits are kept, and what is no number or no time is missing, with a reason."""
    column = {"sqlite": "INTEGER", "duckdb": "bigint", "postgresql": "bigint"}[kind]
    first, _ = outcomes(write(column, ["9007199254740993", "NULL"]))["id"]
    assert dict(first[0])["@id"][1] == "9007199254740993"
    column = {"sqlite": "REAL", "duckdb": "timestamp", "postgresql": "timestamptz"}[kind]
    table = write(column, ["'seven'" if kind == "sqlite" else "'infinity'"])
    role = "number" if kind == "sqlite" else "time"
    ((_, letters),) = outcomes(table)[role]
    assert letters == (("v", "not_a_number" if kind == "sqlite" else "unreadable_time"),)


def count(table: SqlTable) -> Counter[str]:
    reading = TableRows(open_database(table, None))
    try:
        rows = [row for some in reading.batches(ROLES["text"]) for row in some]
        return Counter(_shown(value) for (value,) in rows)
    finally:
        reading.close()


def _shown(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.mark.slow
def test_a_condition_leaves_out_rows_one_by_one(kind: str, write: Write) -> None:
    column = {"sqlite": "", "duckdb": "double", "postgresql": "double precision"}[kind]
    values = ["1", "7", "NULL", *(["'x'", "x'ff'"] if kind == "sqlite" else ["'NaN'"])]
    numbers = write(column, values)
    if kind == "sqlite":  # declared as nothing, it is compared with nothing
        with pytest.raises(ConfigError, match="a column of type other"):
            count(SqlTable(numbers.url, numbers.table, where="v > 5"))
        numbers = write("INTEGER", values)
    for where, expected in {
        "v == 7": {"7"}, "v in [1, 7]": {"1", "7"}, "v < 5": {"1"}, "not v < 5 and v < 9": {"7"},
        "1 <= v < 7": {"1"}, "v is None": {"None"}, "5 > v or v is None": {"1", "None"},
    }.items():  # fmt: skip
        found = count(SqlTable(numbers.url, numbers.table, where=where))
        assert {one.removesuffix(".0") for one in found} == expected, where
    texts = write("text", ["'a'", "'b%'", "NULL", "'''; DROP TABLE t; --'"])
    for where, expected in {
        "v == 'a'": {"a"}, "v != 'a'": {"b%", "'; DROP TABLE t; --"}, "v == 'b%'": {"b%"},
        "v not in ['a']": {"b%", "'; DROP TABLE t; --"}, "v is not None and v < 'b'": None,
        "v == \"'; DROP TABLE t; --\"": {"'; DROP TABLE t; --"},
    }.items():  # fmt: skip
        found = count(SqlTable(texts.url, texts.table, where=where))
        assert expected is None or set(found) == expected, where
    for where, message in {
        "v > 5": "compares v, a column of type text, with a number",
        "v == w": "compares more than a column with constants",
        "w == 'a'": "'w': is no column of table",
        "v": "compares v, a column of type text, with a boolean",
    }.items():
        with pytest.raises(ConfigError, match=message):
            count(SqlTable(texts.url, texts.table, where=where))


@pytest.mark.slow
def test_times_are_compared_with_times(kind: str, write: Write) -> None:
    if kind == "sqlite":
        table = write("TIMESTAMP", ["'2024-01-01'", "'2025-01-01'", "NULL"])
    else:
        table = write("timestamp", ["'2024-01-01'", "'2025-01-01'", "NULL", "'infinity'"])
    found = count(SqlTable(table.url, table.table, where="v < '2024-06-01'"))
    assert [one[:10] for one in found] == ["2024-01-01"]
    if kind != "sqlite":
        with pytest.raises(ConfigError, match="failed while .* was read") as error:
            count(SqlTable(table.url, table.table, where="v < 'soon'"))
        assert "soon" not in str(error.value)
