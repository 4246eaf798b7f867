"""Public events of a dry run are never the source's own: by path, by link, and by bytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from weir.dpcore.errors import ConfigError
from weir.pipelines.rehearse.jobs import refuse_source_files
from weir.pipelines.sources.registry import source_of
from weir.pipelines.sources.source import Source

ROWS = "at,id,store,amount\n2024-01-01T20:00:00Z,1,north,5\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """events/a.csv and events/b.csv of the source; public.csv next to them."""
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.csv").write_text(ROWS)
    (tmp_path / "events" / "b.csv").write_text(ROWS.replace("north", "south"))
    (tmp_path / "public.csv").write_text(ROWS.replace(",5", ",7"))
    return tmp_path


def globbed(files: Path) -> Source:
    return source_of("csv", str(files / "events" / "*.csv"))


def test_other_files_pass(files: Path) -> None:
    found = refuse_source_files(globbed(files), str(files / "public.csv"))
    assert [file.path for file in found] == [str(files / "public.csv")]


@pytest.mark.parametrize("source", ["events/*.csv", "events", "events/", "events/a.csv"])
@pytest.mark.parametrize("on", ["events/a.csv", "events", "events/*", "events/../events/a.csv"])
def test_the_sources_own_files_are_refused_however_they_are_spelt(
    files: Path, monkeypatch: pytest.MonkeyPatch, source: str, on: str
) -> None:
    monkeypatch.chdir(files)
    for given in (on, str(files / on), (files / on).as_uri() if "*" not in on else on):
        for own in (source, str(files / source)):
            with pytest.raises(ConfigError, match="a file of the source") as refused:
                refuse_source_files(source_of("csv", own), given)
            assert refused.value.field == "--on"


def test_links_to_the_source_are_refused(files: Path) -> None:
    (files / "link.csv").symlink_to(files / "events" / "a.csv")
    (files / "folder").symlink_to(files / "events")
    os.link(files / "events" / "b.csv", files / "hard.csv")
    for on in ("link.csv", "folder/a.csv", "folder", "hard.csv"):
        with pytest.raises(ConfigError, match="--on"):
            refuse_source_files(globbed(files), str(files / on))


def test_a_source_behind_a_link_is_found(files: Path) -> None:
    (files / "folder").symlink_to(files / "events")
    with pytest.raises(ConfigError, match="a file of the source"):
        refuse_source_files(
            source_of("csv", str(files / "folder" / "*.csv")), str(files / "events/a.csv")
        )


def test_a_copy_under_another_name_is_refused_by_its_bytes(files: Path) -> None:
    shutil.copy(files / "events" / "a.csv", files / "harmless.csv")
    with pytest.raises(ConfigError, match=r"holds what .*a\.csv of the source does"):
        refuse_source_files(globbed(files), str(files / "harmless.csv"))
    with pytest.raises(ConfigError, match="holds what"):
        refuse_source_files(globbed(files), str(files / "*.csv"))


def test_one_byte_makes_it_another_file_and_nothing_is_no_copy(files: Path) -> None:
    (files / "other.csv").write_text(ROWS.replace("5", "6"))
    refuse_source_files(globbed(files), str(files / "other.csv"))
    (files / "events" / "empty.csv").write_text("")
    (files / "nothing.csv").write_text("")
    refuse_source_files(globbed(files), str(files / "nothing.csv"))


def test_a_source_that_is_not_there_or_has_no_files_is_no_matter(files: Path) -> None:
    stream = {"pubsub": {"subscription": "projects/acme-1/subscriptions/all", "payload": "json"}}
    for source in (
        None,
        source_of("csv", str(files / "later" / "*.csv")),
        source_of("pubsub", stream["pubsub"]),
    ):
        assert refuse_source_files(source, str(files / "public.csv"))
    with pytest.raises(ConfigError, match="a file of the source"):
        # Of a glob that lists nothing its pattern still counts: the file may have gone meanwhile.
        refuse_source_files(source_of("csv", str(files / "publi?.csv")), str(files / "public.csv"))


def test_files_that_are_not_there_are_refused(files: Path) -> None:
    with pytest.raises(ConfigError, match="matches no file"):
        refuse_source_files(globbed(files), str(files / "no-such.csv"))
