"""Benchmarks can be run, and the guard of their ratios passes and stops what it should."""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import harness, pipeline_speed
from benchmarks.harness import Bench, Ratio, path_of, read_ratios, rows_of, write_rows

STORED = [Ratio("noise", "numpy", 0.60, 0.5), Ratio("files", "Arrow", 0.30, 0.6, 0.02)]
HERE = Path(__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
    for path in HERE.rglob("*.py")
    if not path.name.startswith("test_")
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    return tmp_path


def store(rows: list[Ratio], short: bool) -> None:
    write_rows(path_of("speed", short, harness.RESULTS), [row._asdict() for row in rows])


def stored(short: bool) -> list[Ratio]:
    return read_ratios("speed", short, harness.RESULTS)


def measured(monkeypatch: pytest.MonkeyPatch, *runs: list[Ratio]) -> Iterator[list[Ratio]]:
    """Lets runs of the benchmark find these, in turn."""
    left, takes = iter(runs), inspect.signature(harness.run)

    def run(*words: object) -> list[Ratio]:
        takes.bind(*words)
        return next(left)

    monkeypatch.setattr(harness, "run", run)
    return left


def bench(folder: Path, short: bool = False, **options: object) -> Bench:
    given = {"short": short, "rounds": 3, "seed": 1, "results": folder, **options}
    return Bench("speed", argparse.Namespace(**given))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_and_study_can_be_imported(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_every_name_of_the_table_is_a_benchmark() -> None:
    names = {name.removeprefix("benchmarks.") for name in MODULES}
    assert {*harness.GUARDED, *harness.OTHERS} <= names


def test_ratios_are_read_as_they_were_written() -> None:
    store(STORED, False)
    assert stored(False) == STORED
    assert stored(True) == []


def test_a_ratio_that_falls_by_less_than_a_third_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    store(STORED, True)
    before = path_of("speed", True, harness.RESULTS).read_bytes()
    measured(monkeypatch, [Ratio("noise", "numpy", 0.41, 0.5), Ratio("files", "Arrow", 0.9, 0.6)])
    assert harness.guard("speed") == []
    assert path_of("speed", True, harness.RESULTS).read_bytes() == before


def test_the_least_of_three_runs_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    low = [STORED[0], Ratio("files", "Arrow", 0.2, 0.6)]
    measured(monkeypatch, STORED, low, [Ratio("noise", "numpy", 0.5, 0.5), STORED[1]])
    harness.keep("speed")
    assert [row.ratio for row in stored(True)] == [0.5, 0.2]


def test_a_fall_must_last(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, well = [Ratio("noise", "numpy", 0.1, 0.5), STORED[1]], STORED
    store(STORED, True)
    left = measured(monkeypatch, slow, well, well)
    assert harness.guard("speed") == []
    assert len(list(left)) == 1  # the second run was enough
    measured(monkeypatch, slow, slow, slow)
    (fault,) = harness.guard("speed")
    assert "noise, compared with numpy: 0.10, stored 0.60" in fault
    assert stored(True) == STORED


def test_a_ratio_that_is_not_measured_any_more_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    store(STORED, True)
    measured(monkeypatch, *[STORED[:1]] * 3)
    assert harness.guard("speed") == ["files, compared with Arrow: not measured any more"]


def test_the_page_says_what_is_short() -> None:
    page = harness.page([("speed", row) for row in STORED])
    assert "| noise (`speed`) | numpy | 0.60 | 0.5 |  |" in page
    assert "| files (`speed`) | Arrow | 0.30 | 0.6 | short |" in page


def test_rounds_are_interleaved_and_their_median_is_the_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "noise_of_machine", lambda: "quiet")
    seen: list[str] = []
    run = bench(tmp_path)
    run.compare("a", "b", lambda: seen.append("ours"), lambda: seen.append("peer"))
    assert seen == ["peer", "ours"] * 4
    run.note("c", "d", [1.0, 2.0, 4.0], [1.0, 1.0, 1.0], 0.5)
    run.finish()
    found = stored(False)
    assert found[0].ratio > 0 and found[1] == Ratio("c", "d", 0.5, 0.5, 0.375)


def test_rows_of_other_keys_stay_and_short_forms_write_none(tmp_path: Path) -> None:
    for cells in ({"form": "csv", "rate": 2000.4}, {"form": "avro", "rate": 0.123456}):
        run = bench(tmp_path)
        run.keys = ("form",)
        run.row(**cells)
    for rate in (3.0, None):
        run.row(form="avro", rate=rate)
    bench(tmp_path, short=True).row(form="csv", rate=9.0)
    rows = [(row["form"], row["rate"]) for row in rows_of(tmp_path / "speed.csv")]
    assert rows == [("csv", "2000"), ("avro", "0.1235"), ("avro", "3"), ("avro", "")]
    bench(tmp_path).row(form="arrow", rate=1.0)
    assert [row["form"] for row in rows_of(tmp_path / "speed.csv")] == ["arrow"]


def test_the_noise_of_the_machine_is_measured() -> None:
    assert "spreads by" in harness.noise_of_machine(2)


def test_a_missing_peer_is_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline_speed.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(Bench, "compare", lambda *_: harness.Compared(*[harness.Took(1, 1)] * 2))
    pipeline_speed.measure(bench(tmp_path, events=100))
    text = capsys.readouterr().out
    assert "PipelineDP is not installed" in text and "pip install -e '.[bench]'" in text
