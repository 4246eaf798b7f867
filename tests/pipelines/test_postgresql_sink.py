"""Releases in a table of PostgreSQL: each once, by a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from psycopg.conninfo import make_conninfo

from tests.pipelines.conftest import SMALL, Weir, weir  # noqa: F401 - a fixture
from tests.pipelines.ledger.conftest import ROWS, database, postgres  # noqa: F401 - fixtures
from tests.transforms.releases import PLAN, batch
from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.sinks.postgresql import PostgresqlSink, ReleaseTableConfig
from weir.transforms.release.few import shape_for
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.sinks.postgresql import PostgresqlWriter, ReleaseTable, sql_type
from weir.transforms.sinks.rows import PATIENCE, TableRefused
from weir.transforms.sinks.sorted_table import sorted_table

FLAT: Any = shape_for(PLAN, "flat")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "events.csv").write_text("\n".join(ROWS) + "\n")
    (tmp_path / "a.key").write_text("ab" * 32)
    (tmp_path / "b.key").write_text("cd" * 32)
    for key in tmp_path.glob("*.key"):
        key.chmod(0o600)
    yield tmp_path


def config(folder: Path, sink: str, key: str = "a.key") -> Path:
    path = folder / "job.yaml"
    path.write_text(
        f"{SMALL.partition('sink:')[0]}secret: {{file: {folder / key}}}\nsink: {sink}\n"
    )
    return path


def rows(address: str, table: str = "releases") -> list[tuple[Any, ...]]:
    columns = ", ".join(f'"{name}"' for name in RELEASE_SCHEMA.names)
    with psycopg.connect(address) as base:
        found = base.execute(
            f'SELECT {columns} FROM {table} ORDER BY tick, key, name, "over", "index"'
        )
        return found.fetchall()


@pytest.mark.slow
def test_a_run_writes_what_files_would_hold_and_a_second_run_adds_nothing(
    job: Path,
    weir: Weir,  # noqa: F811
    database: str,  # noqa: F811
) -> None:
    table = f"{{postgresql: {{url: '{database}', table: releases}}}}"
    for _ in range(2):
        result = weir("run", config(job, table))
        assert result.exit_code == 0, result.output
    found = rows(database)
    result = weir("run", config(job, "{parquet: out/}"))
    assert result.exit_code == 0, result.output
    names = ["tick", "key", "name", "over", "index"]
    files = pq.read_table(job / "out").sort_by([(name, "ascending") for name in names])
    expected = [tuple(row[name] for name in RELEASE_SCHEMA.names) for row in files.to_pylist()]
    assert found == expected and len(found) > 20

    other = weir("run", config(job, table, "b.key"))
    assert other.exit_code == 1 and "differ" in other.output, other.output
    assert rows(database) == found, "what was published stays"


@pytest.mark.slow
def test_a_table_of_another_kind_is_refused_by_its_column(database: str) -> None:  # noqa: F811
    with psycopg.connect(database, autocommit=True) as base:
        base.execute("CREATE TABLE releases (release text, value integer)")
    sink = PostgresqlSink(postgresql=ReleaseTableConfig(url=database, table="releases"))
    with pytest.raises(ConfigError, match=r"does not have the column key \(text\)"):
        sink.prepare(PLAN, (), False)  # type: ignore[arg-type]
    kinds = {field.name: sql_type(field.type) for field in RELEASE_SCHEMA} | {"value": "integer"}
    fields = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
    with psycopg.connect(database, autocommit=True) as base:
        base.execute("DROP TABLE releases")
        base.execute(f"CREATE TABLE releases ({fields})")
    with pytest.raises(ConfigError, match=r"has, as integer, the column value \(double"):
        sink.prepare(PLAN, (), False)  # type: ignore[arg-type]


def written(table: ReleaseTable, *batches: Any) -> int:
    table.create()
    writer = PostgresqlWriter(table, FLAT)
    return sum(writer.write(0, 0, sorted_table([one])) for one in batches)


def test_names_are_quoted_and_texts_are_what_they_were(database: str) -> None:  # noqa: F811
    with psycopg.connect(database, autocommit=True) as base:
        base.execute('DROP SCHEMA IF EXISTS "Odd; name" CASCADE')
        base.execute('CREATE SCHEMA "Odd; name"')
    table = ReleaseTable(database, "Odd; name.select")
    keys = [b"\\.", b'say "so", or', b"", b"two\nlines", b"\\N", "Zürich".encode()]
    assert written(table, batch(0, 3, sorted(keys)), batch(0, 3, sorted(keys))) == 0
    found = rows(database, '"Odd; name"."select"')
    assert {row[1] for row in found} == {key.decode() for key in keys}
    assert len(found) == 3 * len(keys) * 4
    assert written(table, batch(0, 3, sorted(keys), add=1.0)) == len(found), "all differ"
    assert rows(database, '"Odd; name"."select"') == found


@pytest.mark.parametrize("name", ["r" * 63, "releases"])
def test_rows_are_unique_whatever_names_are_taken(database: str, name: str) -> None:  # noqa: F811
    with psycopg.connect(database) as base:
        base.execute("CREATE TABLE releases_place (id int)")
    for _ in range(2):
        assert written(ReleaseTable(database, name), *[batch(0, 1, [b"a"])] * 2) == 0
    assert len(rows(database, name)) == 4
    with psycopg.connect(database) as base:
        found = base.execute("SELECT count(*) FROM pg_indexes WHERE tablename = %s", (name,))
        assert found.fetchone() == (1,)


def test_a_margin_that_differs_contradicts_what_is_there(database: str) -> None:  # noqa: F811
    table, some = ReleaseTable(database, "releases"), batch(0, 1, [b"a"])
    assert written(table, some) == 0
    for name, count in (("low", 1), ("high", 2)):
        with psycopg.connect(database) as base:
            place = f"name = 'hist' AND \"index\" < {count}"
            base.execute(f"UPDATE releases SET {name} = {name} - 0.5 WHERE {place}")
        assert written(table, some) == count


@pytest.mark.slow
def test_texts_are_what_they_were_in_a_database_of_another_encoding(
    database: str,  # noqa: F811
    postgres: Any,  # noqa: F811
) -> None:
    with psycopg.connect(postgres.address, autocommit=True) as base:
        base.execute("DROP DATABASE IF EXISTS latin")
        base.execute("CREATE DATABASE latin ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C' "
                     "TEMPLATE template0")  # fmt: skip
    url = make_conninfo(postgres.address, dbname="latin")
    table = ReleaseTable(url, "releases")
    written(table, batch(0, 1, ["Zürich".encode()]))
    with psycopg.connect(url, client_encoding="UTF8") as base:
        assert base.execute("SELECT DISTINCT key FROM releases").fetchall() == [("Zürich",)]
    with pytest.raises(TableRefused, match="SQLSTATE 22P05"):
        written(table, batch(0, 1, ["Łódź".encode()]))
    with pytest.raises(TableRefused, match="a key with a zero byte"):
        written(table, batch(0, 1, [b"a\0"]))


def test_rows_without_ticks_are_unique_as_well(database: str) -> None:  # noqa: F811
    table = ReleaseTable(database, "releases")
    written(table, batch(0, 1, [b"a"]))
    with psycopg.connect(database) as base:
        base.execute("UPDATE releases SET tick = NULL, tick_start = NULL, tick_end = NULL")
        place = '(release, key, name, "over", "index")'
        columns = 'release, key, name, "over", "index"'
        with pytest.raises(psycopg.errors.UniqueViolation):
            base.execute(f"INSERT INTO releases {place} SELECT {columns} FROM releases LIMIT 1")


def test_a_server_that_is_away_is_waited_for_and_a_refusal_is_not(
    database: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, slept = ReleaseTable(database, "releases"), list[float]()
    written(table)
    connect, left = ReleaseTable.connect, [3]

    def away(self: ReleaseTable) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise psycopg.OperationalError("quoted content")
        return connect(self)

    monkeypatch.setattr(ReleaseTable, "connect", away)
    writer = PostgresqlWriter(table, FLAT, lambda: sum(slept), slept.append)
    ready = sorted_table([batch(0, 1, [b"a"])])
    assert writer.write(0, 0, ready) == 0 and len(slept) == 3
    assert writer.write(0, 0, sorted_table([])) == 0
    left[0] = 10**6
    with pytest.raises(
        WeirError, match=r"takes no rows, for 600 s by now .SQLSTATE 08000"
    ) as failed:
        writer.write(0, 0, ready)
    assert sum(slept) - 3 == pytest.approx(PATIENCE, abs=1.5) and "quoted" not in str(failed.value)
    left[0] = 0
    with psycopg.connect(database, autocommit=True) as base:
        base.execute("DROP TABLE releases")
    with pytest.raises(TableRefused, match="cannot be written to .SQLSTATE 42P01"):
        writer.write(0, 0, ready)


def test_a_connection_that_breaks_loses_and_repeats_nothing(
    database: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once right after it was made, and once when the rows are there but nobody heard of it."""
    table, slept = ReleaseTable(database, "releases"), list[float]()
    written(table)
    connect, commit, breaks = ReleaseTable.connect, psycopg.Connection.commit, ["begun", "ended"]

    def ended(self: ReleaseTable) -> Any:
        connection = connect(self)
        if breaks[:1] == ["begun"]:
            breaks.pop(0)
            with closing(psycopg.connect(database)) as other:
                pid = connection.info.backend_pid
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        return connection

    def unheard(self: Any) -> None:
        commit(self)
        if breaks == ["ended"]:
            breaks.pop()
            raise psycopg.OperationalError("quoted content")

    writer = PostgresqlWriter(table, FLAT, lambda: sum(slept), slept.append)
    monkeypatch.setattr(ReleaseTable, "connect", ended)
    monkeypatch.setattr(psycopg.Connection, "commit", unheard)
    assert writer.write(0, 0, sorted_table([batch(0, 1, [b"a"])])) == 0
    assert len(slept) == 2 and not breaks and len(rows(database)) == 4


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"url": "postgresql://weir:word@h/d"}, "holds a password"),
        ({"url": "postgresql://weir@h/d?password=word"}, "holds a password"),
        ({"url": "mysql://h/d"}, "must look like postgresql://"),
        ({"url": "postgresql://h/d", "table": "a.b.c"}, "cannot be a table"),
        ({"url": "postgresql://h/d", "password": {"file": "x"}}, "must be an absolute path"),
    ],
)
def test_an_address_is_checked(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as failed:
        ReleaseTableConfig.model_validate({"table": "t", **section})
    assert "word@" not in str(failed.value).split("[type=")[0]


def test_a_database_that_is_not_there_is_refused_before_a_run() -> None:
    sink = PostgresqlSink(
        postgresql=ReleaseTableConfig(url="postgresql://weir@127.0.0.1:1/d", table="releases")
    )
    with pytest.raises(ConfigError, match="cannot be made ready"):
        sink.prepare(PLAN, (), False)  # type: ignore[arg-type]
