"""A source made of files: check, split, decode. Files lie on a disk or in a bucket.

How a file is split is its format's; only splits are ever redistributed, and batches stay where they
are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded, Over
from weir.transforms.decode.encoding import TextForm
from weir.transforms.decode.lines import CHUNK_BYTES
from weir.transforms.decode.parquet import Ahead
from weir.transforms.decode.schema import EventSchema
from weir.transforms.formats.format import DecodeOptions, Format
from weir.transforms.formats.registry import FORMATS, file_formats
from weir.transforms.formats.stored import File, LostBytes, Split, is_local
from weir.transforms.runtime.prefetch import in_turn
from weir.transforms.sources import matching
from weir.transforms.sources.partitions import (
    Partition,
    in_partition,
    may_hold,
    partition_of,
    refuse_uneven,
)
from weir.transforms.sources.seal import refuse_changed


@dataclass(frozen=True)
class FileSource:
    """Which files, and how to read them.

    Attributes:
      form: name of a format of files. Text may be compressed (.gz, .bz2, .xz, .zst).
      path: a path, a folder (with a slash at its end) or a glob; or several of them.
      dataset: whether the path is a folder whose folders are named COLUMN=VALUE, at any depth.
      text: how texts are written.
      chunk_bytes: how much to decode at a time; no result depends on it.
    """

    form: str
    path: str | tuple[str, ...]
    text: TextForm = TextForm()
    chunk_bytes: int = CHUNK_BYTES
    dataset: bool = False

    def __post_init__(self) -> None:
        if self.form not in file_formats():
            raise ConfigError(
                "source", self.form, f"is no format; use {', '.join(file_formats())}."
            )

    @property
    def format(self) -> Format:
        """How its files are read."""
        return FORMATS.of(self.form, self.text)

    @property
    def field(self) -> str:
        """The setting that holds the path."""
        return f"source.{self.form}.dataset" if self.dataset else f"source.{self.form}"

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths, folders and globs."""
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def shown(self) -> str:
        """The paths, for messages."""
        return ", ".join(self.paths)

    def match(self) -> tuple[File, ...]:
        """The files, in order of their paths.

        Raises:
          ConfigError: there is none, or a dataset has files in folders of different columns.
        """
        if not self.dataset:
            return matching.match_all(self.paths, self.field)
        matched = matching.match_dataset(self.shown, self.field)
        refuse_uneven(matched, self.shown, self.field)
        return matched

    def partition(self, path: str) -> Partition:
        """What the folders of a file say of all its records."""
        return partition_of(path, self.shown, self.field) if self.dataset else {}

    def pruned(
        self, matched: tuple[File, ...], where: str | None, schema: EventSchema
    ) -> tuple[File, ...]:
        """The files that may hold a record which satisfies a predicate."""
        if not self.dataset or where is None:
            return matched
        return tuple(f for f in matched if may_hold(where, schema, self.partition(f.path)))

    def splits(self, file: File) -> Iterator[Split]:
        """Cuts a file into parts that can be decoded apart.

        Raises:
          ConfigError: it is a pipe, a socket or a device by now.
        """
        if is_local(file.path):
            matching.require_regular(file.path, self.field)
        for split in self.format.split(file) if file.size else ():
            yield split._replace(version=file.version)

    def decode(
        self, split: Split, schema: EventSchema, ahead: Ahead = iter, over: Over = in_turn
    ) -> Iterator[Decoded]:
        """A split -> canonical batches; counts its bytes, and those that could not be read.

        Args:
          split: of a file. schema: the roles of columns.
          ahead: of columns as they are in the file where its format ``reads_ahead``, because they
            take as long to read as all that follows; otherwise of what is decoded.
          over: see ``DecodeOptions``.

        Raises:
          SourceChanged: the file is not the version that the split names.
        """
        refuse_changed(split.path, split.version, "since this run began")
        if self.format.reads_ahead:
            yield from self._counted(split, schema, ahead, over)
        else:
            yield from ahead(self._counted(split, schema, iter, over))
        refuse_changed(split.path, split.version, "while it was read")

    def _counted(
        self, split: Split, schema: EventSchema, ahead: Ahead, over: Over
    ) -> Iterator[Decoded]:
        lost, own = LostBytes(split), in_partition(schema, self.partition(split.path))
        how = DecodeOptions(lost.add, ahead, over, self.chunk_bytes)
        for decoded in self.format.decode(split, own, how):
            lost.fruitful |= decoded.events is not None
            yield decoded
        lost.end()
