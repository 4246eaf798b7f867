"""A range of ticks in several files: the same rows, read, held, gone on from and owed as one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.result_rows import result_rows
from tests.pipelines.test_held import GOOD, events, released, stop_in
from tests.transforms.doubles import FakePlan
from weir.dpcore.leaves.keys import Keys
from weir.pipelines.config.job import load
from weir.pipelines.graph.parts import parts_of as cut
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.sinks.sink import Sink
from weir.transforms.sinks import place, targets
from weir.transforms.sinks.ranges import Ranges
from weir.transforms.sinks.targets import MOST_ROWS, parts_of


@pytest.fixture
def job(small: Path) -> Path:
    """A config of five keys in five blocks; ranges of twelve hours."""
    events(small, *GOOD)
    (small.parent / "secret.key").write_text("ab" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(
        small.read_text()
        .replace("[north, south]", "[east, mid, north, south, west]")
        .replace("out/", "out/, every: 12")
        + "secret: {file: secret.key}\n"
    )
    return small


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 keys x 12 ticks x 2 outputs are 120 rows a range: four files."""
    monkeypatch.setattr(targets, "MOST_ROWS", 32)


def sorted_rows(folder: Path) -> list[Any]:
    rows = result_rows(folder)
    return sorted(rows, key=lambda r: (r["tick"], r["key"].encode(), r["name"]))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_parts_hold_the_rows_of_the_whole(
    weir: Weir, job: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write_text(job.read_text().replace("parquet:", f"{form}:"))
    assert weir("run", job, "--set", f"sink.{form}=whole").exit_code == 0
    monkeypatch.setattr(targets, "MOST_ROWS", 32)
    result = weir("run", job)
    assert result.exit_code == 0, result.output
    out, whole = job.parent / "out", job.parent / "whole"
    names = [
        f"ticks-{first:012d}-{first + 11:012d}.{part}-of-4.{form}"
        for first in (0, 12)
        for part in (1, 2, 3, 4)
    ]
    assert released(out) == names and len(released(whole)) == 2
    assert sorted_rows(out) == result_rows(whole)
    assert json.loads((out / "_plan.json").read_text())["sink_parts"] == 4
    assert "sink_parts" not in json.loads((whole / "_plan.json").read_text())
    first = {
        row["key"] for file in ResultFolder.open(out).files[:1] for row in rows_of(file.path, out)
    }
    assert first == {"east"}  # parts are of consecutive blocks, and 5 do not fall into 4 evenly
    wide = [weir("report", folder, "--wide").stdout for folder in (out, whole)]
    assert sorted(wide[0].split("\n")) == sorted(wide[1].split("\n")) and wide[0]
    assert ResultFolder.open(out).last_tick == 23 and weir("report", out).exit_code == 0
    assert weir("status", out).exit_code == 0


def rows_of(path: Path, out: Path) -> list[dict[str, Any]]:
    alone = out.parent / f"alone-{path.name}"
    alone.mkdir(exist_ok=True)
    (alone / path.name).write_bytes(path.read_bytes())
    return result_rows(alone)


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
def test_a_killed_run_goes_on_and_a_missing_part_is_owed(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert weir("run", job, "--set", "sink.parquet=whole").exit_code == 0
    with monkeypatch.context() as patched:
        stop_in(patched, 12)
        assert weir("run", job).exit_code == 1
    out = job.parent / "out"
    held = released(out / "_held")
    assert not released(out) and held == [n for n in held if "-of-4." in n] and 0 < len(held) < 8
    early = weir("run", job, "--publish")
    assert early.exit_code == 2 and f"{8 - len(held)} of 8 files are missing" in early.stderr
    again = weir("run", job)
    assert again.exit_code == 0 and "Went on from" in again.stdout
    for path in (job.parent / "whole").glob("ticks-*"):
        assert (out / path.name).read_bytes() == path.read_bytes()
    parts = cut(load(job), look=False)
    sink: Sink = parts.sink
    assert sink.missing(parts.plan) == []
    (out / released(out)[-1]).unlink()
    assert len(sink.missing(parts.plan) or ()) == 1 and sink.is_written(parts.plan) is False


@pytest.mark.slow
def test_a_folder_keeps_the_parts_that_it_was_begun_with(
    weir: Weir, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version, which knew one file, had begun it."""
    with monkeypatch.context() as patched:
        stop_in(patched, 12)
        assert weir("run", job).exit_code == 1
    monkeypatch.setattr(targets, "MOST_ROWS", 32)
    assert weir("run", job).exit_code == 0
    assert len(released(job.parent / "out")) == 2
    assert place.parts_in(str(job.parent / "out")) == 1
    assert place.parts_in(str(job.parent / "nowhere")) is None


@pytest.mark.parametrize(
    ("keys", "observed", "blocks", "every", "wanted"),
    [
        (3, False, None, 128, 1),
        (10_000, False, None, 128, 1),  # 2 + 2 numbers a key: 5 million rows
        (100_000, False, None, 128, 4),  # 51 million
        (1_000_000, False, None, 128, 32),
        (100_000, False, 2, 128, 2),  # no more than blocks
        (1, False, None, 1 << 40, 1),
        (0, True, None, 128, 1),  # nobody knows: as before
        (0, True, 2048, 128, 32),
    ],
)
def test_no_file_is_larger_than_a_worker_can_sort(
    keys: int, observed: bool, blocks: int | None, every: int, wanted: int
) -> None:
    names = None if observed else [f"k{i}" for i in range(keys)]
    endless = replace(FakePlan().clock, end=None)
    plan: Any = replace(FakePlan(), keys=Keys.make("k", names, observed, blocks), clock=endless)
    plan = WithOutputs(plan)
    parts = parts_of(plan, every, "flat")
    assert parts == wanted
    if parts > 1 and parts < len(plan.keys.live_blocks):
        known = len(plan.keys.declared) or 2048 * 512
        assert every * known * 4 / parts <= MOST_ROWS < 2 * every * known * 4 / parts


class WithOutputs:
    """A double that tells its outputs: two numbers, and one vector of two."""

    def __init__(self, plan: Any) -> None:
        self.keys, self.clock = plan.keys, plan.clock
        self.outputs = plan.program.describe(None)


@pytest.mark.parametrize("blocks", [1, 4, 5, 16, 33])
@pytest.mark.parametrize("parts", [1, 2, 4, 8, 32])
def test_every_block_is_in_one_part_and_no_part_is_empty(blocks: int, parts: int) -> None:
    ranges = Ranges(4, None, tuple(range(0, 3 * blocks, 3)), min(parts, blocks))
    assert sorted(ranges.part_of) == list(ranges.blocks)
    found = [ranges.part_of[block] for block in ranges.blocks]
    assert found == sorted(found) and set(found) == set(range(ranges.parts))
