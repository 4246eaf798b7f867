"""How the first lines of a text are written: in which encoding, with newlines in quotes or not.

That is a matter of the file and not of one event: it is an error of the config once several lines
say so, and a word to the operator where it is only one.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from typing import Any

import orjson

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.encoding import UTF_8
from weir.transforms.decode.first_look import Evidence
from weir.transforms.decode.text_form import TextForm
from weir.transforms.sources.csv_head import returns_in
from weir.transforms.sources.text_file import first_lines
from weir.transforms.sources.wrong_format import OVER_LINES, begins_over_lines

LINES = 1_000
SEVERAL = 8
"""Lines that are enough to tell how a file is written; of a smaller file half of all."""

_FIELDS = frozenset({"unreadable_key", "unreadable_id", "unreadable_unit", "not_text"})
"""Reasons of fields of CSV that are not UTF-8; a line of JSON is malformed as a whole."""
_SORTS = {int: "numbers", float: "numbers", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class Signs:
    """What the first lines of a text show.

    Attributes:
      path, csv: which text, and whether it is CSV.
      lines: that were looked at. foreign: of these, not UTF-8. known: UTF-8 and not ASCII.
      records: of CSV. spread: of these, whole records over several lines.
      shape: of JSON, how many fields there are, of which sorts; "" where that is not known.
      over_lines: whether JSON begins with an object of several lines.
      returns: what carriage returns end, a sentence; "" where they end no line.
    """

    path: str
    csv: bool
    lines: int = 0
    foreign: int = 0
    known: int = 0
    records: int = 0
    spread: int = 0
    shape: str = ""
    over_lines: bool = False
    returns: str = ""

    def error(self, seen: Evidence) -> ConfigError | None:
        """The setting that does not fit most of what it should, where events are lost by it."""
        if self._lost_bytes(seen) and _several(self.foreign, self.lines):
            return ConfigError("source.encoding", UTF_8, self._encoding)
        if _several(self.spread, self.records):
            return ConfigError("source.quoted_newlines", False, self._quotes)
        if self.over_lines and not seen["events"]:
            return ConfigError("source.ndjson", self.path, f"holds {OVER_LINES}.")
        return None

    def note(self, seen: Evidence) -> str | None:
        """The same where it is one line or few."""
        if self._lost_bytes(seen):
            return f"source.encoding {self._encoding}"
        return f"source.quoted_newlines {self._quotes}" if self.spread else None

    def _lost_bytes(self, seen: Evidence) -> bool:
        reasons = {name[2] for name in seen.counts if name[0] == "letter"}
        lost = reasons & _FIELDS if self.csv else "malformed" in reasons
        return bool(lost) and self.foreign > 10 * self.known

    @property
    def _encoding(self) -> str:
        write = (
            "write what it is, like source.encoding: latin-1 or cp1252"
            if self.csv
            else "JSON is UTF-8: convert it, like `iconv -f LATIN1 -t UTF-8`"
        )
        return (
            f"does not fit: {self.foreign:,} of the first {self.lines:,} lines of {self.path} are "
            f"not UTF-8; {write}."
        )

    @property
    def _quotes(self) -> str:
        return (
            f"does not fit: {self.spread:,} of the first {self.records:,} records of {self.path} "
            "have a newline inside of quotes; write source.quoted_newlines: true."
        )


def _several(some: int, of: int) -> bool:
    return some >= SEVERAL or 0 < of <= 2 * some


def signs_of(path: str, is_csv: bool, form: TextForm) -> Signs:
    """Reads the first lines of a text."""
    lines = first_lines(path, form, LINES).lines
    high = [line for line in lines if not line.isascii()] if form.encoding == UTF_8 else []
    foreign = sum(not _is_utf8(line) for line in high)
    records = spread = 0
    if is_csv and not form.quoted_newlines and any(line.count(b'"') % 2 for line in lines):
        records, spread = _spread(path, form)
    shape = "" if is_csv else _shape(lines)
    over_lines = not is_csv and begins_over_lines(lines)
    known = len(high) - foreign
    returns = returns_in(path, form, "csv" if is_csv else "ndjson").strip()
    counts = len(lines), foreign, known, records, spread
    return Signs(path, is_csv, *counts, shape, over_lines, returns)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _spread(path: str, form: TextForm) -> tuple[int, int]:
    """(records, those of them that are whole and hold a newline), read with newlines in quotes."""
    found = first_lines(path, form._replace(quoted_newlines=True), LINES, quoted=True).lines
    fields = [_fields(record, form.delimiter) for record in found]
    width = fields[0] if form.columns is None and fields else len(form.columns or ())
    events = list(zip(found, fields, strict=True))[form.columns is None :]
    return len(events), sum(b"\n" in record and n == width for record, n in events)


def _fields(record: bytes, delimiter: str) -> int:
    try:
        text = record.decode(errors="replace")
        rows = list(csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True))
    except csv.Error:
        return 0
    return len(rows[0]) if len(rows) == 1 else 0


def _shape(lines: tuple[bytes, ...]) -> str:
    """Fields by number and sort, of most of the records; their names may be people."""
    sorts: dict[str, Counter[str]] = {}
    count = 0
    for line in lines[:100]:
        try:
            record: Any = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict):
            count += 1
            for name, value in record.items():
                sorts.setdefault(name, Counter())[_SORTS.get(type(value), "other sorts")] += 1
    usual = [kinds.most_common(1)[0][0] for kinds in sorts.values() if 2 * kinds.total() >= count]
    if not usual:
        return ""
    parts = ", ".join(f"{n} of {sort}" for sort, n in Counter(usual).most_common())
    return f"Most records have {len(usual)} fields: {parts}."
