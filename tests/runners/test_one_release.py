"""A config without a clock, or with bounds in the order of hashes: the same bits everywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

CONFIG = """\
name: visits
source: {csv: rows.csv}
schema: {unit: user}
key: {column: city, discover: {min_users: 3}}
privacy: {epsilon: 2, delta: 1e-6, unit: user, contributions: {keys: 2, events: 5}}
aggregates:
  visits: {count: events}
  people: {count: users}
  spent: {mean: spent, clip: [0, 50]}
secret: {file: secret.key}
sink: {parquet: out/}
"""


CLOCKED = {
    "{unit: user}": "{unit: user, time: at}",
    "discover: {min_users: 3}": "declared: [Oslo, Rome]",
    "unit: user, contributions: {keys: 2, events: 5}": "unit: user, per: 10d, protect_for: all, "
    "contributions: {ticks: 3, keys: 2, events: 5, total: 4, order: hash}",
    "secret:": "clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-31T00:00:00Z}\n"
    "secret:",
}
BY_HASH = CONFIG
for old, new in CLOCKED.items():
    BY_HASH = BY_HASH.replace(old, new)


def released(folder: Path, runner: str, config: str = CONFIG) -> list[dict[str, Any]]:
    (folder / "secret.key").write_text("ab" * 32)
    (folder / "secret.key").chmod(0o600)
    (folder / "job.yaml").write_text(config)
    cities = ("Oslo", "Rome", "Bern", "Pau")
    rows = [
        f"u{i * 7 % 300},{cities[i * i % 4]},{i % 60},2025-01-{i * 11 % 30 + 1:02d}"
        for i in range(2_000)
    ]
    (folder / "rows.csv").write_text("\n".join(["user,city,spent,at", *rows]) + "\n")
    words = ["run", "job.yaml", "--runner", runner, "--set", f"sink.parquet={runner}/"]
    done = subprocess.run(
        [sys.executable, "-m", "weir", *words], cwd=folder, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = pq.read_table(sorted((folder / runner).glob("ticks-*.parquet")))
    return sorted(table.to_pylist(), key=lambda row: (row["key"], row["name"], row["tick"]))


@pytest.fixture
def local(tmp_path: Path) -> list[dict[str, Any]]:
    rows = released(tmp_path, "local")
    assert len(rows) >= 6 and {row["tick"] for row in rows} == {None}
    return rows


def test_direct_gives_the_same_bits(tmp_path: Path, local: list[dict[str, Any]]) -> None:
    assert released(tmp_path, "direct") == local


def test_bounds_in_the_order_of_hashes_give_the_same_bits(tmp_path: Path) -> None:
    rows = released(tmp_path, "local", BY_HASH)
    assert len(rows) > 100 and {row["tick"] for row in rows} == set(range(30))
    assert released(tmp_path, "direct", BY_HASH) == rows


def test_prism_gives_the_same_bits(
    tmp_path: Path, local: list[dict[str, Any]], prism_location: Any
) -> None:
    assert released(tmp_path, "prism") == local


def test_embedded_flink_gives_the_same_bits(
    tmp_path: Path, local: list[dict[str, Any]], job_server_jar: Any
) -> None:
    assert released(tmp_path, "flink") == local
