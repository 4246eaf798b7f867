"""Azure Storage, through azure-storage-blob. It is read only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobPrefix, BlobServiceClient

from weir.transforms.runtime.stores.bucket import REPLACED, Bucket, Head
from weir.transforms.runtime.stores.store import StoreError

CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
"""Variable that holds an account's key or shared access signature."""
SCOPE = "https://storage.azure.com/.default"
"""Of a token that may read any account that its owner may."""
FOLDER = "hdi_isfolder"
"""Metadata of what stands for a folder, in accounts with a hierarchy of names."""
RETRIES: dict[str, Any] = {
    "retry_total": 4, "initial_backoff": 1, "increment_base": 2, "random_jitter_range": 1,
}  # fmt: skip


class Abfs(Bucket):
    """``abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/...``, over HTTPS.

    What a bucket is to other services is ``CONTAINER@ACCOUNT.dfs...`` here. Names are those of
    ``files.SERVICES``, so a credential goes to no host but Azure's.
    """

    scheme: ClassVar[str] = "abfs"

    def __init__(self) -> None:
        self._services: dict[str, Any] = {}

    def _container(self, bucket: str) -> Any:
        container, _, host = bucket.partition("@")
        if host not in self._services:
            self._services[host] = self._service(bucket, host)
        return self._services[host].get_container_client(container)

    def _service(self, bucket: str, host: str) -> Any:
        text = os.environ.get(CONNECTION)
        if text:
            try:
                service = BlobServiceClient.from_connection_string(text, **RETRIES)
            except ValueError:
                raise StoreError(
                    f"{self.scheme}://{bucket}",
                    f"{CONNECTION} cannot be read. Copy it again from the account's access keys.",
                ) from None
            if service.account_name == host.partition(".")[0]:
                return service
        from azure.identity import DefaultAzureCredential  # slow to import

        url = f"https://{host.replace('.dfs.', '.blob.', 1)}"
        credential = DefaultAzureCredential()
        credential.get_token(SCOPE)  # the client would try for half a minute if there is none
        return BlobServiceClient(url, credential=credential, **RETRIES)

    def _head(self, bucket: str, key: str) -> Head | None:
        if not key:  # the client takes no empty name
            return None
        with self._words(bucket, key):
            try:
                result = self._container(bucket).get_blob_client(key).get_blob_properties()
            except ResourceNotFoundError as error:
                if _code(error) == "ContainerNotFound":
                    raise
                return None
        return None if _is_folder(result) else _head_of(result)

    def _get(self, bucket: str, key: str, part: slice | None, version: str) -> bytes | None:
        wanted: dict[str, Any] = {}
        if not key:
            return None
        if part is not None:
            wanted = {"offset": part.start, "length": part.stop - part.start}
        if version:
            wanted |= {"etag": version, "match_condition": MatchConditions.IfNotModified}
        with self._words(bucket, key):
            try:
                blob = self._container(bucket).download_blob(key, decompress=False, **wanted)
                return bytes(blob.readall())
            except ResourceNotFoundError as error:
                if _code(error) == "ContainerNotFound":
                    raise
                return None

    def _put(self, bucket: str, key: str, content: bytes, writer: str) -> bool:
        raise StoreError(f"{self.scheme}://{bucket}/{key}", READ_ONLY)

    def _delete(self, bucket: str, keys: Sequence[str]) -> None:
        raise StoreError(f"{self.scheme}://{bucket}", READ_ONLY)

    def _list(self, bucket: str, prefix: str, level: bool) -> Iterator[tuple[str, Head]]:
        with self._words(bucket, prefix):
            container = self._container(bucket)
            walk = container.walk_blobs if level else container.list_blobs
            for item in walk(name_starts_with=prefix or None, include=["metadata"]):
                if isinstance(item, BlobPrefix):
                    yield item.name, Head(0, 0.0, "", "", "")
                elif not _is_folder(item):
                    yield item.name, _head_of(item)

    @contextlib.contextmanager
    def _words(self, bucket: str, key: str) -> Iterator[None]:
        """Says in a sentence what the service or its library says in a code. Raises StoreError,
        without a cause: those of the library may hold the URL, and so a signature."""
        place = f"{self.scheme}://{bucket}/{key}"
        try:
            yield
        except ClientAuthenticationError as error:
            what = _DENIED if error.response is not None else _NOBODY
            raise StoreError(place, what) from None
        except HttpResponseError as error:
            raise StoreError(place, _sentence(error)) from None
        except AzureError:
            raise StoreError(
                place,
                "Azure Storage cannot be reached. Check the name of the account and the network.",
            ) from None


class Abfss(Abfs):
    """``abfss://...``: the same by the name that Hadoop and Spark give it."""

    scheme: ClassVar[str] = "abfss"


READ_ONLY = "Azure Storage is read only here. Write to a disk, gs:// or s3://."


def _is_folder(item: Any) -> bool:
    return str((item.metadata or {}).get(FOLDER, "")).lower() == "true"


def _head_of(item: Any) -> Head:
    changed = float(int(item.last_modified.timestamp()))
    tag = str(item.etag).strip('"')
    return Head(item.size, changed, tag, f'"{tag}"', "")


def _code(error: HttpResponseError) -> str:
    named = getattr(error, "error_code", None)
    return str(getattr(named, "value", named) or error.status_code)


def _sentence(error: HttpResponseError) -> str:
    code = _code(error)
    return _WORDS.get(code) or _WORDS.get(
        str(error.status_code), f"Azure Storage answers {code}. Check the container and the access."
    )


_DENIED = (
    "access is denied. Give this account the role Storage Blob Data Reader on the container, or "
    "use a key or a signature that may read and list."
)
_NOBODY = (
    f"no usable credentials of Azure are found. Run az login, or set {CONNECTION} to that of this "
    "account."
)
_WORDS = {
    "401": _DENIED,
    "403": _DENIED,
    "ContainerNotFound": "there is no such container. Check the name.",
    "404": "there is no such container or file. Check the name.",
    "412": REPLACED,
}


__all__ = ["Abfs", "Abfss"]
