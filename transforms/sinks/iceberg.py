"""Releases as rows of a table of Apache Iceberg: one commit a range of ticks, each range once.

Before a range is added, its rows are looked for: what a retry, a restart or a resume brings again
is there already, so nothing is committed, and rows that say something else count as divergent. In
tables that Weir makes the library repeats no commit by itself (``commit.retry.num-retries``): one
that meets another reads the table again first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.release.table import NUMBER, RELEASE_SCHEMA
from weir.transforms.runtime.codec import batch_from_bytes, batch_to_bytes
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sinks.rows import RowsWriter, require_columns

RANGE = "weir.range"
"""Property of a snapshot: first and last tick of what it added."""
PLACE = ("release", "key", "tick", "name", "over", "index")
"""Columns that say what a row is about."""
REST = "weir.transforms.sinks.iceberg_rest.PatientRestCatalog"
"""The class of a REST catalog, by name."""
_OWN = {"commit.retry.num-retries": "0"}
_REFUSALS = ("Forbidden", "Unauthorized", "BadRequest", "NoSuch", "Validation", "NotInstalled")
"""What names of errors begin with that trying again does not change."""


@dataclass(frozen=True)
class IcebergTable:
    """A table of a catalog.

    Attributes:
      name: NAMESPACE.TABLE.
      properties: of the catalog, as pyiceberg has them, and its name.
      secrets: name -> where the value is.
    """

    name: str
    properties: tuple[tuple[str, Any], ...]
    secrets: tuple[tuple[str, PropertyReference], ...] = ()

    def _catalog(self) -> Any:
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError:
            raise ConfigError(
                "sink.iceberg", self.name, "needs pyiceberg: pip install weir-dp[iceberg]."
            ) from None
        secrets = {name: where.read(f"sink.iceberg.catalog.{name}") for name, where in self.secrets}
        plain = {name: str(value) for name, value in self.properties}
        by_address = "rest" if plain.get("uri", "").startswith("http") else ""
        if plain.get("type", by_address) == "rest" and "py-catalog-impl" not in plain:
            plain = {**plain, "py-catalog-impl": REST}
            plain.pop("type", None)
        return load_catalog(plain.pop("name", "default"), **plain, **secrets)

    def create(self) -> None:
        """Makes the namespace and the table where there are none.

        Raises:
          ConfigError: the table that is there lacks a column, or has one of another type.
          Exception: what the catalog's client raises.
        """
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
        table = catalog.create_table_if_not_exists(
            self.name, schema=RELEASE_SCHEMA, properties=_OWN
        )
        there = {field.name: _narrow(field.type) for field in table.schema().as_arrow()}
        require_columns("sink.iceberg.table", self.name, there, lambda kind: kind)

    def load(self) -> Any:
        """The table as it is now."""
        return self._catalog().load_table(self.name)


def _narrow(kind: pa.DataType) -> pa.DataType:
    """Text as pyarrow has it by default; Iceberg's reader makes it large."""
    return pa.string() if kind == pa.large_string() else kind


@dataclass(frozen=True)
class IcebergWriter(RowsWriter):
    """Rows of a table of Iceberg."""

    table: IcebergTable

    def encode(self, table: pa.Table) -> bytes:
        """As an Arrow stream."""
        batches = self.rows(table).to_batches()
        return batch_to_bytes(batches[0]) if batches else b""

    def fault(self, error: Exception) -> tuple[str, bool]:
        """See RowsWriter: the kind alone, and the client's errors are many."""
        kind = type(error).__name__
        return kind, not kind.startswith(_REFUSALS)

    def add(self, first: int, last: int, content: bytes) -> int:
        """See RowsWriter."""
        rows, table = pa.Table.from_batches([batch_from_bytes(content)]), self.table.load()
        there = self._there(table, rows)
        new = [place not in there for place in _places(rows)]
        if any(new):
            table.append(
                rows.filter(pa.array(new)), snapshot_properties={RANGE: f"{first}..{last}"}
            )
        return sum(
            place in there and there[place] != value
            for place, value in zip(_places(rows), _values(rows), strict=True)
        )

    def _there(self, table: Any, rows: pa.Table) -> Mapping[Any, Any]:
        """Place -> value of rows of the same releases and ticks."""
        from pyiceberg import expressions

        test: Any = expressions  # its annotations know bound terms only
        ticks = rows["tick"].drop_null().to_pylist()
        of_tick = test.IsNull("tick")
        if ticks:
            low, high = min(ticks), max(ticks)
            between = test.And(
                test.GreaterThanOrEqual("tick", low), test.LessThanOrEqual("tick", high)
            )
            of_tick = between if len(ticks) == len(rows) else test.Or(of_tick, between)
        release = test.EqualTo("release", rows["release"][0].as_py())
        there = table.scan(
            row_filter=test.And(release, of_tick), selected_fields=(*PLACE, *NUMBER)
        ).to_arrow()
        return dict(zip(_places(there), _values(there), strict=True))


def _places(rows: pa.Table) -> list[tuple[Any, ...]]:
    return _rows_of(rows, PLACE)


def _values(rows: pa.Table) -> list[str]:
    """What rows say as text, in which nan is nan."""
    return [repr(row) for row in _rows_of(rows, NUMBER)]


def _rows_of(rows: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True))


__all__ = ["IcebergTable", "IcebergWriter"]
