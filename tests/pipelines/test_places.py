"""Folders by any spelling: dead letters never lie where releases are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load, refuse_mixed
from weir.pipelines.connectors.paths import is_inside, resolved


@pytest.mark.parametrize(
    "spelling",
    [
        "out", "out/", "./out", "x/../out", "out/dead", "out/a/b/", "link", "link/dead",
        "{here}/out", "{here}/x/../out//", ".",
    ],
)  # fmt: skip
def test_dead_letters_and_releases_do_not_share_a_folder(small: Path, spelling: str) -> None:
    here = small.parent
    (here / "link").symlink_to(here / "out")
    job = load(small, [f"dead_letters.csv={spelling.format(here=here)}"])
    with pytest.raises(ConfigError, match=r"dead_letters\.csv.*only operators") as caught:
        refuse_mixed(job.dead_letters, job.sink)
    assert "out" in caught.value.remedy


@pytest.mark.parametrize("spelling", ["dead", "out-dead", "output", "gs://bucket/out"])
def test_a_folder_beside_it_is_theirs(small: Path, spelling: str) -> None:
    job = load(small, [f"dead_letters.csv={spelling}"])
    refuse_mixed(job.dead_letters, job.sink)


@pytest.mark.parametrize(
    ("place", "folder", "inside"),
    [
        ("gs://bucket/out/", "gs://bucket/out", True),
        ("GS://bucket/out/dead", "gs://bucket//out", True),
        ("gs://bucket/x/../out", "gs://bucket/out", True),
        ("gs://bucket/out", "gs://bucket", True),
        ("gs://bucket/out-2", "gs://bucket/out", False),
        ("gs://other/out", "gs://bucket/out", False),
        ("/", "/tmp", False),
        ("/tmp", "/", True),
    ],
)
def test_places_in_buckets_and_at_the_root(place: str, folder: str, inside: bool) -> None:
    assert is_inside(place, folder) is inside


def test_one_folder_has_one_spelling(tmp_path: Path) -> None:
    assert resolved(f"file://{tmp_path}/a%20b/") == resolved(str(tmp_path / "c" / ".." / "a b"))


def test_a_topic_is_no_folder(small: Path) -> None:
    job = load(small, ["dead_letters={pubsub: projects/acme-1/topics/dead}"])
    refuse_mixed(job.dead_letters, job.sink)


def test_plan_refuses_it_too_and_cares_for_nothing_else_in_the_folder(
    weir: Weir, small: Path
) -> None:
    assert weir("plan", small, "--set", "dead_letters.csv=out/dead").exit_code == 2
    (small.parent / "out").mkdir()
    (small.parent / "out" / "holiday.jpg").write_bytes(b"")
    assert weir("plan", small).exit_code == 0
