"""Real servers of Google Cloud Storage and S3 on this machine, started once a session."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components import needed
from tests.pipelines.conftest import small, weir  # noqa: F401 - fixtures
from weir.pipelines.engines.servers import BUCKETS as COMPONENT
from weir.pipelines.engines.servers import BucketServer
from weir.transforms.runtime import files

_numbers = itertools.count()


@pytest.fixture(scope="session")
def running_buckets() -> Iterator[BucketServer]:
    needed(COMPONENT.located)
    with BucketServer() as server:
        yield server


@pytest.fixture
def buckets(
    running_buckets: BucketServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BucketServer]:
    """The server, to which clients of this process and its children go."""
    for name, value in running_buckets.environment.items():
        monkeypatch.setenv(name, value)
    files._store.cache_clear()
    yield running_buckets
    files._store.cache_clear()


@pytest.fixture(params=["gs", "s3"])
def bucket(request: pytest.FixtureRequest, buckets: BucketServer) -> str:
    """An empty bucket of a service: gs://NAME or s3://NAME."""
    name = f"weir-test-{next(_numbers)}"
    buckets.make(name)
    return f"{request.param}://{name}"


@pytest.fixture(params=["disk", "gs", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty folder, on a disk or in a bucket."""
    if request.param == "disk":
        return str(tmp_path / "folder")
    server: BucketServer = request.getfixturevalue("buckets")
    name = f"weir-test-{next(_numbers)}"
    server.make(name)
    return f"{request.param}://{name}/folder"
