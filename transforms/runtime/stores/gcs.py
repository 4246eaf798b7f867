"""Google Cloud Storage, through google-cloud-storage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from google.api_core import exceptions as answers
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud.storage import Client
from requests.exceptions import RequestException

from weir.transforms.runtime.stores.bucket import Bucket, Head
from weir.transforms.runtime.stores.store import StoreError

WRITER = "weir-writer"
"""Name of an object's own metadata that says which try made it."""


class Gcs(Bucket):
    """``gs://BUCKET/...``. ``ifGenerationMatch=0`` makes an object only where there is none."""

    def __init__(self) -> None:
        with _words("gs://"):
            self._client = Client()

    def _blob(self, bucket: str, key: str, version: str = "") -> Any:
        return self._client.bucket(bucket).blob(key, generation=int(version) if version else None)

    def _head(self, bucket: str, key: str) -> Head | None:
        with _words(f"gs://{bucket}/{key}"):
            result = self._client.bucket(bucket).get_blob(key)
        return None if result is None else _head_of(result)

    def _get(self, bucket: str, key: str, part: slice | None, version: str) -> bytes | None:
        start, stop = (None, None) if part is None else (part.start, part.stop - 1)
        with _words(f"gs://{bucket}/{key}"):
            try:
                return bytes(
                    self._blob(bucket, key, version).download_as_bytes(
                        start=start, end=stop, raw_download=True
                    )
                )
            except answers.NotFound:
                return None

    def _put(self, bucket: str, key: str, content: bytes, writer: str) -> bool:
        blob = self._blob(bucket, key)
        if writer:
            blob.metadata = {WRITER: writer}
        with _words(f"gs://{bucket}/{key}"):
            try:
                blob.upload_from_string(
                    content,
                    content_type="application/octet-stream",
                    if_generation_match=0 if writer else None,
                )
            except answers.PreconditionFailed:
                if not writer:
                    raise
                return False
        return True

    def _delete(self, bucket: str, keys: Sequence[str]) -> None:
        for key in keys:
            with _words(f"gs://{bucket}/{key}"), contextlib.suppress(answers.NotFound):
                self._blob(bucket, key).delete()

    def _list(self, bucket: str, prefix: str, level: bool) -> Iterator[tuple[str, Head]]:
        with _words(f"gs://{bucket}/{prefix}"):
            result = self._client.list_blobs(
                bucket, prefix=prefix or None, delimiter="/" if level else None
            )
            for page in result.pages:
                yield from ((blob.name, _head_of(blob)) for blob in page)
                yield from ((name, NOTHING) for name in page.prefixes)


NOTHING = Head(0, 0.0, "", "", "")


def _head_of(blob: Any) -> Head:
    return Head(
        blob.size or 0,
        blob.updated.timestamp() if blob.updated else 0.0,
        blob.crc32c or "",
        str(blob.generation or ""),
        (blob.metadata or {}).get(WRITER, ""),
    )


@contextlib.contextmanager
def _words(place: str) -> Iterator[None]:
    """Says in a sentence what the service or its library says in a number.

    Raises:
      StoreError: it is neither "there is none" nor "there is one", which callers take.
    """
    try:
        yield
    except answers.GoogleAPICallError as error:
        raise StoreError(
            place,
            _WORDS.get(error.code or 0, f"Google Cloud Storage answers {error.code}. Try again."),
        ) from error
    except DefaultCredentialsError as error:
        raise StoreError(
            place,
            "no credentials of Google Cloud are found. Run gcloud auth application-default login, "
            "or set GOOGLE_APPLICATION_CREDENTIALS.",
        ) from error
    except (answers.GoogleAPIError, GoogleAuthError, RequestException) as error:
        raise StoreError(
            place, "Google Cloud Storage cannot be reached. Check the network."
        ) from error


_DENIED = (
    "access is denied. Give this account roles/storage.objectAdmin on the bucket, or another one "
    "that may list, read, create and delete objects."
)
_WORDS = {
    401: _DENIED,
    403: _DENIED,
    404: "there is no such bucket or object. Check the name, and create the bucket first.",
}


__all__ = ["Gcs"]
