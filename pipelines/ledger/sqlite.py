"""A ledger in one file of SQLite, on a disk of this machine."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from pydantic import Field, model_validator

from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.connector import check_disk
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.ledger.store import (
    VERSION,
    LedgerStore,
    Row,
    Transaction,
    next_row,
    refuse_newer,
    remote_type,
)
from weir.transforms.runtime.secret import BYTES, drawn

FIELD: Final = "ledger.sqlite"
APPLICATION: Final = 0x57454952
"""``WEIR``: says in the file's header whose it is."""
KEY_ENDING: Final = ".key"
"""Behind the name of a ledger's file: that of its key."""
PATIENCE: Final = 60.0
"""Seconds to wait for others who write."""

_LAYOUT: Final = (
    "CREATE TABLE record (scope TEXT NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL, "
    "before TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (scope, number))",
    *(
        f"CREATE TRIGGER no_{what} BEFORE {what} ON record "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is only ever added to'); END"
        for what in ("UPDATE", "DELETE")
    ),
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


class SqliteLedger(Ledger):
    """A file on a disk of this machine; network file systems are refused."""

    kind: ClassVar[str] = "sqlite"
    local: ClassVar[bool] = True
    paths: ClassVar[tuple[str, ...]] = ("sqlite",)

    sqlite: str = Field(
        min_length=1,
        description="File of the ledger, made when it is first needed; on a disk of this machine. "
        "Keep copies: who loses it has lost what is spent.",
        examples=["ledger.db"],
    )

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return None if "://" in text else {"sqlite": text}

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        check_disk("sqlite", self.sqlite, "Use ledger.postgresql for several machines.")
        return self

    def store(self, create: bool) -> LedgerStore | None:
        return open_file(Path(self.sqlite), create)


def open_file(path: Path, create: bool) -> LedgerStore | None:
    """See ``Ledger.store``."""
    remote = remote_type(path)
    if remote is not None:
        raise ConfigError(
            FIELD,
            str(path),
            f"lies on a file system of the type {remote}, where locks do not hold back jobs on "
            "other machines, and a budget could be spent twice: put it on a disk of this machine, "
            "or use ledger.postgresql.",
        )
    if not path.exists():
        if not create:
            return None
        with _told(path):
            # For its owner only: anyone who may write to it decides what is spent.
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return SqliteStore(path, create)


class SqliteStore(LedgerStore):
    """Records in one table. A transaction takes the file's write lock at its beginning, and is on
    disk before it is over (synchronous = EXTRA: the journal's folder too)."""

    def __init__(self, path: Path, write: bool) -> None:
        self.name = str(path)
        self._path = path
        with _told(path):
            # rw and not ro: who reads after a crash may have to undo what it left.
            self._base = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=PATIENCE,
                isolation_level=None,
            )  # fmt: skip
            try:
                self._base.execute("PRAGMA synchronous = EXTRA")
                self._prepare(write)
                if not write:
                    self._base.execute("PRAGMA query_only = ON")
            except BaseException:
                self._base.close()
                raise

    def _prepare(self, write: bool) -> None:
        """Makes the layout where the file is empty; refuses what is no ledger."""
        if write and self._value("PRAGMA user_version") == 0:
            with self._writing():
                empty = self._value("SELECT count(*) FROM sqlite_master") == 0
                if empty and self._value("PRAGMA user_version") == 0:
                    for line in _LAYOUT:
                        self._base.execute(line)
        version = self._value("PRAGMA user_version")
        tables = self._value("SELECT count(*) FROM sqlite_master")
        self._empty = version == 0 and tables == 0
        if not self._empty and self._value("PRAGMA application_id") != APPLICATION:
            raise ConfigError(FIELD, self.name, "is a database, but no ledger: give another file.")
        refuse_newer(self.name, version)

    def scopes(self) -> list[str]:
        if self._empty:
            return []
        with _told(self._path):
            result = self._base.execute("SELECT DISTINCT scope FROM record ORDER BY scope")
            return [str(scope) for (scope,) in result]

    def rows(self, scope: str) -> list[Row]:
        if self._empty:
            return []
        with _told(self._path):
            result = self._base.execute(
                "SELECT number, body, before, hash FROM record WHERE scope = ? ORDER BY number",
                (scope,),
            )
            return [Row(*row) for row in result]

    def chains(self) -> dict[str, list[Row]]:
        return {scope: self.rows(scope) for scope in self.scopes()}

    @property
    def key_name(self) -> str:
        return f"{self.name}{KEY_ENDING}"

    def key(self, create: bool) -> bytes | None:
        path = Path(self.key_name)
        with _told(path):
            if create and not path.exists():
                _make_key(path)
            result = path.read_bytes() if path.exists() else None
        if result is not None and len(result) != BYTES:
            raise ConfigError(
                FIELD, str(path), f"must hold {BYTES} bytes: bring it back from a copy."
            )
        return result

    def change(self, scope: str, work: Callable[[Sequence[Row]], Transaction]) -> Any:
        with _told(self._path), self._writing():
            rows = self.rows(scope)
            done = work(tuple(rows))
            for body in done.bodies:
                row = next_row(scope, rows, body)
                rows.append(row)
                self._base.execute(
                    "INSERT INTO record VALUES (?, ?, ?, ?, ?)",
                    (scope, row.number, row.body, row.before, row.hash),
                )
            return done.answer

    def close(self) -> None:
        self._base.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self._base.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._base.execute("COMMIT")
        except BaseException:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            raise

    def _value(self, question: str) -> int:
        return int(self._base.execute(question).fetchone()[0])


def _make_key(path: Path) -> None:
    """Makes a key for its owner only, unless another process is faster."""
    file, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.write(file, drawn())
        os.fsync(file)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.close(file)
        os.unlink(temporary)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What SQLite and the file system say, in a sentence. The ledger holds nothing of events."""
    try:
        yield
    except sqlite3.OperationalError as error:
        remedy = "another job holds it; try again" if "locked" in str(error) else "give another"
        raise ConfigError(FIELD, str(path), f"cannot be used ({error}): {remedy}.") from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        # What a damaged file makes SQLite say need not even be text.
        shown = error if isinstance(error, sqlite3.DatabaseError) else "damaged"
        raise ConfigError(
            FIELD,
            str(path),
            f"cannot be read as a ledger ({shown}): give its file, or bring it back from a copy.",
        ) from None
    except OSError as error:
        raise ConfigError(
            FIELD, str(path), f"cannot be made ({error.strerror}): give a place that is writable."
        ) from None
