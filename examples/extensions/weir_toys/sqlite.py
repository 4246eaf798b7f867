"""Releases in a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from weir.dpcore.plan import Plan
from weir.pipelines.sinks.sink import Sink
from weir.transforms.release.few import Shape, shape_for
from weir.transforms.sinks.targets import to_records

KEY = ("release", "key", "tick", "name", "over", "index", "label")


class SqliteSink(Sink):
    """A SQLite file that workers on this machine share."""

    kind: ClassVar[str] = "sqlite"
    paths: ClassVar[tuple[str, ...]] = ("sqlite",)

    sqlite: str = Field(description="A SQLite file.", examples=["releases.db"])

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        """Inserts rows. A retry brings equal rows again, and the first ones stay."""
        import apache_beam as beam

        return beam.Map(insert, self.sqlite, shape_for(plan, self.layout)).with_output_types(int)


def insert(batch: pa.RecordBatch, path: str, shape: Shape | None) -> int:
    """Inserts a batch of releases in one transaction and returns its number of rows."""
    rows = list(to_records(batch, shape))
    with closing(sqlite3.connect(path, timeout=60)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS releases (id TEXT PRIMARY KEY, release TEXT)")
        database.executemany(
            "INSERT OR IGNORE INTO releases VALUES (?, ?)",
            ((json.dumps([row.get(name) for name in KEY]), json.dumps(row)) for row in rows),
        )
    return len(rows)
