"""Files of a folder of releases that somebody cut or edited: every reader says so in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transforms.releases import batch
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.results import plan_file, secret_marks
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import flat_table
from weir.pipelines.show.status import of_folder
from weir.transforms.sinks import formats, place
from weir.transforms.sinks.receipts import Damaged, parse
from weir.transforms.sinks.sorted_table import sorted_table

TEXT = """
name: a
version: 1
schema: {time: t}
key: {column: k, declared: [a]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T04:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: 2 ticks}
aggregates: {n: {count: events}}
"""
DEEP = b"[" * 100_000
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a folder of releases with one file as it is given."""

    def written(form: str = "csv", **files: bytes) -> Path:
        place.prepare(str(tmp_path), plan_file.plan_json(Plan.from_yaml(TEXT)), "sink")
        whole = formats.encode(sorted_table([batch(0, 4, [b"a"])]).table, form, None)
        (tmp_path / place.file_name(0, 3, form)).write_bytes(files.get("releases", whole))
        for name in files.keys() - {"releases"}:
            (tmp_path / f"_{name}.json").write_bytes(files[name])
        return tmp_path

    return written


@pytest.mark.parametrize("content", [b"", b"\xff", DEEP, b"[]", b"{"])
def test_a_plan_that_is_no_json_object_is_named(content: bytes, write: Write) -> None:
    folder = write(plan=content)
    for read in (ResultFolder.open, of_folder):
        with pytest.raises(ConfigError, match="_plan.json.*is not JSON"):
            read(folder)
    assert place.parts_in(str(folder)) is None and place.entered_as(str(folder)) is None
    plan_file.refuse_other_layout(str(folder), "packed")
    with pytest.raises(ConfigError, match="holds results of another plan"):
        place.check(str(folder), "x", "sink")


def test_a_field_of_a_plan_that_was_edited_is_named(write: Write) -> None:
    plan = Plan.from_yaml(TEXT)
    stored = plan_file.plan_json(plan)
    edits: list[tuple[str, Any, Callable[[Path], Any]]] = [
        ("alternatives", "x", ResultFolder.open),
        ("clock", "x", ResultFolder.open),
        ("releases", [{}], ResultFolder.open),
        ("canonical", None, lambda folder: plan_file.version_in(str(folder))),
        ("sink_parts", [], lambda folder: place.parts_in(str(folder))),
    ]
    for name, value, read in edits:
        folder = write(plan=json.dumps({**stored, name: value}).encode())
        with pytest.raises(ConfigError, match="_plan.json that is not as its run wrote it"):
            read(folder)
    gone = {name: value for name, value in stored.items() if name != "id_horizon"}
    folder = write(plan=json.dumps(gone).encode())
    with pytest.raises(ConfigError, match="_plan.json that is not as its run wrote it"):
        plan_file.refuse_other_results(str(folder), plan, "sink")


@pytest.mark.parametrize("form", ["parquet", "ndjson", "csv"])
def test_releases_that_are_damaged_are_named(form: str, write: Write) -> None:
    releases = b"\xff\xfe" + DEEP if form != "csv" else b'"\xff\n1,2\n3'
    folder = write(form, releases=releases)
    for read in (lambda run: run.table(), flat_table, lambda run: run.last_tick):
        with pytest.raises(ConfigError, match=r"ticks-.*cannot be read as a file of releases"):
            read(ResultFolder.open(folder))


def test_notes_that_nest_too_deep_are_damaged(write: Write) -> None:
    with pytest.raises(Damaged, match="not whole JSON"):
        parse(DEEP)
    with pytest.raises(ConfigError, match="not ours"):
        secret_marks.read(str(write(marks=DEEP)), "sink")


def test_releases_that_end_at_no_moment_are_named(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write()
    monkeypatch.setattr(ResultFolder, "last_end", property(lambda _: 1 << 62))
    with pytest.raises(ConfigError, match="tick 3 that end at no moment of a calendar"):
        of_folder(folder)
