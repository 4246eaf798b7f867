"""A job whose records get columns from a public table: planned, run, released, dry-run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import weir as product
from tests.pipelines.conftest import SMALL, Weir
from weir.dpcore.config import yaml
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of

ROWS = [
    {"at": f"2024-01-01T{i % 24:02d}:00:00Z", "id": f"e{i}", "zip": f"0{i % 4}", "amount": i}
    for i in range(60)
]
STORES = "zip,store,floor\n00,north,1\n01,south,2\n02,north,3\n"
LOOKUP = "lookup: {public: zips.csv, on: zip, add: [store]}\n"


@pytest.fixture
def job(small: Path) -> Path:
    """With a table next to it, and the same events with the column in them."""
    (small.parent / "secret.key").write_text("07" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(SMALL + LOOKUP)
    (small.parent / "zips.csv").write_text(STORES)
    lines = [",".join(map(str, row.values())) for row in ROWS]
    (small.parent / "events.csv").write_text("at,id,zip,amount\n" + "\n".join(lines) + "\n")
    return small


@pytest.mark.parametrize("runner", ["local", pytest.param("direct", marks=pytest.mark.slow)])
def test_a_run_counts_by_the_column_of_the_table(weir: Weir, job: Path, runner: str) -> None:
    result = weir("run", job, "--runner", runner)
    assert result.exit_code == 1, "zip 03 is not in the table: its records have no key"
    assert re.search(r"\b15\b.*store", " ".join(result.stderr.split())), result.stderr
    (job.parent / "zips.csv").write_text(STORES + "03,south,4\n")
    result = weir("run", job, "--runner", runner, "--set", "sink.parquet=whole")
    assert result.exit_code == 0, result.output
    assert re.search(r"\b60\s+events read", result.stdout), result.stdout


def test_the_table_is_part_of_the_plan(weir: Weir, job: Path) -> None:
    shown = weir("plan", job)
    assert shown.exit_code == 0, shown.output
    digest = plan_of(load(job)).canonical["lookup"]["digest"]
    said = " ".join(shown.stdout.split())
    assert "with columns of a table store by zip from" in said
    assert f"(sha256 {digest[:12]})" in said
    before = plan_of(load(job)).digest
    (job.parent / "zips.csv").write_text(STORES.replace("02,north", "02,south"))
    assert plan_of(load(job)).digest != before
    (job.parent / "zips.csv").write_text(STORES.replace(",3\n", ",4\n"))
    assert plan_of(load(job)).digest == before, "a column that is not added"
    shutil.move(job.parent / "zips.csv", job.parent / "moved.csv")
    moved = load(job, ["lookup.public=moved.csv"])
    assert plan_of(moved).digest == before, "where the file lies"
    with pytest.raises(ConfigError, match="lookup.public = .*zips.csv': cannot be read"):
        plan_of(load(job))


@pytest.mark.slow
def test_a_frame_is_joined_too(job: Path) -> None:
    (job.parent / "zips.csv").write_text(STORES + "03,south,4\n")
    data = yaml.parse_mapping(job.read_text(), {})
    data["lookup"]["public"] = str(job.parent / "zips.csv")
    for name in ("source", "sink"):
        del data[name]
    released = product.release(pa.Table.from_pylist(ROWS), data)
    assert {row.key for row in released} == {"north", "south"}
    with pytest.raises(ConfigError, match="has not been read, and a plan is made of what it says"):
        Plan.from_yaml(SMALL + LOOKUP)


@pytest.mark.slow
def test_dry_runs_and_synthetic_events(weir: Weir, job: Path) -> None:
    result = weir("feed", job, "--events", "10", "--to", job.parent / "made.csv")
    assert result.exit_code == 2 and "lookup = " in result.stderr
    result = weir("rehearse", job)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("{public: a.csv, on: [], add: [b]}", "lookup.on = []: must name a column of records"),
        ("{public: a.csv, on: a, add: []}", "lookup.add = []: must name at least one column"),
        ("{public: a.csv, on: a, add: [a]}", "lookup.add = ['a']: adds a, which on names"),
        ("{public: a.csv, on: a, add: [b, b]}", "lookup.add = ['b', 'b']: names a column twice"),
        ("{public: a.csv, on: [a, b, c, d], add: [e]}", "lookup.on = "),
        ("{file: a.csv, on: a, add: [b]}", "lookup.file = 'a.csv': is not a field"),
        ("a.csv", "lookup = 'a.csv': must be a section"),
    ],
)
def test_bad_sections_are_refused_by_name(job: Path, section: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(job, [f"lookup={section}"])
    assert message in str(error.value)
