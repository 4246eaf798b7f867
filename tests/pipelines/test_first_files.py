"""Wrong input ends a run with exit 2 before anything is written."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from weir.transforms.sources import file_checks as first_files

pytestmark = pytest.mark.slow

TEXT = """\
name: ratings
source: {SOURCE}
schema: {time: at}
key: {column: city, declared: [Ulm, Bonn]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-05T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates: {rating: {mean: rating, clip: [1, 5]}}
sink: {csv: out/}
"""
SECRET = "Rumpelstiltskin"


def records(n: int = 40, day: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "at": f"2025-01-{day + i % 4:02d}T00:00:00Z",
            "seconds": 1_735_693_200 + i,
            "city": ("Ulm", "Bonn")[i % 2],
            "rating": 1 + i % 5,
            SECRET: SECRET,
        }
        for i in range(n)
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write(tmp_path / "r.ndjson", records())
    path = tmp_path / "ratings.yaml"
    path.write_text(TEXT.replace("SOURCE", "ndjson: r.ndjson"))
    return path


def change(config: Path, *pairs: tuple[str, str]) -> Path:
    text = config.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    return config


def refused(weir: Weir, config: Path) -> str:
    """The message of a run that is refused and has written nothing."""
    result = weir("run", config)
    assert result.exit_code == 2, result.output
    assert not (config.parent / "out").exists()
    assert SECRET not in result.output
    return " ".join(result.stderr.split())


def test_records_that_fit_run(weir: Weir, config: Path) -> None:
    result = weir("run", config)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("mean: rating", "mean: ratng"), ".mean = 'ratng': is not in any of the 40 records"),
        (("mean: rating", "mean: city"), ".mean = 'city': holds no numbers"),
        (("time: at", "time: when"), "schema.time.column = 'when'"),
        (
            ("time: at", "time: {column: seconds, format: epoch_ms}"),
            "write schema.time.format: epoch_s.",
        ),
        (("column: city", "column: town"), "key.column = 'town'"),
        (("[Ulm, Bonn]", "[ULM, BONN]"), "for spaces and capitals, 40 would be"),
        (("2025-01-0", "2026-01-0"), "40 before its start"),
    ],
)
def test_lines_of_json_of_which_none_fits(
    weir: Weir, config: Path, pair: tuple[str, str], words: str
) -> None:
    assert words in refused(weir, change(config, pair))


def test_the_look_can_be_left_out(weir: Weir, config: Path) -> None:
    change(config, ("[Ulm, Bonn]", "[Rome]"), ("sink:", "limits: {first_look: false}\nsink:"))
    assert weir("run", config).exit_code in (0, 1)
    assert (config.parent / "out" / "_plan.json").exists()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_other_formats(weir: Weir, config: Path, form: str) -> None:
    write(config.parent / f"r.{form}", records())
    change(config, ("ndjson: r.ndjson", f"{form}: r.{form}"))
    assert weir("run", config).exit_code == 0
    (config.parent / "out").rename(config.parent / "before")
    assert "holds no numbers" in refused(weir, change(config, ("mean: rating", "mean: at"))) or (
        form == "parquet"
    )
    change(config, ("mean: at", "mean: rating"))
    assert "3 records" not in refused(weir, change(config, ("2025-01-0", "2026-01-0")))


def test_a_column_of_a_header_may_be_empty(weir: Weir, config: Path) -> None:
    write(config.parent / "r.csv", [{**row, "rating": ""} for row in records()])
    assert weir("run", change(config, ("ndjson: r.ndjson", "csv: r.csv"))).exit_code in (0, 1)


def test_empty_files_and_a_single_event_run(weir: Weir, config: Path) -> None:
    (config.parent / "r.ndjson").write_text("")
    assert weir("run", config).exit_code == 0
    (config.parent / "out").rename(config.parent / "before")
    write(config.parent / "r.ndjson", records(1))
    assert weir("run", config).exit_code == 0


def test_other_files_are_looked_into_before_any_is_refused(weir: Weir, config: Path) -> None:
    for month in range(12):
        rows = [{**row, "at": f"2024-{1 + month:02d}-01T00:00:00Z"} for row in records(5)]
        write(config.parent / f"e{month:02d}.ndjson", rows)
    change(config, ("r.ndjson", "e*.ndjson"))
    told = refused(weir, config)
    assert "before its start" in told and "e*.ndjson" in told
    write(config.parent / "e12.ndjson", records(5))
    assert weir("run", config, "--set", "limits.refused=1").exit_code == 0


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_one_big_file_is_looked_into_at_its_end_too(
    weir: Weir, config: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(first_files, "FAR", 20)
    monkeypatch.setattr(first_files, "CHUNK_BYTES", 512)
    early = [{**row, "at": "2024-05-01T00:00:00Z"} for row in records(200)]
    write(config.parent / f"r.{form}", [*early, *records(40)])
    change(config, ("ndjson: r.ndjson", f"{form}: r.{form}"))
    assert weir("run", config, "--set", "limits.refused=1").exit_code == 0
    write(config.parent / f"r.{form}", early)
    (config.parent / "out").rename(config.parent / "before")
    assert "before its start" in refused(weir, config)


def test_a_column_of_the_predicate_that_no_record_has_is_told_of(weir: Weir, config: Path) -> None:
    result = weir("run", change(config, ("sink:", "where: not (refund > 0)\nsink:")))
    told = " ".join(result.stderr.split())
    assert result.exit_code == 0 and "where reads `refund`, in none of the 40 records" in told
    (config.parent / "out").rename(config.parent / "before")
    result = weir("run", change(config, ("refund > 0", "rating > 4")))
    assert result.exit_code == 0 and "where reads" not in result.stderr


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
def test_keys_that_are_spelt_as_other_numbers_say_so(weir: Weir, config: Path, form: str) -> None:
    rows = [{**row, "city": float(row["rating"])} for row in records()]
    if form == "ndjson":
        rows = [{**row, "city": str(row["city"])} for row in rows]
    write(config.parent / f"r.{form}", rows)
    change(config, ("ndjson: r.ndjson", f"{form}: r.{form}"), ("[Ulm, Bonn]", '["1", "2"]'))
    told = refused(weir, config)
    if form == "parquet":
        assert "is of type double" in told and "Write them as whole numbers (1) or as text" in told
        return
    # Two of the five ratings are declared, but for how they are spelt.
    assert "As numbers 16 would be, but 1, 1.0 and 01 are different texts" in told
    change(config, ('["1", "2"]', '["1.0", "2.0"]'), ("sink:", "limits: {refused: 1}\nsink:"))
    assert weir("run", config).exit_code == 0


def test_a_glob_of_folders_says_how_to_go_into_them(weir: Weir, config: Path) -> None:
    for city in ("Ulm", "Bonn"):
        folder = config.parent / "hive" / f"city={city}"
        folder.mkdir(parents=True)
        rows = [{"at": row["at"], "rating": row["rating"]} for row in records()]
        write(folder / "part.parquet", rows)
    before = "ndjson: r.ndjson"
    for path in ("hive", "hive/", "hive/*", "hive/c*"):
        change(config, (before, f"parquet: {path}"))
        before = f"parquet: {path}"
        told = refused(weir, config)
        assert "matches folders and no file. Write a glob that goes into them" in told
        below = told.partition("go into them, like ")[2] or told.rpartition(" like ")[2]
        assert below.startswith(str(config.parent)) and below.endswith("*/*.parquet.")
        change(config, (before, f"parquet: {below[:-1]}"))
        before = f"parquet: {below[:-1]}"
        told = refused(weir, config)
    assert "city is in the names of folders, which are read of a dataset: write source: " in told
    change(config, (before, "parquet: none/*"))
    assert "matches no file; check the path" in refused(weir, config)


def test_a_text_without_quotes_in_a_predicate_is_told_of(weir: Weir, config: Path) -> None:
    write(config.parent / "r.csv", [{k: row[k] for k in row if k != SECRET} for row in records()])
    change(config, ("ndjson: r.ndjson", "csv: r.csv"), ("sink:", "where: city == Ulm\nsink:"))
    assert "If it is a text, put it in quotes: 'Ulm'." in refused(weir, config)
