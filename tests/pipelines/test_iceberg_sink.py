"""Releases in a table of Iceberg, in an SQL catalog and files of its own."""

from __future__ import annotations

import pickle
import socket
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import SMALL, Weir, weir  # noqa: F401 - a fixture
from tests.pipelines.ledger.conftest import ROWS
from tests.transforms.releases import PLAN, batch
from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.sinks.iceberg import IcebergConfig, IcebergSink
from weir.transforms.release.few import shape_for
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.sinks.iceberg import RANGE, IcebergTable, IcebergWriter
from weir.transforms.sinks.rows import PATIENCE, TableRefused
from weir.transforms.sinks.sorted_table import sorted_table

FLAT: Any = shape_for(PLAN, "flat")
PLACE = ["tick", "key", "name", "over", "index"]


def catalog(folder: Path) -> dict[str, Any]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'catalog.db'}",
        "warehouse": f"file://{folder / 'warehouse'}",
    }


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    made = IcebergTable("lab.releases", tuple(catalog(tmp_path).items()))
    made.create()
    return made


def rows(table: IcebergTable) -> list[dict[str, Any]]:
    content = table.load().scan().to_arrow().select(RELEASE_SCHEMA.names).cast(RELEASE_SCHEMA)
    sorted_rows: list[dict[str, Any]] = content.sort_by(
        [(n, "ascending") for n in PLACE]
    ).to_pylist()
    return sorted_rows


@pytest.mark.slow
def test_a_run_writes_what_files_would_hold_and_a_second_run_adds_nothing(
    tmp_path: Path,
    weir: Weir,  # noqa: F811
) -> None:
    (tmp_path / "events.csv").write_text("\n".join(ROWS) + "\n")
    for name, digits in (("a.key", "ab"), ("b.key", "cd")):
        (tmp_path / name).write_text(digits * 32)
        (tmp_path / name).chmod(0o600)
    table = IcebergTable("lab.releases", tuple(catalog(tmp_path).items()))
    place = f"{{iceberg: {{table: lab.releases, catalog: {catalog(tmp_path)}}}, every: 10}}"

    def run(sink: str, key: str = "a.key") -> Any:
        path, (head, _, _) = tmp_path / "job.yaml", SMALL.partition("sink:")
        path.write_text(f"{head}secret: {{file: {tmp_path / key}}}\nsink: {sink}\n")
        return weir("run", path)

    for _ in range(2):
        result = run(place)
        assert result.exit_code == 0, result.output
    assert run("{parquet: out/}").exit_code == 0
    files = pq.read_table(tmp_path / "out").sort_by([(name, "ascending") for name in PLACE])
    assert rows(table) == files.to_pylist()
    snapshots = table.load().metadata.snapshots
    assert [one.summary.additional_properties[RANGE] for one in snapshots] == [
        "0..9", "10..19", "20..23"
    ]  # fmt: skip

    other = run(place, "b.key")
    assert other.exit_code == 1 and "differ" in other.output, other.output
    assert rows(table) == files.to_pylist(), "what was published stays"


@pytest.mark.slow
def test_writers_at_the_same_time_add_each_row_once(table: IcebergTable) -> None:
    """Of two ranges and of the same one, as a worker that was given up."""
    shared = pickle.loads(pickle.dumps(IcebergWriter(table, FLAT)))
    ready = [sorted_table([batch(first, 2, [b"a", b"b"])]) for first in (0, 0, 2, 2)]
    divergent: list[int] = []
    threads = [
        threading.Thread(target=lambda one=one: divergent.append(shared.write(0, 1, one)))
        for one in ready
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert divergent == [0] * 4
    places = [tuple(row[name] for name in PLACE) for row in rows(table)]
    assert len(places) == len(set(places)) == 2 * 2 * 2 * 4


@pytest.mark.slow
def test_a_margin_that_differs_contradicts_what_is_there(table: IcebergTable) -> None:
    writer, ready = IcebergWriter(table, FLAT), sorted_table([batch(0, 1, [b"a"])])
    assert writer.write(0, 0, ready) == 0
    content = table.load().scan().to_arrow()
    low = pa.array([None if row is None else row - 0.5 for row in content["low"].to_pylist()])
    at = content.schema.get_field_index("low")
    table.load().overwrite(content.set_column(at, "low", low.cast(pa.float64())))
    assert writer.write(0, 0, ready) == len(low) - low.null_count > 0


def test_a_commit_that_nobody_heard_of_is_not_repeated(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitStateUnknownException
    from pyiceberg.table import Table

    append, slept = Table.append, list[float]()

    def unheard(self: Table, *rows: Any, **more: Any) -> None:
        append(self, *rows, **more)
        raise CommitStateUnknownException("quoted content")

    monkeypatch.setattr(Table, "append", unheard)
    writer = IcebergWriter(table, FLAT, lambda: sum(slept), slept.append)
    assert writer.write(0, 0, sorted_table([batch(0, 1, [b"a"])])) == 0
    assert len(slept) == 1 and len(rows(table)) == 4


def test_a_catalog_that_is_away_is_waited_for_and_a_refusal_is_not(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    load, left, error = IcebergTable.load, [3], [OSError("quoted content")]

    def away(self: IcebergTable) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error[0]
        return load(self)

    monkeypatch.setattr(IcebergTable, "load", away)
    writer = IcebergWriter(table, FLAT, lambda: sum(slept), slept.append)
    ready = sorted_table([batch(0, 1, [b"a"])])
    assert writer.write(0, 0, ready) == 0 and len(slept) == 3
    left[0] = 10**6
    with pytest.raises(WeirError, match=r"takes no rows, for 600 s by now .OSError") as failed:
        writer.write(0, 0, ready)
    assert sum(slept) - 3 == pytest.approx(PATIENCE, abs=1.5) and "quoted" not in str(failed.value)
    error[0] = type("NoSuchTableError", (Exception,), {})()  # type: ignore[assignment]
    with pytest.raises(TableRefused, match="cannot be written to .NoSuchTableError"):
        writer.write(0, 0, ready)
    left[0] = 0
    assert writer.write(0, 0, sorted_table([])) == 0


def test_a_table_of_another_kind_is_refused_by_its_column(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    own = load_catalog("lab", **catalog(tmp_path))
    own.create_namespace("lab")
    own.create_table("lab.releases", schema=pa.schema([("release", pa.string())]))
    own.create_table(
        "lab.other",
        schema=pa.schema(
            [pa.field(f.name, pa.int64() if f.name == "value" else f.type) for f in RELEASE_SCHEMA]
        ),
    )
    for name, words in (
        ("releases", r"does not have the column key \(string\)"),
        ("other", r"has, as int64, the column value \(double\)"),
    ):
        section = IcebergConfig(table=f"lab.{name}", catalog={**catalog(tmp_path), "name": "lab"})
        with pytest.raises(ConfigError, match=words):
            IcebergSink(iceberg=section).prepare(PLAN, (), False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"table": "releases"}, "Write NAMESPACE.TABLE"),
        ({"catalog": {"warehouse": "x"}}, "names none"),
        ({"catalog": {"type": "rest", "token": "word"}}, "is a secret"),
        ({"catalog": {"type": "rest", "s3": {"secret-access-key": "word"}}}, "is a secret"),
    ],
)
def test_a_catalog_is_checked(section: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        IcebergConfig.model_validate({"table": "a.b", "catalog": {"type": "rest"}, **section})


def test_a_catalog_that_is_not_there_is_refused_before_a_run() -> None:
    section = IcebergConfig(table="a.b", catalog={"type": "rest", "uri": "http://127.0.0.1:1"})
    with pytest.raises(ConfigError, match="cannot be made ready"):
        IcebergSink(iceberg=section).prepare(PLAN, (), False)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("login", [{}, {"credential": "weir:weir"}])
def test_a_rest_catalog_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch, login: dict[str, str]
) -> None:
    monkeypatch.setattr("weir.transforms.sinks.iceberg_rest.SILENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        table = IcebergTable("lab.releases", (("uri", address), *login.items()))
        with pytest.raises(Exception, match="timed out") as caught:
            table.load()
    assert IcebergWriter(table, FLAT).fault(caught.value) == ("ReadTimeout", True)
