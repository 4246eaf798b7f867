"""A config without a clock gives the same bits on every runner."""

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


def released(folder: Path, runner: str) -> list[dict[str, Any]]:
    (folder / "secret.key").write_text("ab" * 32)
    (folder / "secret.key").chmod(0o600)
    (folder / "job.yaml").write_text(CONFIG)
    cities = ("Oslo", "Rome", "Bern", "Pau")
    rows = [f"u{i * 7 % 300},{cities[i * i % 4]},{i % 60}" for i in range(2_000)]
    (folder / "rows.csv").write_text("\n".join(["user,city,spent", *rows]) + "\n")
    words = ["run", "job.yaml", "--runner", runner, "--set", f"sink.parquet={runner}/"]
    done = subprocess.run(
        [sys.executable, "-m", "weir", *words], cwd=folder, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = pq.read_table(sorted((folder / runner).glob("ticks-*.parquet")))
    return sorted(table.to_pylist(), key=lambda row: (row["key"], row["name"]))


@pytest.fixture
def local(tmp_path: Path) -> list[dict[str, Any]]:
    rows = released(tmp_path, "local")
    assert len(rows) >= 6 and {row["tick"] for row in rows} == {None}
    return rows


def test_direct_gives_the_same_bits(tmp_path: Path, local: list[dict[str, Any]]) -> None:
    assert released(tmp_path, "direct") == local


def test_prism_gives_the_same_bits(
    tmp_path: Path, local: list[dict[str, Any]], prism_location: Any
) -> None:
    assert released(tmp_path, "prism") == local


def test_embedded_flink_gives_the_same_bits(
    tmp_path: Path, local: list[dict[str, Any]], job_server_jar: Any
) -> None:
    assert released(tmp_path, "flink") == local
