"""A bucket in memory, as Beam's file systems see one: flat names, no folders, renames that copy."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, ClassVar

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem


class _Upload(io.BytesIO):
    """What is written appears when it is closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        if not self.closed:
            Bucket.objects[self._path] = self.getvalue()
        super().close()


class Bucket(FileSystem):
    """``held://bucket/...``. Beam finds it by its scheme.

    Attributes:
      objects: path -> bytes. stop: copies after which a rename dies before it deletes; -1: never.
    """

    objects: ClassVar[dict[str, bytes]] = {}
    stop: ClassVar[int] = -1

    @classmethod
    def scheme(cls) -> str:
        return "held"

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        raise AssertionError("a bucket has no folders to make")

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for path in sorted(Bucket.objects):
            if path.startswith(dir_or_prefix):
                yield self.metadata(path)

    def create(self, path: str, *_: Any, **__: Any) -> Any:
        return _Upload(path)

    def open(self, path: str, *_: Any, **__: Any) -> Any:
        return io.BytesIO(Bucket.objects[path])

    def copy(self, source: list[str], target: list[str]) -> None:
        for one, other in zip(source, target, strict=True):
            Bucket.objects[other] = Bucket.objects[one]

    def rename(self, source: list[str], target: list[str]) -> None:
        for one, other in zip(source, target, strict=True):
            self.copy([one], [other])
            if Bucket.stop == 0:
                raise KeyboardInterrupt
            Bucket.stop -= 1
            del Bucket.objects[one]

    def exists(self, path: str) -> bool:
        return path in Bucket.objects

    def size(self, path: str) -> int:
        return len(Bucket.objects[path])

    def last_updated(self, path: str) -> float:
        return 0.0

    def checksum(self, path: str) -> str:
        return ""

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, len(Bucket.objects[path]), 0.0)

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            if path not in Bucket.objects:
                raise BeamIOError("no such object")
            del Bucket.objects[path]
