"""A bucket in memory, for tests that look at every object of it: ``held://bucket/...``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from weir.transforms.runtime import files
from weir.transforms.runtime.stores import bucket


class Bucket(bucket.Bucket):
    """A service of buckets.

    Attributes:
      objects: path -> bytes. stop: removals after which the next one dies; -1: none does.
    """

    objects: ClassVar[dict[str, bytes]] = {}
    stop: ClassVar[int] = -1

    def _head(self, bucket: str, key: str) -> bucket.Head | None:
        found = Bucket.objects.get(f"held://{bucket}/{key}")
        return None if found is None else _head(found)

    def _get(self, bucket: str, key: str, part: slice | None, version: str) -> bytes | None:
        found = Bucket.objects.get(f"held://{bucket}/{key}")
        return None if found is None else found[part or slice(None)]

    def _put(self, bucket: str, key: str, content: bytes, writer: str) -> bool:
        path = f"held://{bucket}/{key}"
        if writer:
            return Bucket.objects.setdefault(path, content) is content
        Bucket.objects[path] = content
        return True

    def _delete(self, bucket: str, keys: Sequence[str]) -> None:
        for key in keys:
            if Bucket.stop == 0:
                raise KeyboardInterrupt
            Bucket.stop -= 1
            Bucket.objects.pop(f"held://{bucket}/{key}", None)

    def _list(self, bucket: str, prefix: str, level: bool) -> Iterator[tuple[str, bucket.Head]]:
        seen = set[str]()
        for path, content in sorted(Bucket.objects.items()):
            key = path.removeprefix(f"held://{bucket}/")
            name = prefix + re.sub("/.*", "/", key.removeprefix(prefix)) if level else key
            if key.startswith(prefix) and path != key and name not in seen:
                seen.add(name)
                yield name, _head(content)


def _head(content: bytes) -> bucket.Head:
    return bucket.Head(len(content), 0.0, "", "", "")


files.SERVICES["held"] = files.SERVICES["gs"]._replace(
    module=__name__, name="Bucket", needs="json", extra="", bucket=re.compile("[a-z]+")
)
