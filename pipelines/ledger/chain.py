"""The records of a scope, each sealed with the one before: a change of any of them shows.

Record n of a scope holds the hash of record n - 1, and its own hash covers that, its number and its
text. Whoever may write to the ledger can make a whole new chain, or cut off its end; against that
each folder of results keeps the hash that was the last when its run was entered (``_plan.json``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.dpcore.errors import ConfigError


@dataclass(frozen=True)
class Row:
    """One record as it is stored.

    Attributes:
      number: in its scope, from 0 on. body: JSON text. before, hash: hexadecimal.
    """

    number: int
    body: str
    before: str
    hash: str


def next_row(scope: str, rows: Sequence[Row], body: Mapping[str, Any]) -> Row:
    """The record that follows."""
    before = rows[-1].hash if rows else _hash(scope, -1, "", "")
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    number = len(rows)
    return Row(number, text, before, _hash(scope, number, before, text))


def verify(scope: str, rows: Sequence[Row], name: str) -> None:
    """Refuses records that are not what was written.

    Args:
      name: of the ledger, for the message.

    Raises:
      ConfigError: names the first record that does not fit.
    """
    before = _hash(scope, -1, "", "")
    for place, row in enumerate(rows):
        fits = row.number == place and row.before == before
        if not fits or row.hash != _hash(scope, row.number, before, row.body):
            raise ConfigError(
                "ledger",
                name,
                f"has been changed: record {place:,} of the scope {scope!r} is not what was "
                "written there, so nobody knows what is spent. Bring the ledger back from a copy, "
                "or open a new scope that counts everything that was released.",
            )
        before = row.hash


def _hash(scope: str, number: int, before: str, body: str) -> str:
    fields = ("weir ledger", scope, str(number), before, body)
    framed = b"".join(
        len(data).to_bytes(8, "little") + data for data in (field.encode() for field in fields)
    )
    return hashlib.sha256(framed).hexdigest()


__all__ = ["Row", "next_row", "verify"]
