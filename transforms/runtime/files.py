"""Files on a disk or in a bucket, by path: the one way to them for anyone who writes or looks.

A path is ``gs://BUCKET/...``, ``s3://BUCKET/...``, ``abfs://CONTAINER@ACCOUNT.dfs.../...``, which
is read only, or one of a disk. Files appear whole. What is
made "unless there is one" is made in one step of the disk or the service, so that of several who
try at once exactly one succeeds. Libraries of a service are imported when its first path is used.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from weir.dpcore.errors import ConfigError
from weir.transforms.runtime.stores.store import Entry, Store, StoreError


class Service(NamedTuple):
    """Where a service of buckets is implemented.

    Attributes:
      module, name: of its class, made without arguments.
      needs: library that it imports. extra: of this package, which brings the library.
      bucket: how names of its buckets look. rule: the same in words.
      form: of a name, to fill in. writes: whether files can be written there.
    """

    module: str
    name: str
    needs: str
    extra: str
    bucket: re.Pattern[str]
    rule: str
    form: str = "BUCKET"
    writes: bool = True


_AZURE = Service(
    "weir.transforms.runtime.stores.azure",
    "Abfs",
    "azure.storage.blob",
    "azure",
    re.compile(
        r"[a-z0-9](?=[a-z0-9-]{2,62}@)(?:-?[a-z0-9])*@[a-z0-9]{3,24}"
        r"\.dfs\.core\.(?:windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)"
    ),
    "3 to 63 lower-case letters, digits and single dashes, and an account's 3 to 24 lower-case "
    "letters and digits",
    "CONTAINER@ACCOUNT.dfs.core.windows.net",
    writes=False,
)
SERVICES = {
    "gs": Service(
        "weir.transforms.runtime.stores.gcs",
        "Gcs",
        "google.cloud.storage",
        "gcp",
        re.compile(r"(?!goog)(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9](?=.{2,221}$)[a-z0-9._-]*[a-z0-9]"),
        "3 to 63 lower-case letters, digits, dashes, underscores and dots, with a letter or a "
        "digit at both ends",
    ),
    "s3": Service(
        "weir.transforms.runtime.stores.s3",
        "S3",
        "boto3",
        "aws",
        re.compile(r"(?!\d+\.\d+\.\d+\.\d+$)(?!.*\.\.)[a-z0-9](?=.{2,62}$)[a-z0-9.-]*[a-z0-9]"),
        "3 to 63 lower-case letters, digits, dashes and dots, with a letter or a digit at both "
        "ends",
    ),
    "abfs": _AZURE,
    "abfss": _AZURE._replace(name="Abfss"),
}
"""Scheme of a URI -> its service."""


def fault(path: str, writes: bool = False) -> str | None:
    """What keeps this installation from reading a path, or from writing there, as the end of an
    error; None: nothing that can be known without asking anybody."""
    if not is_remote(path):
        return None
    scheme, _, rest = path.partition("://")
    service, bucket = SERVICES.get(scheme), rest.partition("/")[0]
    if scheme.lower() == "file":
        return "is a URI. Write the path without file://."
    if service is None:
        return (
            f"is a place that Weir does not reach: {scheme}:// is not supported. Use a folder of a "
            "disk, gs://BUCKET/... or s3://BUCKET/...; copy files from elsewhere to one of these."
        )
    if not service.bucket.fullmatch(bucket):
        return (
            f"names no bucket: {bucket!r} cannot be the name of one. Write "
            f"{scheme}://{service.form}/..., where a name has {service.rule}."
        )
    if writes and not service.writes:
        return (
            f"cannot be written: {scheme}:// is read only. Use a folder of a disk, gs://BUCKET/... "
            "or s3://BUCKET/..., and copy the files from there."
        )
    if not is_installed(service.needs):
        return (
            f"needs a library that is not installed ({service.needs}). Install the extra: pip "
            f"install 'weir-dp[{service.extra}]'."
        )
    return None


@contextlib.contextmanager
def refusals(field: str) -> Iterator[None]:
    """Names the field of a config whose store cannot be reached. Raises ConfigError."""
    try:
        yield
    except StoreError as error:
        raise ConfigError(field, error.place, str(error.strerror)) from error


@cache
def is_installed(library: str) -> bool:
    """Whether a library could be imported; does not import it."""
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:  # a package around it
        return False


def is_remote(folder: str) -> bool:
    """Whether a folder is a bucket and not on a disk."""
    return "://" in folder


def store_of(path: str) -> Store:
    """The store that a path lies in.

    Raises:
      StoreError: see ``fault``.
    """
    wrong = fault(path)
    if wrong is not None:
        raise StoreError(path, wrong)
    return _store(path.partition("://")[0] if is_remote(path) else "", os.getpid())


@cache
def _store(scheme: str, process: int) -> Store:
    """One for each process: connections do not survive a fork."""
    if not scheme:
        from weir.transforms.runtime.stores.disk import Disk

        return Disk()
    service = SERVICES[scheme]
    store: Store = getattr(importlib.import_module(service.module), service.name)()
    return store


def join(folder: str, name: str) -> str:
    """Path of a file in a folder."""
    return posixpath.join(folder, name) if is_remote(folder) else str(Path(folder) / name)


def read(path: str) -> bytes | None:
    """Content of a file, or None where there is none."""
    return store_of(path).read(path)


def open_raw(path: str) -> BinaryIO:
    """A file's bytes as they are stored, to read and seek in. Raises OSError without one."""
    return store_of(path).open(path)


def put(path: str, content: bytes) -> bool:
    """Makes a whole file, unless one is there: then it stays, and False is returned.

    However many try at once, one gets True.
    """
    return store_of(path).create(path, content)


def replace(path: str, content: bytes) -> None:
    """Puts a whole file in place of what is there."""
    store_of(path).replace(path, content)


def move(source: str, target: str) -> bool:
    """Moves a whole file inside one store; False, and nothing is done, without a source or where a
    target is.

    Stopped in between, both may be there, with the same bytes.
    """
    return store_of(source).move(source, target)


def remove(path: str) -> None:
    """Removes a file, or a folder with all that is in it; nothing happens where there is none."""
    store_of(path).remove(path)


def names(folder: str) -> list[str]:
    """Names of the files and folders in a folder; none where there is no such folder."""
    return store_of(folder).names(folder)


def under(folder: str) -> Iterator[Entry]:
    """Files in a folder, at any depth."""
    return store_of(folder).under(folder.rstrip("/") + "/")


def match(pattern: str) -> list[Entry]:
    """Files of a glob, or right in a folder with a slash at its end; see ``Store.match``."""
    return store_of(pattern).match(pattern)


def entry(path: str) -> Entry | None:
    """What is known of a file, or None where there is none."""
    return store_of(path).entry(path)


def exists(path: str) -> bool:
    """Whether there is a file."""
    return entry(path) is not None
