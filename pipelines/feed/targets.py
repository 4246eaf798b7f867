"""Where a fed stream goes: a file of any format, standard output, or a Pub/Sub topic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.pipelines.feed.topic import TopicTarget
from weir.transforms.decode.text_form import TextForm
from weir.transforms.formats.format import Flags, Format
from weir.transforms.formats.lines import iso_times
from weir.transforms.formats.registry import FORMATS, file_formats, format_of, suffixes


class Target(Protocol):
    """Takes batches until it is closed."""

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        """Sends every row; those flagged as broken are sent as something that cannot be read."""

    def close(self) -> None:
        """Waits until everything is there."""


class FileTarget:
    """A file or standard output. Lines hold timestamps in ISO 8601."""

    def __init__(self, handle: BinaryIO, form: Format, text: TextForm | None) -> None:
        if text is not None and form.name == "csv":
            form = FORMATS.of(form.name, text)
        self._is_text, self._writer = form.is_text, form.writer(handle)

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        self._writer.write(iso_times(batch) if self._is_text else batch, broken)

    def close(self) -> None:
        self._writer.close()


def open_target(
    where: str,
    form: str | None,
    per_message: int | None = None,
    text: TextForm | None = None,
) -> Target:
    """``-``, a file name, or a topic -> a target.

    Args:
      per_message: events of a message, for a topic.
      text: how CSV is written.

    Raises:
      ConfigError: what it is cannot be told, or a client library is missing.
    """
    if where == "-":
        named = _file_format(form or "ndjson")
        if not named.is_text:
            raise ConfigError("--format", form, "must be csv or ndjson on standard output.")
        return FileTarget(sys.stdout.buffer, named, text)
    if where.startswith("projects/") and "/topics/" in where:
        return TopicTarget(where, form or "ndjson", per_message)
    found = format_of(where) if form is None else _file_format(form)
    if found is None:
        raise ConfigError(
            "--to",
            where,
            f"must be -, a topic like projects/P/topics/T, or a file that ends in {suffixes()}; or "
            "say --format.",
        )
    try:
        handle = Path(where).open("wb")  # noqa: SIM115 - the target closes it
    except OSError as error:
        raise ConfigError("--to", where, f"cannot be written: {error.strerror}.") from None
    return FileTarget(handle, found, text)


def _file_format(name: str) -> Format:
    if name not in file_formats():
        raise ConfigError("--format", name, f"must be one of {', '.join(file_formats())}.")
    return FORMATS[name]
