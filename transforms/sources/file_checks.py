"""Checks files before a run: the columns of every file, and a first look at the records.

Names and types of columns are facts of a file and not of an event, so every file of a glob is
looked at: one that would stop the run in its middle is refused by name before it begins. How a text
is written is a matter of the file, too: it is an error of the config once several lines say so, and
a note to the operator where it is only one.
"""

from __future__ import annotations

import csv
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.encoding import UTF_8, TextForm
from weir.transforms.decode.input_validation import Evidence, FirstLook
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.validation_errors import RecordsPlace, doubtful_predicate, refusal
from weir.transforms.formats.csv import returns_in
from weir.transforms.formats.registry import other_kind
from weir.transforms.formats.stored import ALL, File, Split, first_bytes, is_compressed
from weir.transforms.formats.text import (
    OVER_LINES,
    begins_over_lines,
    first_line,
    first_lines,
    kind_of_text,
)
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.partitions import in_partition

_AT_ONCE = 8
"""Files that are looked at together: of a bucket each takes a while to answer."""


def check_files(source: FileSource, matched: Sequence[File], schema: EventSchema) -> None:
    """Checks every file that says itself which columns it has.

    Lines of a text without a header are events: of such files the first that can be read is looked
    at, and no other.

    Args:
      source: how to read them. matched: the files. schema: the roles of columns.

    Raises:
      ConfigError: a column is missing or of a wrong type, the files are of another format, or one
        has no byte where even without a record there would be some.
    """
    for file in matched:
        if not file.size and _has_frame(source, file.path):
            raise ConfigError(
                source.field,
                file.path,
                "has 0 bytes: not even the header that such a file has without any record, so it "
                "was not written to its end. Write it again, or leave it out of the source.",
            )
    full = [file.path for file in matched if file.size]
    if not full:
        return
    check = partial(_check, source, schema)
    if len(full) == 1 or not source.format.says_columns():
        readable = any(map(check, full[:_AT_ONCE]))
    else:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            readable = any(list(pool.map(check, full)))
    if not readable:
        raise ConfigError(
            source.field, full[0], f"cannot be read as {source.form}; is it another format?"
        )


def _has_frame(source: FileSource, path: str) -> bool:
    """Whether a file has bytes that are no record's: whether there are any is then public."""
    return is_compressed(path) or source.format.says_columns()


def _check(source: FileSource, schema: EventSchema, path: str) -> bool:
    """Whether a file can be read; one that is damaged is a dead letter, and counted."""
    form, text = source.format, source.text
    if not (form.is_text and is_compressed(path)):
        _refuse(source, path, other_kind(first_bytes(path, 16), form.name, text.encoding))
    if form.is_text:
        _refuse(source, path, kind_of_text(first_line(path, text), form.name, form.says_columns()))
    return form.check(path, source.field, in_partition(schema, source.partition(path)))


def _refuse(source: FileSource, path: str, other: str | None) -> None:
    if other is not None:
        raise ConfigError(source.field, path, f"holds {other}.")


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
    lines = first_lines(path, form._replace(quoted_newlines=False), LINES).lines
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
    result = first_lines(path, form._replace(quoted_newlines=True), LINES).lines
    fields = [_fields(record, form.delimiter) for record in result]
    width = fields[0] if form.columns is None and fields else len(form.columns or ())
    events = list(zip(result, fields, strict=True))[form.columns is None :]
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


CHUNK_BYTES = 1 << 18
FAR = 1_000_000
"""Records of the first file that are looked at while there is a doubt: what comes may be sorted."""
NEAR = 10_000
"""Records of every other place."""
PLACES = 8
"""Other files, or places in a single one, that are looked into while there is a doubt."""

_log = logging.getLogger(__name__)


def look_at_files(source: FileSource, matched: Sequence[File], look: FirstLook) -> None:
    """Reads the first records, and more of them only as long as none fits the config.

    Raises:
      ConfigError: what none of the records looked at has, and what to write instead.
    """
    full = [file for file in matched if file.size]
    if not full:
        return
    source = replace(source, chunk_bytes=CHUNK_BYTES)
    seen = _seen(source, full, look)
    doubts = look.doubts(seen)
    signs = None
    if source.format.is_text:
        signs = signs_of(full[0].path, source.form == "csv", source.text)
    if signs is not None:
        error = signs.error(seen)
        if error is not None:
            raise error
    if doubts:

        def again(schema: EventSchema) -> Iterator[Decoded]:
            for file in full[:PLACES]:
                yield from source.decode(_whole(file), schema)

        seen += look.tried(doubts, again)
        hints = [] if signs is None else [signs.returns, signs.shape]
        raise refusal(look, seen, doubts, _place(source, full), list(filter(None, hints)))
    notes = [
        doubtful_predicate(look, seen, _place(source, full)),
        None if signs is None else signs.note(seen),
    ]
    for note in filter(None, notes):
        _log.warning(note)


def _seen(source: FileSource, full: Sequence[File], look: FirstLook) -> Evidence:
    """What records show, until there is no doubt."""
    seen = Evidence()
    for split, most in _places(source, full):
        more = Evidence()
        for decoded in source.decode(split, look.schema):
            more += look.evidence(decoded)
            both = seen + more
            if both["records"] and not look.doubts(both):
                return both
            if more["records"] >= most:
                break
        seen += more
        if len(full) == 1 and more["records"] < most:
            break  # the whole of it was read
    return seen


def _place(source: FileSource, full: Sequence[File]) -> RecordsPlace:
    name = full[0].path if len(full) == 1 else source.shown
    return RecordsPlace(
        source.field,
        source.shown,
        f"records looked at in {name}",
        "check its format, its delimiter and its encoding",
    )


def _whole(file: File) -> Split:
    return Split(file.path, 0, ALL, 1, file.size)


def _places(source: FileSource, full: Sequence[File]) -> Iterator[tuple[Split, int]]:
    """Where to look, and at how many records: the first file, then others from the last on."""
    yield _whole(full[0]), FAR
    others = full[:0:-1]
    if others:
        step = max(1, len(others) // PLACES)
        yield from ((_whole(file), NEAR) for file in others[::step][:PLACES])
        return
    yield from ((part, NEAR) for part in source.format.places(full[0], PLACES))
