"""Rows of releases in a table of a database or a catalog, each added once."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError, WeirError
from weir.transforms.release.flat import Flat
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.sinks.sorted_table import Sorted, file_table
from weir.transforms.sinks.writer import Writer

PATIENCE = 600.0
"""Seconds for which a server that is away or full, or commits of others, are waited for."""
AGAIN = 1.0
"""Seconds between two tries."""


class TableRefused(WeirError):
    """A table that may not be written to."""


def require_columns(
    field: str, table: str, there: Mapping[str, Any], kind_of: Callable[[pa.DataType], Any]
) -> None:
    """Refuses a table that lacks a column of releases, or has one of another type.

    Args:
      field: setting that names it. there: its columns and their types.
      kind_of: type of a column of releases -> the type that it must have there.

    Raises:
      ConfigError: names the first column that differs.
    """
    for column in RELEASE_SCHEMA:
        kind, wanted = there.get(column.name), kind_of(column.type)
        if kind != wanted:
            what = "does not have" if kind is None else f"has, as {kind},"
            raise ConfigError(
                field, table, f"{what} the column {column.name} ({wanted}). Name another table; "
                "weir makes it."
            )  # fmt: skip


@dataclass(frozen=True)
class RowsWriter(Writer):
    """Adds rows, a range of ticks at a time.

    Attributes:
      table: which; has a ``name``. shape: makes a row of each number.
      now, sleep: seconds, for tests.
    """

    table: Any
    shape: Flat
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    @abstractmethod
    def add(self, first: int, last: int, content: bytes) -> int:
        """Adds what is not there, or nothing; returns how many rows contradict what is there."""

    @abstractmethod
    def fault(self, error: Exception) -> tuple[str, bool]:
        """What may be said of an error, which may quote rows; and whether it may pass."""

    def rows(self, table: pa.Table) -> pa.Table:
        """A sorted table as it is added."""
        return file_table(self.shape.table(table)).cast(RELEASE_SCHEMA).combine_chunks()

    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        """See Writer. Waits for what is away, or has no room.

        Raises:
          TableRefused: the rows are not taken. WeirError: it was away for too long.
        """
        if not content:
            return 0
        began = self.now()
        while True:
            try:
                return self.add(first, last, content)
            except WeirError:
                raise
            except Exception as error:
                said, passes = self.fault(error)
                if not passes:
                    raise TableRefused(
                        f"table {self.table.name} cannot be written to ({said}). Correct the "
                        "rights or the table, and start again from where this ended."
                    ) from None
                if self.now() - began >= PATIENCE:
                    raise WeirError(
                        f"table {self.table.name} takes no rows, for {PATIENCE:.0f} s by now "
                        f"({said}). Start again from where this ended once it does."
                    ) from None
            self.sleep(AGAIN)

    def compare(self, first: int, last: int, again: Sorted) -> int:
        """See Writer."""
        return self.put(first, last, self.encode(again.table), 0)


__all__ = ["PATIENCE", "RowsWriter", "TableRefused", "require_columns"]
