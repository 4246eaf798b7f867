"""Digests of files for a ledger, and whether what is read is what was looked at."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from weir.dpcore.errors import ConfigError
from weir.transforms.formats.stored import File
from weir.transforms.runtime.stores.store import Entry
from weir.transforms.sources import seal as module
from weir.transforms.sources.matching import match
from weir.transforms.sources.seal import Sealed, SourceChanged, refuse_changed, seal, version_of

KEY, OTHER = b"k" * 32, b"o" * 32
TEXT = b"at,amount\n2024-01-01,1\n"


def sealed(path: Path | str, key: bytes = KEY) -> Sealed:
    found = seal(lambda: match(str(path), "source.csv"), "source.csv", key)
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.csv").write_bytes(TEXT + name.encode())
    return tmp_path / "in"


def test_names_and_order_of_files_do_not_matter(folder: Path, tmp_path: Path) -> None:
    one = sealed(folder / "*.csv").digest
    (folder / "a.csv").rename(folder / "z.csv")
    (tmp_path / "other").mkdir()
    for path in folder.iterdir():
        path.rename(tmp_path / "other" / path.name)
    assert sealed(tmp_path / "other" / "*").digest == one
    (tmp_path / "other" / "b.csv").unlink()
    assert sealed(tmp_path / "other" / "*").digest != one


@pytest.mark.slow
@pytest.mark.parametrize("change", ["a byte", "one more", "cut in two", "compressed by name"])
def test_other_bytes_have_another_digest(folder: Path, change: str) -> None:
    one = sealed(folder / "*").digest
    data = (folder / "a.csv").read_bytes()
    if change == "a byte":
        (folder / "a.csv").write_bytes(data[:-1] + b"2")
    elif change == "one more":
        (folder / "c.csv").write_bytes(data)
    elif change == "cut in two":
        (folder / "a.csv").write_bytes(data[:9])
        (folder / "c.csv").write_bytes(data[9:])
    else:
        (folder / "a.csv").rename(folder / "a.csv.gz")
    assert sealed(folder / "*").digest != one


def test_without_the_key_a_guess_cannot_be_tried(folder: Path) -> None:
    found = sealed(folder / "a.csv")
    assert found.digest != sealed(folder / "a.csv", OTHER).digest
    data = (folder / "a.csv").read_bytes()
    for size in (16, 32, 64):
        plain = hashlib.blake2b(data, digest_size=size).hexdigest()
        assert found.digest not in (plain, plain[:32])
    content = hashlib.blake2b(data, digest_size=32).digest()
    assert found.digest != hashlib.blake2b(content, digest_size=16).hexdigest()


def test_what_is_not_there_has_no_digest(tmp_path: Path) -> None:
    nothing = str(tmp_path / "nothing.csv")
    assert seal(lambda: match(nothing, "source.csv"), "source.csv", KEY) is None


@pytest.mark.slow
@pytest.mark.parametrize("how", ["written", "with its time put back", "replaced", "gone", "longer"])
def test_a_change_is_noticed(folder: Path, how: str) -> None:
    (file,) = sealed(folder / "a.csv").files
    path = folder / "a.csv"
    refuse_changed(file.path, file.version, "since")
    os.chmod(path, 0o644)
    before = os.stat(path)
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "replaced":
        (folder / "new").write_bytes(data)
        os.replace(folder / "new", path)
    elif how == "longer":
        with path.open("ab") as out:
            out.write(b"\n")
    else:
        with path.open("r+b") as out:  # the same size, in place
            out.write(b"T")
        if how == "with its time put back":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(SourceChanged, match="a.csv changed since") as caught:
        refuse_changed(file.path, file.version, "since")
    assert "2024" not in str(caught.value)


def test_a_file_that_was_just_written_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written again within a tick of the file system's clock it would bear the same times."""
    waits: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waits.append)
    (folder / "a.csv").write_bytes(TEXT)
    sealed(folder / "a.csv")
    assert waits and 0 < waits[0] <= 0.05


def test_a_file_that_is_still_written_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = module._content

    def writing(path: str) -> bytes:
        found = read(path)
        with open(path, "ab") as out:
            out.write(b"\n")
        return found

    monkeypatch.setattr(module, "_content", writing)
    with pytest.raises(ConfigError, match="changes while it is looked at"):
        sealed(folder / "a.csv")


def test_on_another_machine_the_content_must_agree(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy has times and a number of its own."""
    (file,) = sealed(folder / "a.csv").files
    data = (folder / "a.csv").read_bytes()
    (folder / "copy").write_bytes(data)
    os.replace(folder / "copy", folder / "a.csv")
    monkeypatch.setattr(module, "_machine", lambda: "another")
    refuse_changed(file.path, file.version, "since")
    (folder / "a.csv").write_bytes(data[:-1] + b"2")
    with pytest.raises(SourceChanged):
        refuse_changed(file.path, file.version, "since")


def test_of_an_object_in_a_bucket_its_writing_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checksum can be forged: an object that was written again is another one."""
    written = [7.5]
    monkeypatch.setattr(
        module.files, "entry", lambda path: Entry(path, len(TEXT), written[0], "c0ffee")
    )
    monkeypatch.setattr(module, "is_local", lambda path: False)

    def sealed(path: str) -> Sealed:
        found = seal(lambda: (File(path, len(TEXT)),), "source.csv", KEY)
        assert found is not None
        return found

    found = sealed("gs://b/a.csv")
    refuse_changed("gs://b/a.csv", found.files[0].version, "since")
    assert sealed("gs://b/other.csv").digest != found.digest
    written[0] = 8.5
    assert version_of("gs://b/a.csv") not in found.files[0].version
    assert sealed("gs://b/a.csv").digest != found.digest
    with pytest.raises(SourceChanged):
        refuse_changed("gs://b/a.csv", found.files[0].version, "since")
