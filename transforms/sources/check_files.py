"""Names and types of the columns of files, checked against a config before any event is read.

They are facts of a file and not of an event, so every file of a glob is looked at: one that would
stop the run in its middle is refused by name before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.avro import wire_of
from weir.transforms.decode.columnar import check_columns
from weir.transforms.decode.schema import EventSchema
from weir.transforms.sources import matching
from weir.transforms.sources.csv_head import check_head
from weir.transforms.sources.files import TEXT, FileSource
from weir.transforms.sources.text_file import first_line
from weir.transforms.sources.wrong_format import kind_of, kind_of_text

_AT_ONCE = 8
"""Files that are looked at together: of a bucket each takes a while to answer."""


def check_files(source: FileSource, matched: Sequence[matching.File], schema: EventSchema) -> None:
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
    if source.form == "ndjson" or source.columns is not None:
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
    return (
        source.form not in TEXT
        or matching.is_compressed(path)
        or (source.form == "csv" and source.columns is None)
    )


def _check(source: FileSource, schema: EventSchema, path: str) -> bool:
    """Whether a file can be read; one that is damaged is a dead letter, and counted."""
    if not (source.form in TEXT and matching.is_compressed(path)):
        start = matching.first_bytes(path, 16)
        _refuse(source, path, kind_of(start, source.form, source.text.encoding))
    if source.form in TEXT:
        first = first_line(path, source.text)
        _refuse(source, path, kind_of_text(first, source.form, source.columns is None))
    if source.form == "ndjson":
        return True
    if source.form == "csv":
        try:
            check_head(path, source.field, source.text, schema)
        except matching.Unreadable:
            return False
        return True
    if source.form == "avro":
        header = matching.avro_header(path)
        if header is not None:
            wire_of(header, schema, path)
        return header is not None
    found = matching.arrow_schema(source.form, path)
    if found is not None:
        check_columns(found, schema, path)
    return found is not None


def _refuse(source: FileSource, path: str, other: str | None) -> None:
    if other is not None:
        raise ConfigError(source.field, path, f"holds {other}.")


__all__ = ["check_files"]
