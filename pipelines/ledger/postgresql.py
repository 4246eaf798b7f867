"""A ledger in a table of PostgreSQL, for jobs on several machines."""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from weir.dpcore.config.section import refusal
from weir.dpcore.errors import ConfigError
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.ledger.store import (
    VERSION,
    LedgerStore,
    Row,
    Transaction,
    next_row,
    refuse_newer,
)
from weir.transforms.runtime.secret import drawn

FIELD: Final = "ledger.postgresql"
AGAIN: Final = frozenset({"40001", "40P01", "23505"})
"""What a server says to a transaction that may be tried again: it could not be put in an order with
others, it waited in a circle, or another wrote the same number."""
TRIES: Final = 50
_HAS_TABLE: Final = "SELECT to_regclass('weir_ledger') IS NOT NULL"
KEY_TABLE: Final = "weir_ledger_key"
_HAS_KEY: Final = f"SELECT to_regclass('{KEY_TABLE}') IS NOT NULL"
_LAYOUT: Final = (
    "CREATE TABLE weir_ledger (scope text NOT NULL, number bigint NOT NULL, body text NOT NULL, "
    "before text NOT NULL, hash text NOT NULL, PRIMARY KEY (scope, number))",
    "CREATE TABLE weir_ledger_layout (version integer NOT NULL)",
    f"INSERT INTO weir_ledger_layout VALUES ({VERSION})",
    "CREATE FUNCTION weir_ledger_keep() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the ledger is only ever added to'; END $$",
    "CREATE TRIGGER keep BEFORE UPDATE OR DELETE OR TRUNCATE ON weir_ledger "
    "FOR EACH STATEMENT EXECUTE FUNCTION weir_ledger_keep()",
)


class PostgresqlLedger(Ledger):
    """A table in a PostgreSQL database; needs ``pip install weir-dp[postgresql]``."""

    kind: ClassVar[str] = "postgresql"

    postgresql: str = Field(
        description="Address of the database. A password belongs into the environment "
        "(${NAME}, or PGPASSWORD), or into ~/.pgpass.",
        examples=["${LEDGER_URL}"],
    )

    @field_validator("postgresql")
    @classmethod
    def _check_address(cls, value: str) -> str:
        if not re.match(r"postgres(ql)?://", value):
            raise refusal("", "...", "must look like postgresql://USER@HOST:PORT/DATABASE.")
        return value

    @property
    def shown(self) -> str:
        return without_password(self.postgresql)

    def store(self, create: bool) -> LedgerStore | None:
        return open_database(self.postgresql, create)


def without_password(address: str) -> str:
    """What may be shown of an address: host, port and database."""
    try:
        parts = urlsplit(address)
        return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
    except ValueError:
        return "postgresql://..."


def open_database(address: str, create: bool) -> LedgerStore | None:
    """See ``Ledger.store``."""
    store = PostgresqlStore(address)
    try:
        if store.prepare(create):
            return store
    except BaseException:
        store.close()
        raise
    store.close()
    return None


class PostgresqlStore(LedgerStore):
    """Records in one table. Writers to a scope take turns by an advisory lock that is held before
    the transaction begins, so that its snapshot holds what the one before wrote; serializable
    transactions would find out too, and are tried again where the server asks for it."""

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise ConfigError(
                FIELD, without_password(address), "needs psycopg: pip install weir-dp[postgresql]."
            ) from None
        self.name = without_password(address)
        self._saying = False
        with self._told():
            self._base = psycopg.connect(address, autocommit=True, connect_timeout=20)
            self._base.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            # Safe on disk before it is over, whatever the server's default is.
            self._base.execute("SET synchronous_commit = on")

    def prepare(self, create: bool) -> bool:
        """Makes the tables where there are none and they are wanted. Whether there are."""
        with self._told():
            there = self._value(_HAS_TABLE)
            if not there and create:
                with self._turn("layout"), self._base.transaction():
                    if not self._value(_HAS_TABLE):
                        for line in _LAYOUT:
                            self._base.execute(line)
                there = True
            if there:
                version = self._value("SELECT max(version) FROM weir_ledger_layout")
                refuse_newer(self.name, int(version))
            return bool(there)

    def scopes(self) -> list[str]:
        with self._told():
            result = self._base.execute("SELECT DISTINCT scope FROM weir_ledger")
            return sorted(str(scope) for (scope,) in result)

    def rows(self, scope: str) -> list[Row]:
        with self._told():
            return self._rows(scope)

    def _rows(self, scope: str) -> list[Row]:
        result = self._base.execute(
            "SELECT number, body, before, hash FROM weir_ledger WHERE scope = %s ORDER BY number",
            (scope,),
        )
        return [Row(*row) for row in result]

    def chains(self) -> dict[str, list[Row]]:
        with self._told():
            result = self._base.execute(
                "SELECT scope, number, body, before, hash FROM weir_ledger ORDER BY scope, number"
            )
            chains: dict[str, list[Row]] = {}
            for scope, *row in result:
                chains.setdefault(str(scope), []).append(Row(*row))
            return chains

    @property
    def key_name(self) -> str:
        return f"the table {KEY_TABLE} of {self.name}"

    def key(self, create: bool) -> bytes | None:
        """A table of its own: who may read the records need not be let into it."""
        with self._told():
            if create and not self._value(_HAS_KEY):
                with self._turn("layout"), self._base.transaction():
                    if not self._value(_HAS_KEY):
                        self._base.execute(f"CREATE TABLE {KEY_TABLE} (value bytea NOT NULL)")
                        self._base.execute(f"INSERT INTO {KEY_TABLE} VALUES (%s)", (drawn(),))
            if not self._value(_HAS_KEY):
                return None
            result = self._value(f"SELECT value FROM {KEY_TABLE} ORDER BY value LIMIT 1")
            return None if result is None else bytes(result)

    def change(self, scope: str, work: Callable[[Sequence[Row]], Transaction]) -> Any:
        import psycopg

        with self._told(), self._turn(f"scope {scope}"):
            for left in reversed(range(TRIES)):
                try:
                    return self._try(scope, work)
                except psycopg.Error as error:
                    if error.sqlstate not in AGAIN or not left:
                        raise
                    time.sleep(0.01)
        raise AssertionError("unreachable")

    def _try(self, scope: str, work: Callable[[Sequence[Row]], Transaction]) -> Any:
        with self._base.transaction():
            rows = self._rows(scope)
            done = work(tuple(rows))
            for body in done.bodies:
                row = next_row(scope, rows, body)
                rows.append(row)
                self._base.execute(
                    "INSERT INTO weir_ledger VALUES (%s, %s, %s, %s, %s)",
                    (scope, row.number, row.body, row.before, row.hash),
                )
            return done.answer

    def close(self) -> None:
        self._base.close()

    @contextlib.contextmanager
    def _turn(self, what: str) -> Iterator[None]:
        """Holds an advisory lock of this name; the server frees it if this process dies."""
        digest = hashlib.sha256(f"weir ledger {what}".encode()).digest()
        number = int.from_bytes(digest[:8], "little", signed=True)
        self._base.execute("SELECT pg_advisory_lock(%s)", (number,))
        try:
            yield
        finally:
            with contextlib.suppress(Exception):  # a lost connection has freed it
                self._base.execute("SELECT pg_advisory_unlock(%s)", (number,))

    def _value(self, question: Any) -> Any:
        row = self._base.execute(question).fetchone()
        return None if row is None else row[0]

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What the server says, in a sentence, without the address that holds a password. The
        outermost says it: a transaction looks at what the server says, too."""
        import psycopg

        if self._saying:
            yield
            return
        self._saying = True
        try:
            yield
        except psycopg.Error as error:
            state = f", {error.sqlstate}" if error.sqlstate else ""
            raise ConfigError(
                FIELD,
                self.name,
                f"cannot be used ({type(error).__name__}{state}): see that the server runs, that "
                "it lets you in, and that you may make tables there.",
            ) from None
        finally:
            self._saying = False
