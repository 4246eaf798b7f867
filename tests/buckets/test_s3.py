"""What services that speak S3's protocol do otherwise than the server of these tests."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from weir.pipelines.engines.servers import BucketServer
from weir.transforms.runtime import files
from weir.transforms.runtime.stores.s3 import S3, TRIES
from weir.transforms.runtime.stores.store import StoreError


class Changed:
    """A client that meets faults.

    Args:
      faults: writes that are put off. ignores: whether If-None-Match is. breaks: reads that are cut
        short.
    """

    def __init__(
        self, client: Any, faults: int = 0, ignores: bool = False, breaks: int = 0
    ) -> None:
        self._client, self._faults, self._ignores = client, faults, ignores
        self._breaks = breaks

    def put_object(self, **words: Any) -> Any:
        if self._faults:
            self._faults -= 1
            answer = {"Error": {"Code": "ConditionalRequestConflict", "Message": ""}}
            raise ClientError(answer, "PutObject")
        if self._ignores:
            words.pop("IfNoneMatch", None)
        return self._client.put_object(**words)

    def get_object(self, **words: Any) -> Any:
        found = self._client.get_object(**words)
        if self._breaks:
            self._breaks -= 1
            found["Body"]._content_length = str(found["ContentLength"] + 1)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.fixture
def place(buckets: BucketServer, request: pytest.FixtureRequest) -> str:
    name = f"weir-s3-{abs(hash(request.node.name)) % 10**9}"
    buckets.make(name)
    return f"s3://{name}"


def store(monkeypatch: pytest.MonkeyPatch, place: str, **words: Any) -> S3:
    found = files.store_of(place)
    assert isinstance(found, S3)
    monkeypatch.setattr(found, "_client", Changed(found._client, **words))
    return found


def test_a_write_that_is_put_off_is_tried_again(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(monkeypatch, place, faults=TRIES - 1)
    assert files.put(f"{place}/a", b"one") and files.read(f"{place}/a") == b"one"


def test_a_read_that_breaks_off_is_tried_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files.put(f"{place}/a", b"one")
    store(monkeypatch, place, breaks=TRIES - 1)
    assert files.read(f"{place}/a") == b"one"
    store(monkeypatch, place, breaks=100)
    with pytest.raises(StoreError, match="IncompleteReadError"):
        files.read(f"{place}/a")


def test_a_write_that_is_always_put_off_fails(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store(monkeypatch, place, faults=100)
    with pytest.raises(StoreError, match="ConditionalRequestConflict"):
        files.put(f"{place}/a", b"one")


def test_a_service_that_replaces_all_the_same_is_refused(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(monkeypatch, place, ignores=True)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"does not support If-None-Match: \* and replaces"):
            files.put(f"{place}/a", b"one")


def test_no_credentials_are_said_in_words(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    files._store.cache_clear()
    with pytest.raises(StoreError, match="no credentials of AWS are found. Run aws configure"):
        files.read(f"{place}/a")


def test_a_service_that_is_away_is_said_in_words(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    files._store.cache_clear()
    with pytest.raises(StoreError, match=r"S3 cannot be used \(EndpointConnectionError\)"):
        files.exists(f"{place}/a")
