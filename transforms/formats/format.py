"""What a format of files or messages is: how it is recognised, checked, split, read and written.

A format is a subclass of ``Format`` and a line in ``registry.py``. Every command uses it from
there: ``init`` reads its samples, ``run`` its batches, ``feed`` writes and replays it, ``predict``
and ``report`` read it as tables. A format whose readers give Arrow batches states ``read`` and
``begin``, and inherits the rest. What decodes events is imported when it is used, because a config
that names a format must load fast.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.encoding import TextForm
from weir.transforms.decode.lines import CHUNK_BYTES
from weir.transforms.formats.stored import ALL, File, Split
from weir.transforms.runtime.files import open_raw

if TYPE_CHECKING:
    from weir.transforms.decode.canonical import Decoded, DecodedTogether, Over
    from weir.transforms.decode.schema import EventSchema

TABLE_ROWS = 1 << 17
"""Rows of a table that is read at a time."""
SAMPLE_ROWS = 200
"""Records that ``samples`` looks at."""

Flags = Sequence[bool]
Samples = tuple[dict[str, str], dict[str, list[Any]]]
"""Column -> type, one of integer, number, text, boolean, time, other or a list word; and column ->
values that are not missing."""


class FileContent(NamedTuple):
    """What a file of typed columns holds.

    Attributes:
      schema: names and types of all columns.
      batches: pairs of a batch, None where one cannot be read, and its share of the file in [0, 1].
    """

    schema: pa.Schema
    batches: Iterator[tuple[pa.RecordBatch | None, float]]


class BatchWriter(Protocol):
    """What ``Format.begin`` returns, as Arrow's own writers are."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes rows."""

    def close(self) -> None:
        """Writes what ends the file."""


class DecodeOptions(NamedTuple):
    """How a part of a file is decoded.

    Attributes:
      lost: takes the share of the part that could not be read, in (0, 1].
      ahead: makes values in a thread while earlier ones are used; of what ``reads_ahead`` says.
      over: applies a function to every chunk of a text, in order, on several cores perhaps.
      chunk_bytes: how much to decode at a time; no result depends on it.
      stored: whether it is a file, which may have been cut short, and no message.
    """

    lost: Callable[[float], None]
    ahead: Callable[[Iterator[Any]], Iterator[Any]] = iter
    over: Over = map
    chunk_bytes: int = CHUNK_BYTES
    stored: bool = True


class Format(ABC):
    """A format of files, of messages, or of both.

    Args:
      text: how texts are written, CSV above all.

    Attributes:
      name: in the config and in the registry.
      description, example: of the field of that name in a source.
      suffixes: how names of its files end, without the dot; none: it is for messages only.
      magics: how the bytes of a file may begin, if they tell the format.
      is_text: whether its records are lines.
      in_messages: whether a message can hold it.
      most_per_message: events of a message at most; None: any number.
      named_columns: whether columns are named by a header, a schema or the config; else only by
        the records.
      reads_ahead: whether ``decode`` itself reads columns ahead of their use.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    example: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()
    magics: ClassVar[tuple[bytes, ...]] = ()
    is_text: ClassVar[bool] = False
    in_messages: ClassVar[bool] = False
    most_per_message: ClassVar[int | None] = None
    named_columns: ClassVar[bool] = True
    reads_ahead: ClassVar[bool] = False

    def __init__(self, text: TextForm = TextForm()) -> None:  # noqa: B008 - a constant
        self.text = text

    def sniff(self, start: bytes) -> bool:
        """Returns whether a file that begins so is of this format for sure."""
        return start.startswith(self.magics)

    def says_columns(self) -> bool:
        """Returns whether each file itself names its columns, and so has bytes without a record."""
        return True

    def open(self, path: str) -> Any:
        """Opens a file; it can seek."""
        return open_raw(path)

    @abstractmethod
    def read(self, file: Any, rows: int) -> FileContent | None:
        """Reads all columns, in order.

        Args:
          file: from ``open``, or in memory. rows: of a batch, at most, where that can be chosen.

        Returns:
          What it holds; None where nothing of it can be read.

        Raises:
          pyarrow.ArrowException, OSError, ValueError: a batch cannot be read.
        """

    def check(self, path: str, field: str, schema: EventSchema) -> bool:
        """Checks the columns of a file against their roles, and reads no event.

        Args:
          field: the setting that holds the path, for messages.

        Returns:
          Whether the file can be read.

        Raises:
          ConfigError: a column is missing, or of a type that cannot play its role.
        """
        from weir.transforms.decode.columnar import check_columns

        with self.open(path) as file:
            content = self.read(file, TABLE_ROWS)
        if content is not None:
            check_columns(content.schema, schema, path)
        return content is not None

    def split(self, file: File) -> Iterator[Split]:
        """Cuts a file into parts that can be decoded apart; one where it cannot be cut."""
        yield Split(file.path, 0, ALL, 1, file.size)

    def places(self, file: File, count: int) -> Iterator[Split]:
        """Up to so many places inside a file to read from, the last first. Numbers of lines are not
        known there."""
        return iter(())

    def decode(self, split: Split, schema: EventSchema, how: DecodeOptions) -> Iterator[Decoded]:
        """Decodes a part of a file; each record is read alone.

        Args:
          split: from ``split`` or ``places``. schema: the roles of columns.

        Returns:
          Canonical batches and dead letters.

        Raises:
          ConfigError: a needed column is not there, or its type cannot play its role.
        """
        from weir.transforms.runtime import counters

        with self.open(split.path) as file:
            yield from self.decode_open(file, schema, how, split)
        counters.add("bytes", split.size)

    def decode_open(
        self, file: Any, schema: EventSchema, how: DecodeOptions, split: Split
    ) -> Iterator[Decoded]:
        """As ``decode``, of a file that is open, or of bytes in memory."""
        from weir.transforms.decode.columnar import decode_content

        yield from decode_content(self.read(file, TABLE_ROWS), schema, split.path, how.lost)

    def decode_bytes(self, data: bytes, schema: EventSchema, source: str) -> Iterator[Decoded]:
        """Decodes a whole file or message in memory; positions count within it.

        Raises:
          ConfigError: see ``decode``.
        """
        from weir.transforms.decode.columnar import unweighed

        if data:
            how, whole = DecodeOptions(unweighed, stored=False), Split(source, 0, ALL, 1, len(data))
            yield from self.decode_open(pa.BufferReader(data), schema, how, whole)

    def decode_together(
        self, payloads: Sequence[bytes], schema: EventSchema, source: str
    ) -> tuple[list[DecodedTogether], list[int]]:
        """Decodes several messages at once, where that is faster. Raises nothing for their content.

        Returns:
          What was decoded, and the places of the payloads that are left.
        """
        return [], list(range(len(payloads)))

    def tables(
        self, path: str, numeric: Sequence[str] | None = None, objects: str | None = None
    ) -> Iterator[pa.Table]:
        """Reads all columns of a file, in one or more tables; one without rows if it has none.

        Args:
          numeric: columns of numbers; None: any may be. Of a text the values of other columns stay
            as they are written.
          objects: column whose JSON objects are read as maps of text to number.

        Raises:
          pyarrow.ArrowException, OSError, ValueError: it cannot be read.
        """
        with self.open(path) as file:
            content = self.read(file, TABLE_ROWS)
            if content is None:
                raise ValueError
            empty = True
            for batch, _ in content.batches:
                if batch is None:
                    raise ValueError
                empty = False
                yield pa.Table.from_batches([batch])
            if empty:
                yield content.schema.empty_table()

    def batches(self, path: str) -> Iterator[pa.RecordBatch]:
        """Reads all columns of a file a batch at a time, so that it can be replayed.

        Raises:
          pyarrow.ArrowException, OSError, ValueError: it cannot be read.
        """
        for table in self.tables(path):
            yield from table.to_batches()

    def samples(self, path: str) -> Samples:
        """Reads types of columns and the first values, from which ``init`` guesses roles.

        Raises:
          ConfigError: the file cannot be read.
        """
        from weir.transforms.decode.columnar import is_broken

        with self.open(path) as file:
            content = self.read(file, SAMPLE_ROWS)
            if content is None:
                raise ConfigError("FILE", path, f"cannot be read as {self.name}.")
            types = {field.name: kind_word(field.type) for field in content.schema}
            values: dict[str, list[Any]] = {name: [] for name in types}
            try:
                batch = next(content.batches, (None, 0.0))[0]
                wanted = [name for name in types if types[name] in ("text", "integer", "number")]
                for name in wanted if batch is not None else ():
                    assert batch is not None
                    column = batch.column(name).slice(0, SAMPLE_ROWS)
                    column.validate(full=True)  # offsets that are none end to_pylist in C
                    values[name] = [value for value in column.to_pylist() if value is not None]
            except Exception as error:
                # Names and types are enough where rows cannot be read.
                if not is_broken(error):
                    raise
        return types, values

    def begin(self, file: Any, schema: pa.Schema) -> BatchWriter:
        """Begins a file of typed columns.

        Raises:
          ConfigError: this format is not written.
        """
        raise ConfigError("--format", self.name, "cannot be written; choose another format.")

    def writer(self, file: Any) -> FormatWriter:
        """Returns what writes batches to an open binary file and closes it."""
        return ColumnWriter(self, file)

    def encode(self, batch: pa.RecordBatch, broken: Flags = ()) -> bytes:
        """Encodes rows as one message; those flagged as broken cannot be read."""
        out = io.BytesIO()
        writer = self.begin(out, batch.schema)
        writer.write_batch(blanked(batch, broken))
        writer.close()
        return out.getvalue()


class FormatWriter(ABC):
    """Writes batches to a file until it is closed."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch, broken: Flags = ()) -> None:
        """Writes every row; those flagged as broken are written as something unreadable."""

    @abstractmethod
    def close(self) -> None:
        """Writes what is left, and closes the file."""


class ColumnWriter(FormatWriter):
    """Writes typed columns. A broken row has nulls in all of them."""

    def __init__(self, form: Format, file: Any) -> None:
        self._form, self._file = form, file
        self._writer: BatchWriter | None = None

    def write(self, batch: pa.RecordBatch, broken: Flags = ()) -> None:
        if self._writer is None:
            self._writer = self._form.begin(self._file, batch.schema)
        self._writer.write_batch(blanked(batch, broken))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._file.close()


def blanked(batch: pa.RecordBatch, broken: Flags) -> pa.RecordBatch:
    """Returns a batch in which every column of a row flagged as broken is null."""
    if not any(broken):
        return batch
    good = pa.array([not bad for bad in broken])
    return pa.RecordBatch.from_pydict(
        {
            name: pc.if_else(good, column, pa.scalar(None, column.type))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
    )


def kind_word(kind: pa.DataType) -> str:
    """Returns the type of a column as ``samples`` says it."""
    from weir.transforms.decode.cast import is_text, plain_type
    from weir.transforms.decode.lists import holds_numbers

    kind = plain_type(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_fixed_size_list(kind) and holds_numbers(kind):
        return f"list of {kind.list_size} numbers"
    # Of a column without a single value, as of one of CSV.
    return "text" if is_text(kind) or pa.types.is_null(kind) else "other"


def list_size(word: str) -> int:
    """Returns how many numbers each list of a column of this type holds; 0: it holds no lists."""
    words = word.split()
    return int(words[2]) if words[:2] == ["list", "of"] else 0
