"""What writes a file of releases, once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from hashlib import sha256

import pyarrow as pa

from weir.dpcore.errors import DAMAGE, ConfigError
from weir.transforms.release.few import Shape
from weir.transforms.runtime.fence import Fence, Removed
from weir.transforms.runtime.signing import Signer
from weir.transforms.sinks import formats, place, receipts
from weir.transforms.sinks.sorted_table import Sorted, contradict


class Writer(ABC):
    """Writes sorted tables of one range somewhere."""

    @abstractmethod
    def encode(self, table: pa.Table) -> bytes:
        """A sorted table as the bytes that are written. Any thread may do it, at any time."""

    @abstractmethod
    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        """Puts what ``encode`` made of ticks first .. last in place, once.

        Args:
          divergent: rows of it that came a second time with another value.

        Returns:
          Rows that contradict what is there.
        """

    def write(self, first: int, last: int, ready: Sorted) -> int:
        """Both."""
        return self.put(first, last, self.encode(ready.table), ready.divergent)

    def compare(self, first: int, last: int, again: Sorted) -> int:
        """Rows of a repeat, after the write, that differ from what was written."""
        return 0

    def is_written(self, first: int, last: int) -> bool:
        """Whether these ticks are known to be written already."""
        return False

    def of(self, part: place.Part) -> Writer:
        """The writer of one part of the blocks; a writer that knows no parts is given one only."""
        return self

    def mark(self) -> tuple[str, str] | None:
        """Folder and name of a file that is there from before a run until after it; None: of such
        a place nothing is known."""
        return None


class Guard:
    """Looks, right before something is written, whether the job may still write there.

    Args:
      writer: of the place. around: the job's fence.
    """

    def __init__(self, writer: Writer, around: Fence) -> None:
        self._mark, self._fence = writer.mark(), around
        self._begun = self._mark is not None and place.exists(place.join(*self._mark))

    def check(self) -> None:
        """Looks.

        Raises:
          Fenced: another job has taken over. Removed: the place has lost what it was begun with.
        """
        self._fence.check()
        if self._begun and self._mark is not None and not place.exists(place.join(*self._mark)):
            self._fence.fail(Removed(*self._mark))


@dataclass(frozen=True)
class FolderWriter(Writer):
    """Files of a folder. A file that is there is never replaced.

    Attributes:
      folder: path or bucket. form: parquet, csv or ndjson.
      shape: how vectors become rows; None: as lists of every coordinate.
      part: of the blocks.
      signer: of the receipt that each file gets; None: it is not signed.
    """

    folder: str
    form: str
    shape: Shape | None = None
    part: place.Part = place.WHOLE
    signer: Signer | None = None

    def of(self, part: place.Part) -> Writer:
        """See Writer."""
        return replace(self, part=part)

    def mark(self) -> tuple[str, str]:
        """See Writer."""
        return self.folder, place.PLAN_FILE

    def encode(self, table: pa.Table) -> bytes:
        """See Writer."""
        return formats.encode(table, self.form, self.shape)

    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        """See Writer."""
        name = place.file_name(first, last, self.form, self.part)
        path = place.join(self.folder, name)
        if self.signer is not None:
            self.signer.public()  # a key that cannot be read ends the job before the file is there
        if place.put(path, content):
            receipts.write_file(self.folder, name, sha256(content).hexdigest(), self.signer)
            return 0
        receipts.write_file(self.folder, name, receipts.digest_of(path), self.signer)
        return differences(place.read(path), content, self.form, True, self._sparse)

    def compare(self, first: int, last: int, again: Sorted) -> int:
        """See Writer."""
        path = place.join(self.folder, place.file_name(first, last, self.form, self.part))
        content = self.encode(again.table)
        return differences(place.read(path), content, self.form, False, self._sparse)

    def is_written(self, first: int, last: int) -> bool:
        """See Writer."""
        return place.exists(
            place.join(self.folder, place.file_name(first, last, self.form, self.part))
        )

    @property
    def _sparse(self) -> frozenset[str]:
        """Names of vectors whose zeros may be left out."""
        return (
            frozenset(name for name, _ in self.shape.sparse) if self.shape is not None else NO_NAMES
        )


NO_NAMES: frozenset[str] = frozenset()


def differences(
    there: bytes | None, mine: bytes, form: str, whole: bool, sparse: frozenset[str] = NO_NAMES
) -> int:
    """Rows of a file that is computed again which differ from the one that is there.

    Args:
      there: the file's bytes, None where there is none: then nothing differs.
      whole: whether both must hold the same rows; else the second may hold some of them.
      sparse: names of vectors of which either may list zeros or leave them out.
    """
    if there is None or there == mine:
        return 0
    again = formats.row_texts(mine, form, sparse)
    try:
        retained = formats.row_texts(there, form, sparse)
    except DAMAGE:
        raise ConfigError(
            "sink",
            form,
            "holds a file of releases that cannot be read: it was damaged or changed since it was "
            "written. weir verify says which; put it back from a copy.",
        ) from None
    wrong = sum(contradict(again[key], retained[key]) for key in retained.keys() & again.keys())
    return wrong + (
        len(retained.keys() ^ again.keys()) if whole else len(again.keys() - retained.keys())
    )
