"""What a run over files reads: events in parts, checked before anything is read of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.input_validation import FirstLook
from weir.transforms.decode.schema import EventSchema
from weir.transforms.formats.stored import File, Split
from weir.transforms.runtime import counters
from weir.transforms.runtime.prefetch import ahead, in_turn
from weir.transforms.sources.file_checks import check_files, look_at_files
from weir.transforms.sources.files import FileSource


class BoundedEvents(ABC):
    """Events that are there from the start, in parts."""

    @abstractmethod
    def splits(self) -> Iterator[Any]:
        """The parts, in order."""

    @abstractmethod
    def decode(self, split: Any, alone: bool = True) -> Iterator[Decoded]:
        """Canonical batches of a part, and its dead letters.

        alone: whether no other part is read meanwhile.
        """

    @property
    def apart(self) -> bool:
        """Whether several parts can be read at a time, and it pays: each takes one core."""
        return False


class OpenedFiles(BoundedEvents):
    """Files, matched, checked, and looked at.

    Args:
      source: which files.
      schema: the roles of columns.
      look: what the first records must have; None looks at none.
      sealed: the files as a ledger has entered them; None: no ledger did.
      found: the files, where they are neither to be looked up nor checked.
      where: the predicate, by which files of a dataset are left out.

    Raises:
      ConfigError: no file, a missing column, a column or a file of a wrong type, or records of
        which none fits.
    """

    def __init__(
        self,
        source: FileSource,
        schema: EventSchema,
        look: FirstLook | None = None,
        sealed: tuple[File, ...] | None = None,
        found: tuple[File, ...] | None = None,
        where: str | None = None,
    ) -> None:
        self.source, self.schema = source, schema
        if found is not None:
            self.files = found
            return
        self.files = source.match()
        if sealed is not None:
            if [file.path for file in sealed] != [file.path for file in self.files]:
                raise ConfigError(
                    source.field,
                    source.shown,
                    "changed since the ledger was read: other files match it now. Run again.",
                )
            self.files = sealed
        self.files = source.pruned(self.files, where, schema)
        check_files(source, self.files, schema)
        if look is not None:
            look_at_files(source, self.files, look)

    @property
    def size(self) -> int:
        """Bytes of all files: what the count "bytes" reaches at the end."""
        return sum(file.size for file in self.files)

    def splits(self) -> Iterator[Split]:
        """Parts of all files, in order."""
        for file in self.files:
            counters.add("source_files")
            yield from self.source.splits(file)

    def decode(self, split: Split, alone: bool = True) -> Iterator[Decoded]:
        """Each batch is decoded while the one before is used, and several chunks of a text at a
        time, where no other part is read."""
        return self.source.decode(split, self.schema, *((ahead, in_turn) if alone else (iter, map)))

    @property
    def apart(self) -> bool:
        """Always: a part is a file, or a piece of one."""
        return True
