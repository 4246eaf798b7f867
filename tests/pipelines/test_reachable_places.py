"""Places that a run could not reach are refused when the config is read, with what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.transforms.runtime import files
from weir.transforms.runtime.stores.store import StoreError

READ = ("source.csv", "source.parquet")
PLACES = {
    "source.csv": "source={{csv: '{}/a.csv'}}",
    "source.parquet": "source={{parquet: '{}/'}}",
    "sink.parquet": "sink={{parquet: '{}/out'}}",
    "sink.ndjson": "sink={{ndjson: '{}'}}",
    "dead_letters.csv": "dead_letters={{csv: '{}/dead'}}",
    "engine.checkpoints": "engine={{checkpoints: '{}/state'}}",
}


@pytest.mark.parametrize("field", PLACES)
@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("abfs://acme", "'acme' cannot be the name of one. Write abfs://CONTAINER@ACCOUNT.dfs"),
        ("abfss://a--b@store.dfs.core.windows.net", "cannot be the name of one"),
        ("abfs://acme@store.dfs.example.com", "cannot be the name of one"),
        ("abfs://acme@store.dfs.core.windows.net.example.com", "cannot be the name of one"),
        ("hdfs://acme", "hdfs:// is not supported. Use"),
        ("https://acme.example", "https:// is not supported. Use"),
        ("GS://acme-weir", "GS:// is not supported. Use"),
        ("gs://", "'' cannot be the name of one. Write gs://BUCKET/"),
        ("gs://b", "'b' cannot be the name of one"),
        ("gs://Acme", "'Acme' cannot be the name of one"),
        ("gs://goog-acme", "'goog-acme' cannot be the name of one"),
        ("gs://127.0.0.1", "'127.0.0.1' cannot be the name of one"),
        ("s3://acme_weir", "'acme_weir' cannot be the name of one"),
        ("s3://acme..weir", "'acme..weir' cannot be the name of one"),
        ("s3://-acme", "'-acme' cannot be the name of one"),
    ],
)
def test_what_cannot_be_reached_is_refused(
    weir: Weir, small: Path, field: str, place: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(small, [PLACES[field].format(place)])
    assert refused.value.field == field and says in refused.value.remedy
    with pytest.raises(StoreError, match="Use|Write"):
        files.read(f"{place}/a")


@pytest.mark.parametrize("place", ["gs://acme-weir", "s3://acme.weir-2", "gs://a_b", "folder"])
@pytest.mark.parametrize("field", PLACES)
def test_what_can_be_reached_is_taken(small: Path, field: str, place: str) -> None:
    load(small, [PLACES[field].format(place)])


@pytest.mark.parametrize("place", ["abfs://acme-2@store.dfs.core.windows.net",
                                   "abfss://acme@store1.dfs.core.chinacloudapi.cn"])  # fmt: skip
@pytest.mark.parametrize("field", PLACES)
def test_azure_is_read_and_not_written(
    small: Path, monkeypatch: pytest.MonkeyPatch, field: str, place: str
) -> None:
    monkeypatch.setattr(files, "is_installed", lambda name: True)
    if field in READ:
        load(small, [PLACES[field].format(place)])
        return
    with pytest.raises(ConfigError, match="is read only. Use a folder of a disk") as refused:
        load(small, [PLACES[field].format(place)])
    assert refused.value.field == field


@pytest.mark.parametrize("field", PLACES)
@pytest.mark.parametrize(
    ("scheme", "library", "extra"),
    [("gs", "google.cloud.storage", "gcp"), ("s3", "boto3", "aws")],
)
def test_a_missing_library_is_named_with_its_extra(
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    field: str,
    scheme: str,
    library: str,
    extra: str,
) -> None:
    monkeypatch.setattr(files, "is_installed", lambda name: name != library)
    with pytest.raises(ConfigError) as refused:
        load(small, [PLACES[field].format(f"{scheme}://acme-weir")])
    assert refused.value.field == field
    assert f"pip install 'weir-dp[{extra}]'" in refused.value.remedy


def test_the_library_of_azure_is_named_with_its_extra(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "is_installed", lambda name: name != "azure.storage.blob")
    with pytest.raises(ConfigError, match=r"pip install 'weir-dp\[azure\]'"):
        load(small, ["source={csv: 'abfs://acme@store.dfs.core.windows.net/a.csv'}"])


def test_what_is_not_installed_is_not_found() -> None:
    assert files.is_installed("json")
    assert not files.is_installed("no_such_package.at.all")
    assert not files.is_installed("json.no_such_module")


@pytest.mark.parametrize("place", ["file:///tmp/x", "FILE:///tmp/x"])
def test_uris_of_a_disk_are_paths_for_checkpoints_alone(small: Path, place: str) -> None:
    for field in ("source.csv", "sink.parquet", "dead_letters.csv"):
        with pytest.raises(ConfigError, match="Write the path without file://") as refused:
            load(small, [PLACES[field].format(place)])
        assert refused.value.field == field
    load(small, [PLACES["engine.checkpoints"].format(place)])


def test_a_secret_and_a_ledger_lie_on_a_disk(small: Path) -> None:
    ledger = "ledger={sqlite: 'gs://acme-weir/l.db', scope: us, budget: {epsilon: 4, delta: 1e-6}}"
    for change, field in (
        ("secret={file: 'gs://acme-weir/key'}", "secret.file"),
        (ledger, "ledger.sqlite"),
    ):
        with pytest.raises(ConfigError, match="must be a file on a disk, not a URI") as refused:
            load(small, [change])
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ("sink={pubsub: projects/acme/topics/rides}", "sink.pubsub", "'acme' cannot be the ID"),
        ("sink={pubsub: projects/acme-1/topics/t}", "sink.pubsub", "'t' is not allowed. Write 3"),
        ("sink={pubsub: projects/1acme-1/topics/dead}", "sink.pubsub", "letter first"),
        ("dead_letters={pubsub: projects/acme-1/topics/google}", "dead_letters.pubsub", "not goog"),
        (
            "source={pubsub: {subscription: projects/Acme-1/subscriptions/all}}",
            "source.pubsub.subscription",
            "'Acme-1' cannot be the ID",
        ),
        ("sink={bigquery: 'acme:shop.releases'}", "sink.bigquery", "PROJECT:DATASET.TABLE"),
        ("sink={bigquery: releases}", "sink.bigquery", "PROJECT:DATASET.TABLE"),
        ("secret={gcp: projects/acme/secrets/s/versions/1}", "secret.gcp", "projects/P/secrets"),
        ("secret={gcp: weir}", "secret.gcp", "projects/P/secrets/S/versions/V"),
    ],
)  # fmt: skip
def test_names_that_google_would_not_take_are_refused(
    small: Path, change: str, field: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(small, [change])
    assert refused.value.field == field and says in refused.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        "sink={pubsub: 'projects/example.com:acme-1/topics/a.b_c~d+e%f-'}",
        "sink={bigquery: 'example.com:acme-1:shop.releases'}",
        "sink={bigquery: shop.releases}",
        "secret={gcp: projects/123456/secrets/weir/versions/latest}",
    ],
)
def test_names_of_every_form_are_taken(small: Path, change: str) -> None:
    load(small, [change])


def test_plan_refuses_in_one_line(weir: Weir, small: Path) -> None:
    done = weir("plan", small, "--set", "sink={parquet: 'hdfs://acme/out'}")
    assert done.exit_code == 2 and done.stdout == "" and done.stderr.startswith(
        "weir: refused: sink.parquet = 'hdfs://acme/out': "
    )  # fmt: skip


def test_files_come_without_beam_and_without_a_library_of_any_service() -> None:
    code = (
        "import sys; from weir.transforms.runtime import fence, files; "
        "from weir.transforms.sinks import place; place.names('/'); print(*sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True
    )
    assert not {"apache_beam", "azure.storage.blob", "boto3", "google.cloud.storage"} & set(
        done.stdout.split()
    )
