"""Amazon S3 and what speaks its protocol, through boto3."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
)

from weir.transforms.runtime.stores.bucket import REPLACED, Bucket, Head
from weir.transforms.runtime.stores.store import StoreError

WRITER = "weir-writer"
"""Name of an object's own metadata that says which try made it."""
TRIES = 8
"""How often a write is tried that S3 puts off because another one is under way, or a read that
breaks off: the library tries neither again."""
MOST = 1000
"""Objects that one request removes."""
_CONFIG = Config(
    retries={"mode": "standard", "max_attempts": 6},
    # Other services than Amazon's send the checksum of the whole object with a part of it.
    response_checksum_validation="when_required",
)
_MISSING = {"404", "NoSuchKey"}
_THERE = {"412", "PreconditionFailed"}
_PUT_OFF = {"409", "ConditionalRequestConflict"}


class S3(Bucket):
    """``s3://BUCKET/...``. ``If-None-Match: *`` makes an object only where there is none."""

    def __init__(self) -> None:
        with _words("s3://"):
            self._client: Any = boto3.Session().client("s3", config=_CONFIG)
        self._proven: set[str] = set()

    def _head(self, bucket: str, key: str) -> Head | None:
        with _words(f"s3://{bucket}/{key}"):
            try:
                result = self._client.head_object(Bucket=bucket, Key=key)
            except ClientError as error:
                if _code(error) in _MISSING:
                    return None
                raise
        own = {name.lower(): value for name, value in result.get("Metadata", {}).items()}
        return _head_of(result, result["ContentLength"], own.get(WRITER, ""))

    def _get(self, bucket: str, key: str, part: slice | None, version: str) -> bytes | None:
        wanted = {} if part is None else {"Range": f"bytes={part.start}-{part.stop - 1}"}
        if version:
            wanted["IfMatch"] = version
        with _words(f"s3://{bucket}/{key}"):
            for left in reversed(range(TRIES)):
                try:
                    result = self._client.get_object(Bucket=bucket, Key=key, **wanted)
                except ClientError as error:
                    if _code(error) in _MISSING:
                        return None
                    raise
                try:
                    return bytes(result["Body"].read())
                except (HTTPClientError, IncompleteReadError):
                    if not left:
                        raise
        return None

    def _put(self, bucket: str, key: str, content: bytes, writer: str) -> bool:
        if not writer:
            with _words(f"s3://{bucket}/{key}"):
                self._client.put_object(Bucket=bucket, Key=key, Body=content)
            return True
        if not self._made(bucket, key, content, writer):
            return False
        if bucket not in self._proven:
            if self._made(bucket, key, content, writer):
                raise StoreError(
                    f"s3://{bucket}",
                    "this store does not support If-None-Match: * and replaces objects. Use one "
                    "that does, such as Amazon S3.",
                )
            self._proven.add(bucket)
        return True

    def _made(self, bucket: str, key: str, content: bytes, writer: str) -> bool:
        """Makes an object only where there is none; returns whether this request made it."""
        with _words(f"s3://{bucket}/{key}"):
            for left in reversed(range(TRIES)):
                try:
                    self._client.put_object(
                        Bucket=bucket,
                        Key=key,
                        Body=content,
                        IfNoneMatch="*",
                        Metadata={WRITER: writer},
                    )
                    return True
                except ClientError as error:
                    if _code(error) in _THERE:
                        return False
                    if _code(error) not in _PUT_OFF or not left:
                        raise
        return False

    def _delete(self, bucket: str, keys: Sequence[str]) -> None:
        for at in range(0, len(keys), MOST):
            some = [{"Key": key} for key in keys[at : at + MOST]]
            with _words(f"s3://{bucket}"):
                done = self._client.delete_objects(
                    Bucket=bucket, Delete={"Objects": some, "Quiet": True}
                )
            for fault in done.get("Errors", ()):
                raise StoreError(
                    f"s3://{bucket}/{fault['Key']}", _sentence(fault.get("Code", "unknown"))
                )

    def _list(self, bucket: str, prefix: str, level: bool) -> Iterator[tuple[str, Head]]:
        wanted = {"Delimiter": "/"} if level else {}
        with _words(f"s3://{bucket}/{prefix}"):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=bucket, Prefix=prefix, **wanted):
                yield from (
                    (item["Key"], _head_of(item, item["Size"], ""))
                    for item in page.get("Contents", ())
                )
                yield from (
                    (item["Prefix"], Head(0, 0.0, "", "", ""))
                    for item in page.get("CommonPrefixes", ())
                )


def _head_of(found: Any, size: int, writer: str) -> Head:
    tag = found.get("ETag", "")
    changed = float(int(found["LastModified"].timestamp()))  # only lists have fractions, if any
    return Head(size, changed, tag.strip('"'), tag, writer)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _sentence(code: str) -> str:
    return _WORDS.get(code, f"S3 answers {code}. Check the bucket and the access rights.")


@contextlib.contextmanager
def _words(place: str) -> Iterator[None]:
    """Says in a sentence what the service or its library says in a code. Raises StoreError."""
    try:
        yield
    except ClientError as error:
        raise StoreError(place, _sentence(_code(error))) from error
    except NoCredentialsError as error:
        raise StoreError(
            place,
            "no credentials of AWS are found. Run aws configure, or set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY.",
        ) from error
    except BotoCoreError as error:
        raise StoreError(
            place, f"S3 cannot be used ({type(error).__name__}). Check the network and AWS_REGION."
        ) from error


_DENIED = (
    "access is denied. Give this account s3:ListBucket on the bucket, and s3:GetObject, "
    "s3:PutObject and s3:DeleteObject on its objects."
)
_WORDS = {
    "403": _DENIED,
    "AccessDenied": _DENIED,
    "404": "there is no such bucket or object. Check the name, and create the bucket first.",
    "NoSuchBucket": "there is no such bucket. Check the name, or create it.",
    "412": REPLACED,
    "PreconditionFailed": REPLACED,
}


__all__ = ["S3"]
