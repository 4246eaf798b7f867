"""Whose noise is in a folder of results: told by a mark, which tells nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.results import secret_marks
from weir.pipelines.results.secret_marks import differ
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks import place

ONE, TWO = "ab" * 32, "cd" * 32
ROTATED = "secret={file: one.key, rotate: [{from: '2024-01-01T12:00:00Z', file: two.key}]}"


@pytest.fixture
def config(small: Path) -> Path:
    for name, value in (("one.key", ONE), ("two.key", TWO)):
        (small.parent / name).write_text(value)
        (small.parent / name).chmod(0o600)
    small.write_text(small.read_text() + "secret: {file: one.key}\n")
    return small


def begin(config: Path, *sets: str) -> Path:
    parts = parts_of(load(config, sets))
    parts.sink.prepare(parts.plan, parts.secrets, True)
    return config.parent / "out"


def release(folder: Path, first: int, last: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / place.file_name(first, last, "parquet")).write_bytes(b"x")


@pytest.mark.parametrize("where", ["", "_held"])
def test_another_secret_is_refused_with_what_it_would_cost(config: Path, where: str) -> None:
    out = begin(config)
    release(out / where, 0, 5)
    before = (out / "_marks.json").read_bytes()
    with pytest.raises(ConfigError) as caught:
        begin(config, "secret.file=two.key")
    assert caught.value.field == "secret"
    assert "at most epsilon 2, delta 2e-06" in caught.value.remedy
    assert ("no cost" in caught.value.remedy) is (where == "_held")
    assert (out / "_marks.json").read_bytes() == before
    begin(config)


def test_a_drawn_secret_has_a_mark_too(config: Path) -> None:
    out = begin(config, "secret=null")
    assert (out / "_marks.json").exists()
    release(out / "_held", 0, 5)
    with pytest.raises(ConfigError, match="is not the one"):
        begin(config)
    with pytest.raises(ConfigError, match="holds back releases made with another secret"):
        begin(config, "secret=null")


def test_where_nothing_was_released_any_secret_begins(config: Path) -> None:
    out = begin(config)
    first = (out / "_marks.json").read_bytes()
    begin(config, "secret.file=two.key")
    assert (out / "_marks.json").read_bytes() != first


def test_a_folder_of_the_version_before_goes_on_unmarked(config: Path) -> None:
    out = begin(config)
    (out / "_marks.json").unlink()
    release(out, 0, 5)
    begin(config, "secret.file=two.key")
    assert not (out / "_marks.json").exists(), "nobody knows whose noise is in it"


def test_a_secret_rotates_from_a_tick_that_is_not_released(config: Path) -> None:
    out = begin(config)
    release(out / "_held", 0, 11)
    begin(config, ROTATED)
    assert set(json.loads((out / "_marks.json").read_text())) == {"0", "12"}
    begin(config)  # nothing of it was released: it may be taken back
    begin(config, ROTATED)
    release(out / "_held", 12, 23)
    begin(config, ROTATED)
    with pytest.raises(ConfigError, match="is not the one"):
        begin(config)


def test_a_secret_does_not_rotate_where_releases_are(config: Path) -> None:
    out = begin(config)
    release(out, 0, 12)
    with pytest.raises(ConfigError, match="is not the one"):
        begin(config, ROTATED)


def test_a_secret_that_is_not_read_here_leaves_no_mark(config: Path) -> None:
    out = begin(config, ROTATED.replace("two.key", "elsewhere.key"))
    assert not (out / "_marks.json").exists()


@pytest.mark.parametrize("text", ["[]", "{}", "{nonsense", '{"0": "a", "x": "b"}'])
def test_a_file_that_is_not_ours_is_refused(config: Path, text: str) -> None:
    out = begin(config)
    release(out, 0, 5)
    (out / "_marks.json").write_text(text)
    with pytest.raises(ConfigError, match="not ours"):
        begin(config)


def test_a_mark_is_of_one_plan_and_holds_no_secret(config: Path) -> None:
    out = begin(config)
    mark = json.loads((out / "_marks.json").read_text())["0"]
    job = load(config, ["privacy.epsilon=2"])
    other = secret_marks.whole([(0, SecretRef(file=str(config.parent / "one.key")))], plan_of(job))
    assert other is not None and other["0"] != mark
    assert len(mark) == 32 and mark not in ONE and ONE not in mark


@pytest.mark.parametrize(
    ("before", "now", "ticks", "expected"),
    [
        ({"0": "a"}, {"0": "a"}, 9, False),
        ({"0": "a"}, {"0": "b"}, 1, True),
        ({"0": "a"}, {"0": "b"}, 0, False),
        ({"0": "a"}, {"0": "a", "5": "b"}, 5, False),
        ({"0": "a"}, {"0": "a", "5": "b"}, 6, True),
        ({"0": "a", "5": "b"}, {"0": "a", "5": "b", "9": "c"}, 9, False),
        ({"0": "a", "5": "b"}, {"0": "a", "5": "c"}, 6, True),
        ({"0": "a", "10": "b"}, {"0": "a", "9": "b"}, 10, True),
    ],
)
def test_marks_are_compared_tick_by_tick(
    before: dict[str, str], now: dict[str, str], ticks: int, expected: bool
) -> None:
    assert differ(before, now, ticks) is expected
