"""Tables of DuckDB, SQLite and PostgreSQL as a source of runs."""

from __future__ import annotations

import gc
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.ledger.conftest import database, postgres  # noqa: F401 - fixtures
from weir.dpcore.config import yaml
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, load, loads
from weir.pipelines.graph.checks import check_runner, plan_of
from weir.transforms.sources.seal import SourceChanged
from weir.transforms.sources.sql.table import DATABASES

ROWS: list[Any] = [
    (f"2024-01-01T{i % 24:02d}:00:00Z", f"e{i}", ("north", "south")[i % 2], float(i), i % 3)
    for i in range(60)
]
COLUMNS = '"at" text, id text, store text, amount double precision, n integer'
TABLE = f'CREATE TABLE "my orders" ({COLUMNS})'


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, small: Path) -> str:
    """Address of a database with a table, and a view of it."""
    kind = str(request.param)
    (small.parent / "secret.key").write_text("07" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(small.read_text() + "secret: {file: secret.key}\n")
    text = "\n".join(",".join(map(str, row[:4])) for row in ROWS)
    (small.parent / "events.csv").write_text(f"at,id,store,amount\n{text}\n")
    place = small.parent / "shop.db"
    address = request.getfixturevalue("database") if kind == "postgresql" else str(place)
    write(kind, address, TABLE, 'CREATE VIEW seen AS SELECT * FROM "my orders"')
    write(kind, address, 'INSERT INTO "my orders" VALUES (?, ?, ?, ?, ?)', rows=ROWS)
    return address if kind == "postgresql" else f"{kind}:///shop.db"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """What a test left open is closed, or the next one would wait for its transaction."""
    yield
    gc.collect()


def write(kind: str, address: str, *statements: str, rows: list[Any] | None = None) -> None:
    connect: Any = {"sqlite": sqlite3, "duckdb": duckdb, "postgresql": psycopg}[kind].connect
    connection = connect(address)
    cursor = connection.cursor()
    for statement in statements:
        if rows is None:
            cursor.execute(statement)
        else:
            mark = "%s" if kind == "postgresql" else "?"
            cursor.executemany(statement.replace("?", mark), rows)
    connection.commit()
    connection.close()


def section(url: str, **more: object) -> list[str]:
    """Words of the command line."""
    fields = {"url": url, "table": '"my orders"', **more}
    text = ", ".join(f"{name}: {value!r}" for name, value in fields.items() if value is not None)
    return ["--set", f"source={{sql: {{{text}}}}}".replace("True", "true")]


def job_of(small: Path, url: str, **more: object) -> JobConfig:
    return load(small, [section(url, **more)[1]])


def releases(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("ticks-*")}


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["local", "direct"])
def test_a_table_is_read_as_a_file_of_its_rows(
    weir: Weir, small: Path, url: str, runner: str
) -> None:
    result = weir("run", small, *section(url), "--runner", runner)
    assert result.exit_code == 0, result.output
    assert weir("run", small, "--set", "sink.parquet=of_csv").exit_code == 0
    assert releases(small.parent / "out") == releases(small.parent / "of_csv") != {}
    words = ["--set", "sink.parquet=of_query"]
    query = 'SELECT "at", id, store, amount FROM "my orders"'
    more = section(url, table=None, query=query, rows_are_events=True)
    result = weir("run", small, *more, *words, "--runner", runner)
    assert result.exit_code == 0, result.output
    # The statement of the guarantee differs, and no bit of a release.
    assert releases(small.parent / "of_query") == releases(small.parent / "of_csv")


@pytest.mark.slow
def test_init_writes_a_config_that_runs(weir: Weir, small: Path, url: str) -> None:
    """From the names of columns, and how the first rows spell times: no value is in it."""
    path = url.replace("///", f"///{small.parent}/") if "shop.db" in url else url
    config = small.parent / "shop" / "orders.yaml"
    config.parent.mkdir()
    result = weir("init", f'{path}#"my orders"', "-o", config)
    assert result.exit_code == 0, result.output
    found = yaml.parse_mapping(config.read_text())
    assert found["name"] == "my-orders" and found["source"]["sql"]["url"] == path
    assert found["schema"] == {"time": "at", "id": "id"}
    assert "n (integer)" in config.read_text()
    for value in ("2024", "north", "e7"):
        assert value not in config.read_text()
    clock = ["--set", "clock.start=2024-01-01T00:00:00Z", "--set", "clock.end=2024-01-03T00:00:00Z"]
    result = weir("run", config, *clock)
    assert result.exit_code == 0 and re.search(r"\b60\s+events read", result.stdout), result.output
    chosen = weir("init", f'{path}#"my orders"', "--columns", "store,n")
    assert "schema: {}" in chosen.stdout and "amount" not in chosen.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("sqlite:///shop.db", "names no table. Write URL#TABLE"),
        ("sqlite:///shop.db#seen", "is a view"),
        ("sqlite:///shop.db#nothing", "is no table of sqlite:///"),
        ("sqlite:///shop.db#t --columns", "is no table of"),
        ("postgresql://u:word@h/d#t", "holds a password"),
        ("postgresql://u:word@h/d", "names no table"),
    ],
)
def test_init_says_which_table_it_cannot_read(
    weir: Weir, small: Path, monkeypatch: pytest.MonkeyPatch, address: str, words: str
) -> None:
    monkeypatch.chdir(small.parent)
    write("sqlite", "shop.db", TABLE, 'CREATE VIEW seen AS SELECT * FROM "my orders"')
    result = weir("init", address)
    assert result.exit_code == 2 and words in result.stderr, result.stderr
    assert "word@" not in result.stderr


def test_init_names_files_from_where_the_config_is(
    weir: Weir, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    write("sqlite", "shop.db", 'CREATE TABLE clocks ("at" time, user_id, n)')
    (small.parent / "jobs").mkdir()
    assert weir("init", "sqlite:///shop.db#clocks", "-o", "jobs/a.yaml").exit_code == 0
    found = yaml.parse_mapping(Path("jobs/a.yaml").read_text())
    assert found["source"] == {"sql": {"url": "sqlite:///../shop.db", "table": "clocks"}}
    assert "clock" not in found, "no row says how a time is spelled"
    assert weir("plan", "jobs/a.yaml").exit_code == 0


@pytest.mark.slow
def test_where_leaves_rows_out_in_the_database(weir: Weir, small: Path, url: str) -> None:
    result = weir("run", small, *section(url, where="n < 2 and store == 'north'"))
    assert result.exit_code == 0, result.output
    expected = sum(row[4] < 2 and row[2] == "north" for row in ROWS)
    assert re.search(rf"\b{expected}\s+events read", result.stdout), result.stdout


@pytest.mark.slow
def test_the_rows_stay_while_somebody_writes(small: Path, url: str) -> None:
    """What is sealed, looked at and read is one state; a later run sees the new one."""
    job = job_of(small, url)
    plan, kind = plan_of(job), url.partition(":")[0]
    assert job.source is not None
    job.source.check_plan(plan)
    digest, sealed = job.source.seal(b"k" * 32)
    opened: Any = sealed.read(plan, job.limits)

    def rows() -> int:
        return sum(item.events.num_rows for item in opened.rows.decode(opened.schema))

    before = rows()
    address = url if kind == "postgresql" else str(small.parent / "shop.db")
    change = "DELETE FROM \"my orders\" WHERE id = 'e7'"
    if kind == "postgresql":
        write(kind, address, change)
        assert rows() == before
    else:  # neither lets anybody write while it is read, but for SQLite with a log of its own
        with pytest.raises((sqlite3.OperationalError, duckdb.Error)):
            connection: Any = (sqlite3 if kind == "sqlite" else duckdb).connect(address)
            if kind == "sqlite":
                connection.execute("PRAGMA busy_timeout = 10")
            connection.execute(change)
            connection.commit()
        if kind == "sqlite":
            connection.close()
    opened.rows.close()
    if kind != "postgresql":
        write(kind, address, change)
    later = job_of(small, url).source
    assert later is not None
    later.check_plan(plan)
    assert later.seal(b"k" * 32)[0] != digest


def test_a_log_of_sqlite_lets_others_write(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "wal.db"
    write("sqlite", str(path), "PRAGMA journal_mode = WAL", TABLE)
    write("sqlite", str(path), 'INSERT INTO "my orders" VALUES (?, ?, ?, ?, ?)', rows=ROWS)
    job = job_of(small, f"sqlite:///{path}")
    plan = plan_of(job)
    assert job.source is not None
    opened: Any = job.source.read(plan, job.limits)
    write("sqlite", str(path), 'DELETE FROM "my orders"')
    assert sum(item.events.num_rows for item in opened.decode((0, -1))) == len(ROWS)


@pytest.mark.slow
def test_a_digest_is_of_rows_in_any_order_and_of_no_others(small: Path, url: str) -> None:
    def digest(key: bytes = b"k" * 32, **more: object) -> str | None:
        job = job_of(small, url, **more)
        assert job.source is not None
        job.source.check_plan(plan_of(job))
        value, sealed = job.source.seal(key)
        sealed._rows.close()  # type: ignore[attr-defined]
        return value

    def query(order: str) -> dict[str, object]:
        text = f'SELECT * FROM "my orders" ORDER BY id {order}'
        return {"table": None, "query": text, "rows_are_events": True}

    assert digest() == digest(**query("ASC")) == digest(**query("DESC"))
    assert digest() != digest(where="n < 3 and id != 'e7'") and digest() != digest(b"o" * 32)


def test_a_query_that_gives_other_rows_each_time_ends_the_run(small: Path) -> None:
    write("sqlite", str(small.parent / "shop.db"), TABLE)
    write("sqlite", str(small.parent / "shop.db"),
          'INSERT INTO "my orders" VALUES (?, ?, ?, ?, ?)', rows=ROWS)  # fmt: skip
    text = 'SELECT "at", id, store, amount + random() AS amount FROM "my orders"'
    job = job_of(small, "sqlite:///shop.db", table=None, query=text, rows_are_events=True)
    plan = plan_of(job)
    assert job.source is not None
    job.source.check_plan(plan)
    opened: Any = job.source.seal(b"k" * 32)[1].read(plan, job.limits)
    with pytest.raises(SourceChanged, match="the query gives others each time"):
        list(opened.decode((0, -1)))


@pytest.mark.slow
def test_what_is_no_table_of_rows_is_refused(weir: Weir, small: Path, url: str) -> None:
    for table, message in (
        ("seen", "source.sql.table = 'seen': is a view: its rows may come from joins"),
        ("none", "source.sql.table = 'none': is no table of "),
    ):
        result = weir("run", small, *section(url, table=table))
        assert result.exit_code == 2 and message in " ".join(result.stderr.split())
    result = weir("run", small, *section(url), "--set", "key.column=shop")
    assert result.exit_code == 2 and "shop': is not a column of table my orders" in result.stderr
    assert not (small.parent / "out").exists()


def test_a_query_is_in_the_statement(weir: Weir, small: Path) -> None:
    more = {"table": None, "query": "SELECT * FROM a JOIN b USING (id)", "rows_are_events": True}
    result = weir("plan", small, *section("duckdb:///shop.db", **more))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "one row of the query 'SELECT * FROM a JOIN b USING (id)'" in said
    assert "what one person does may change many rows" in said
    assert "of the query" not in weir("plan", small, *section("duckdb:///shop.db")).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "mysql://h/d"}, "sql.url = 'mysql://h/d': must be duckdb:///PATH"),
        ({"url": "mysql://u:hidden@h/d"}, "sql.url = 'mysql://...@h/d': must be"),
        ({"url": "sqlite:///:memory:"}, "names no file. Write sqlite:///shop.db"),
        ({"url": "sqlite://shop.db"}, "names no file"),
        ({"url": "postgresql://u:hidden@h/d"}, "sql.url = '...': holds a password"),
        ({"url": "postgresql://u@h/d?password=hidden"}, "sql.url = '...': holds a password"),
        ({"password": "hidden"}, "source.sql.password"),
        ({"password": {"env": "a b"}}, "is no name of an environment variable"),
        ({"password": {"file": "key"}}, "must be an absolute path"),
        ({"table": None}, "sql.table is needed, or query in place of it"),
        ({"query": "SELECT 1"}, "is needed, or query in place of it: write one of the two"),
        ({"table": None, "query": "SELECT 1"}, "sql.rows_are_events = false: must be true next to"),
        ({"table": None, "query": "DELETE FROM t", "rows_are_events": True}, "must be one SELECT."),
        ({"table": None, "query": "SELECT 1;", "rows_are_events": True}, "without a semicolon"),
        ({"rows_are_events": True}, "is for query: rows of a table always are"),
        ({"table": "a..b"}, "is no name of a table"),
        ({"columns": []}, "must name at least one column"),
        ({"columns": ["at", "id"]}, "'store': is not a column of source.sql.columns"),
    ],
)
def test_bad_sections_are_refused_by_name(fields: dict[str, Any], message: str) -> None:
    given = {"url": "postgresql://weir@h/d", "table": "t", **fields}
    source = repr({"sql": given}).replace("None", "null").replace("True", "true")
    text = SMALL.replace("{csv: events.csv}", source)
    with pytest.raises(ConfigError) as error:
        plan_of(loads(text))
    said = str(error.value)
    assert message in said and "hidden" not in said


def test_workers_elsewhere_are_refused(small: Path) -> None:
    job = job_of(small, "duckdb:///shop.db")
    assert job.source is not None
    for runner in ("prism", "flink", "dataflow"):
        with pytest.raises(ConfigError, match="a second connection may see other rows"):
            check_runner(job.source, None, runner)


@pytest.mark.slow
def test_a_password_is_read_where_it_is_used(
    small: Path,
    database: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And stands in no plan, no message and no state."""
    write("postgresql", database, TABLE)
    job = job_of(small, database, password={"env": "SHOP_KEY"})
    plan = plan_of(job)
    assert job.source is not None
    with pytest.raises(ConfigError, match="SHOP_KEY': is empty or not there"):
        job.source.read(plan, job.limits)
    monkeypatch.setenv("SHOP_KEY", "hidden-word")
    given: list[Any] = []
    connect = psycopg.connect

    def noted(*words: Any, **more: Any) -> Any:
        given.append(more)
        return connect(*words, **more)

    monkeypatch.setattr(psycopg, "connect", noted)
    opened: Any = job.source.read(plan, job.limits)
    assert given[0]["password"] == "hidden-word"
    for text in (repr(job), str(plan.to_json()), repr(opened.rows.database.table)):
        assert "hidden-word" not in text
    assert "SHOP_KEY" not in str(job.source.reading(job.limits))
    opened.rows.close()


def test_no_error_quotes_a_row(small: Path, database: str) -> None:  # noqa: F811
    """A query that fails at one row ends the run, and says nothing of the row."""
    write("postgresql", database, TABLE)
    write("postgresql", database, 'INSERT INTO "my orders" VALUES (?, ?, ?, ?, ?)', rows=ROWS)
    text = 'SELECT "at", id, store, id::integer AS amount FROM "my orders"'
    job = job_of(small, database, table=None, query=text, rows_are_events=True)
    assert job.source is not None
    with pytest.raises(ConfigError, match="InvalidTextRepresentation 22P02") as error:
        job.source.read(plan_of(job), job.limits)
    assert "e0" not in str(error.value).replace("re0", "") and error.value.__cause__ is None
    assert error.value.__suppress_context__
