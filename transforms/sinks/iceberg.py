"""Releases as rows of a table of Apache Iceberg: one commit a range of ticks, each range once.

Before a range is added, its rows are looked for: what a retry, a restart or a resume brings again
is there already, so nothing is committed, and rows that say something else count as divergent. In
tables that Weir makes the library repeats no commit by itself (``commit.retry.num-retries``): one
that meets another reads the table again first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError, WeirError
from weir.transforms.release.flat import Flat
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.runtime.codec import batch_from_bytes, batch_to_bytes
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sinks.sorted_table import file_table
from weir.transforms.sinks.writer import Writer

PATIENCE = 600.0
"""Seconds for which a catalog that is away, or commits of others, are waited for."""
AGAIN = 1.0
"""Seconds between two tries."""
RANGE = "weir.range"
"""Property of a snapshot: first and last tick of what it added."""
PLACE = ("release", "key", "tick", "name", "over", "index")
"""Columns that say what a row is about."""
_OWN = {"commit.retry.num-retries": "0"}
_REFUSALS = ("Forbidden", "Unauthorized", "BadRequest", "NoSuch", "Validation", "NotInstalled")
"""What names of errors begin with that trying again does not change."""


class CatalogRefused(WeirError):
    """A table that may not be written to, or is another one than releases need."""


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
        return load_catalog(plain.pop("name", "default"), **plain, **secrets)

    def create(self) -> None:
        """Makes the namespace and the table where there are none.

        Raises:
          CatalogRefused: the table that is there lacks a column, or has one of another type.
          Exception: what the catalog's client raises.
        """
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
        table = catalog.create_table_if_not_exists(
            self.name, schema=RELEASE_SCHEMA, properties=_OWN
        )
        there = {field.name: field.type for field in table.schema().as_arrow()}
        for field in RELEASE_SCHEMA:
            kind = _narrow(there.get(field.name))
            if kind != field.type:
                what = "does not have" if kind is None else f"has, as {kind},"
                raise CatalogRefused(
                    f"table {self.name} {what} the column {field.name} ({field.type}). Name "
                    "another table; weir makes it."
                )

    def load(self) -> Any:
        """The table as it is now."""
        return self._catalog().load_table(self.name)


def _narrow(kind: pa.DataType | None) -> pa.DataType | None:
    """Text as pyarrow has it by default; Iceberg's reader makes it large."""
    return pa.string() if kind == pa.large_string() else kind


@dataclass(frozen=True)
class IcebergWriter(Writer):
    """Rows of a table.

    Attributes:
      table: which. shape: makes a row of each number.
      now, sleep: seconds, for tests.
    """

    table: IcebergTable
    shape: Flat
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def encode(self, table: pa.Table) -> bytes:
        """As an Arrow stream."""
        rows = file_table(self.shape.table(table)).cast(RELEASE_SCHEMA).combine_chunks()
        batches = rows.to_batches()
        return batch_to_bytes(batches[0]) if batches else b""

    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        """See Writer. Waits for a catalog that is away, and for commits of others.

        Raises:
          CatalogRefused: the catalog does not take the rows. WeirError: it was away for too long.
        """
        if not content:
            return 0
        rows = pa.Table.from_batches([batch_from_bytes(content)])
        began = self.now()
        while True:
            try:
                return self._append(first, last, rows)
            except (ConfigError, WeirError):
                raise
            except Exception as error:  # the client's errors are many, and quote what was sent
                kind = type(error).__name__
                if kind.startswith(_REFUSALS):
                    raise CatalogRefused(
                        f"table {self.table.name} cannot be written to ({kind}). Correct the "
                        "rights or the table, and start again from where this ended."
                    ) from None
                if self.now() - began >= PATIENCE:
                    raise WeirError(
                        f"the catalog of table {self.table.name} does not take a commit ({kind})."
                    ) from None
            self.sleep(AGAIN)

    def compare(self, first: int, last: int, again: Any) -> int:
        """See Writer."""
        return self.put(first, last, self.encode(again.table), 0)

    def _append(self, first: int, last: int, rows: pa.Table) -> int:
        """Adds what is not there; returns how many rows contradict what is."""
        table = self.table.load()
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
            row_filter=test.And(release, of_tick), selected_fields=(*PLACE, "value", "stddev")
        ).to_arrow()
        return dict(zip(_places(there), _values(there), strict=True))


def _places(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in PLACE), strict=True))


def _values(rows: pa.Table) -> list[str]:
    """Value and deviation as text, in which nan is nan."""
    pairs = zip(rows["value"].to_pylist(), rows["stddev"].to_pylist(), strict=True)
    return [repr(pair) for pair in pairs]


__all__ = ["CatalogRefused", "IcebergTable", "IcebergWriter"]
