"""What buckets have in common: flat names, no folders, objects that appear whole."""

from __future__ import annotations

import errno
import io
import os
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from weir.transforms.runtime.stores.store import Entry, Store, StoreError

BUFFER = 8 << 20
"""Bytes that are asked for at least, where a file is read on and on."""

REPLACED = "was replaced or removed while it was read. Let nobody write to it during a run."


class Head(NamedTuple):
    """What a store says of an object.

    Attributes:
      size: in bytes. changed: seconds since 1970. checksum: of the bytes.
      version: of the object. writer: what ``_put`` was given.
    """

    size: int
    changed: float
    checksum: str
    version: str
    writer: str


class Bucket(Store):
    """Objects of all buckets of one service, by URI. A service fills in what begins with _."""

    @abstractmethod
    def _head(self, bucket: str, key: str) -> Head | None:
        """What is known of an object; None where there is none."""

    @abstractmethod
    def _get(self, bucket: str, key: str, part: slice | None, version: str) -> bytes | None:
        """Bytes of an object, or of a part of it; None where there is none.

        Args:
          version: the one that is meant; empty: the newest.
        """

    @abstractmethod
    def _put(self, bucket: str, key: str, content: bytes, writer: str) -> bool:
        """Makes or replaces an object. writer: if not empty, only where there is none, in one step
        of the service; kept with the object. Returns whether it was made."""

    @abstractmethod
    def _delete(self, bucket: str, keys: Sequence[str]) -> None:
        """Removes objects; those that are not there do not matter."""

    @abstractmethod
    def _list(self, bucket: str, prefix: str, level: bool) -> Iterator[tuple[str, Head]]:
        """Keys that begin with a prefix. level: those with a slash behind it are cut off there."""

    def names(self, folder: str) -> list[str]:
        bucket, key = split(folder)
        prefix = f"{key.rstrip('/')}/" if key else ""
        result = (name[len(prefix) :] for name, _ in self._list(bucket, prefix, True))
        return [name.rstrip("/") for name in result if name]

    def under(self, start: str) -> Iterator[Entry]:
        bucket, prefix = split(start)
        top = start[: len(start) - len(prefix)]
        for key, head in self._list(bucket, prefix, False):
            if not key.endswith("/"):  # what consoles make in place of a folder
                yield Entry(top + key, head.size, head.changed, head.checksum)

    def entry(self, path: str) -> Entry | None:
        result = self._head(*split(path))
        return None if result is None else Entry(path, result.size, result.changed, result.checksum)

    def read(self, path: str) -> bytes | None:
        return self._get(*split(path), None, "")

    def open(self, path: str) -> BinaryIO:
        place = split(path)
        head = self._head(*place)
        if head is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

        def fetch(part: slice) -> bytes:
            result = self._get(*place, part, head.version)
            if result is None:
                raise StoreError(path, REPLACED)
            return result

        return io.BufferedReader(_Parts(head.size, fetch), BUFFER)

    def create(self, path: str, content: bytes) -> bool:
        writer = uuid.uuid4().hex
        if self._put(*split(path), content, writer):
            return True
        # Where the answer was lost and the library asked again, what is there is ours.
        result = self._head(*split(path))
        return result is not None and result.writer == writer

    def replace(self, path: str, content: bytes) -> None:
        self._put(*split(path), content, "")

    def move(self, source: str, target: str) -> bool:
        content = self.read(source)
        if content is None or not self.create(target, content):
            return False
        place, key = split(source)
        self._delete(place, [key])
        return True

    def remove(self, path: str) -> None:
        bucket, key = split(path)
        key = key.rstrip("/")
        inside = [name for name, _ in self._list(bucket, f"{key}/", False)]
        self._delete(bucket, [*inside, key])


class _Parts(io.RawIOBase):
    """An object that is fetched in parts."""

    def __init__(self, size: int, fetch: Callable[[slice], bytes]) -> None:
        self._size, self._fetch, self._at = size, fetch, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        stop = min(self._size, self._at + len(buffer))
        if stop <= self._at:
            return 0
        data = self._fetch(slice(self._at, stop))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def split(path: str) -> tuple[str, str]:
    """Bucket and key of a URI."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


__all__ = ["Bucket", "Head", "split"]
