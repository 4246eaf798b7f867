"""Names and types of the columns of files, checked against a config before any event is read.

They are facts of a file and not of an event, so every file of a glob is looked at: one that would
stop the run in its middle is refused by name before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.schema import EventSchema
from weir.transforms.formats.registry import other_kind
from weir.transforms.formats.stored import File, first_bytes, is_compressed
from weir.transforms.formats.text import first_line, kind_of_text
from weir.transforms.sources.files import FileSource

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
    if not source.format.says_columns():
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
    return form.check(path, source.field, schema)


def _refuse(source: FileSource, path: str, other: str | None) -> None:
    if other is not None:
        raise ConfigError(source.field, path, f"holds {other}.")


__all__ = ["check_files"]
