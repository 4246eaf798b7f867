"""Azure Storage as a source, on a real server: Azurite, which is Microsoft's own."""

from __future__ import annotations

import io
import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.components import needed
from tests.pipelines.conftest import SMALL, Weir
from weir.pipelines.engines import azurite
from weir.transforms.runtime import files
from weir.transforms.runtime.stores import azure
from weir.transforms.runtime.stores.store import StoreError
from weir.transforms.sources.matching import match
from weir.transforms.sources.seal import SourceChanged, refuse_changed, seal

HEAD = "at,id,store,amount"
GOOD = [f"2024-01-01T{i % 24:02d}:00:00Z,e{i},{('north', 'south')[i % 2]},{i}" for i in range(200)]
SECRET = "bm90IHRoZSBrZXk="
NOBODY = "AccountName=devstoreaccount1;AccountKey={key};BlobEndpoint=http://127.0.0.1:1/devstoreaccount1;"
_numbers = itertools.count()


class Container(NamedTuple):
    """A container, and the client of its owner."""

    place: str
    client: Any

    def put(self, name: str, *rows: str) -> str:
        self.client.upload_blob(name, "\n".join([HEAD, *rows, ""]).encode(), overwrite=True)
        return f"{self.place}/{name}"


@pytest.fixture(scope="session")
def running_azurite() -> Iterator[azurite.AzuriteServer]:
    needed(azurite.COMPONENT.located)
    with azurite.AzuriteServer() as server:
        yield server


@pytest.fixture(params=["abfs", "abfss"])
def container(
    request: pytest.FixtureRequest,
    running_azurite: azurite.AzuriteServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Container]:
    """An empty container: abfs://NAME@ACCOUNT.dfs.core.windows.net."""
    from azure.storage.blob import BlobServiceClient

    monkeypatch.setenv(azure.CONNECTION, running_azurite.connection)
    files._store.cache_clear()
    owner = BlobServiceClient.from_connection_string(running_azurite.connection)
    name = f"weir-test-{next(_numbers)}"
    place = f"{request.param}://{name}@{azurite.ACCOUNT}.dfs.core.windows.net"
    yield Container(place, owner.create_container(name))
    files._store.cache_clear()


only_abfs = pytest.mark.parametrize("container", ["abfs"], indirect=True)


def test_files_are_listed_matched_and_read(container: Container) -> None:
    top = f"{container.place}/folder"
    for name in ("b.csv", "a.csv", "deep/c.csv", "deep/er/d.csv", "[x].csv", "ä b%20.csv"):
        container.client.upload_blob(f"folder/{name}", name.encode())
    # What an account with a hierarchy of names lists for a folder.
    container.client.upload_blob("folder/deep", b"", metadata={azure.FOLDER: "true"})

    def matched(pattern: str) -> list[str]:
        return [item.path.removeprefix(f"{top}/") for item in files.match(f"{top}/{pattern}")]

    assert matched("*.csv") == ["[x].csv", "a.csv", "b.csv", "ä b%20.csv"] == matched("")
    assert matched("**") == sorted([*matched("*"), "deep/c.csv", "deep/er/d.csv"])
    assert matched("d??p/*") == ["deep/c.csv"] and matched("none") == [] == matched("deep")
    assert sorted(files.names(top)) == sorted([*matched("*"), "deep"])
    assert files.read(f"{top}/ä b%20.csv") == "ä b%20.csv".encode()
    assert files.read(f"{top}/none") is None and files.entry(f"{top}/none") is None
    found = files.entry(f"{top}/a.csv")
    assert found in files.match(f"{top}/*") and found is not None and found.size == 5
    with files.open_raw(f"{top}/a.csv") as file:
        assert (file.seek(-2, io.SEEK_END), file.read(), file.seek(1), file.read(2)) == (
            3, b"sv", 1, b".c",
        )  # fmt: skip
    with pytest.raises(FileNotFoundError):
        files.open_raw(f"{top}/none")


@only_abfs
def test_bytes_are_those_that_are_stored(container: Container) -> None:
    """A header that says how they are encoded changes nothing: parts of them are read."""
    from azure.storage.blob import ContentSettings

    packed = bytes.fromhex("1f8b08000000000002ff4b4c4a06000000ffff")
    settings = ContentSettings(content_encoding="gzip")
    container.client.upload_blob("a.gz", packed, content_settings=settings)
    assert files.read(f"{container.place}/a.gz") == packed
    with files.open_raw(f"{container.place}/a.gz") as file:
        assert file.read() == packed


@only_abfs
def test_a_file_that_changes_is_not_read_on(container: Container) -> None:
    path = container.put("a.csv", *GOOD * 1300)
    sealed = seal(lambda: match(path, "source.csv"), "source.csv", b"k" * 32)
    assert sealed is not None
    refuse_changed(path, sealed.files[0].version, "since")
    with files.open_raw(path) as file:
        assert file.read(2) == b"at"
        container.put("a.csv", *GOOD[::-1] * 1300)
        with pytest.raises(StoreError, match="was replaced or removed while it was read"):
            file.read()
    with pytest.raises(SourceChanged):
        refuse_changed(path, sealed.files[0].version, "since")
    again = seal(lambda: match(path, "source.csv"), "source.csv", b"k" * 32)
    assert again is not None and again.digest != sealed.digest


@pytest.mark.slow
@only_abfs
def test_init_plan_and_run_read_a_container(weir: Weir, small: Path, container: Container) -> None:
    container.put("events/a.csv", *GOOD[:100])
    container.put("events/b.csv", *GOOD[100:])
    container.put("events/_ignored.csv", "no,record")
    folder = small.parent
    (folder / "secret.key").write_text("ab" * 32)
    (folder / "secret.key").chmod(0o600)
    (folder / "events").mkdir()
    for name, rows in (("a", GOOD[:100]), ("b", GOOD[100:])):
        (folder / "events" / f"{name}.csv").write_text("\n".join([HEAD, *rows, ""]))
    small.write_text(f"{SMALL}secret: {{file: secret.key}}\n")
    results = []
    for source, out in ((f"{container.place}/events/*.csv", "there"), ("events/*.csv", "here")):
        sets = ("--set", f"source.csv={source}", "--set", f"sink.parquet={out}/")
        assert weir("plan", small, *sets).exit_code == 0
        done = weir("run", small, *sets, "--json")
        assert done.exit_code == 0 and json.loads(done.stdout)["operator"]["events"] == 200
        paths = sorted((folder / out).rglob("ticks*"))
        results.append([(path.name, path.read_bytes()) for path in paths if path.is_file()])
    assert results[0] == results[1] and results[0]
    written = weir("init", f"{container.place}/events/a.csv")
    assert written.exit_code == 0 and f"{container.place}/events/a.csv" in written.stdout


@only_abfs
def test_a_lookup_and_a_partitioned_folder_lie_in_a_container(
    weir: Weir, small: Path, container: Container
) -> None:
    container.put("events/store=west/a.csv", *GOOD[:20])
    container.client.upload_blob("public.csv", b"store,region\nnorth,n\nsouth,s\n")
    look = f"lookup={{public: '{container.place}/public.csv', on: store, add: [region]}}"
    assert weir("plan", small, "--set", look).exit_code == 0
    gone = look.replace("public.csv", "gone.csv")
    refused = weir("plan", small, "--set", gone)
    assert refused.exit_code == 2 and "gone.csv': is no file. Write the path" in refused.stderr
    found = files.under(f"{container.place}/events")
    assert [item.path for item in found] == [f"{container.place}/events/store=west/a.csv"]


@only_abfs
def test_what_is_missing_is_said_in_words(weir: Weir, small: Path, container: Container) -> None:
    gone = container.place.replace("weir-test", "no-such")
    for act in (files.read, files.entry, lambda path: list(files.match(f"{path}/*"))):
        with pytest.raises(StoreError, match="no such container. Check the name"):
            act(f"{gone}/a.csv")
    done = weir("run", small, "--set", f"source.csv={gone}/*.csv")
    assert done.exit_code == 2 and f"refused: source.csv = '{gone}/" in done.stderr
    done = weir("run", small, "--set", f"source.csv={container.place}/*.csv")
    assert done.exit_code == 2 and "matches no file" in done.stderr


@only_abfs
def test_nothing_is_written_there(container: Container) -> None:
    path = container.put("a.csv", *GOOD)
    for act in (
        lambda: files.put(f"{container.place}/b", b"x"),
        lambda: files.replace(path, b"x"),
        lambda: files.move(path, f"{container.place}/b"),
        lambda: files.remove(path),
    ):
        with pytest.raises(StoreError, match="read only"):
            act()
    assert files.names(container.place) == ["a.csv"]


@only_abfs
@pytest.mark.parametrize(
    ("connection", "says"),
    [
        ("no connection", f"{azure.CONNECTION} cannot be read"),
        ("wrong key", "access is denied. Give this account the role"),
        ("no key", "access is denied. Give this account the role"),
        ("damaged key", "no usable credentials of Azure are found"),
        ("another account", "no usable credentials of Azure are found. Run az login, or set"),
        ("away", "Azure Storage cannot be reached. Check the name of the account"),
        ("signature, away", "Azure Storage cannot be reached. Check the name of the account"),
    ],
)
def test_no_secret_is_in_an_error_or_a_log(
    container: Container,
    running_azurite: azurite.AzuriteServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    connection: str,
    says: str,
) -> None:
    whole = running_azurite.connection
    monkeypatch.setenv(
        azure.CONNECTION,
        {
            "no connection": f"see {SECRET}",
            "wrong key": whole.replace(azurite.KEY, SECRET),
            "no key": whole.replace(f"AccountKey={azurite.KEY};", ""),
            "damaged key": whole.replace(azurite.KEY, SECRET[:5]),
            "another account": whole.replace("AccountName=dev", "AccountName=another"),
            "away": NOBODY.format(key=SECRET),
            "signature, away": NOBODY.format(key="").replace(
                "AccountKey=;", f"SharedAccessSignature=sv=2024&sig={SECRET};"
            ),
        }[connection],
    )
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    if connection == "another account":
        monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("tries again"))
    else:
        monkeypatch.setattr(azure, "RETRIES", {"retry_total": 0})
    files._store.cache_clear()
    with caplog.at_level(logging.INFO), pytest.raises(StoreError, match=says) as refused:
        list(files.match(f"{container.place}/*"))
    assert refused.value.__cause__ is None and refused.value.__suppress_context__
    for secret in (SECRET[:5], azurite.KEY):
        assert secret not in f"{refused.value}{caplog.text}"
