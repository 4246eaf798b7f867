"""Held back, then published: whole moves, nothing replaced, a kill at any moment is made good."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transforms.bucket import Bucket
from tests.transforms.releases import PLAN, batch
from weir.transforms.release.few import shape_for
from weir.transforms.sinks import held
from weir.transforms.sinks import place as sinks_place
from weir.transforms.sinks.held import Contradicted, HeldWriter
from weir.transforms.sinks.sorted_table import sorted_table

NAMES = [sinks_place.file_name(4 * i, 4 * i + 3, "csv") for i in range(4)]
COST = "epsilon 2"


@pytest.fixture(params=["disk", "bucket"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder of results with four files held back."""
    place = str(tmp_path / "out") if request.param == "disk" else "held://bucket/out"
    Bucket.objects.clear()
    Bucket.stop = -1
    sinks_place.make_held(place)
    for name in NAMES:
        sinks_place.put(sinks_place.join(sinks_place.held(place), name), name.encode())
    yield place
    Bucket.objects.clear()


def content(place: str) -> dict[str, bytes | None]:
    return {name: sinks_place.read(sinks_place.join(place, name)) for name in NAMES}


def is_whole(place: str) -> bool:
    there = content(place) == {name: name.encode() for name in NAMES}
    return there and sinks_place.read(sinks_place.join(place, "_COMPLETE")) == b""


def test_all_files_move_and_nothing_is_left(folder: str) -> None:
    assert held.missing(folder, NAMES) == []
    assert not sinks_place.ticks_in(folder) and sinks_place.has_results(folder)
    assert held.publish(folder, NAMES, COST) == 4
    assert is_whole(folder)
    assert not sinks_place.names(sinks_place.held(folder))
    assert held.publish(folder, NAMES, COST) == 0, "again does nothing"
    assert sinks_place.ticks_in(folder) == 16


class Killed(BaseException):
    pass


def calls(monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    """Lets so many steps on the disk happen, then dies."""
    left = [stop]

    def once(step: object) -> object:
        def run(*words: object, **named: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return step(*words, **named)  # type: ignore[operator]

        return run

    for name in ("link", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, once(getattr(os, name)))


@pytest.mark.parametrize("stop", range(12))
def test_a_kill_between_any_two_steps_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    place = str(tmp_path / "out")
    for name in NAMES:
        sinks_place.put(sinks_place.join(sinks_place.held(place), name), name.encode())
    with monkeypatch.context() as patched, pytest.raises(Killed):
        calls(patched, stop)
        held.publish(place, NAMES, COST)
        raise Killed  # enough steps for all of it
    there = [name for name in NAMES if (tmp_path / "out" / name).exists()]
    assert there == NAMES[: len(there)], "in order of ticks"
    assert held.missing(place, NAMES) == []
    held.publish(place, NAMES, COST)
    assert is_whole(place)
    assert not (tmp_path / "out" / "_held").exists()


@pytest.mark.parametrize("stop", range(4))
def test_a_kill_in_a_bucket_is_made_good(stop: int) -> None:
    Bucket.objects.clear()
    place = "held://bucket/out"
    for name in NAMES:
        sinks_place.put(sinks_place.join(sinks_place.held(place), name), name.encode())
    Bucket.stop = stop
    with pytest.raises(KeyboardInterrupt):
        held.publish(place, NAMES, COST)
    Bucket.stop = -1
    assert held.missing(place, NAMES) == []
    held.publish(place, NAMES, COST)
    assert is_whole(place)
    assert sorted(Bucket.objects) == [f"{place}/{name}" for name in ["_COMPLETE", *NAMES]]


def test_a_file_in_place_is_never_replaced(folder: str) -> None:
    sinks_place.put(sinks_place.join(folder, NAMES[2]), b"other")
    with pytest.raises(Contradicted, match="is published.*epsilon 2"):
        held.publish(folder, NAMES, COST)
    assert content(folder)[NAMES[2]] == b"other"
    assert sinks_place.read(sinks_place.join(folder, "_COMPLETE")) is None


def test_what_is_missing_is_told(folder: str) -> None:
    sinks_place.remove(sinks_place.join(sinks_place.held(folder), NAMES[1]))
    assert held.missing(folder, NAMES) == [NAMES[1]]


@pytest.mark.parametrize("layout", ["flat", "packed"])
@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("published", [False, True])
def test_what_contradicts_a_file_ends_the_run(
    tmp_path: Path, form: str, published: bool, layout: Any
) -> None:
    writer = HeldWriter(str(tmp_path), form, COST, shape_for(PLAN, layout))
    ready, other = sorted_table([batch(0, 4, [b"a"])]), sorted_table([batch(0, 4, [b"a"], 0, 1.0)])
    assert writer.write(0, 3, ready) == 0
    name = sinks_place.file_name(0, 3, form)
    if published:
        held.publish(str(tmp_path), [name], COST)
    place = tmp_path / name if published else tmp_path / "_held" / name
    before = place.read_bytes()
    assert writer.write(0, 3, ready) == 0 and writer.compare(0, 3, ready) == 0
    for again in (writer.write, writer.compare):
        with pytest.raises(Contradicted) as caught:
            again(0, 3, other)
        said = str(caught.value)
        assert str(place) in said and "epsilon 2" in said
        assert ("at no cost" in said) is not published
    assert place.read_bytes() == before
    assert not published or not (tmp_path / "_held").exists()


def test_two_tries_of_one_run_that_differ_end_it(tmp_path: Path) -> None:
    twice = sorted_table([batch(0, 4, [b"a"]), batch(0, 4, [b"a"], 0, 1.0)])
    with pytest.raises(Contradicted, match="two tries"):
        HeldWriter(str(tmp_path), "csv", COST).write(0, 3, twice)
    assert not list(tmp_path.iterdir())


def test_only_its_owner_looks_into_it(tmp_path: Path) -> None:
    sinks_place.make_held(str(tmp_path))
    assert (tmp_path / "_held").stat().st_mode & 0o077 == 0


def test_a_rotated_mark_is_replaced_and_nothing_else(folder: str) -> None:
    path = sinks_place.join(folder, "_marks.json")
    for text in (b"1", b"1", b"2"):
        sinks_place.replace(path, text)
        assert sinks_place.read(path) == text
