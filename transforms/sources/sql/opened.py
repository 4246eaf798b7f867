"""Rows of a table as events: looked at, sealed and read in one state of the database."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary, finalize

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.input_validation import Evidence, FirstLook
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.validation_errors import RecordsPlace, doubtful_predicate, refusal
from weir.transforms.sources.file_checks import FAR
from weir.transforms.sources.opened import BoundedEvents
from weir.transforms.sources.seal import SourceChanged, key_for
from weir.transforms.sources.sql.conditions import condition
from weir.transforms.sources.sql.database import Database
from weir.transforms.sources.sql.table import DATABASES, SqlTable

_log = logging.getLogger(__name__)
_BITS = 256
_numbers = itertools.count()
_opened: WeakValueDictionary[str, OpenedTable] = WeakValueDictionary()


def open_database(table: SqlTable, password: str | None) -> Database:
    """Opens a database, and looks the table up.

    Raises:
      ConfigError: it cannot be opened, or there is no such table.
    """
    module, _, name = DATABASES[table.url.partition(":")[0]].partition(":")
    database: Database = getattr(importlib.import_module(module), name)(table, password)
    try:
        database.types = dict(database.look_up())
        if table.where is not None:
            condition(table.where, database, database.types)
    except BaseException:
        database.close()
        raise
    return database


def _ignore(rows: Any) -> None:
    """Takes rows that nobody counts."""


class TableRows:
    """The rows of an open table, as often as they are read.

    Args:
      database: open.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        # Of a run that is refused before it reads; its transaction would hold others up.
        self.close = finalize(self, database.close)

    def batches(self, schema: EventSchema) -> Iterator[Sequence[tuple[Any, ...]]]:
        """The columns that a schema reads, in its order."""
        database = self.database
        schema.require(database.types, database.table.name)
        columns = ", ".join(map(database.read, schema.needed)) or "1"
        values: list[Any] = []
        sql = f"SELECT {columns} FROM {database.rows_from()}"
        if database.table.where is not None:
            words, values = condition(database.table.where, database, database.types)
            sql = f"{sql} WHERE {words}"
        yield from database.fetch(sql, values)

    def decode(
        self, schema: EventSchema, take: Callable[[Any], None] = _ignore
    ) -> Iterator[Decoded]:
        """Canonical batches. take: is given the rows of each, as they were read."""
        at = 0
        for rows in self.batches(schema):
            take(rows)
            yield self.database.arrays(rows, schema, at)
            at += len(rows)

    def seal(self, schema: EventSchema, key: bytes) -> str:
        """Keyed digest of the rows that a schema reads, in any order; 32 hex digits."""
        digest = RowsDigest(key)
        for rows in self.batches(schema):
            digest.take(rows)
        return digest.hexdigest()


class RowsDigest:
    """A keyed digest of rows whose order does not matter: the sum of theirs.

    Args:
      key: without it nothing can be said of a row.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._sum, self._rows = key_for(key), 0, 0

    def take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Adds rows."""
        for row in rows:
            one = hashlib.blake2b(repr(row).encode("utf-8", "surrogateescape"), key=self._key)
            self._sum += int.from_bytes(one.digest()[: _BITS // 8], "little")
        self._sum %= 1 << _BITS
        self._rows += len(rows)

    def hexdigest(self) -> str:
        """32 hex digits."""
        text = f"{self._rows} {self._sum}".encode()
        return hashlib.blake2b(text, key=self._key, digest_size=16).hexdigest()


class OpenedTable(BoundedEvents):
    """Rows of a table that can be read, in this process alone: a copy elsewhere finds it by its
    handle.

    Args:
      rows: of the table. schema: the roles of columns.
      look: what the first rows must have; None looks at none.
      sealed: (key, digest) of the rows as a ledger has entered them.

    Raises:
      ConfigError: a missing column, or rows of which none fits.
    """

    def __init__(
        self,
        rows: TableRows,
        schema: EventSchema,
        look: FirstLook | None = None,
        sealed: tuple[bytes, str] | None = None,
    ) -> None:
        self.rows, self.schema, self._sealed = rows, schema, sealed
        self.handle = f"table {next(_numbers)}"
        _opened[self.handle] = self
        try:
            schema.require(rows.database.types, rows.database.table.name)
            if look is not None:
                _look(rows, look)
        except ConfigError:
            rows.close()
            raise

    def __reduce__(self) -> Any:
        return opened, (self.handle,)

    def splits(self) -> Iterator[tuple[int, int]]:
        """One part: a second connection would see another state of the table."""
        yield 0, -1

    def decode(self, split: tuple[int, int], alone: bool = True) -> Iterator[Decoded]:
        """Canonical batches of all rows; the connection is closed behind the last.

        Raises:
          SourceChanged: a query gave other rows than a ledger has entered.
        """
        key, entered = self._sealed or (b"", None)
        digest = RowsDigest(key)
        try:
            yield from self.rows.decode(self.schema, _ignore if entered is None else digest.take)
        finally:
            self.rows.close()
        if entered is not None and digest.hexdigest() != entered:
            raise SourceChanged(
                "the rows are not those that the ledger has entered: the query gives others each "
                "time. Write one whose rows are the same as long as its tables are."
            )


def opened(handle: str) -> OpenedTable:
    """The table of a handle.

    Raises:
      ConfigError: this process has opened none.
    """
    result = _opened.get(handle)
    if result is None:
        raise ConfigError(
            "source.sql", handle, "is read where the job is started, and not by other processes."
        )
    return result


def _look(rows: TableRows, look: FirstLook) -> None:
    """Reads rows until one fits the config, and refuses where none does."""
    seen = Evidence()
    for decoded in rows.decode(look.schema):
        seen += look.evidence(decoded)
        if seen["records"] and not look.doubts(seen) or seen["records"] >= FAR:
            break
    table = rows.database.table
    place = RecordsPlace("source.sql", table.name, f"rows of {table.name}", "name another table")
    doubts = look.doubts(seen)
    if doubts:
        seen += look.tried(doubts, rows.decode)
        raise refusal(look, seen, doubts, place)
    note = doubtful_predicate(look, seen, place)
    if note is not None:
        _log.warning(note)
