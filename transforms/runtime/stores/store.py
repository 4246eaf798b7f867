"""What every store of files can do, by full paths. None of it imports Beam."""

from __future__ import annotations

import errno
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from weir.dpcore.errors import WeirError

_LITERAL = re.compile(r"[^*?\[]*")
_PARTS = re.compile(r"\*\*|\*|\?|\[(!?)(\]?[^\]]*)\]|.", re.DOTALL)


class StoreError(WeirError, OSError):
    """A store that cannot be reached, or refuses. Says nothing of what a file holds.

    It carries a number of the system, because it never means that a file is damaged.

    Args:
      place: path. what: what is wrong, and what to do.
    """

    def __init__(self, place: str, what: str) -> None:
        super().__init__(errno.EIO, what)
        self.place = place

    def __str__(self) -> str:
        return f"{self.place}: {self.strerror}"

    def __reduce__(self) -> Any:
        return type(self), (self.place, self.strerror)


class Entry(NamedTuple):
    """A file.

    Attributes:
      path: in full. size: in bytes. changed: when it was written, in seconds since 1970.
      checksum: of its bytes, as the store gives it; empty where it gives none.
    """

    path: str
    size: int
    changed: float
    checksum: str = ""


class Store(ABC):
    """A kind of place for files."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Names of the files and folders in a folder; none where there is no such folder."""

    @abstractmethod
    def under(self, start: str) -> Iterator[Entry]:
        """Files whose paths begin like this, at any depth."""

    @abstractmethod
    def entry(self, path: str) -> Entry | None:
        """What is known of a file, or None where there is none."""

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """Content of a file, or None where there is none."""

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """A file's bytes as they are stored, to read and seek in. Raises OSError without one."""

    @abstractmethod
    def create(self, path: str, content: bytes) -> bool:
        """Makes a whole file unless one is there, in one step of the store.

        Of all who try at once, one gets True.
        """

    @abstractmethod
    def replace(self, path: str, content: bytes) -> None:
        """Puts a whole file in place of what is there."""

    @abstractmethod
    def move(self, source: str, target: str) -> bool:
        """Moves a whole file; False, and nothing is done, without a source or where a target is.

        Stopped in between, both may be there, with the same bytes.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a folder with all that is in it; nothing happens without one."""

    def match(self, pattern: str) -> list[Entry]:
        """Files of a glob in order of their paths: ``*`` stays inside a folder, ``**`` does not.

        Without a wildcard it is one file, or all files right in a folder with a slash at its end.
        """
        if pattern.endswith("/"):
            pattern += "*"
        start = pattern[: _LITERAL.match(pattern).end()]  # type: ignore[union-attr]  # may be empty
        if start == pattern:
            result = self.entry(pattern)
            return [] if result is None else [result]
        wanted = re.compile("".join(_regex(part) for part in _PARTS.finditer(pattern)), re.DOTALL)
        return sorted(entry for entry in self.under(start) if wanted.fullmatch(entry.path))


def _regex(part: re.Match[str]) -> str:
    """One part of a glob as a regular expression."""
    text = part[0]
    if len(text) > 2 and text[0] == "[":
        inside = part[2].replace("\\", "\\\\")
        if inside[0] == "^":
            inside = "\\" + inside
        return f"[{'^' if part[1] else ''}{inside}]"
    return {"**": ".*", "*": "[^/]*", "?": "."}.get(text, re.escape(text))


__all__ = ["Entry", "Store", "StoreError"]
